"""PSDVec over row blocks: the rounds of the core, solved by EM, and the regressions of the noncore words against it.

Each round of the core is a weighted low-rank positive semidefinite approximation; each noncore word is a ridge
regression against the fixed core vectors, by its counts with core words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Floats, Int64s
from distembed.execution import Checkpoint, compute, counted_from, map_blocks, prefixed, summed, tell, whole
from distembed.factorization import blocks
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec_costs import CoreOptions, Round, rounds_of
from distembed.factorization.psdvec_inputs import check_length
from distembed.linalg.chunks import batches
from distembed.linalg.csr import column_range
from distembed.linalg.eigen import largest_eigenpairs
from distembed.linalg.operators import (
    SparsePlusLowRank,
    column_powers,
    dense_blocks,
    empty_csr,
    gathered,
    gram,
    of_all_rows,
    transpose_row_blocks,
)
from distembed.typing import VectorLike
from distembed.validation import seed_of
from distembed.weighting.pmi import CutoffRule, corner_count, largest_count, weight_cutoff

ROUND_VECTORS = "vectors"
"""What a checkpoint keeps of a round for the next one, and for a run that resumes, under this name."""


# --- pairs of words ---------------------------------------------------------------------------------------------


class PairCounts(NamedTuple):
    """Counts between row words and column words, in both orders, with their words' totals."""

    forward: da.Array
    backward: da.Array
    """Row word left of column word, and right of it. Dask arrays (n, m) of csr_array row blocks."""
    rows: Floats | da.Array
    columns: Floats
    """Bigrams with the word on the left, and its share of all occurrences. Shape (n, 2), (m, 2) float64."""


def weighting_of(smoothing: float, cutoff: float, largest: float) -> PairWeighting:
    """Return the weighting whose largest weight is 1, given the largest count that has one."""
    scale = min(float(np.sqrt(largest)), cutoff)
    return PairWeighting(smoothing, cutoff, scale or 1.0)


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
    return map_blocks(
        function,
        pairs.forward,
        pairs.backward,
        dense_blocks(pairs.rows, rows),
        whole(pairs.columns),
        *others,
        weighting=weighting,
        chunks=chunks or (rows, (pairs.forward.shape[1],)),
        dtype=meta.dtype,
        meta=meta,
        **options,
    )


def _weigh(
    weighting: PairWeighting, forward: Any, backward: Any, own: Floats, facing: Floats
) -> blocks.Pairs:
    return blocks.weigh_pairs(
        forward, backward, own[:, 0], own[:, 1], facing[:, 0], facing[:, 1], weighting=weighting
    )


def _weigh_off_diagonal(
    forward: Any, backward: Any, own: Floats, facing: Floats, *, weighting: PairWeighting, block_info: Any
) -> blocks.Pairs:
    forward, backward = (_block_off_diagonal(block, block_info) for block in (forward, backward))
    return _weigh(weighting, forward, backward, own, facing)


def _block_off_diagonal(block: Any, block_info: Any = None) -> Any:
    return blocks.without_core_diagonal(block, _first_row_of(block_info))


def _first_row_of(block_info: Any) -> int:
    return int(block_info[0]["array-location"][0][0])


def _first_block(*pairs: Any, weighting: PairWeighting, block_info: Any = None) -> Any:
    base = float(np.log(weighting.smoothing))
    return blocks.first_sparse_part(_weigh(weighting, *pairs), _first_row_of(block_info), base)


def _weights_block(*pairs: Any, block_info: Any = None, **options: Any) -> Any:
    return blocks.symmetric_weights(_weigh_off_diagonal(*pairs, block_info=block_info, **options))


def _target_block(*pairs: Any, block_info: Any = None, **options: Any) -> Any:
    return blocks.symmetric_target(_weigh_off_diagonal(*pairs, block_info=block_info, **options))


