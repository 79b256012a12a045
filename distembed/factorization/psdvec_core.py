"""PSDVec over row blocks: the rounds of the core, solved by EM, and the regressions of the noncore words against it.

Each round of the core is a weighted low-rank positive semidefinite approximation; each noncore word is a ridge
regression against the fixed core vectors, by its counts with core words.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Floats, Int64s
from distembed.execution import compute, counted_from, one_blas_thread, tell
from distembed.factorization import blocks
from distembed.factorization.blocks import PairWeighting
from distembed.lift import first_rows, fold, lift, total, total_of_part
from distembed.linalg.blocks import side_by_side
from distembed.linalg.eigen import largest_eigenpairs
from distembed.linalg.operators import (
    SparsePlusLowRank,
    column_powers,
    column_products,
    dense_blocks,
    gathered,
    transpose_row_blocks,
)
from distembed.states import keep, newest, scope
from distembed.typing import VectorLike, refuse_collection
from distembed.validation import seed_of
from distembed.weighting.blocks import chosen_columns
from distembed.weighting.pmi import CutoffRule, corner_count, largest_count, weight_cutoff

# --- what is given ----------------------------------------------------------------------------------------------


def check_length(values: VectorLike, n: int, name: str) -> Floats:
    """Return one finite number that is not negative for each of n words, as floats.

    Raises
    ------
    ValueError
        If there are more or fewer numbers, or one is negative, NaN or infinite.
    """
    refuse_collection(values, name)
    array = np.asarray(values, float)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}; give one number for each of the {n} words")
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(
            f"{name} holds {array[place]} at word {place}; give finite numbers that are not negative"
        )
    return array


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


def weighting_of(smoothing: float, cutoff: float, largest: float) -> PairWeighting:
    """Return the weighting whose largest weight is 1, given the largest count that has one."""
    scale = min(float(np.sqrt(largest)), cutoff)
    return PairWeighting(smoothing, cutoff, scale or 1.0)


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
    first = Round(ranks[0], -(-ranks[0] // 2), options.first_passes)
    return [first, *(Round(rank, None, options.n_passes) for rank in ranks[1:])]


class CoreProblem(NamedTuple):
    """The input of all rounds of core mode."""

    start: da.Array
    """The sparse part of the first iterate's matrix. Dask array (n, n) of csr_array row blocks, float32."""
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
) -> tuple[da.Array, Floats, Floats, PairWeighting]:
    """Run the rounds of core mode: A_t from V_(t-1), its best positive semidefinite approximation, the objective.

    Each round is kept until there is the next, and its Krylov basis until it is done, in the scope of the caller.

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
    rounds = rounds_of(options, counts.shape[0])
    passes = np.cumsum([0, *(one.n_passes for one in rounds)]).tolist()
    weighting = core_weighting(counts, options.smoothing, options.weight_cutoff)
    with scope("core"):
        done, now = newest("round", CoreRound)
        problem = keep(
            "problem", partial(_core_problem, counts, word_counts, row_totals, weighting), CoreProblem
        )
        for number, one in enumerate(rounds[done:], start=done + 1):
            make = partial(_round, problem, now if number > 1 else None, one, options)
            with counted_from("passes", passes[number - 1], passes[-1]):
                now = keep("round", make, CoreRound, number=number)
            tell("passes", passes[number], passes[-1])
        last = _objective_of(problem, _residual_of(problem, now.vectors))
    eigenvalues = compute(column_powers(now.vectors, 2))
    return now.vectors, np.append(compute(now.objective), last), eigenvalues, weighting


def objective_of(
    counts: da.Array, word_counts: Floats, row_totals: Floats, vectors: da.Array, options: Any
) -> tuple[float, PairWeighting]:
    """Return the weighted squared error of given vectors for the counts of core words, and their weighting."""
    weighting = core_weighting(counts, options.smoothing, options.weight_cutoff)
    problem = _core_problem(counts, word_counts, row_totals, weighting)
    residual = _residual_of(problem, vectors.rechunk((counts.chunks[0], -1)))
    return _objective_of(problem, residual), weighting


def core_weighting(counts: da.Array, smoothing: float, rule: CutoffRule) -> PairWeighting:
    """Return how the counts of core words, a Dask array (n, n) of csr_array row blocks, become weights."""
    off = lift(
        blocks.without_core_diagonal, "wc,w->wc", counts, first_rows(counts), dtype=counts.dtype, sparse=True
    )
    cutoff = weight_cutoff(counts, rule, corner=corner_count(counts))
    return weighting_of(smoothing, cutoff, largest_count(off))


def _core_problem(
    counts: da.Array, word_counts: Floats, row_totals: Floats, weighting: PairWeighting
) -> CoreProblem:
    """Return the input of the rounds."""
    backward = keep("transposed", partial(transpose_row_blocks, counts))
    # The bigrams with each core word on the left, and its share of all occurrences.
    words = np.stack([row_totals, word_counts / (word_counts.sum() or 1)], axis=1)
    sides = counts, backward, words, words, first_rows(counts)
    pairs = lift(
        blocks.core_pairs, "wc,wc,wf,cf,w->w", *sides, dtype=object, sizes={"w": 1}, weighting=weighting
    )
    sizes = {"w": counts.chunks[0], "c": counts.shape[1]}
    start, weights, target = (
        lift(blocks.part_of_pairs, "w->wc", pairs, sparse=True, name=name, step=name, sizes=sizes)
        for name in ("start", "weights", "target")
    )
    return CoreProblem(start, weights, target, total_of_part(pairs, "error", shape=(1,), fan_in=4))


def _round(problem: CoreProblem, before: CoreRound | None, one: Round, options: Any) -> CoreRound:
    """Return V = U sqrt(max(Λ, 0)) of the matrix A_t, lazily, and the objective of the round before.

    A_1 is sparse beside a constant, and each later one is low rank beside the residual of the round before.
    """
    n, row_chunks = problem.start.shape[0], problem.start.chunks[0]
    # The constant vector is nearly the eigenvector of A_1's one huge negative eigenvalue: in the basis
    # from the start, it takes no precision from the others.
    start = da.ones((n, 1), chunks=(row_chunks, (1,)), dtype=np.float32)
    if before is None:
        objective = np.zeros(0)
        matrix = SparsePlusLowRank(problem.start, constant=float(np.log(options.smoothing)) / 2)
    else:
        sparse = keep("residual", partial(_residual_of, problem, before.vectors))
        objective = np.append(compute(before.objective), _objective_of(problem, sparse))
        sizes = {"b": before.vectors.shape[1] + 1}
        start = lift(side_by_side, "wa,wr->wb", start, before.vectors, sizes=sizes)
        matrix = SparsePlusLowRank(sparse, factor=before.vectors)
    found = largest_eigenpairs(
        matrix,
        one.rank,
        start=start,
        block_size=one.block_size,
        n_passes=one.n_passes,
        random_state=seed_of(options.random_state),
    )
    # Beside the huge negative eigenvalue of the constant, a positive one this small is its rounding error.
    noise = np.finfo(np.float32).eps * abs(matrix.constant) * n
    lengths = np.sqrt(np.where(found.values > noise, found.values, 0))
    return CoreRound(found.vectors * lengths.astype(np.float32), objective)


def _residual_of(problem: CoreProblem, vectors: da.Array) -> da.Array:
    """Return R = S - Ws∘(V Vᵀ), lazily, in the row blocks of S."""
    sides = problem.target, problem.weights, vectors, vectors
    return lift(blocks.residual, "wc,wc,wr,Cr->wc", *sides, sparse=True)


def _objective_of(problem: CoreProblem, residual: da.Array) -> float:
    """Return the weighted squared error: the irreducible part plus sum R²/Ws."""
    rest = fold(total(blocks.weighted_squares), "wc,wc", residual, problem.weights, shape=(1,))
    return float(compute(problem.irreducible + rest)[0])


# --- the noncore words -------------------------------------------------------------------------------------------


class Learned(NamedTuple):
    """What a fit learns of its noncore words, by which later ones are weighed: attributes of the estimator."""

    noncore_cutoff: float
    noncore_scale: float
    total_count: float


class Words(NamedTuple):
    """What is known of some words beside their pairs."""

    counts: Floats
    row_totals: Any
    """Their occurrences, and the bigrams with the word on the left. Shape (n,), float64; the second may be lazy."""


def solve_noncore(
    counts: da.Array,
    words: Words,
    new: Int64s | slice,
    core: Int64s | slice,
    vectors: Any,
    options: Any,
) -> tuple[da.Array, Learned]:
    """Return the vectors of some words of a vocabulary, solved against those of others, and what is learned of them.

    Parameters
    ----------
    counts : Dask array (n, n) of csr_array row blocks
    words : Words
        All n words.
    new, core : slice or (k,) int64
        Which of them are solved, and which have the vectors.
    vectors : array or Dask array (k, d)
    options : PSDVec
        The estimator, for its options.

    Raises
    ------
    ValueError
        If there is not one ridge for each band of words.
    """
    rows, columns = pairs_between(counts, new, core), pairs_between(counts, core, new)
    # The cut-off comes from the counts of core words left of new ones, as in the program, and the
    # largest weight from both orders.
    with one_blas_thread():
        cutoff = weight_cutoff(columns, options.weight_cutoff, corner=corner_count(columns))
        weighting = weighting_of(options.smoothing, cutoff, max(largest_count(columns), largest_count(rows)))
        own, facing = (Words(*(values[chosen] for values in words)) for chosen in (new, core))
        n_all = float(own.counts.sum() + facing.counts.sum())
        m = rows.shape[0]
        values, sizes = np.atleast_1d(np.asarray(options.ridge, float)), options.bands or [m]
        if len(values) != len(sizes):
            raise ValueError(
                f"ridge has {len(values)} values and bands has {len(sizes)} sizes; give one ridge for each band"
            )
        # The last band takes what is left: how many words a corpus has is known only once it is counted.
        ridge = np.repeat(values, [*sizes[:-1], m])[:m]
        make = partial(noncore_vectors, rows, columns, own, facing, vectors, n_all, ridge, weighting, options)
        return keep("noncore", make), Learned(weighting.cutoff, weighting.scale, n_all)


def noncore_vectors(
    rows: da.Array,
    columns: da.Array,
    own: Words,
    facing: Words,
    vectors: Any,
    n_all: float,
    ridge: Floats,
    weighting: PairWeighting,
    options: Any,
) -> da.Array:
    """Return the vectors (m, d) of new words, float32, lazily, in batches of words.

    Each is a ridge regression against the core vectors. `rows` (m, n_core) are the counts with the new word on the left
    of the core word, `columns` (n_core, m) those with it on the right, and `n_all` counts the occurrences of all words.
    """
    forward = rows.rechunk((options.batch_words, -1))
    backward = transpose_row_blocks(columns).rechunk(forward.chunks)
    sides = (np.stack([side.row_totals, side.counts / max(n_all, 1e-300)], axis=1) for side in (own, facing))
    of_new, of_core = sides
    core = gathered(vectors) if isinstance(vectors, da.Array) else vectors
    return lift(
        blocks.solve_new_words, "wc,wc,wf,cf,w,cr,rs->wr",
        forward, backward, dense_blocks(of_new, forward.chunks[0]), of_core, ridge, core, column_products(core, core),
        weighting=weighting, uniform_weight=options.uniform_weight,
    )  # fmt: skip
