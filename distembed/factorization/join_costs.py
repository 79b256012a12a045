"""What joining views takes in memory and on disk."""

from __future__ import annotations

from collections.abc import Sequence

from distembed.costs import Cost, add_costs
from distembed.linalg.costs import DENSE_COPIES

DIRECTION_COPIES = 3
"""Float64 copies of the block of a view at once: its centered rows, divided by their lengths, and weighted."""

PRODUCT_COPIES = 3
"""Float64 copies of all columns of a block that is multiplied by itself, at most."""

EIGEN_COPIES = DENSE_COPIES - 2
"""Square matrices of the eigenproblem that are there at once, of a matrix that is symmetric as it is made."""


def join_cost(widths: Sequence[int], n_rows: int, n_blocks: int, *, n_components: int | None = None) -> Cost:
    """Return what storing the `joined_rows` of views takes, read from float32 arrays on disk.

    Parameters
    ----------
    widths : sequence of int
        The components of each view.
    n_rows, n_blocks : int
        The rows of the views, and the row blocks in which they are read and stored.
    n_components : int, optional
        The principal axes on which the joined rows are stored, by default the rows as they are.
    """
    stored = _pass_cost(widths, n_rows, n_blocks, n_written=n_components or sum(widths))
    if n_components is None:
        return stored
    return add_costs([_products_cost(widths, n_rows, n_blocks), stored])


def _pass_cost(widths: Sequence[int], n_rows: int, n_blocks: int, *, n_written: int) -> Cost:
    """Return what a graph takes that reads all views, once for their means and once to join them."""
    width, most_rows = sum(widths), -(-n_rows // n_blocks)
    directions = 8 * DIRECTION_COPIES * max(widths)
    task = most_rows * (4 * width + 4 * width + directions + 4 * n_written)
    axes = 8 * width * n_written if n_written < width else 0
    return Cost(
        n_blocks * (len(widths) + 1),
        2 * 4 * n_rows * width,
        4 * n_rows * n_written,
        task + axes,
        8 * (width + len(widths)) * n_blocks,
    )


def _products_cost(widths: Sequence[int], n_rows: int, n_blocks: int) -> Cost:
    """Return what the products of the columns of all views take, their sum and its eigenvectors."""
    width = sum(widths)
    square = 8 * width**2
    read = _pass_cost(widths, n_rows, n_blocks, n_written=width)
    task = read.task_bytes + 8 * PRODUCT_COPIES * width * -(-n_rows // n_blocks) + 2 * square
    return read._replace(
        tasks=read.tasks + 2 * n_blocks,
        written_bytes=0,
        task_bytes=task,
        shared_bytes=read.shared_bytes + max(n_blocks, EIGEN_COPIES) * square,
    )
