"""The storing and reading of the arrays of topic transfer."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.execution import compute
from distembed.linalg.operators import row_blocks
from distembed.pipeline.context import Context


def store(ctx: Context, name: str, array: da.Array, dims: tuple[str, ...], meaning: str) -> None:
    """Store a Dask array block by block, its progress reported under its name."""
    ctx.stage.store(name, array, dims=dims, units="", meaning=meaning, progress=ctx.progress(name))


def store_memory(ctx: Context, name: str, array: Any, dims: tuple[str, ...], meaning: str) -> None:
    """Store an array that is in memory, sparse ones in row blocks of about equal size."""
    lazy = row_blocks(array) if sp.issparse(array) else da.from_array(np.asarray(array), chunks=-1)
    store(ctx, name, lazy, dims, meaning)


def in_memory(rows: da.Array) -> Any:
    """Return rows as one NumPy array, or one CSR array."""
    if not sp.issparse(rows._meta):
        return np.asarray(compute(rows))
    return sp.csr_array(sp.vstack([compute(rows.blocks[i]) for i in range(rows.numblocks[0])], format="csr"))
