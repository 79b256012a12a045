"""Counts as the weightings take them: rows in one piece, in which every count is finite and not negative."""

from __future__ import annotations

from typing import Any

import dask.array as da
from scipy.sparse import csr_array

from distembed.execution import map_blocks
from distembed.linalg.csr import canonical_csr
from distembed.linalg.operators import empty_csr, whole_rows
from distembed.weighting import blocks


def check_counts(counts: Any) -> Any:
    """Return counts as a `csr_array`, or those of a Dask array as one with `csr_array` chunks of whole rows.

    Raises
    ------
    ValueError
        If a count is NaN, infinite or negative: at once where the counts are in memory, otherwise when the block that
        holds it is computed.
    """
    if not isinstance(counts, da.Array):
        return blocks.check_counts(canonical_csr(counts))
    return map_blocks(_check_block, whole_rows(counts), dtype=counts.dtype, meta=empty_csr(counts.dtype))


def _check_block(block: Any, block_info: Any = None) -> csr_array:
    first_row = block_info[0]["array-location"][0][0] if block_info else 0
    return blocks.check_counts(canonical_csr(block), first_row)
