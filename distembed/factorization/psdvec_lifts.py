"""Counts of word pairs in row blocks, and the functions applied to them: targets, weights, errors, solutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.execution import map_blocks, whole
from distembed.factorization import blocks
from distembed.factorization.blocks import PairWeighting
from distembed.linalg.operators import empty_csr, gathered, gram

Floats = NDArray[np.floating]
_Sides = tuple[Any, ...]  # forward, backward, (rows, 2) and (columns, 2) totals and shares of the words


class PairCounts(NamedTuple):
    """Counts between row words and column words, in both orders, with their words' totals."""

    forward: da.Array
    backward: da.Array
    """Row word left of column word, and right of it. Dask arrays (n, m) of csr_array row blocks."""
    row_totals: Floats
    column_totals: Floats
    """Bigrams with the word on the left. Shape (n,), (m,) float64."""
    row_unigram: Floats
    column_unigram: Floats
    """Shares of the occurrences of all words of the problem. Shape (n,), (m,) float64."""


def weighting_of(smoothing: float, cutoff: float, largest: float) -> PairWeighting:
    """Return the weighting whose largest weight is 1, given the largest count that has one."""
    scale = min(float(np.sqrt(largest)), cutoff)
    return PairWeighting(smoothing, cutoff, scale or 1.0)


def first_sparse_part(pairs: PairCounts, weighting: PairWeighting) -> da.Array:
    """Return the sparse part of A_1, in row blocks."""
    return _lift(_first_block, pairs, weighting)


def symmetric_weights(pairs: PairCounts, weighting: PairWeighting) -> da.Array:
    """Return Ws, in row blocks."""
    return _lift(_weights_block, pairs, weighting)


def symmetric_target(pairs: PairCounts, weighting: PairWeighting) -> da.Array:
    """Return S, in row blocks."""
    return _lift(_target_block, pairs, weighting)


def irreducible_error(pairs: PairCounts, weighting: PairWeighting) -> da.Array:
    """Return the weighted squared error (1,) that no symmetric matrix can fit."""
    chunks = ((1,) * pairs.forward.numblocks[0], (1,))
    return _lift(_error_block, pairs, weighting, chunks=chunks, meta=np.empty((0, 0))).sum(axis=0)


def solve_words(
    pairs: PairCounts,
    weighting: PairWeighting,
    core_vectors: Any,
    ridge: Floats,
    *,
    background_weight: float,
    uniform_weight: float,
    prior: da.Array | None = None,
) -> da.Array:
    """Return the vectors (n, d) of the row words, float32: each a ridge regression against the core vectors.

    The ridge draws each word towards its row of `prior` (n, d), or towards zero.
    """
    core = gathered(da.asarray(core_vectors))
    rows = pairs.forward.chunks[0]
    priors = () if prior is None else (prior.rechunk((rows, -1)),)
    return _lift(
        _words_block,
        pairs,
        weighting,
        core,
        gram(core, core),
        da.from_array(ridge[:, None], chunks=(rows, 1)),
        *priors,
        chunks=(rows, (core.shape[1],)),
        meta=np.empty((0, 0), np.float32),
        background_weight=background_weight,
        uniform_weight=uniform_weight,
    )


def _lift(
    function: Callable[..., Any],
    pairs: PairCounts,
    weighting: PairWeighting,
    *others: da.Array,
    chunks: Any = None,
    meta: Any = None,
    **options: Any,
) -> da.Array:
    """Apply a function to the row blocks of pairs; by default its result is sparse and has their shape."""
    meta = empty_csr() if meta is None else meta
    rows = pairs.forward.chunks[0]
    sides = np.stack([pairs.row_totals, pairs.row_unigram], axis=1)
    facing = np.stack([pairs.column_totals, pairs.column_unigram], axis=1)
    return map_blocks(
        function,
        pairs.forward,
        pairs.backward,
        da.from_array(sides, chunks=(rows, 2)),
        whole(facing),
        *others,
        weighting=weighting,
        chunks=chunks or (rows, (pairs.forward.shape[1],)),
        dtype=meta.dtype,
        meta=meta,
        **options,
    )


def _weigh(sides: _Sides, weighting: PairWeighting) -> blocks.Pairs:
    forward, backward, own, facing = sides
    return blocks.weigh_pairs(
        forward, backward, own[:, 0], own[:, 1], facing[:, 0], facing[:, 1], weighting=weighting
    )


def _weigh_off_diagonal(sides: _Sides, weighting: PairWeighting, block_info: Any) -> blocks.Pairs:
    first_row = first_row_of(block_info)
    forward, backward = (blocks.without_core_diagonal(block, first_row) for block in sides[:2])
    return _weigh((forward, backward, *sides[2:]), weighting)


def first_row_of(block_info: Any) -> int:
    """Return the number of the first row of a block, from Dask's description of the block."""
    return int(block_info[0]["array-location"][0][0])


def _first_block(*pairs: Any, weighting: PairWeighting, block_info: Any = None) -> Any:
    base = float(np.log(weighting.smoothing))
    return blocks.first_sparse_part(_weigh(pairs, weighting), first_row_of(block_info), base)


def _weights_block(*pairs: Any, weighting: PairWeighting, block_info: Any = None) -> Any:
    return blocks.symmetric_weights(_weigh_off_diagonal(pairs, weighting, block_info))


def _target_block(*pairs: Any, weighting: PairWeighting, block_info: Any = None) -> Any:
    return blocks.symmetric_target(_weigh_off_diagonal(pairs, weighting, block_info))


def _error_block(*pairs: Any, weighting: PairWeighting, block_info: Any = None) -> Any:
    return blocks.irreducible_error(_weigh_off_diagonal(pairs, weighting, block_info))[None]


def _words_block(
    forward: Any,
    backward: Any,
    sides: Floats,
    facing: Floats,
    core: Floats,
    core_gram: Floats,
    ridge: Floats,
    prior: Floats | None = None,
    *,
    weighting: PairWeighting,
    **options: Any,
) -> Any:
    pairs = _weigh((forward, backward, sides, facing), weighting)
    return blocks.solve_words(pairs, core, core_gram, ridge[:, 0], prior=prior, **options)
