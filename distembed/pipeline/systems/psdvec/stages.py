"""The stages of PSDVec, after those of the corpus: counts to vectors and scores.

The estimator and the evaluation are imported by the stages that use them: scikit-learn and scipy.stats take a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.evaluation import words as evaluation
from distembed.evaluation.scoring import Policy
from distembed.evaluation.wordsets import find_word_sets
from distembed.execution import Checkpoint, persist
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import ROUND_VECTORS, slice_rows_and_columns
from distembed.factorization.psdvec_inputs import check_core_size
from distembed.factorization.subwords import with_spelling
from distembed.linalg.chunks import BLOCK_MEMORY, VALUES_PER_BLOCK, balanced_chunks
from distembed.linalg.eigen import BASIS, PRODUCT
from distembed.pipeline.context import Context, StageSpec, System, sections
from distembed.pipeline.corpus.sizes import PairSizes, pair_sizes
from distembed.pipeline.corpus.stages import (
    COOCCURRENCE,
    PAIR_BYTES,
    PARTIAL_COUNTS,
    TOKENS,
    VOCABULARY,
    count_blocks,
    counting_options,
    stored_pair_bytes,
    vocabulary_of,
)
from distembed.pipeline.plan import SCRATCH_FACTOR, WORKER_BYTES, Exchange, StagePlan
from distembed.pipeline.systems.psdvec.association import KEPT_PMI
from distembed.pipeline.systems.psdvec.config import PSDVecJob
from distembed.pipeline.systems.psdvec.subwords import (
    NONCORE,
    NONCORE_VECTORS,
    plan_subwords,
    run_subwords,
    solved_vectors,
    solves_noncore_first,
    subword_parameters,
    table_bytes,
)
from distembed.pipeline.words.stages import check_sets, judged_vectors, store_scores
from distembed.pipeline.words.subwords import SUBWORDS, WEIGHT, read_subwords
from distembed.weighting.pmi import marginals

STORED_VALUE_BYTES = 5.1
"""Bytes on disk of a value of a matrix on the pairs of both orders: four, and 1.1 of its place (of 114 M values)."""


# --- what the core keeps in memory ------------------------------------------------------------------------------


class Kept(StrEnum):
    """Which states of the core stay in memory: all but the vectors of a round, the bases and products, or none."""

    ALL = "all"
    BASES = "bases"
    NONE = "none"


class CoreMemory(NamedTuple):
    """Bytes of one task of the core, of the bases and products of the first and of the later rounds, and of all states.

    States stay in memory where there is room for them beside the tasks: on disk each block of a state costs some
    milliseconds, more than the work itself on twenty thousand words. The bases come first, since every pass reads all
    that are before it.
    """

    task_bytes: int
    basis_bytes: int
    later_basis_bytes: int
    state_bytes: int

    def kept_in_process(self, limit: int, n_threads: int) -> Kept:
        """Return which intermediate arrays fit the memory of one process of so many threads."""
        return self._kept(limit - WORKER_BYTES - n_threads * self.task_bytes)

    def kept_in_cluster(self, limits: Sequence[int]) -> Kept:
        """Return the same for worker processes of one thread; above half of its limit Dask would soon spill."""
        return self._kept(sum(max(0, limit // 2 - self.task_bytes) for limit in limits))

    def kept_bytes(self, kept: Kept) -> int:
        """Return the bytes of the intermediate arrays that are kept."""
        return {Kept.ALL: self.state_bytes, Kept.BASES: self.basis_bytes, Kept.NONE: 0}[kept]

    def _kept(self, room: int) -> Kept:
        if self.state_bytes <= room:
            return Kept.ALL
        return Kept.BASES if self.basis_bytes <= room else Kept.NONE


def core_memory(job: PSDVecJob, n_core: int, n_pairs: int) -> CoreMemory:
    """Return the memory that core mode of a job needs, from the number of counted pairs.

    The first round holds the counts, their transpose, one sparse matrix on the pairs of both orders, and its basis and
    products, the later ones the counts and three such matrices, with the transpose while those are made, and smaller
    bases.
    """
    options = job.psdvec
    rank = options.n_components + options.n_iter - 1
    largest_block = min(job.resources.block_memory // 8 * 2, 8 * n_pairs)
    task_bytes = int(SCRATCH_FACTOR * largest_block) + 3 * 4 * n_core * rank
    counts, both_orders, vectors = 8 * n_pairs, 2 * 8 * n_pairs, 4 * n_core * rank
    first_bases, later_bases = vectors * options.first_passes, 2 * vectors * (1 + options.n_passes)
    states = max(2 * counts + both_orders + first_bases, 2 * counts + 3 * both_orders + later_bases)
    return CoreMemory(task_bytes, first_bases, later_bases, states)


# --- counts -> vectors -----------------------------------------------------------------------------------------


NONCORE_OPTIONS = {"ridge", "bands", "background_weight", "uniform_weight", "batch_words"}


def core_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return the options of the factorization that its core depends on."""
    options = job.psdvec.options
    return {"psdvec": {name: options[name] for name in options if name not in NONCORE_OPTIONS}}


