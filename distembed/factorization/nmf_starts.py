"""The initial factors of a non-negative factorization: from spherical k-means, random numbers or singular vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.execution import compute
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import spherical_kmeans, unit_rows
from distembed.factorization.nmf_rounds import Factors, Floats, times
from distembed.factorization.row_lifts import Array, each, total

Init = Literal["spherical_kmeans", "random", "nndsvd"]
"""Where factors start."""

#: Added to the 0/1 memberships of spherical k-means, since a multiplicative update never leaves zero
#: (Ding, Li & Jordan, PAMI 2010, section 3.3, start k-means-based factorizations so).
MEMBERSHIP_FLOOR = 0.2


def plain_start(X: Array, rank: int, init: str, mean: float, seed: tuple[int, ...]) -> Factors:
    """Return the factors before the first round of NMF, made by `init`, see `Init`."""
    Z, W = _start_factors(X, rank, init, seed, mean)
    return Factors(Z, W, np.eye(rank), np.zeros_like(W), np.zeros((1, 1)))


def orthogonal_start(X: Array, rank: int, init: str, mean: float, seed: tuple[int, ...]) -> Factors:
    """Return the factors before the first round of orthogonal NMF, whose `carried` is Xᵀ Z."""
    factors = plain_start(X, rank, init, mean, seed)
    XZ = total(blocks.transposed_times, X, factors.documents, shape=(X.shape[1], rank))
    return factors._replace(carried=XZ)


def semantic_start(M: Array, plain: Callable[..., Factors], seed: tuple[int, ...]) -> Factors:
    """Return the factors before the first round of Semantic-NMF, whose `carried` is M W."""
    factors = plain(seed)
    MW = compute(times(M, factors.words))
    return factors._replace(core=blocks.fit_core(factors.words, MW), carried=MW)


def _start_factors(X: Array, rank: int, init: str, seed: tuple[int, ...], mean: float) -> tuple[Array, Array]:
    if init == "random":
        return _random_start(X, rank, seed, mean)
    if init == "nndsvd":
        return _nndsvd_start(X, rank, mean)
    return _kmeans_start(X, rank, seed)


def _kmeans_start(X: Array, rank: int, seed: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the memberships, lifted by `MEMBERSHIP_FLOOR`, and the lifted centroids of spherical k-means."""
    found = spherical_kmeans(unit_rows(X), rank, n_iter=50, tol=1e-4, seed=seed, sample=20_000)
    member = partial(blocks.membership, rank=rank, floor=MEMBERSHIP_FLOOR, dtype=X.dtype)
    Z = each(member, found.labels, columns=rank, dtype=X.dtype)
    W = found.centroids.T
    return Z, W + MEMBERSHIP_FLOOR * W.mean(axis=0)


def _random_start(X: Array, rank: int, seed: tuple[int, ...], mean: float) -> tuple[Array, Array]:
    """Return even document factors and word factors from |N(0, mean / k)|: the first update breaks ties."""
    scale = np.sqrt(mean / rank)
    W = scale * np.abs(np.random.default_rng(seed).standard_normal((X.shape[1], rank)))
    return each(partial(_even_rows, rank=rank, value=scale), X, columns=rank, dtype=X.dtype), W


def _even_rows(X: csr_array, *, rank: int, value: float) -> Floats:
    return np.full((X.shape[0], rank), value, X.dtype)


def _nndsvd_start(X: Array, rank: int, mean: float) -> tuple[Array, Array]:
    """Return the signed parts of the leading singular vectors, zeros set to the mean of X.

    Boutsidis & Gallopoulos (2008), variant NNDSVDa, which multiplicative updates need.
    """
    if rank > min(X.shape):
        raise ValueError(
            f"n_components is {rank} but X of {X.shape[0]} × {X.shape[1]} has {min(X.shape)} singular vectors: choose "
            f'at most {min(X.shape)}, or another init than "nndsvd"'
        )
    V, values = _right_singular_vectors(X, rank)
    positive, negative = np.sqrt(compute(total(blocks.sign_parts, X, V, shape=(2, rank)))) / values
    up, down = np.linalg.norm(np.maximum(V, 0), axis=0), np.linalg.norm(np.minimum(V, 0), axis=0)
    sign = np.where(positive * up >= negative * down, 1.0, -1.0)
    document_norm, word_norm = np.where(sign > 0, (positive, up), (negative, down))
    strength = np.sqrt(values * document_norm * word_norm)
    part = np.maximum(V * sign, 0) * strength / word_norm
    scale = (sign * strength / (values * document_norm)).reshape(1, -1)
    Z = each(partial(blocks.signed_part, floor=mean), X, V, scale, columns=rank, dtype=X.dtype)
    return Z, np.where(part > 0, part, mean)


def _right_singular_vectors(X: Array, rank: int, *, n_passes: int = 8) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the leading right singular vectors (d, k) and values by subspace iteration on XᵀX."""
    width = min(rank + 10, *X.shape)
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1], width)))
    for _ in range(n_passes):
        image = compute(total(_squared_times, X, basis, shape=basis.shape))
        basis, _ = np.linalg.qr(image)
    image = compute(total(_squared_times, X, basis, shape=basis.shape))
    projected = basis.T @ image
    eigenvalues, rotation = np.linalg.eigh((projected + projected.T) / 2)
    leading = np.argsort(eigenvalues)[::-1][:rank]
    values = np.sqrt(np.maximum(eigenvalues[leading], np.finfo(np.float64).tiny))
    return basis @ rotation[:, leading], values


def _squared_times(X: csr_array, V: Floats) -> NDArray[Any]:
    return blocks.transposed_times(X, blocks.times(X, V))
