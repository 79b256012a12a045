"""The stages of PSDVec, after those of the corpus: counts to vectors and scores.

The estimator and the evaluation are imported by the stages that use them: scikit-learn and scipy.stats take a second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.display import plural
from distembed.evaluation import words as evaluation
from distembed.evaluation.scoring import Policy
from distembed.evaluation.wordsets import SET_COPIES, SETS_BYTES, find_sets
from distembed.execution import compute, one_blas_thread
from distembed.factorization.blocks import PairWeighting, solve_new_words
from distembed.factorization.joined_vectors import principal_axes, view_mean
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import check_core_size, objective_of, solve_core
from distembed.factorization.psdvec_words import MOST_WORDS, solve_words
from distembed.factorization.subword_blocks import COLUMNS_TOGETHER, solve_ridge
from distembed.factorization.subwords import NAME_BYTES, NGRAM_BYTES, SubwordMap, expected_ngrams
from distembed.job import stage
from distembed.job.inputs import stamps_at
from distembed.job.model import JobError
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, Counted, StageSpec, System, sections
from distembed.lift import lift
from distembed.linalg.blocks import centered_gram, split_columns, without_directions
from distembed.linalg.singular import check_rank
from distembed.plan import Dimension, Dimensions, StagePlan, stage_plan, task
from distembed.stages import outputs as corpus_outputs
from distembed.stages.core import blocks_of_rows, core_counts, core_dimensions, plan_of_core
from distembed.stages.corpus import COOCCURRENCE, DOCUMENTS, TOKENS, VOCABULARY, vocabulary_of
from distembed.stages.corpus_sections import counting_options
from distembed.stages.dimensions import (
    BLOCK_PAIR_BYTES,
    PAIR_BYTES,
    corpus_dimensions,
    described,
    pair_dimension,
)
from distembed.stages.kept_matrices import KeptRows, kept_stages, metric_of_words
from distembed.stages.words import check_figures_of_scores, set_lines, store_scores
from distembed.states import BLOCK_MEMORY, keep
from distembed.systems.psdvec import outputs
from distembed.systems.psdvec.job import METHOD, PRESETS, PSDVecJob
from distembed.systems.psdvec.sides import JOINED, sides_stages, solved_vectors
from distembed.vectors import WordVectors
from distembed.vectors.subwords import add_spelling
from distembed.weighting.blocks import excess_of_block
from distembed.weighting.pmi import marginals, smoothed_pmi


def plan_pmi(job: PSDVecJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of the matrix; the counts of the words give the sums of its columns."""
    block = dims.block("pair", itemsize=PAIR_BYTES)
    return stage_plan(
        task(excess_of_block, block, dims.whole("word", 2, itemsize=8), output=block),
        stored=dims.whole("pair", itemsize=PAIR_BYTES),
        n_tasks=dims.n_blocks("pair"),
    )


def run_pmi(ctx: Context) -> dict[str, Any]:
    """Store the smoothed PMI of all pairs with a count, less that of pairs without one, which is the constant."""
    counts = corpus_outputs.COOCCURRENCE.read(ctx.workspace)
    found = smoothed_pmi(counts, vocabulary_of(ctx.workspace).counts, smoothing=ctx.job.psdvec.smoothing)
    dims = ctx.workspace.describe("cooccurrence").spec.dims
    ctx.store(replace(outputs.PMI, dims=dims), found.excess, constant=found.constant)
    return {}


KEPT_PMI = StageSpec(
    outputs.PMI.name,
    ("cooccurrence", "vocabulary"),
    lambda job: {"smoothing": job.psdvec.smoothing},
    run_pmi,
    plan_pmi,
)


# --- counts -> vectors -----------------------------------------------------------------------------------------


NONCORE = "noncore"
"""The stage that solves the words beyond the core, one by one."""
NONCORE_OPTIONS = {"ridge", "bands", "uniform_weight"}