def _error_block(*pairs: Any, block_info: Any = None, **options: Any) -> Any:
    return blocks.irreducible_error(_weigh_off_diagonal(*pairs, block_info=block_info, **options))[None]


def pairs_between(matrix: da.Array, rows: Int64s, columns: Int64s) -> da.Array:
    """Return some rows and columns of a sparse matrix of row blocks, by rising numbers, lazily."""
    chunks = (matrix.chunks[0], (len(columns),))
    part = map_blocks(
        _chosen_columns,
        matrix,
        columns=columns,
        chunks=chunks,
        dtype=matrix.dtype,
        meta=empty_csr(matrix.dtype),
    )
    return part[rows]


def _chosen_columns(block: Any, *, columns: Int64s) -> Any:
    return block[:, columns]


def slice_rows_and_columns(matrix: da.Array, rows: tuple[int, int], columns: tuple[int, int]) -> da.Array:
    """Return rows and columns of a sparse matrix of row blocks, lazily."""
    part = matrix[slice(*rows)]
    chunks = (part.chunks[0], (columns[1] - columns[0],))
    return map_blocks(
        column_range, part, bounds=columns, chunks=chunks, dtype=part.dtype, meta=empty_csr(part.dtype)
    )


# --- the core ---------------------------------------------------------------------------------------------------


class CoreProblem(NamedTuple):
    """The input of the rounds of core mode."""

    weights: da.Array
    target: da.Array
    """Ws and S, on the same support. Dask arrays (n, n) of csr_array row blocks, float32."""
    irreducible: da.Array
    """The weighted squared error that no symmetric matrix can fit. Dask array (1,)."""


def factorize(
    counts: da.Array, word_counts: Floats, row_totals: Floats, options: Any
) -> tuple[da.Array, list[float], Floats, PairWeighting]:
    """Run the rounds of core mode: A_t from V_(t-1), its best positive semidefinite approximation, the objective.

    Parameters
    ----------
    counts : Dask array (n, n) of csr_array row blocks
        The counts of the core words.
    word_counts, row_totals : (n,) arrays
        The occurrences and the bigram totals of the core words over the whole vocabulary.
    options : PSDVec
        The estimator, for its options.

    Returns
    -------
    tuple
        The core vectors, (n, d) float32, the objective after each round, the eigenvalues of the last round with
        negative ones as zero, (d,) float64, and how counts became weights.
    """
    planned = rounds_of(CoreOptions.of(options), counts.shape[0])
    seed, passes = seed_of(options.random_state), [0, *(one.n_passes for one in planned)]
    weighting = core_weighting(counts, options.smoothing, options.weight_cutoff)
    sparse, problem = _core_problem(counts, word_counts, row_totals, weighting, options.checkpoint)
    objective: list[float] = []
    vectors: da.Array | None = None
    for number, one in enumerate(planned, start=1):
        keep = prefixed(options.checkpoint, f"core/round-{number}/")
        with counted_from("passes", sum(passes[:number]), sum(passes)):
            vectors = keep(ROUND_VECTORS, partial(_round, sparse, one, vectors, options, seed, keep))
        if number == 1:
            # Not before: the first round's basis is the largest array of all, and does without them.
            problem = CoreProblem(
                *(
                    options.checkpoint(f"core/{name}", partial(_given, array))
                    for name, array in problem._asdict().items()
                )
            )
        sparse = _residual_of(problem, vectors)
        if number < len(planned):
            sparse = keep("residual", partial(_given, sparse))
        error = keep("objective", partial(_objective_of, problem, sparse))
        objective.append(float(compute(error)[0]))
        tell("passes", sum(passes[: number + 1]), sum(passes))
    assert vectors is not None
    return vectors, objective, compute(column_powers(vectors, 2)), weighting


