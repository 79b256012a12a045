"""Matrices in the blocks that a test asks for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
from scipy.sparse import csr_array


def lazy(matrix: csr_array, rows: Sequence[int]) -> da.Array:
    """Return a sparse matrix as a Dask array of so many rows a block."""
    meta = csr_array((0, 0), dtype=matrix.dtype)
    parts = [matrix[a:b] for a, b in pairwise(np.cumsum([0, *rows]))]
    return da.concatenate([da.from_delayed(dask.delayed(p), p.shape, matrix.dtype, meta) for p in parts])
