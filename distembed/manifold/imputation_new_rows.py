"""Vectors of rows that come after the fit, from those of their nearest rows."""

from __future__ import annotations

from copy import copy
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.execution import compute, persist
from distembed.linalg.chunks import batches, row_chunk
from distembed.manifold import imputation_map_blocks as blocks
from distembed.manifold.imputation_maps import fit_kernel, fit_ridge_path, kernel_features
from distembed.manifold.imputation_weights import reconstruction_weights
from distembed.neighbors.distances import domain_rows
from distembed.neighbors.search import search_lists
from distembed.validation import array_of

OPTIONS_OF_FIT = ("metric", "min_degree", "weights", "floor", "kernel")
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
    dtype = model.vectors_.dtype
    if model.method_ == "graph":
        mixed = _mixtures(_new_weights(model, new, rows), model.vectors_, model.block_memory)
        return mixed.astype(dtype)
    of_table, of_new = _map_rows(model, new, rows, known)
    path = fit_ridge_path(of_table, Y, known, block_memory=model.block_memory)
    slopes = blocks.map_weights(path, model.ridge_)
    values = np.asarray(compute(of_new), np.float64)
    if model.method_ == "linear_map":
        return blocks.map_rows(values, path, slopes).astype(dtype)
    weights = _new_weights(model, new, rows)
    mixed, departures = (
        _mixtures(weights, array, model.block_memory) for array in (model.vectors_, of_table)
    )
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
    if model.kernel == "linear":
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
