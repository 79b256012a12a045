"""The core of PSDVec over row blocks, solved by EM: each round is a weighted low-rank approximation."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Floats, Int64s
from distembed.execution import compute, counted_from, tell
from distembed.factorization import blocks
from distembed.factorization.blocks import PairWeighting
from distembed.lift import as_it_is, first_rows, fold, lift, part, total, total_of_part
from distembed.linalg.blocks import side_by_side
from distembed.linalg.eigen import largest_eigenpairs
from distembed.linalg.operators import FAN_IN, sparse_plus_low_rank, transpose_row_blocks
from distembed.states import keep, newest, scope
from distembed.validation import seed_of
from distembed.weighting.blocks import chosen_columns
from distembed.weighting.pmi import largest_count, weight_cutoff

# --- what is given ----------------------------------------------------------------------------------------------


def check_core_size(n_core: int | None, n_components: int, n: int) -> int:
    """Return how many of n words are core words.

    Raises
    ------
    ValueError
        If there are fewer words than core words, or fewer core words than components.
    """
    n_core = n if n_core is None else n_core
    if not 1 <= n_core <= n:
        raise ValueError(
            f"n_core is {n_core} but there are {n} words: choose n_core between 1 and {n}, or None"
        )
    if not 1 <= n_components <= n_core:
        raise ValueError(
            f"n_components is {n_components} but there are {n_core} core words: "
            f"choose n_components between 1 and {n_core}, or more core words"
        )
    return n_core


# --- pairs of words ---------------------------------------------------------------------------------------------


def weighting_of(options: Any, counts: da.Array, *sides: da.Array) -> PairWeighting:
    """Return how counts become weights: cut off by the rule for some counts, the largest of all sides with weight 1."""
    cutoff = weight_cutoff(counts, options.weight_cutoff)
    largest = max(largest_count(side) for side in sides)
    return PairWeighting(options.smoothing, cutoff, min(float(np.sqrt(largest)), cutoff) or 1.0)


def pairs_between(matrix: da.Array, rows: Int64s | slice, columns: Int64s | slice) -> da.Array:
    """Return some rows and columns of a sparse matrix of row blocks, by rising numbers or a slice, lazily."""
    width = len(np.arange(matrix.shape[1])[columns])
    sizes = {"c": width}
    return lift(
        chosen_columns, "wc->wc", matrix[rows], dtype=matrix.dtype, sparse=True, sizes=sizes, columns=columns
    )


# --- the core ---------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """A round of core mode: its rank, the columns of the first block of its Krylov basis, and its passes."""

    rank: int
    block_size: int | None
    n_passes: int


def rounds_of(options: Any, n_core: int) -> list[Round]:
    """Return the rounds: the first starts from the constant vector, each later one from the vectors before it, too."""
    ranks = [min(n_core, options.n_components + options.n_iter - t) for t in range(1, options.n_iter + 1)]
    first = Round(ranks[0], -(-ranks[0] // 3), options.first_passes)
    return [first, *(Round(rank, None, options.n_passes) for rank in ranks[1:])]


class CoreProblem(NamedTuple):
    """The input of all rounds of core mode."""

    start: Any
    """The sparse part of the first iterate's matrix, for the first round. Dask array (n, n) of csr_array row blocks,
    float32.
    """
    weights: da.Array
    target: da.Array
    """Ws and S, on the same support. Dask arrays (n, n) of csr_array row blocks, float32."""
    irreducible: da.Array
    """The weighted squared error that no symmetric matrix can fit. Dask array (1,)."""


class CoreRound(NamedTuple):
    """What a round leaves: its vectors, and the objective after each round before it."""

    vectors: da.Array
    objective: Floats


def solve_core(
    counts: da.Array, word_counts: Floats, row_totals: Floats, options: Any
) -> tuple[da.Array, Floats, PairWeighting]:
    """Run the rounds of core mode: A_t from V_(t-1), its best positive semidefinite approximation, the objective.

    Each round is kept until there is the next, and its Krylov basis until it is done, in the scope of the caller. The
    pairs stay in memory where there is room.

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
        The core vectors, (n, d) float32, the objective after each round, and how counts became weights.
    """
    rounds = rounds_of(options, counts.shape[0])
    passes = np.cumsum([0, *(one.n_passes for one in rounds)]).tolist()
    with scope("core"):
        counts = keep("counts", partial(as_it_is, counts), made_again=True)
        weighting = core_weighting(counts, options)
        done, now = newest("round", CoreRound)
        pairs = partial(_core_problem, counts, word_counts, row_totals, weighting)
        problem = keep("problem", pairs, CoreProblem, made_again=True)
        for number, one in enumerate(rounds[done:], start=done + 1):
            make = partial(_round, problem, now if number > 1 else None, one, options)
            with counted_from("passes", passes[number - 1], passes[-1]):
                now = keep("round", make, CoreRound, number=number)
            problem = problem._replace(start=None)
            tell("passes", passes[number], passes[-1])
        last = _objective_of(problem, _residual_of(problem, now.vectors))
    return now.vectors, np.append(compute(now.objective), last), weighting


def objective_of(
    counts: da.Array, word_counts: Floats, row_totals: Floats, vectors: da.Array, options: Any
) -> tuple[float, PairWeighting]:
    """Return the weighted squared error of given vectors for the counts of core words, and their weighting."""
    weighting = core_weighting(counts, options)
    problem = _core_problem(counts, word_counts, row_totals, weighting)
    residual = _residual_of(problem, vectors.rechunk((counts.chunks[0], -1)))
    return _objective_of(problem, residual), weighting


def core_weighting(counts: da.Array, options: Any) -> PairWeighting:
    """Return how the counts of core words, a Dask array (n, n) of csr_array row blocks, become weights."""
    off = lift(
        blocks.without_core_diagonal, "wc,w->wc", counts, first_rows(counts), dtype=counts.dtype, sparse=True
    )
    return weighting_of(options, counts, off)


def _core_problem(
    counts: da.Array, word_counts: Floats, row_totals: Floats, weighting: PairWeighting
) -> CoreProblem:
    """Return the input of the rounds."""
    backward = keep("transposed", partial(transpose_row_blocks, counts))
    # The bigrams with each core word on the left, and its share of all occurrences.
    words = np.stack([row_totals, word_counts / (word_counts.sum() or 1)], axis=1)
    sides, alone = (counts, backward, words, words, first_rows(counts)), {"w": 1, "b": 1}
    pairs = lift(
        blocks.core_pairs, "wc,wc,wf,cf,w->wb", *sides, dtype=object, sizes=alone, weighting=weighting
    )
    start, weights, target = (
        part(pairs, name, counts, columns=counts.shape[1], dtype=np.float32, sparse=True)
        for name in ("start", "weights", "target")
    )
    return CoreProblem(start, weights, target, total_of_part(pairs, "error", shape=(1,), fan_in=FAN_IN))


def _round(problem: CoreProblem, before: CoreRound | None, one: Round, options: Any) -> CoreRound:
    """Return V = U sqrt(max(Λ, 0)) of the matrix A_t, lazily, and the objective of the round before.

    A_1 is sparse beside a constant, and each later one is low rank beside the residual of the round before.
    """
    n, row_chunks = problem.target.shape[0], problem.target.chunks[0]
    start = da.ones((n, 1), chunks=(row_chunks, (1,)), dtype=np.float32)
    if before is None:
        start, objective = start.persist(), np.zeros(0)
        # The constant vector is nearly the eigenvector of A_1's one huge negative eigenvalue: in the basis
        # from the start, it takes no precision from the others. A positive one as small is its rounding error.
        constant = float(np.log(options.smoothing)) / 2
        matrix, noise = (
            sparse_plus_low_rank(problem.start, start, constant),
            -constant * n * np.finfo(np.float32).eps,
        )
    else:
        sparse = keep("residual", partial(_residual_of, problem, before.vectors))
        objective, noise = np.append(compute(before.objective), _objective_of(problem, sparse)), 0.0
        sizes = {"b": before.vectors.shape[1] + 1}
        start = lift(side_by_side, "wa,wr->wb", start, before.vectors, sizes=sizes)
        matrix = sparse_plus_low_rank(sparse, before.vectors)
    found = largest_eigenpairs(
        matrix,
        one.rank,
        start=start,
        block_size=one.block_size,
        n_passes=one.n_passes,
        random_state=seed_of(options.random_state),
    )
    lengths = np.sqrt(np.where(found.values > noise, found.values, 0))
    return CoreRound(found.vectors * lengths.astype(np.float32), objective)


def _residual_of(problem: CoreProblem, vectors: da.Array) -> da.Array:
    """Return R = S - Ws∘(V Vᵀ), lazily, in the row blocks of S."""
    sides = problem.target, problem.weights, vectors, vectors
    return lift(blocks.residual, "wc,wc,wr,Cr->wc", *sides, sparse=True)


def _objective_of(problem: CoreProblem, residual: da.Array) -> float:
    """Return the weighted squared error: the irreducible part plus sum R²/Ws."""
    rest = fold(total(blocks.weighted_squares), "wc,wc", residual, problem.weights, shape=(1,), fan_in=FAN_IN)
    return float(compute(problem.irreducible + rest)[0])