def core_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return the options of the factorization that its core depends on; a given core takes all words, with a ridge."""
    options = job.psdvec.options
    if job.psdvec.core_vectors is not None:
        return {"psdvec": options, "core_vectors": job.psdvec.core_vectors}
    return {"psdvec": {name: options[name] for name in options if name not in NONCORE_OPTIONS}}


def plan_core(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of core mode, or of the vectors of all words beside those that a job names."""
    # As they are read, sorted, completed and in blocks.
    known = dims.whole(4, "word", job.psdvec.n_components) if job.psdvec.core_vectors else 0
    return plan_of_core(job.psdvec, dims, beside=known)


def run_core(ctx: Context) -> dict[str, Any]:
    """Solve the core words jointly; or take the vectors that the job names, and solve all other words against them."""
    counts, vocabulary = corpus_outputs.COOCCURRENCE.read(ctx.workspace), vocabulary_of(ctx.workspace)
    word_counts, row_totals = vocabulary.counts.astype(float), marginals(counts).rows
    model, n_words = PSDVec(**ctx.job.psdvec.options), len(counts)
    n_core = check_core_size(model.n_core, model.n_components, n_words)
    of_core = core_counts(ctx, counts, n_core), word_counts[:n_core], row_totals[:n_core]
    ctx.store_table(outputs.ROW_TOTALS, pa.table({"n_pairs": row_totals}))
    if ctx.job.psdvec.core_vectors is None:
        with one_blas_thread():
            vectors, objective, weighting = solve_core(*of_core, model)
    else:
        given = _given_vectors(ctx.job)
        rows = given.index(vocabulary.words)
        known, new = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        if not len(known):
            raise JobError(
                f"the vectors in {ctx.job.psdvec.core_vectors} have none of the words of the core: are they of one "
                "language, and written in one case?"
            )
        ctx.reporter.note(f"core: {plural(len(known), 'word')} known, {plural(len(new), 'word')} new")
        found = np.zeros((n_words, given.vectors.shape[1]), np.float32)
        found[known] = given.vectors[rows[known]]
        of_new = None
        if len(new):
            core = da.from_array(found[known])
            solved, of_new = solve_words(counts, word_counts, row_totals, new, known, core, model)
            found[new] = compute(solved)
        vectors = da.from_array(found, chunks=("auto", -1))
        error, of_known = objective_of(*of_core, vectors[:n_core], model)
        objective, weighting = np.array([error]), of_new or of_known
    ctx.store(outputs.CORE_VECTORS, vectors)
    ctx.store_table(outputs.OBJECTIVE, pa.table({"weighted_squared_error": objective}))
    return {"n_core": len(vectors), **_facts_of(weighting)}


def _facts_of(weighting: PairWeighting) -> dict[str, str]:
    """Return how later words are weighed, as facts of a stage; JSON has no infinity."""
    return {"weight_cutoff": str(weighting.cutoff), "weight_scale": str(weighting.scale)}


def _given_vectors(job: PSDVecJob, *, max_words: int | None = None) -> WordVectors:
    """Return the finished vectors of core words that a job names.

    Raises
    ------
    JobError
        If they have another number of components than the job asks for.
    """
    path = job.psdvec.core_vectors
    assert path is not None
    found = stage.vectors_at(path, max_words=max_words)
    width = found.vectors.shape[1]
    if width != job.psdvec.n_components:
        raise JobError(
            f"the vectors in {path} have {width} components and psdvec.n_components is {job.psdvec.n_components}: give "
            f"psdvec.n_components = {width}, or leave psdvec.core_vectors out"
        )
    return found


def check_given_vectors(job: PSDVecJob) -> list[str]:
    """Open the finished vectors of core words, where a job names some, and return how long they are."""
    if job.psdvec.core_vectors is None:
        return []
    width = _given_vectors(job, max_words=1).vectors.shape[1]
    return [f"core: finished vectors of {width} dimensions"]