def psdvec_of(ctx: Context, checkpoint: Checkpoint = persist) -> PSDVec:
    """Return the estimator of a job."""
    return PSDVec(**ctx.job.psdvec.options, checkpoint=checkpoint)


def kept_in_memory(ctx: Context, n_core: int, n_pairs: int) -> Kept:
    """Return which intermediate arrays of core mode stay in the memory of the workers because there is room."""
    memory, resources = core_memory(ctx.job, n_core, n_pairs), ctx.job.resources
    if limits := ctx.workers.memory_limits():
        return memory.kept_in_cluster(list(limits.values()))
    return memory.kept_in_process(resources.memory_limit, resources.n_workers)


def storing(stored: Checkpoint, kept: Kept) -> Checkpoint:
    """Return a checkpoint that stores all intermediate arrays except those that are kept in memory.

    A run that is killed starts its round again, which takes less than storing every state does; what a killed worker
    held Dask computes again. The vectors of each round are always stored.
    """

    def keep(name: str, make: Callable[[], da.Array]) -> da.Array:
        state, _, number = name.rsplit("/", maxsplit=1)[-1].partition("-")
        is_basis = bool(number) and state in (BASIS, PRODUCT)
        in_memory = {Kept.ALL: state != ROUND_VECTORS, Kept.BASES: is_basis, Kept.NONE: False}[kept]
        return persist(name, make) if in_memory else stored(name, make)

    return keep


def _core_size(job: PSDVecJob, sizes: PairSizes) -> int:
    """Return the words of the core; refuse more than there are as soon as the vocabulary is counted.

    Raises
    ------
    ValueError
        If `n_core` or `n_components` is more than the words of a vocabulary that is done.
    """
    n_words = sizes.corpus.n_words
    if "vocabulary" in sizes.corpus.counted:
        return check_core_size(job.psdvec.n_core, job.psdvec.n_components, n_words)
    return min(job.psdvec.n_core or n_words, n_words)


def plan_core(job: PSDVecJob, sizes: PairSizes) -> StagePlan:
    """Return the plan of core mode: the passes over its counts, and which intermediate arrays stay in memory."""
    options, resources, n_core = job.psdvec, job.resources, _core_size(job, sizes)
    passes = options.first_passes + options.n_passes * (options.n_iter - 1)
    memory, stored = core_memory(job, n_core, sizes.n_nonzero), stored_states(job, sizes)
    kept = memory.kept_in_process(resources.memory_limit, resources.n_workers)
    return StagePlan(
        count_blocks(sizes.n_nonzero, resources.block_memory) * (2 * passes + 6 * options.n_iter),
        stored.counts + (0 if kept == Kept.ALL else (passes + 3 * options.n_iter) * stored.one_matrix),
        stored.written(kept),
        memory.task_bytes,
        memory.kept_bytes(kept),
        exact=sizes.exact,
        exchange=core_exchange(job, n_core, sizes.n_among(n_core)),
    )


