"""Linear maps from the table to the vectors, by row blocks: what imputation is compared and combined with."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from distembed.execution import compute, map_blocks
from distembed.linalg.chunks import row_chunk
from distembed.linalg.operators import sum_over_blocks
from distembed.manifold import imputation_map_blocks as blocks
from distembed.manifold.imputation_map_blocks import RidgePath


def fit_ridge_path(X: Any, Y: Any, known: blocks.Bools, *, block_memory: int) -> RidgePath:
    """Fit the linear maps from the known rows of X to those of Y, for every ridge at once.

    Minimizes ‖T - A B‖² + ridge ‖B‖² over B, with A and T the known rows of X and Y less their means. With d columns
    of X at most as many as known rows, AᵀA and AᵀT are summed over row blocks; else the p known rows are held.

    Parameters
    ----------
    X : NumPy or Dask array, shape (n, d)
    Y : NumPy or Dask array, shape (n, s)
        Rows that are not known are not read.
    known : bool array (n,)
    block_memory : int
        The memory of one task in bytes.

    Returns
    -------
    RidgePath
        `imputation_map_blocks.map_weights` gives the weights for a ridge.
    """
    n_known, d = int(known.sum()), X.shape[1]
    if d > n_known:
        at = np.flatnonzero(known)
        rows = np.concatenate([compute(X[at]), compute(Y[at])], axis=1, dtype=np.float64)
        return blocks.path_of_rows(rows, d)
    rows_of_each = in_rows(X, Y, known[:, None], block_memory=block_memory)
    n_blocks, width = rows_of_each[0].numblocks[0], d + Y.shape[1]
    sums = map_blocks(blocks.known_sums, *rows_of_each, chunks=((1,) * n_blocks, (width,)), dtype=np.float64)
    means = compute(sum_over_blocks(sums)) / n_known
    products = map_blocks(
        blocks.known_products,
        *rows_of_each,
        means=means,
        chunks=((1,) * n_blocks, (d,), (width,)),
        new_axis=2,
        dtype=np.float64,
    )
    return blocks.path_of_products(compute(sum_over_blocks(products)), means, n_known)


LANDMARKS = 1000
"""Known rows of the table, at most, that span the kernel's features."""


KERNEL_FEATURES = "kernel-features"
"""The name under which a checkpoint keeps the features of the rows of the table."""


def fit_kernel(rows: da.Array, known: blocks.Bools, *, random_state: int) -> blocks.KernelFeatures:
    """Return the features whose inner product is a Gaussian kernel, spanned by at most `LANDMARKS` known rows.

    Parameters
    ----------
    rows : Dask array (n, d), in row blocks of whole rows
    known : bool array (n,)
        Landmarks are drawn of these rows. Only their rows of the table are read, never their vectors.
    random_state : int
    """
    order = np.random.default_rng(random_state).permutation(np.flatnonzero(known))[:LANDMARKS]
    return blocks.fit_kernel_features(np.asarray(compute(rows[np.sort(order)]), np.float64))


def kernel_features(rows: da.Array, features: blocks.KernelFeatures) -> da.Array:
    """Return rows of the table in coordinates whose inner product is a Gaussian kernel, (n, at most LANDMARKS).

    A linear map of them is a kernel ridge regression: exactly, where no more than `LANDMARKS` rows are known.
    """
    chunks = (rows.chunks[0], (features.roots.shape[1],))
    return map_blocks(blocks.kernel_rows, rows, features=features, chunks=chunks, dtype=np.float64)


def in_rows(*arrays: Any, block_memory: int) -> list[da.Array]:
    """Return arrays of the same rows as Dask arrays in the same row blocks of whole rows."""
    n_bytes = 8 * sum(array.shape[1] for array in arrays)
    chunk = row_chunk(arrays[0].shape[0], n_bytes, block_memory)
    return [
        array.rechunk((chunk, -1)) if isinstance(array, da.Array) else da.from_array(array, (chunk, -1))
        for array in arrays
    ]


def with_mapped_rows(
    Y: Any, X: Any, known: blocks.Bools, path: RidgePath, ridge: float, *, block_memory: int
) -> da.Array:
    """Return Y with its unknown rows mapped from those of X, in Y's dtype."""
    rows = in_rows(Y, X, known[:, None], block_memory=block_memory)
    weights = blocks.map_weights(path, ridge)
    return map_blocks(_map_unknown, *rows, path=path, weights=weights, dtype=Y.dtype, chunks=rows[0].chunks)


def _map_unknown(Y: Any, X: Any, known: blocks.Bools, *, path: RidgePath, weights: blocks.Float64s) -> Any:
    return np.where(known, Y, blocks.map_rows(X, path, weights)).astype(Y.dtype, copy=False)


def with_departures(
    imputed: Any, X: Any, mixtures: Any, path: RidgePath, ridge: float, *, block_memory: int
) -> da.Array:
    """Return imputed vectors plus the map of what each row of X differs from its mixture of known rows.

    This is the imputation of the residuals of the map, added to the map: as the shares of a mixture sum to one,
    x B + Σ w (y - x_w B) = Σ w y + (x - Σ w x_w) B. The row of a known name is its own mixture, so that known
    vectors stay as they are.
    """
    rows = in_rows(imputed, X, mixtures, block_memory=block_memory)
    weights = blocks.map_weights(path, ridge)
    return map_blocks(_add_departures, *rows, weights=weights, dtype=imputed.dtype, chunks=rows[0].chunks)


def _add_departures(imputed: Any, X: Any, mixtures: Any, *, weights: blocks.Float64s) -> Any:
    departures = X.astype(np.float64) - mixtures
    return (imputed + departures @ weights).astype(imputed.dtype, copy=False)
