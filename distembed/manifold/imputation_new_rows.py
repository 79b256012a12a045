"""Vectors of rows that come after the fit, from those of their nearest rows."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.execution import compute, persist
from distembed.linalg.chunks import batches, row_chunk
from distembed.manifold import imputation_map_blocks as blocks
from distembed.manifold.imputation_maps import fit_kernel, fit_ridge_path, kernel_features
from distembed.manifold.imputation_weights import reconstruction_weights
from distembed.neighbors.search import search_lists
from distembed.validation import array_of


class FittedModel(Protocol):
    """What is read of a fitted `LatentSemanticImputation`."""

    min_degree: int
    weights: str
    floor: float
    kernel: str
    seed_: int
    block_memory: int
    method_: str
    ridge_: float


class FittedRows(NamedTuple):
    """The rows of a fit."""

    rows: da.Array
    """What `domain_rows` returns. Dask array (n, d)."""
    vectors: Any
    """The fitted vectors of all rows. Array (n, s)."""
    targets: Any
    """The known vectors; rows that are not known are not read. Array (n, s)."""
    known: blocks.Bools
    """Bool array (n,)."""


def new_rows(X_new: Any, rows: da.Array) -> Any:
    """Return new rows in the dtype of those of a fit, or raise ValueError where they have other columns."""
    X_new = array_of(X_new, "X_new")
    if X_new.ndim != 2 or X_new.shape[1] != rows.shape[1]:
        raise ValueError(
            f"X_new has the shape {X_new.shape}, but the rows of X have {rows.shape[1]} columns: give the same ones"
        )
    return X_new.astype(rows.dtype)


def infer_vectors(model: FittedModel, new: da.Array, fitted: FittedRows) -> Any:
    """Return the vectors of new rows, as `LatentSemanticImputation.infer` describes them.

    Parameters
    ----------
    model : LatentSemanticImputation
        Fitted.
    new : Dask array (m, d)
        What `domain_rows` returns.
    fitted : FittedRows

    Returns
    -------
    array (m, s), of the dtype of the fitted vectors
    """
    dtype = fitted.vectors.dtype
    if model.method_ == "graph":
        return _mixtures(_new_weights(model, new, fitted.rows), fitted.vectors, model.block_memory).astype(
            dtype
        )
    of_table, of_new = _map_rows(model, new, fitted)
    path = fit_ridge_path(of_table, fitted.targets, fitted.known, block_memory=model.block_memory)
    slopes = blocks.map_weights(path, model.ridge_)
    values = np.asarray(compute(of_new), np.float64)
    if model.method_ == "linear_map":
        return blocks.map_rows(values, path, slopes).astype(dtype)
    weights = _new_weights(model, new, fitted.rows)
    mixed, departures = (
        _mixtures(weights, array, model.block_memory) for array in (fitted.vectors, of_table)
    )
    return (mixed + (values - departures) @ slopes).astype(dtype)


def _map_rows(model: FittedModel, new: da.Array, fitted: FittedRows) -> tuple[da.Array, da.Array]:
    """Return what the map is linear in, of the rows of the fit and of the new ones."""
    if model.kernel == "linear":
        return fitted.rows, new
    features = fit_kernel(fitted.rows, fitted.known, random_state=model.seed_)
    return kernel_features(fitted.rows, features), kernel_features(new, features)


def _new_weights(model: FittedModel, new: da.Array, rows: da.Array) -> sp.csr_array:
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
