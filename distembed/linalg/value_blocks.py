"""The check of the values of one block: finite, not negative, a direction for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from distembed.dtypes import Mask
from distembed.temporaries import block


@block(temporaries=0.5)
def check_block(
    block: Any, first: Any, *, called: str, nonnegative: bool = False, directions: bool = False
) -> Any:
    """Return a block, dense or sparse, unchanged.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or negative where it must not be, or a row is zero that must have a direction;
        the message gives its row and column.
    """
    values, first_row = block.data if issparse(block) else np.asarray(block), int(first[0])
    # The sum of the values, which needs no memory, usually decides.
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = values.dtype.kind != "f" or np.isfinite(values.sum()) or np.isfinite(values).all()
    if not is_finite:
        row, column = _place(block, ~np.isfinite(values))
        raise ValueError(
            f"{called} holds NaN or infinity, first in row {first_row + row}, column {column}: drop or fill it"
        )
    if nonnegative and values.size and values.min() < 0:
        row, column = _place(block, values < 0)
        raise ValueError(
            f"Negative values in data: {called} holds one in row {first_row + row}, column {column}; "
            "give values of zero or more"
        )
    zero = np.flatnonzero(~rows_with_values(block)) if directions else np.empty(0)
    if zero.size:
        raise ValueError(
            f"{called} is zero, which has no cosine, in {zero.size} of {block.shape[0]} rows, "
            f"first {(first_row + zero[:5]).tolist()}: drop them"
        )
    return block


@block(temporaries=1.5)
def rows_with_values(block: Any) -> Mask:
    """Return which rows of a block, dense or sparse, are not zero."""
    if issparse(block):
        return np.asarray(abs(block).sum(axis=1)).ravel() != 0
    return np.asarray(np.asarray(block).any(axis=1))


@block(temporaries=0)
def to_single(block: Any) -> Any:
    """Return a block in single precision."""
    return block.astype(np.float32)


def _place(block: Any, wrong: Any) -> tuple[int, int]:
    """Return the row and the column of the first value that is marked."""
    first = int(np.argmax(wrong))
    if issparse(block):
        cells = block.tocoo()
        return int(cells.row[first]), int(cells.col[first])
    row, column = np.unravel_index(first, block.shape)
    return int(row), int(column)