def plan_noncore(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the noncore words: a task solves a batch, and all share the core, and the counts in pieces."""
    k, pairs = job.psdvec.n_components, dims.block("noncore_pair", itemsize=PAIR_BYTES)
    read = dims.block("pair", itemsize=PAIR_BYTES)
    return stage_plan(
        task(solve_new_words, pairs, pairs, output=dims.block("noncore", k)),
        task(split_columns, read, output=read),
        whole=[dims.whole(2, "core", k), dims.whole("noncore_pair", itemsize=PAIR_BYTES)],
        stored=dims.whole("noncore", k),
        n_tasks=dims.n_blocks("noncore"),
    )


def run_noncore(ctx: Context) -> dict[str, Any]:
    """Solve the words beyond the core against it, and store their vectors where there are any."""
    core, counts = (
        output.read(ctx.workspace) for output in (outputs.CORE_VECTORS, corpus_outputs.COOCCURRENCE)
    )
    n_core, n_words = len(core), len(counts)
    if n_core == n_words:
        return {"n_noncore": 0}
    words = (
        vocabulary_of(ctx.workspace).counts.astype(float),
        np.asarray(outputs.ROW_TOTALS.read(ctx.workspace)["n_pairs"]),
    )
    new, model = slice(n_core, n_words), PSDVec(**ctx.job.psdvec.options)
    vectors, weighting = solve_words(counts, *words, new, slice(n_core), core, model)
    ctx.store(outputs.NONCORE_VECTORS, vectors)
    return {"n_noncore": n_words - n_core, **_facts_of(weighting)}


# --- vectors of n-grams, and the last steps -------------------------------------------------------------------


NOT_OF_THE_MAP = {"enabled", "weight"}
"""The keys of the section that `SubwordMap` does not take."""


def unspelled_vectors(ctx: Context) -> da.Array:
    """Return the vectors of all words, lazily, before their spelling is added: joined where the job has sides."""
    if ctx.job.sides is not None:
        return outputs.JOINED_VECTORS.read(ctx.workspace)
    return solved_vectors(ctx.workspace)


def table_bytes(job: PSDVecJob, dims: Dimensions) -> list[int]:
    """Return the bytes of the vectors of n-grams in memory and of their names, where subwords are learned."""
    if not job.subwords.enabled:
        return []
    return [dims.whole("ngram", job.n_dimensions), dims.whole("ngram", itemsize=NAME_BYTES)]


def subword_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the stage."""
    own = {} if job.sides is None else {"regularization": job.sides.regularization}
    return {stage.SUBWORDS: job.subwords.model_dump(mode="json", exclude=NOT_OF_THE_MAP), **own}


def plan_subwords(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the subword map: a task solves a few columns, and all share the n-grams of the words."""
    columns = min(COLUMNS_TOGETHER, job.n_dimensions)
    return stage_plan(
        task(solve_ridge, dims.whole("word", columns), output=dims.whole("ngram", columns)),
        whole=[
            dims.whole("ngram_of_word", itemsize=NGRAM_BYTES),
            dims.whole("ngram", itemsize=NAME_BYTES),
            dims.whole(2, "word", job.n_dimensions),
        ],
        stored=dims.whole("ngram", job.n_dimensions),
        n_tasks=len(range(0, job.n_dimensions, columns)),
    )


def run_subwords(ctx: Context) -> dict[str, Any]:
    """Learn the vectors of n-grams from those of all words; components of sides have a regularization of their own."""
    job: PSDVecJob = ctx.job
    options = job.subwords.model_dump(exclude=NOT_OF_THE_MAP)
    if job.sides is not None:
        own = [job.subwords.regularization] * job.psdvec.n_components
        options["regularization"] = own + [job.sides.regularization] * job.sides.n_components
    model = SubwordMap(**options).fit(list(vocabulary_of(ctx.workspace).words), unspelled_vectors(ctx))
    ctx.store(stage.SUBWORD_VECTORS, da.asarray(model.vectors_).T)
    ctx.store(stage.SUBWORD_MEAN, da.from_array(model.mean_, chunks=-1))
    ngrams = {"ngram": pa.array(model.ngrams_, pa.string()), "n_words": model.n_words_}
    ctx.store_table(stage.NGRAMS, pa.table(ngrams))
    return {"n_ngrams": len(model.n_words_), "residual": float(model.residuals_.max())}


def plan_vectors(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the finished vectors, with their spelling."""
    width = job.n_dimensions
    rows, vectors = dims.block("row", width), dims.whole("row", width)
    moments = dims.whole(2, width, width, itemsize=8) if job.psdvec.components_removed else 0
    return stage_plan(
        task(add_spelling, rows, rows, output=rows),
        task(centered_gram, rows, output=moments) if moments else 0,
        whole=[moments, *([*table_bytes(job, dims), vectors] if job.subwords.enabled else [])],
        stored=vectors,
        n_tasks=dims.n_blocks("row"),
    )


def vectors_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the vectors beside what they are made of."""
    spelling = {stage.WEIGHT: job.subwords.weight} if job.subwords.enabled else {}
    return {**spelling, "components_removed": job.psdvec.components_removed}


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Store the vectors of all words with the directions of their spelling, less their first components."""
    vectors = unspelled_vectors(ctx)
    if ctx.job.subwords.enabled and ctx.job.subwords.weight:
        table, words = stage.read_subwords(ctx.workspace), vocabulary_of(ctx.workspace).words
        # A graph would take all of them to a cluster.
        composed = keep("spelling", lambda: da.from_array(table.compose(words), chunks=vectors.chunks))
        options = {"center": table.mean, "weight": ctx.job.subwords.weight}
        vectors = lift(add_spelling, "wc,wc->wc", vectors, composed, **options)
    if n_removed := ctx.job.psdvec.components_removed:
        mean = compute(view_mean(vectors))
        axes = principal_axes(vectors, n_removed, mean)
        ctx.store(stage.REMOVED_MEAN, da.from_array(mean, chunks=-1))
        ctx.store(stage.REMOVED_AXES, da.from_array(axes, chunks=-1))
        vectors = lift(without_directions, "wc,c,ck->wc", vectors, mean, axes)
    ctx.store(outputs.VECTORS, vectors)
    return {}


# --- vectors -> numbers ----------------------------------------------------------------------------------------


def plan_evaluation(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the scores: the vectors are held twice, as blocks beside the whole and then of unit length."""
    files = sum(
        int(stamp[0]) for path in job.evaluation.sets for stamp in stamps_at(path, read=False).values()
    )
    cosines = min(BLOCK_MEMORY, dims.whole("word", min(dims.size("word"), files)))
    return stage_plan(
        cosines,
        whole=[
            dims.whole(2, "word", job.n_dimensions),
            *table_bytes(job, dims),
            *(dims.whole(files, itemsize=SET_COPIES), SETS_BYTES),
        ],
        n_tasks=job.resources.n_workers,
    )


def check_evaluation(job: PSDVecJob) -> list[str]:
    """Read the evaluation sets of a job, and return how many there are and which files were passed over."""
    found = find_sets(job.evaluation.sets)
    check_figures_of_scores(job, [METHOD], found.sets)
    return set_lines(found) if job.evaluation.sets else []


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Score the vectors on every evaluation set."""
    scores = []
    if ctx.job.evaluation.sets:
        section = ctx.job.evaluation
        vectors, sets = stage.read_vectors(ctx.workspace), find_sets(section.sets).sets
        policy = Policy(section.case, section.unknown)
        scores = evaluation.evaluate_sets(vectors, sets, policy, needs_known=True)
        if advice := evaluation.case_advice(vectors, sets, policy):
            ctx.reporter.note(f"evaluation: {advice}")
    store_scores(ctx, corpus_outputs.EVALUATION, scores)
    return {"n_sets": len(scores)}


KEPT_DISTANCES = KeptRows(
    outputs.VECTORS, "vectors", "two words", metric_of_words, "word", lambda job, _: job.n_dimensions
)


def stages(job: PSDVecJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job."""

    def options(job: PSDVecJob) -> dict[str, Any]:
        return {"psdvec": job.psdvec.options}

    solved = ("core", NONCORE) if job.psdvec.has_noncore else ("core",)
    unspelled = (JOINED,) if job.sides else solved
    finished = (*unspelled, stage.SUBWORDS) if job.subwords.enabled else unspelled
    of_counts, with_words = ("cooccurrence", "vocabulary"), (*unspelled, "vocabulary")
    core = StageSpec("core", of_counts, core_parameters, run_core, plan_core, check_given_vectors)
    noncore = StageSpec(NONCORE, ("core",), options, run_noncore, plan_noncore)
    ngrams = StageSpec(stage.SUBWORDS, with_words, subword_parameters, run_subwords, plan_subwords)
    vectors = StageSpec("vectors", finished, vectors_parameters, run_vectors, plan_vectors)
    found: tuple[StageSpec, ...] = (
        TOKENS,
        VOCABULARY,
        DOCUMENTS,
        COOCCURRENCE,
        *kept_stages(job, KEPT_PMI),
        core,
    )
    found += (noncore,) if job.psdvec.has_noncore else ()
    found += sides_stages(solved) if job.sides else ()
    found += (ngrams,) if job.subwords.enabled else ()
    scores = StageSpec(
        "evaluation", ("vectors",), sections("evaluation"), run_evaluation, plan_evaluation, check_evaluation
    )
    return (*found, vectors, *kept_stages(job, KEPT_DISTANCES.stage_spec), scores)


def psdvec_dimensions(job: PSDVecJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, its pairs, and those of its sides."""
    corpus, block_memory = corpus_dimensions(job, counted), job.resources.block_memory
    word, pair = corpus.dimensions["word"], pair_dimension(corpus, counting_options(job), counted)
    dimensions = (
        corpus.dimensions | {"pair": pair} | core_dimensions(job.psdvec, word, pair, block_memory, counted)
    )
    # A word that occurs c times has, in each order, at most c times as many pairs with core words as the window has
    # places, or one with each core word. The first batch has the most frequent words, of one block of the counts.
    n_core, options = dimensions["core"].size, counting_options(job)
    places = options.window * (2 if options.direction == "symmetric" else 1)
    most, n_noncore = np.minimum(places * corpus.counts[n_core:], n_core), word.size - n_core
    n_pairs = min(pair.size, round(float(2 * most.sum())))
    of_batch = min(n_pairs, round(float(most[:MOST_WORDS].sum())), pair.block)
    dimensions |= {
        "noncore": Dimension(n_noncore, min(n_noncore, MOST_WORDS), word.counted),
        "noncore_pair": Dimension(n_pairs, of_batch, pair.counted),
    }
    if job.sides is not None:
        if word.counted:
            check_rank(job.sides.n_components, word.size, 2 * word.size)
        found = pair_dimension(corpus, job.sides.counting_options(), counted, "sides_counts")
        rows = blocks_of_rows(word.size, found.size, block_memory // BLOCK_PAIR_BYTES, found.counted)
        dimensions |= {  # of the words on the left and on the right
            "side_pair": Dimension(2 * found.size, 2 * found.block, found.counted),
            "side_row": rows,
            "side_context": Dimension(2 * rows.size, 2 * rows.block, rows.counted),
        }
    most_rows = max(dimensions["core"].block, dimensions["noncore"].block)
    n_found, n_kept = expected_ngrams(job.subwords.min_n, job.subwords.max_n, word.size)
    return described(
        dimensions
        | {
            "row": Dimension(word.size, most_rows, word.counted),
            "ngram": Dimension(n_kept, n_kept, counted=False),
            "ngram_of_word": Dimension(n_found, 1, counted=False),
        }
    )


SYSTEM = System(
    PSDVecJob,
    stages,
    psdvec_dimensions,
    "distembed.systems.psdvec.views",
    inference="distembed.systems.psdvec.inference",
    explanation="distembed.systems.psdvec.views",
    outputs=(
        *corpus_outputs.OF_TOKENS,
        *corpus_outputs.OF_COUNTS,
        *declared_in(outputs),
        stage.REMOVED_MEAN,
        stage.REMOVED_AXES,
        stage.SUBWORD_VECTORS,
        stage.SUBWORD_MEAN,
        stage.NGRAMS,
        corpus_outputs.EVALUATION,
        KEPT_DISTANCES.output,
    ),
    presets=PRESETS,
    report_bytes=lambda job, dims: dims.whole(2, "word", job.n_dimensions),  # as read, and of unit length
)