def core_exchange(job: PSDVecJob, n_core: int, n_pairs: int) -> Exchange:
    """Return what workers send each other in core mode.

    Every pass needs a whole basis on each worker, and every residual the vectors of its round. The transposed counts
    and the row blocks' parts of small products are moved: those of a basis with the bases before it, twice, and with
    the products of all at the end of a round.
    """
    options, last = job.psdvec, job.psdvec.n_components
    ranks = [last + options.n_iter - number for number in range(1, options.n_iter + 1)]
    first = (-(-ranks[0] // 2), options.first_passes)
    krylov = [first, *((rank + 1, options.n_passes) for rank in ranks[:-1])]  # columns of a basis, and passes
    gathered = 4 * n_core * (sum(columns * passes for columns, passes in krylov) + sum(ranks[:-1]) + last)
    small = sum(8 * columns**2 * (passes * (passes + 1) + passes**2) for columns, passes in krylov)
    n_blocks = max(1, round(n_pairs / core_block_values(job)))
    return Exchange(n_blocks, gathered, PAIR_BYTES * n_pairs + n_blocks * small)


def core_block_values(job: PSDVecJob) -> int:
    """Return the values of a row block of the core's counts.

    The blocks of all counts are made for all rows and columns: in the core they would be many and small. Its own, like
    those, take at most an eighth of the block memory, at 8 bytes per value.
    """
    return min(VALUES_PER_BLOCK, job.resources.block_memory // 8 // 8)


class StoredStates(NamedTuple):
    """Bytes on disk of the counts of the core, of a matrix on the pairs of both orders, and of what is stored of each.

    `matrices` are the transposed counts and all matrices on the pairs of both orders, `bases` the bases and products of
    all rounds, and `vectors` those of each round and the result.
    """

    counts: int
    one_matrix: int
    matrices: int
    bases: int
    vectors: int

    def written(self, kept: Kept) -> int:
        """Return the bytes that are written where some states are kept in memory."""
        matrices = 0 if kept == Kept.ALL else self.matrices
        return self.vectors + matrices + (self.bases if kept == Kept.NONE else 0)


def stored_states(job: PSDVecJob, sizes: PairSizes) -> StoredStates:
    """Return the bytes on disk of what the core stores.

    The matrices are the sparse part of the first round, the weights, the target, and a residual after each round but
    the last.
    """
    options, n_core, memory = job.psdvec, _core_size(job, sizes), core_memory(job, _core_size(job, sizes), 0)
    counts = int(stored_pair_bytes(counting_options(job)) * sizes.n_among(n_core))
    one_matrix = int(STORED_VALUE_BYTES * sizes.n_in_either_order(n_core))
    per_rank, n_iter = 4 * n_core, options.n_iter
    ranks = n_iter * options.n_components + n_iter * (n_iter - 1) // 2
    later = (n_iter - 1) * memory.later_basis_bytes
    return StoredStates(
        counts,
        one_matrix,
        counts + (3 + n_iter - 1) * one_matrix,
        memory.basis_bytes + later,
        per_rank * (ranks + options.n_components),
    )


def run_core(ctx: Context) -> dict[str, Any]:
    """Solve the core words jointly."""
    counts = ctx.workspace.array("cooccurrence")
    word_counts = vocabulary_of(ctx.workspace).counts
    row_totals = marginals(counts).rows
    n_core = psdvec_of(ctx).core_size(counts.shape[0])
    row_nonzeros = np.asarray(ctx.workspace.table("row_nonzeros")["n_nonzero"])
    kept = kept_in_memory(ctx, n_core, int(row_nonzeros.sum()))
    row_chunks = balanced_chunks(row_nonzeros[:n_core], core_block_values(ctx.job))
    core_counts = slice_rows_and_columns(counts, (0, n_core), (0, n_core)).rechunk({0: row_chunks})
    if kept == Kept.ALL:
        core_counts = core_counts.persist()
    model = psdvec_of(ctx, storing(ctx.stage.checkpoint, kept))
    model.fit_core(core_counts, word_counts[:n_core], row_totals[:n_core])
    ctx.stage.store(
        "core_vectors",
        da.asarray(model.core_vectors_),
        dims=("word", "component"),
        units="",
        meaning="Vectors of the core words; their products approximate smoothed PMI.",
        progress=ctx.progress("core vectors"),
    )
    ctx.stage.store_table("row_totals", pa.table({"n_pairs": row_totals}))
    ctx.stage.store_table("eigenvalues", pa.table({"eigenvalue": model.eigenvalues_}))
    ctx.stage.store_table("objective", pa.table({"weighted_squared_error": model.objective_}))
    return {"n_core": n_core, "weight_cutoff": str(model.weight_cutoff_)}


def plan_noncore(job: PSDVecJob, sizes: PairSizes) -> StagePlan:
    """Return the plan of the noncore words, solved by row block."""
    block, pair_bytes, k = job.resources.block_memory, PAIR_BYTES * sizes.n_nonzero, job.psdvec.n_components
    largest_block, n_blocks = min(block // 8 * 2, pair_bytes), sizes.runs.n_row_blocks
    n_core = _core_size(job, sizes)
    halves = (
        PAIR_BYTES * (sizes.n_nonzero - sizes.n_among(n_core)) // 2
    )  # counts of noncore words, in either order
    return StagePlan(
        n_blocks,
        2 * int(stored_pair_bytes(counting_options(job)) * sizes.n_nonzero),
        2 * noncore_bytes(job, sizes),
        int(SCRATCH_FACTOR * largest_block) + 2 * 4 * n_core * k,
        exact=sizes.exact,
        exchange=Exchange(n_blocks, 4 * n_core * k if halves else 0, halves),
    )


def noncore_bytes(job: PSDVecJob, sizes: PairSizes) -> int:
    """Return the bytes of the vectors of the noncore words, which are kept as they are solved, and stored after."""
    return 4 * (sizes.corpus.n_words - _core_size(job, sizes)) * job.psdvec.n_components


def plan_vectors(job: PSDVecJob, sizes: PairSizes) -> StagePlan:
    """Return the plan of all vectors: with the noncore words where they are solved here, and with their spelling."""
    solving, vectors = plan_noncore(job, sizes), 4 * sizes.corpus.n_words * job.psdvec.n_components
    table = table_bytes(job, sizes.corpus.n_words)
    written = vectors + (0 if solves_noncore_first(job) else noncore_bytes(job, sizes))
    return solving._replace(written_bytes=written, shared_bytes=table + vectors if table else 0)


def vectors_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the vectors, the weight of their spelling only where it is learned."""
    spelling = {WEIGHT: job.subwords.weight} if job.subwords.enabled else {}
    return {"psdvec": job.psdvec.options, **spelling}


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Put the vectors of all words together, and add the directions of their spelling."""
    if solves_noncore_first(ctx.job):
        vectors, facts = solved_vectors(ctx), ctx.workspace.stages()[NONCORE].facts
        facts = {name: facts[name] for name in ("n_noncore", *LEARNED) if name in facts}
    else:
        noncore, facts = _solve_noncore(ctx)
        core = ctx.workspace.array("core_vectors")
        vectors = core if noncore is None else da.concatenate([core, noncore])
    if ctx.job.subwords.enabled and ctx.job.subwords.weight:
        vectors = _with_spelling(ctx, vectors)
    ctx.stage.store(
        "vectors",
        vectors,
        dims=("word", "component"),
        units="",
        meaning="Word vectors; row i is word i of vocabulary.parquet.",
        progress=ctx.progress("vectors"),
    )
    return facts


LEARNED = ("noncore_cutoff", "noncore_scale", "total_count")
"""What the estimator learns with the noncore words for words that come later, as strings."""


def run_noncore(ctx: Context) -> dict[str, Any]:
    """Solve the noncore words against the core, and store them where there are any."""
    noncore, facts = _solve_noncore(ctx)
    if noncore is not None:
        ctx.stage.store(
            NONCORE_VECTORS,
            noncore,
            dims=("word", "component"),
            units="",
            meaning="Vectors of the noncore words; row i is the i-th word after those of the core.",
            progress=ctx.progress("noncore vectors"),
        )
    return facts


def _solve_noncore(ctx: Context) -> tuple[da.Array | None, dict[str, Any]]:
    """Return the vectors of the noncore words, None where there are none, and what the estimator learned of them."""
    core, counts = ctx.workspace.array("core_vectors"), ctx.workspace.array("cooccurrence")
    n_core, n_words = len(core), len(counts)
    if n_core == n_words:
        return None, {"n_noncore": 0}
    word_counts = vocabulary_of(ctx.workspace).counts
    row_totals = np.asarray(ctx.workspace.table("row_totals")["n_pairs"])
    model = psdvec_of(ctx, ctx.stage.checkpoint).set_core(core, word_counts[:n_core], row_totals[:n_core])
    noncore = model.fit_noncore(
        slice_rows_and_columns(counts, (n_core, n_words), (0, n_core)),
        slice_rows_and_columns(counts, (0, n_core), (n_core, n_words)),
        word_counts[n_core:],
        row_totals[n_core:],
    )
    learned = {name: str(getattr(model, f"{name}_")) for name in LEARNED}
    return noncore, {"n_noncore": n_words - n_core, **learned}


def _with_spelling(ctx: Context, vectors: da.Array) -> da.Array:
    """Return vectors with the directions that their n-grams give them added."""
    table = read_subwords(ctx.workspace)
    composed = table.compose(vocabulary_of(ctx.workspace).words)
    return with_spelling(vectors, composed, table.mean, weight=ctx.job.subwords.weight)


# --- vectors -> numbers ----------------------------------------------------------------------------------------


SCORES = "evaluation.json"


def plan_evaluation(job: PSDVecJob, sizes: PairSizes) -> StagePlan:
    """Return the plan of the scores."""
    n_words, n_threads = sizes.corpus.n_words, job.resources.n_workers
    table = table_bytes(job, n_words)
    vectors = 4 * n_words * job.psdvec.n_components
    cosines = min(BLOCK_MEMORY, 4 * n_words**2)
    # The vectors twice, as blocks beside the whole and then with their unit rows; the last are the items of the sets.
    needed = 2 * vectors + n_threads * cosines + BLOCK_MEMORY
    return StagePlan(1, vectors + table, 2**14, needed, table, exchange=Exchange())


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Score the vectors on every evaluation set."""
    scores = []
    if ctx.job.evaluation.sets:
        section = ctx.job.evaluation
        vectors, sets = judged_vectors(ctx.job, ctx.workspace), find_word_sets(section.sets)
        policy = Policy(section.case, section.unknown)
        scores = evaluation.score_known(vectors, sets, policy)
        if advice := evaluation.case_advice(vectors.words, sets, policy):
            ctx.reporter.note(f"evaluation: {advice}")
    store_scores(ctx, SCORES, scores)
    return {"n_sets": len(scores)}


def stages(job: PSDVecJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job."""
    solved = ("core", NONCORE) if solves_noncore_first(job) else ("core",)
    noncore = StageSpec(NONCORE, ("core",), sections("psdvec"), run_noncore, plan_noncore)
    map_of_ngrams = StageSpec(
        SUBWORDS, (*solved, "vocabulary"), subword_parameters, run_subwords, plan_subwords
    )
    made_of = (*solved, SUBWORDS) if job.subwords.enabled else solved
    return (
        TOKENS,
        VOCABULARY,
        PARTIAL_COUNTS,
        COOCCURRENCE,
        *([KEPT_PMI] if job.psdvec.keep_pmi else []),
        StageSpec("core", ("cooccurrence", "vocabulary"), core_parameters, run_core, plan_core),
        *((noncore,) if NONCORE in solved else ()),
        *((map_of_ngrams,) if job.subwords.enabled else ()),
        StageSpec("vectors", made_of, vectors_parameters, run_vectors, plan_vectors),
        StageSpec(
            "evaluation", ("vectors",), sections("evaluation"), run_evaluation, plan_evaluation, check_sets
        ),
    )


SYSTEM = System(
    PSDVecJob,
    stages,
    pair_sizes,
    "distembed.pipeline.systems.psdvec.report",
    inference="distembed.pipeline.systems.psdvec.inference",
    explanation="distembed.pipeline.systems.psdvec.explanation",
)
