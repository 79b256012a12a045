"""Adds the partial counts of many partitions: whole files into one, or one row block into a sparse matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.counting import blocks
from distembed.counting.blocks import Run
from distembed.counting.cooccurrence_options import check_bound
from distembed.counting.partial_counts import PartialCounts
from distembed.counting.runs import RunWriter, file_size, read_blocks, read_runs, run_bytes
from distembed.execution import delayed, map_blocks
from distembed.linalg.chunks import BLOCK_MEMORY

_LARGEST_INT32 = 2**31 - 1


def largest_cell(partials: Sequence[PartialCounts]) -> int:
    """Return the bound of a count over all partitions; raise OverflowError if it does not fit the exact sums."""
    return check_bound(sum(partial.largest_cell for partial in partials), "A count over all partitions")


def count_type(partials: Sequence[PartialCounts]) -> np.dtype[Any]:
    """Return the type of merged counts: float32 for fractions, otherwise int32 if no cell can exceed it."""
    largest = largest_cell(partials)
    if partials[0].denominator > 1:
        return np.dtype(np.float32)
    return np.dtype(np.int32 if largest <= _LARGEST_INT32 else np.int64)


def merge_files(
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    target: str,
    *,
    block_memory: int = BLOCK_MEMORY,
) -> PartialCounts:
    """Add the runs of several files into one file, which a later merge reads in place of them.

    Each file is opened once for as many row blocks as fit a quarter of the memory together, so that of many files
    not many small pieces have to be read.

    Parameters
    ----------
    partials : sequence of PartialCounts
        The files, and the facts of each.
    row_blocks : sequence of int
        The row boundaries with which they were written.
    target : str
        The URL of the file to write; it appears only when it is complete.
    block_memory : int
        The bytes a task may use.
    """
    sizes = [file_size(partial.url) for partial in partials]
    n_blocks, n_words = len(row_blocks) - 1, row_blocks[-1]
    # In memory a run takes up to twice its bytes on disk.
    step = max(1, int(n_blocks * (block_memory // 8) / max(sum(sizes), 1)))
    with RunWriter(target, n_blocks) as writer:
        for first in range(0, n_blocks, step):
            last = min(first + step, n_blocks)
            runs: list[list[Run]] = [[] for _ in range(first, last)]
            for partial in partials:
                for block, run in read_blocks(partial.url, first, last):
                    runs[block - first].append(run)
            for block, of_block in enumerate(runs, first):
                if of_block:
                    writer.append(block, blocks.merge_runs(of_block, n_words))
    return PartialCounts(
        target,
        partials[0].denominator,
        largest_cell(partials),
        sum(partial.n_tokens for partial in partials),
        1,
    )


def merge_row_block(
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    block: int,
    *,
    block_memory: int = BLOCK_MEMORY,
) -> csr_array:
    """Add the counts of all partitions for one row block.

    Returns
    -------
    csr_array
        Shape (rows of the block, n_words), of `count_type`. The sums are exact, and are divided once by the
        denominator.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> tokens = docs.tokenize()
    >>> from distembed.counting import CooccurrenceOptions, count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> from distembed.counting import merge_row_block
    >>> merge_row_block([partial], (0, 11), 0).shape
    (11, 11)
    """
    first, last = row_blocks[block : block + 2]
    n_words = row_blocks[-1]
    runs = (run for partial in partials for run in read_runs(partial.url, block))
    total = _fold(runs, n_words, last - first, block_memory // 4)
    index = np.int32 if len(total.indices) <= _LARGEST_INT32 else np.int64
    partitions = (
        _counts_of_units(total.values, partials[0].denominator, count_type(partials)),
        total.indices.astype(index, copy=False),
        total.indptr.astype(index),
    )
    return csr_array(partitions, shape=(last - first, n_words))


def _counts_of_units(values: NDArray[Any], denominator: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return sums in units of 1 / denominator as counts; of fractions, quotients in float64 are rounded one by one."""
    if denominator == 1:
        if values.dtype.itemsize > kind.itemsize and values.max(initial=0) > _LARGEST_INT32:
            raise OverflowError(
                f"a count is {values.max()}, above the largest that the partial counts say they hold: delete them "
                "and count again."
            )
        return values.astype(kind)
    counts = np.empty(len(values), kind)
    return np.divide(values, denominator, out=counts, dtype=np.float64, casting="same_kind")


def _fold(runs: Iterable[Run], n_words: int, n_rows: int, limit_bytes: int) -> Run:
    """Add runs, a group of `limit_bytes` at a time (or as large as the sum so far, if that is larger)."""
    empty = Run(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    total, fresh = empty, list[Run]()
    for run in runs:
        fresh.append(run)
        if run_bytes(fresh) > max(limit_bytes, run_bytes([total])):
            total, fresh = blocks.merge_runs([total, *fresh], n_words), []
    return blocks.merge_runs([total, *fresh], n_words)


def merge_partials(
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    *,
    block_memory: int = BLOCK_MEMORY,
    keep_alive: object = None,
) -> da.Array:
    """Return the lazy array of merged row blocks, which keeps a reference to `keep_alive`.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> tokens = docs.tokenize()
    >>> from distembed.counting import CooccurrenceOptions, count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> from distembed.counting import merge_partials
    >>> int(merge_partials([partial], (0, 11)).compute().sum())
    16
    """
    kind = count_type(partials)
    return map_blocks(
        _merge_chunk,
        chunks=(tuple(int(rows) for rows in np.diff(row_blocks)), (int(row_blocks[-1]),)),
        dtype=kind,
        meta=csr_array((0, 0), dtype=kind),
        # Once in the graph: with every task it would make a graph as large as their product.
        merge=delayed((tuple(partials), tuple(row_blocks)), traverse=False),
        block_memory=block_memory,
        keep_alive=keep_alive,
    )


def _merge_chunk(
    *,
    merge: tuple[Sequence[PartialCounts], Sequence[int]],
    block_memory: int,
    keep_alive: object,
    block_id: tuple[int, int],
) -> csr_array:
    del keep_alive  # it is here so that the graph owns it
    return merge_row_block(*merge, block_id[0], block_memory=block_memory)