def objective_of(
    counts: da.Array, word_counts: Floats, row_totals: Floats, vectors: da.Array, options: Any
) -> tuple[float, PairWeighting]:
    """Return the weighted squared error of given vectors for the counts of core words, and their weighting."""
    weighting = core_weighting(counts, options.smoothing, options.weight_cutoff)
    _, problem = _core_problem(counts, word_counts, row_totals, weighting, options.checkpoint)
    residual = _residual_of(problem, vectors.rechunk((counts.chunks[0], -1)))
    return float(compute(_objective_of(problem, residual))[0]), weighting


def _core_problem(
    counts: da.Array,
    word_counts: Floats,
    row_totals: Floats,
    weighting: PairWeighting,
    checkpoint: Checkpoint,
) -> tuple[da.Array, CoreProblem]:
    """Return the sparse part of A_1 and the input of the rounds, all lazy."""
    total = word_counts.sum()
    words = np.stack([row_totals, word_counts / total if total else word_counts], axis=1)
    backward = checkpoint("core/counts-transposed", lambda: transpose_row_blocks(counts))
    pairs = PairCounts(counts, backward, words, words)
    chunks = ((1,) * counts.numblocks[0], (1,))
    problem = CoreProblem(
        _lift(_weights_block, pairs, weighting),
        _lift(_target_block, pairs, weighting),
        _lift(_error_block, pairs, weighting, chunks=chunks, meta=np.empty((0, 0))).sum(axis=0),
    )
    return _lift(_first_block, pairs, weighting), problem


def core_weighting(counts: da.Array, smoothing: float, rule: CutoffRule) -> PairWeighting:
    """Return how the counts of core words, a Dask array (n, n) of csr_array row blocks, become weights."""
    off = map_blocks(_block_off_diagonal, counts, dtype=counts.dtype, meta=empty_csr(counts.dtype))
    cutoff = weight_cutoff(counts, rule, corner=corner_count(counts))
    return weighting_of(smoothing, cutoff, largest_count(off))


def _round(
    sparse: da.Array, one: Round, before: da.Array | None, options: Any, seed: int, keep: Checkpoint
) -> da.Array:
    """Return V = U sqrt(max(Λ, 0)) of the matrix of one round.

    In the first round its sparse part is not stored yet; in later rounds it is the residual stored before.
    """
    kept = keep("sparse", partial(_given, sparse)) if before is None else sparse
    constant = float(np.log(options.smoothing)) / 2 if before is None else 0.0
    matrix = SparsePlusLowRank(kept, factor=before, constant=constant)
    # The constant vector is nearly the eigenvector of A_1's one huge negative eigenvalue: in the basis
    # from the start, it takes no precision from the others.
    ones = da.ones((sum(matrix.row_chunks), 1), chunks=(matrix.row_chunks, (1,)), dtype=np.float32)
    found = largest_eigenpairs(
        matrix,
        one.rank,
        start=ones if before is None else da.concatenate([ones, before], axis=1).rechunk({1: -1}),
        block_size=one.block_size,
        n_passes=one.n_passes,
        random_state=seed,
        checkpoint=keep,
    )
    # Beside the huge negative eigenvalue of the constant, a positive one this small is its rounding error.
    noise = np.finfo(np.float32).eps * abs(constant) * kept.shape[0]
    lengths = np.sqrt(np.where(found.values > noise, found.values, 0))
    return found.vectors * lengths.astype(np.float32)


def _objective_of(problem: CoreProblem, left_over: da.Array) -> da.Array:
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
    return problem.irreducible + summed(parts)


def _residual_of(problem: CoreProblem, vectors: da.Array) -> da.Array:
    """Return R = S - Ws∘(V Vᵀ), lazily, in the row blocks of S."""
    sides = (problem.target, "ij", problem.weights, "ij", vectors, "ib", vectors, "kb")
    return of_all_rows(_residual_block, "ij", *sides, dtype=np.float32, meta=empty_csr())


