"""The pairs of words that PSDVec is solved from, block by block: weights, targets, residual and objective.

The lifts of `blocks` over Dask arrays; the rounds and the estimator are in `psdvec`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.execution import Checkpoint, map_blocks
from distembed.factorization import blocks
from distembed.factorization.blocks import Weighting
from distembed.linalg.operators import empty_csr, gathered, transpose_row_blocks

Floats = NDArray[np.floating]

ROUND_VECTORS = "vectors"
"""What a checkpoint keeps of a round for the next one, and for a run that resumes, under this name."""


class PairCounts(NamedTuple):
    """Counts between row words and column words, in both orders, with their words' totals.

    Attributes
    ----------
    forward, backward : Dask arrays (n, m) of csr_array row blocks
        Row word left of column word, and right of it.
    row_totals, column_totals : (n,), (m,) float64
        Bigrams with the word on the left.
    row_unigram, column_unigram : (n,), (m,) float64
        Shares of the occurrences of all words of the problem.
    """

    forward: da.Array
    backward: da.Array
    row_totals: Floats
    column_totals: Floats
    row_unigram: Floats
    column_unigram: Floats


class CoreProblem(NamedTuple):
    """What the rounds of the core work on.

    Attributes
    ----------
    weights, target : Dask arrays (n, n) of csr_array row blocks, float32
        Ws and S, on the same support.
    irreducible : Dask array (1,)
        The weighted squared error that no symmetric matrix can fit.
    weighting : Weighting
    """

    weights: da.Array
    target: da.Array
    irreducible: da.Array
    weighting: Weighting


def objective_of(problem: CoreProblem, left_over: da.Array) -> da.Array:
    """Return the weighted squared error (1,) from a residual: the irreducible part plus sum R²/Ws."""
    chunks = ((1,) * left_over.numblocks[0], (1,))
    parts = map_blocks(
        _weighted_squares,
        left_over,
        problem.weights,
        chunks=chunks,
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )
    return problem.irreducible + parts.sum(axis=0, split_every=8)


def residual_of(problem: CoreProblem, vectors: da.Array) -> da.Array:
    """Return R = S - Ws∘(V Vᵀ), lazily, in the row blocks of S."""
    return map_blocks(
        _residual,
        problem.target,
        problem.weights,
        vectors,
        gathered(vectors),
        chunks=problem.target.chunks,
        dtype=np.float32,
        meta=empty_csr(),
    )


def weighting_of(smoothing: float, cutoff: float, largest: float) -> Weighting:
    """Return the weighting whose largest weight is 1, given the largest count that has one."""
    scale = min(float(np.sqrt(largest)), cutoff)
    return Weighting(smoothing, cutoff, scale or 1.0)


def sliced(matrix: da.Array, rows: tuple[int, int], columns: tuple[int, int]) -> da.Array:
    """Return rows and columns of a sparse matrix of row blocks, lazily."""
    part = matrix[slice(*rows)]
    chunks = (part.chunks[0], (columns[1] - columns[0],))
    return map_blocks(
        _columns, part, bounds=columns, chunks=chunks, dtype=part.dtype, meta=empty_csr(part.dtype)
    )


def _columns(block: Any, *, bounds: tuple[int, int]) -> Any:
    return block[:, slice(*bounds)]


def pairs_of_core(
    counts: da.Array, row_totals: Floats, word_counts: Floats, checkpoint: Checkpoint
) -> PairCounts:
    """Return the counts of core words with one another; the transposed ones are kept as ``core/counts-transposed``."""
    total = word_counts.sum()
    unigram = word_counts / total if total else word_counts
    backward = checkpoint("core/counts-transposed", lambda: transpose_row_blocks(counts))
    return PairCounts(counts, backward, row_totals, row_totals, unigram, unigram)


def lift_pairs(
    pairs: PairCounts, what: str, weighting: Weighting, *others: da.Array, **options: Any
) -> da.Array:
    """Compute one thing from each row block of pairs, as `_block_of_pairs` names it."""
    sparse = what in {"weights", "target", "first"}
    rows = pairs.forward.chunks[0]
    width = {"irreducible": 1, "words": others[0].shape[1] if others else 0}.get(what, pairs.forward.shape[1])
    sides = np.stack([pairs.row_totals, pairs.row_unigram], axis=1)
    facing = np.stack([pairs.column_totals, pairs.column_unigram], axis=1)
    return map_blocks(
        _block_of_pairs,
        pairs.forward,
        pairs.backward,
        da.from_array(sides, chunks=(rows, 2)),
        da.from_array(facing, chunks=-1),
        *others,
        what=what,
        weighting=weighting,
        chunks=(rows if what != "irreducible" else (1,) * len(rows), (width,)),
        dtype=np.float64 if what == "irreducible" else np.float32,
        meta=empty_csr() if sparse else np.empty((0, 0), np.float64 if what == "irreducible" else np.float32),
        **options,
    )


def _block_of_pairs(
    forward: Any,
    backward: Any,
    sides: Floats,
    facing: Floats,
    *others: Floats,
    what: str,
    weighting: Weighting,
    block_info: Any = None,
    **options: Any,
) -> Any:
    first_row = block_info[0]["array-location"][0][0]
    if what in {"weights", "target", "irreducible"}:
        forward = blocks.without_core_diagonal(forward, first_row)
        backward = blocks.without_core_diagonal(backward, first_row)
    pairs = blocks.weigh_pairs(
        forward, backward, sides[:, 0], sides[:, 1], facing[:, 0], facing[:, 1], weighting=weighting
    )
    if what == "first":
        return blocks.first_sparse_part(pairs, first_row, float(np.log(weighting.smoothing)))
    if what == "words":
        core, core_gram, ridge = others
        return blocks.solve_words(pairs, core, core_gram, ridge[:, 0], **options)
    if what == "irreducible":
        return blocks.irreducible_error(pairs)[None]
    return blocks.symmetric_weights(pairs) if what == "weights" else blocks.symmetric_target(pairs)


def without_diagonal(counts: da.Array) -> da.Array:
    """Return counts without the cells (i, i), lazily."""
    return map_blocks(_block_off_diagonal, counts, dtype=counts.dtype, meta=empty_csr(counts.dtype))


def _block_off_diagonal(block: Any, block_info: Any = None) -> Any:
    return blocks.without_core_diagonal(block, block_info[0]["array-location"][0][0])


def _residual(target: Any, weights: Any, own: Floats, everyone: Floats) -> Any:
    return blocks.residual(target, weights, own, everyone)


def _weighted_squares(difference: Any, weights: Any) -> Floats:
    return blocks.weighted_squares(difference, weights)[None]
