"""Linear maps from the table to the vectors, by row blocks: what imputation is compared and combined with."""

from __future__ import annotations

from copy import copy
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.execution import Checkpoint, compute, map_blocks, persist
from distembed.linalg.chunks import batches, row_chunk
from distembed.linalg.operators import sum_over_blocks
from distembed.manifold import imputation_blocks as blocks
from distembed.manifold.imputation_blocks import RidgePath
from distembed.manifold.imputation_systems import reconstruction_weights
from distembed.neighbors.distances import domain_rows
from distembed.neighbors.search import search_lists
from distembed.validation import array_of


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
        `imputation_blocks.map_weights` gives the weights for a ridge.
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


def rows_of_kernel(
    rows: da.Array, known: blocks.Bools, kernel: str, *, seed: int, checkpoint: Checkpoint = persist
) -> da.Array:
    """Return what the map of a kernel is linear in: the rows of the table, or features of them."""
    if kernel == "linear":
        return rows
    return checkpoint(
        KERNEL_FEATURES, lambda: kernel_features(rows, fit_kernel(rows, known, random_state=seed))
    )


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


# --- new rows ---------------------------------------------------------------------------------------------

OPTIONS_OF_FIT = ("metric", "min_degree", "weights", "floor")
"""The options that say how the vector of a new row is found: those of the fit, whatever is set after it."""


def infer_vectors(model: Any, X_new: Any, X: Any, Y: Any, known: blocks.Bools) -> Any:
    """Return the vectors of new rows (m, d), as `LatentSemanticImputation.infer` describes them.

    Parameters
    ----------
    model : LatentSemanticImputation
        Fitted; one that a job has fitted brings no options but its own.
    X_new, X, Y : arrays (m, d), (n, d) and (n, s)
        The new rows, and what the model was fitted to; rows of Y that are not known are not read.
    known : bool array (n,)

    Returns
    -------
    array (m, s), of the dtype of the fitted vectors
    """
    model = copy(model).set_params(**getattr(model, "options_", {}))
    rows = domain_rows(X, metric=model.metric, block_memory=model.block_memory)
    new = domain_rows(_new_rows(X_new, rows), metric=model.metric, block_memory=model.block_memory)
    fitted = array_of(model.vectors_, "vectors_")
    dtype = fitted.dtype
    if model.method_ == "graph":
        mixed = _mixtures(_new_weights(model, new, rows), fitted, model.block_memory)
        return mixed.astype(dtype)
    of_table, of_new = _map_rows(model, new, rows, known)
    path = fit_ridge_path(of_table, Y, known, block_memory=model.block_memory)
    slopes = blocks.map_weights(path, model.ridge_)
    values = np.asarray(compute(of_new), np.float64)
    if model.method_ == "linear_map":
        return blocks.map_rows(values, path, slopes).astype(dtype)
    weights = _new_weights(model, new, rows)
    mixed, departures = (_mixtures(weights, array, model.block_memory) for array in (fitted, of_table))
    return (mixed + (values - departures) @ slopes).astype(dtype)


def _new_rows(X_new: Any, rows: da.Array) -> Any:
    """Return new rows in the dtype of those of a fit, or raise ValueError where they have other columns."""
    X_new = array_of(X_new, "X_new")
    if X_new.ndim != 2 or X_new.shape[1] != rows.shape[1]:
        raise ValueError(
            f"X_new has the shape {X_new.shape}, but the rows of X have {rows.shape[1]} columns: give the same ones"
        )
    return X_new.astype(rows.dtype)


def _map_rows(model: Any, new: da.Array, rows: da.Array, known: blocks.Bools) -> tuple[da.Array, da.Array]:
    """Return what the map is linear in, of the rows of the fit and of the new ones."""
    if model.kernel_ == "linear":
        return rows, new
    features = fit_kernel(rows, known, random_state=model.seed_)
    return kernel_features(rows, features), kernel_features(new, features)


def _new_weights(model: Any, new: da.Array, rows: da.Array) -> sp.csr_array:
    """Return the weights that rebuild each new row from its nearest rows of the fit, (m, n), rows sum to one."""
    m, n, k = new.shape[0], rows.shape[0], min(model.min_degree, rows.shape[0])
    lists = compute(
        search_lists(new, np.full(m, -1), rows, np.arange(n), k=k, block_memory=model.block_memory)
    )
    near = np.sort(lists[:, 1].astype(np.int64), axis=1) + m
    graph = sp.csr_array((np.ones(k * m), near.ravel(), k * np.arange(m + 1)), shape=(m, m + n))
    weights, _ = reconstruction_weights(
        da.concatenate([new, rows]),
        graph,
        simplex=model.weights == "simplex",
        floor=model.floor,
        block_memory=model.block_memory,
        checkpoint=persist,
    )
    return weights[:, m:]


def _mixtures(weights: sp.csr_array, values: Any, block_memory: int) -> blocks.Float64s:
    """Return the mixtures of rows of an array by sparse weights, reading the rows that some of them need at a time."""
    most = max(1, int(np.diff(weights.indptr).max()))
    sizes = batches(weights.shape[0], row_chunk(weights.shape[0], 8 * most * values.shape[1], block_memory))
    ends = np.cumsum(sizes)
    return np.concatenate(
        [_mix(weights[end - size : end], values) for end, size in zip(ends, sizes, strict=True)]
    )


def _mix(weights: sp.csr_array, values: Any) -> blocks.Float64s:
    needed = np.unique(weights.indices)
    of_needed = np.asarray(compute(values[needed]), np.float64)
    return np.asarray(weights[:, needed] @ of_needed)