def _residual_block(target: Any, weights: Any, own: list[Floats], everyone: list[list[Floats]]) -> Any:
    return blocks.residual(target, weights, own[0], [piece for pieces in everyone for piece in pieces])


def _given(array: da.Array) -> da.Array:
    """Return an array that has been built already, for a checkpoint that expects a function."""
    return array


def _weighted_squares(difference: Any, weights: Any) -> Floats:
    return blocks.weighted_squares(difference, weights)[None]


# --- the noncore words -------------------------------------------------------------------------------------------


class NewWords(NamedTuple):
    """Words that are solved against the core."""

    rows: da.Array
    """Their counts with the new word on the left of the core word. Dask array (m, n_core) of csr_array row blocks."""
    columns: da.Array
    """The counts with the new word on the right. Dask array (n_core, m) of csr_array row blocks."""
    counts: Floats
    row_totals: Floats | da.Array
    """Their occurrences, and the bigrams with the word on the left. Shape (m,), float64."""
    ridge: Floats
    """The ridge of each word. Shape (m,), float64."""


class CoreWords(NamedTuple):
    """The core words that others are solved against."""

    vectors: Any
    """Their vectors, in memory or as a Dask array. Array (n_core, d)."""
    counts: Floats
    row_totals: Floats
    """Their occurrences, and the bigrams with the word on the left. Shape (n_core,), float64."""
    total_count: float
    """The occurrences of all words, core and noncore."""


def count_in_corpus(core: CoreWords, counts: VectorLike | None, row_totals: VectorLike | None) -> CoreWords:
    """Return the core words with their counts or totals in another corpus than that of the fit.

    The occurrences of all words of the other corpus are estimated from those of its core words.
    """
    n = len(core.counts)
    here = core.counts if counts is None else check_length(counts, n, "core_counts")
    totals = core.row_totals if row_totals is None else check_length(row_totals, n, "core_row_totals")
    own, found = float(core.counts.sum()), float(here.sum())
    return CoreWords(core.vectors, here, totals, core.total_count * (found / own) if own else found)


def noncore_weighting(words: NewWords, smoothing: float, rule: CutoffRule) -> PairWeighting:
    """Return how the counts of new words with core words become weights."""
    # The cut-off comes from the counts of core words left of new ones, as in the program, and the
    # largest weight from both orders.
    cutoff = weight_cutoff(words.columns, rule, corner=corner_count(words.columns))
    return weighting_of(smoothing, cutoff, max(largest_count(words.columns), largest_count(words.rows)))


def noncore_vectors(words: NewWords, core: CoreWords, weighting: PairWeighting, options: Any) -> da.Array:
    """Return the vectors (m, d) of new words, float32, lazily, in batches of words.

    Each is a ridge regression against the core vectors. `options` is the estimator.
    """
    forward = words.rows.rechunk((batches(words.rows.shape[0], options.batch_words), -1))
    backward = transpose_row_blocks(words.columns).rechunk(forward.chunks)
    n_all = max(core.total_count, 1e-300)
    sides = (np.stack([side.row_totals, side.counts / n_all], axis=1) for side in (words, core))
    lazy = isinstance(core.vectors, da.Array)
    vectors, rows = gathered(core.vectors) if lazy else whole(core.vectors), forward.chunks[0]
    return _lift(
        _words_block,
        PairCounts(forward, backward, *sides),
        weighting,
        vectors,
        gram(vectors, vectors),
        da.from_array(words.ridge[:, None], chunks=(rows, 1)),
        chunks=(rows, (vectors.shape[1],)),
        meta=np.empty((0, 0), np.float32),
        uniform_weight=options.uniform_weight,
    )


def _words_block(*arrays: Any, weighting: PairWeighting, uniform_weight: float) -> Any:
    core, core_gram, ridge = arrays[4:]
    pairs = _weigh(weighting, *arrays[:4])
    return blocks.solve_words(pairs, core, core_gram, ridge[:, 0], uniform_weight=uniform_weight)
