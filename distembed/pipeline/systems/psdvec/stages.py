"""The stages of PSDVec, after those of the corpus: counts to vectors and scores.

The estimator and the evaluation are imported by the stages that use them: scikit-learn and scipy.stats take a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.costs import Cost, Exchange
from distembed.evaluation import words as evaluation
from distembed.evaluation.scoring import Policy
from distembed.evaluation.wordsets import find_word_sets
from distembed.execution import Checkpoint, persist
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import ROUND_VECTORS, slice_rows_and_columns
from distembed.factorization.psdvec_costs import (
    CoreOptions,
    CoreSizes,
    Kept,
    core_block_values,
    core_cost,
    core_memory,
    noncore_cost,
)
from distembed.factorization.psdvec_inputs import check_core_size
from distembed.factorization.subwords import with_spelling
from distembed.linalg.chunks import BLOCK_MEMORY, balanced_chunks
from distembed.linalg.eigen import BASIS, PRODUCT
from distembed.pipeline.context import Context, StageSpec, System, sections
from distembed.pipeline.corpus.sizes import PairSizes, pair_sizes
from distembed.pipeline.corpus.stages import (
    COOCCURRENCE,
    PARTIAL_COUNTS,
    TOKENS,
    VOCABULARY,
    counting_options,
    stored_pair_bytes,
    vocabulary_of,
)
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
    resources = ctx.job.resources
    memory = core_memory(CoreOptions.of(ctx.job.psdvec), n_core, n_pairs, resources.block_memory)
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


def core_sizes(job: PSDVecJob, sizes: PairSizes) -> CoreSizes:
    """Return how many words the core has, and how many pairs there are of them."""
    n_core = _core_size(job, sizes)
    return CoreSizes(n_core, sizes.n_nonzero, sizes.n_among(n_core), sizes.n_in_either_order(n_core))


def plan_core(job: PSDVecJob, sizes: PairSizes) -> Cost:
    """Return the plan of core mode: the passes over its counts, and which intermediate arrays stay in memory."""
    options, resources, core = CoreOptions.of(job.psdvec), job.resources, core_sizes(job, sizes)
    memory = core_memory(options, core.n_core, core.n_pairs, resources.block_memory)
    kept = memory.kept_in_process(resources.memory_limit, resources.n_workers)
    pair_bytes = stored_pair_bytes(counting_options(job))
    cost = core_cost(options, core, kept, block_memory=resources.block_memory, stored_pair_bytes=pair_bytes)
    return cost._replace(exact=sizes.exact)


def run_core(ctx: Context) -> dict[str, Any]:
    """Solve the core words jointly."""
    counts = ctx.workspace.array("cooccurrence")
    word_counts = vocabulary_of(ctx.workspace).counts
    row_totals = marginals(counts).rows
    n_core = psdvec_of(ctx).core_size(counts.shape[0])
    row_nonzeros = np.asarray(ctx.workspace.table("row_nonzeros")["n_nonzero"])
    kept = kept_in_memory(ctx, n_core, int(row_nonzeros.sum()))
    row_chunks = balanced_chunks(row_nonzeros[:n_core], core_block_values(ctx.job.resources.block_memory))
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


def plan_noncore(job: PSDVecJob, sizes: PairSizes) -> Cost:
    """Return the plan of the noncore words, solved by row block."""
    cost = noncore_cost(
        job.psdvec.n_components,
        job.psdvec.batch_words,
        core_sizes(job, sizes),
        sizes.corpus.n_words,
        n_blocks=sizes.runs.n_row_blocks,
        block_memory=job.resources.block_memory,
        stored_pair_bytes=stored_pair_bytes(counting_options(job)),
    )
    return cost._replace(exact=sizes.exact)


def plan_vectors(job: PSDVecJob, sizes: PairSizes) -> Cost:
    """Return the plan of all vectors: with the noncore words where they are solved here, and with their spelling."""
    solving, vectors = plan_noncore(job, sizes), 4 * sizes.corpus.n_words * job.psdvec.n_components
    table = table_bytes(job, sizes.corpus.n_words)
    written = vectors + (0 if solves_noncore_first(job) else solving.written_bytes // 2)
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


def plan_evaluation(job: PSDVecJob, sizes: PairSizes) -> Cost:
    """Return the plan of the scores."""
    n_words, n_threads = sizes.corpus.n_words, job.resources.n_workers
    table = table_bytes(job, n_words)
    vectors = 4 * n_words * job.psdvec.n_components
    cosines = min(BLOCK_MEMORY, 4 * n_words**2)
    # The vectors twice, as blocks beside the whole and then with their unit rows; the last are the items of the sets.
    needed = 2 * vectors + n_threads * cosines + BLOCK_MEMORY
    return Cost(1, vectors + table, 2**14, needed, table, exchange=Exchange())


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
