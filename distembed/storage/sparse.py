"""One row block of a sparse matrix in Zarr: a group with ``data``, ``indices`` and ``indptr``.

The blocks that are read are canonical: ``csr_array`` with sorted column indices, no duplicates, and 32-bit
indices where they suffice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

CHUNK_ELEMENTS = 4 << 20
"""Elements of one Zarr chunk of a CSR part: 16 MiB of 32-bit integers."""
PARTS = ("data", "indices", "indptr")
INDEX_DTYPES = (np.dtype(np.int32), np.dtype(np.int64))
"""The types of column numbers and of the positions where rows begin."""

Array = np.ndarray[Any, np.dtype[Any]]


def canonical_csr(block: Any, dtype: np.dtype[Any]) -> sparse.csr_array:
    """Return a sparse block with sorted, unique indices, in 32 bits if they suffice; `block` is not changed."""
    csr = sparse.csr_array(block).astype(dtype, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    index = index_dtype(csr.shape, csr.nnz)
    parts = (csr.data, csr.indices.astype(index, copy=False), csr.indptr.astype(index, copy=False))
    return sparse.csr_array(parts, shape=csr.shape)


def index_dtype(shape: tuple[int, ...], nnz: int) -> np.dtype[Any]:
    """Return int32 if column numbers and positions fit, else int64."""
    largest = max(shape[1], nnz)
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)


def csr_parts(block: sparse.csr_array) -> dict[str, Array]:
    """Return the three arrays of a CSR block by name, in the order they are digested."""
    return {part: np.asarray(getattr(block, part)) for part in PARTS}


def join_csr(parts: Mapping[str, Array], shape: tuple[int, int], dtype: np.dtype[Any]) -> sparse.csr_array:
    """Build a CSR block of `shape` from its three arrays.

    Raises
    ------
    ValueError
        If the arrays are not consistent.
    """
    data, indices, indptr = (parts[part] for part in PARTS)
    block = sparse.csr_array((data.astype(dtype, copy=False), indices, indptr), shape=shape)
    # Written canonical, so neither flag has to be found out again by a pass over the indices.
    block.has_sorted_indices = True
    block.has_canonical_format = True
    return block
