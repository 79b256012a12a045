"""Rows that come after a fit, placed by the nearest of those that it has seen; nothing is fitted again."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Floats
from distembed.execution import compute, in_this_thread, one_blas_thread
from distembed.lift import block
from distembed.linalg.chunks import row_chunk
from distembed.manifold.imputation_systems import array_blocks, reconstruction_weights
from distembed.manifold.regressions import predictions
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.graph_blocks import unit_squares
from distembed.neighbors.graphs import LOCAL_NEIGHBOR, row_is_used
from distembed.neighbors.search import lists_of, nearest_neighbors
from distembed.states import block_memory
from distembed.validation import array_of


def infer(
    X_new: Any,
    X: Any,
    vectors: Any,
    *,
    model: Any = None,
    min_degree: int,
    metric: Metric,
    weights: str,
    floor: float,
) -> Floats:
    """Return the vectors of new rows from those of X, (m, s): the mixtures that `LatentSemanticImputation.infer` takes.

    Parameters
    ----------
    X_new, X : rows (m, d) and (n, d)
    vectors : NumPy or Dask array (n, s), those of X
    model : the fitted regressor of which `vectors` hold predictions and imputed residuals, optional
    min_degree, metric, weights, floor : see `LatentSemanticImputation`

    Raises
    ------
    ValueError
        If X_new has other columns than X, or holds NaN or infinity.
    """
    rows, X_new = domain_rows(X, metric=metric), array_of(X_new, "X_new")
    if X_new.ndim != 2 or X_new.shape[1] != rows.shape[1]:
        raise ValueError(
            f"X_new has the shape {X_new.shape}, but the rows of X have {rows.shape[1]} columns: give the same ones"
        )
    m, n, k = X_new.shape[0], rows.shape[0], min(min_degree, rows.shape[0])
    with one_blas_thread():
        new = domain_rows(X_new.astype(rows.dtype), metric=metric)
        near = np.sort(compute(lists_of(new, k, columns=rows)[:, 1]).astype(np.int64), axis=1) + m
        graph = sp.csr_array((np.ones(k * m), near.ravel(), k * np.arange(m + 1)), shape=(m, m + n))
        both, simplex = da.concatenate([new, rows]), weights == "simplex"
        mixed = reconstruction_weights(both, graph, simplex=simplex, floor=floor)[0][:, m:]
        values, found = vectors, []
        if model is not None:
            values = array_blocks(vectors) - predictions(model, X, vectors.shape[1])
        size = row_chunk(m, 8 * k * values.shape[1], block_memory())
        for part in (mixed[first : first + size] for first in range(0, m, size)):
            needed = np.unique(part.indices)  # the rows that some of them need are read at a time
            found.append(part[:, needed] @ np.asarray(compute(values[needed]), np.float64))
        mixtures = np.concatenate(found)
        if model is not None:
            mixtures = compute(predictions(model, X_new.astype(rows.dtype), vectors.shape[1])) + mixtures
        return np.asarray(mixtures).astype(vectors.dtype)


@block(temporaries=6.5)
def place_rows(
    X: Any, *, fitted: Any, embedding: Float64s, scale: Float64s, k: int, metric: Metric
) -> Float64s:
    """Return the embedding of new rows (r × k): the mean of those of the fitted rows that they are near to.

    Rows of an embedding are divided by their scale. The weights of the k nearest fitted rows are exp(-d²/h²), h the
    distance to the `LOCAL_NEIGHBOR`-th of them, and sum to one. Where so many fitted rows are equal to a new row that h
    is 0, they share the weight and the others have none.
    """
    is_sparse = sp.issparse(getattr(fitted, "_meta", fitted))
    if is_sparse != sp.issparse(X):
        X = sp.csr_array(X) if is_sparse else X.toarray()
    used, used_fitted = row_is_used(X, metric), np.flatnonzero(row_is_used(fitted, metric))
    k = min(k, used_fitted.size)
    weights, indices = np.zeros((X.shape[0], k)), np.zeros((X.shape[0], k), np.int64)
    if used.any() and k:
        with in_this_thread(), one_blas_thread():
            found = nearest_neighbors(X[np.flatnonzero(used)], k, Y=fitted[used_fitted], metric=metric)
            distances, near = compute(tuple(found))
        squares = unit_squares(distances) if metric == "cosine" else distances**2
        own = squares[:, [min(LOCAL_NEIGHBOR, k) - 1]]
        raw = np.exp(-np.divide(squares, own, out=np.where(squares > 0, np.inf, 0.0), where=own > 0))
        weights[used] = raw / raw.sum(axis=1, keepdims=True)
        indices[used] = used_fitted[near]
    means = np.einsum("rj,rjk->rk", weights, embedding[indices])
    return np.asarray(means * np.einsum("rj,rj->r", weights, scale[indices])[:, None])
