"""The rounds of PSDVec: core vectors as a weighted low-rank positive semidefinite approximation, solved by EM."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.execution import Checkpoint, compute, counted_from, map_blocks, prefixed, summed, tell
from distembed.factorization import blocks
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec_costs import CoreOptions, Round, rounds_of
from distembed.factorization.psdvec_lifts import (
    PairCounts,
    first_row_of,
    first_sparse_part,
    irreducible_error,
    symmetric_target,
    symmetric_weights,
    weighting_of,
)
from distembed.linalg.csr import column_range
from distembed.linalg.eigen import Eigenpairs, dense_eigenpairs, largest_eigenpairs
from distembed.linalg.operators import (
    SparsePlusLowRank,
    column_powers,
    empty_csr,
    gathered,
    transpose_row_blocks,
)
from distembed.weighting.pmi import CutoffRule, corner_count, largest_count, weight_cutoff

Floats = NDArray[np.floating]

ROUND_VECTORS = "vectors"
"""What a checkpoint keeps of a round for the next one, and for a run that resumes, under this name."""


class Rounds(NamedTuple):
    """The parameters of `PSDVec` that concern the rounds of its core mode."""

    n_components: int
    n_iter: int
    smoothing: float
    weight_cutoff: CutoffRule
    core_ridge: float
    solver: Literal["krylov", "dense"]
    n_passes: int
    first_passes: int
    block_size: int | None
    random_state: int
    checkpoint: Checkpoint


class CoreProblem(NamedTuple):
    """The input of the rounds of core mode."""

    weights: da.Array
    target: da.Array
    """Ws and S, on the same support. Dask arrays (n, n) of csr_array row blocks, float32."""
    irreducible: da.Array
    """The weighted squared error that no symmetric matrix can fit. Dask array (1,)."""
    weighting: PairWeighting
    """How counts become weights."""


class Core(NamedTuple):
    """The core vectors, and how the rounds that computed them went."""

    vectors: da.Array
    """The core vectors. Dask array (n, d) float32."""
    objective: Floats
    """The weighted squared error after each round. Float64 array (n_iter,)."""
    eigenvalues: Floats
    """The eigenvalues of the last round, with negative ones as zero: the squared lengths of the columns of `vectors`.
    Float64 array (d,).
    """
    ranks: list[int]
    """The rank of each round."""
    weighting: PairWeighting
    """How counts became weights."""


def factorize(counts: da.Array, word_counts: Floats, row_totals: Floats, rounds: Rounds) -> Core:
    """Run the rounds of core mode: A_t from V_(t-1), its best positive semidefinite approximation, the objective.

    Parameters
    ----------
    counts : Dask array (n, n) of csr_array row blocks
        The counts of the core words.
    word_counts, row_totals : (n,) arrays
        The occurrences and the bigram totals of the core words over the whole vocabulary.
    rounds : Rounds
        The parameters.
    """
    planned = rounds_of(CoreOptions.of(rounds), counts.shape[0])
    ranks, passes = [one.rank for one in planned], [0, *(one.n_passes for one in planned)]
    sparse, problem = _core_problem(counts, word_counts, row_totals, rounds)
    objective: list[float] = []
    vectors: da.Array | None = None
    for number, one in enumerate(planned, start=1):
        keep = prefixed(rounds.checkpoint, f"core/round-{number}/")
        with counted_from("passes", sum(passes[:number]), sum(passes)):
            vectors = keep(ROUND_VECTORS, partial(_round, sparse, one, vectors, rounds, keep))
        if number == 1:
            # Not before: the first round's basis is the largest array of all, and does without them.
            problem = _keep_problem(problem, rounds.checkpoint)
        sparse = residual_of(problem, vectors)
        if number < len(ranks):
            sparse = keep("residual", partial(_given, sparse))
        objective.append(compute(keep("objective", partial(objective_of, problem, sparse)))[0])
        tell("passes", sum(passes[: number + 1]), sum(passes))
    assert vectors is not None
    values = compute(column_powers(vectors, 2))
    return Core(vectors, np.array(objective), values, ranks, problem.weighting)


def _core_problem(
    counts: da.Array, word_counts: Floats, row_totals: Floats, rounds: Rounds
) -> tuple[da.Array, CoreProblem]:
    """Return the sparse part of A_1 and the input of the rounds, all lazy."""
    pairs = _pairs_of_core(counts, row_totals, word_counts, rounds.checkpoint)
    weighting = core_weighting(counts, rounds.smoothing, rounds.weight_cutoff)
    problem = CoreProblem(
        symmetric_weights(pairs, weighting),
        symmetric_target(pairs, weighting),
        irreducible_error(pairs, weighting),
        weighting,
    )
    return first_sparse_part(pairs, weighting), problem


def core_weighting(counts: da.Array, smoothing: float, rule: CutoffRule) -> PairWeighting:
    """Return how the counts of core words, a Dask array (n, n) of csr_array row blocks, become weights."""
    off = map_blocks(_block_off_diagonal, counts, dtype=counts.dtype, meta=empty_csr(counts.dtype))
    cutoff = weight_cutoff(counts, rule, corner=corner_count(counts))
    return weighting_of(smoothing, cutoff, largest_count(off))


def _keep_problem(problem: CoreProblem, checkpoint: Checkpoint) -> CoreProblem:
    return problem._replace(
        weights=checkpoint("core/weights", partial(_given, problem.weights)),
        target=checkpoint("core/target", partial(_given, problem.target)),
        irreducible=checkpoint("core/irreducible", partial(_given, problem.irreducible)),
    )


def _round(
    sparse: da.Array, one: Round, before: da.Array | None, rounds: Rounds, keep: Checkpoint
) -> da.Array:
    """Return V = U sqrt(max(Λ, 0)) of the matrix of one round.

    In the first round its sparse part is not stored yet; in later rounds it is the residual stored before.
    """
    kept = keep("sparse", partial(_given, sparse)) if before is None else sparse
    constant = float(np.log(rounds.smoothing)) / 2 if before is None else 0.0
    matrix = SparsePlusLowRank(kept, factor=before, constant=constant)
    found = _eigenpairs(matrix, one, before, rounds, keep)
    # Beside the huge negative eigenvalue of the constant, a positive one this small is its rounding error.
    noise = np.finfo(np.float32).eps * abs(constant) * kept.shape[0]
    values = np.where(found.values > noise, found.values, 0)
    lengths = np.sqrt(values / (1 + rounds.core_ridge))
    return found.vectors * lengths.astype(np.float32)


def _eigenpairs(
    matrix: SparsePlusLowRank, one: Round, before: da.Array | None, rounds: Rounds, keep: Checkpoint
) -> Eigenpairs:
    if rounds.solver == "dense":
        return dense_eigenpairs(matrix, one.rank)
    # The constant vector is nearly the eigenvector of A_1's one huge negative eigenvalue: in the basis
    # from the start, it takes no precision from the others.
    ones = da.ones((sum(matrix.row_chunks), 1), chunks=(matrix.row_chunks, (1,)), dtype=np.float32)
    start = ones if before is None else da.concatenate([ones, before], axis=1).rechunk({1: -1})
    return largest_eigenpairs(
        matrix,
        one.rank,
        start=start,
        block_size=one.block_size,
        n_passes=one.n_passes,
        random_state=rounds.random_state,
        checkpoint=keep,
    )


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
    return problem.irreducible + summed(parts)


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


def _pairs_of_core(
    counts: da.Array, row_totals: Floats, word_counts: Floats, checkpoint: Checkpoint
) -> PairCounts:
    total = word_counts.sum()
    unigram = word_counts / total if total else word_counts
    backward = checkpoint("core/counts-transposed", lambda: transpose_row_blocks(counts))
    return PairCounts(counts, backward, row_totals, row_totals, unigram, unigram)


def slice_rows_and_columns(matrix: da.Array, rows: tuple[int, int], columns: tuple[int, int]) -> da.Array:
    """Return rows and columns of a sparse matrix of row blocks, lazily."""
    part = matrix[slice(*rows)]
    chunks = (part.chunks[0], (columns[1] - columns[0],))
    return map_blocks(
        column_range, part, bounds=columns, chunks=chunks, dtype=part.dtype, meta=empty_csr(part.dtype)
    )


def _given(array: da.Array) -> da.Array:
    """Return an array that has been built already, for a checkpoint that expects a function."""
    return array


def _block_off_diagonal(block: Any, block_info: Any = None) -> Any:
    return blocks.without_core_diagonal(block, first_row_of(block_info))


def _residual(target: Any, weights: Any, own: Floats, everyone: Floats) -> Any:
    return blocks.residual(target, weights, own, everyone)


def _weighted_squares(difference: Any, weights: Any) -> Floats:
    return blocks.weighted_squares(difference, weights)[None]
