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
from distembed.dtypes import Float32s
from distembed.evaluation import words as evaluation
from distembed.evaluation.scoring import Policy
from distembed.evaluation.wordsets import SET_COPIES, SETS_BYTES, find_sets
from distembed.execution import compute
from distembed.factorization.blocks import solve_new_words
from distembed.factorization.joined_vectors import first_directions
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import Learned, Words, check_core_size, objective_of, solve_noncore
from distembed.factorization.subword_blocks import COLUMNS_TOGETHER, solve_ridge
from distembed.factorization.subwords import (
    NAME_BYTES,
    NGRAM_BYTES,
    SubwordMap,
    expected_ngrams,
)
from distembed.job.inputs import sizes_at
from distembed.job.model import JobError
from distembed.job.outputs import declared_in
from distembed.job.stage import (
    NGRAMS,
    REMOVED_AXES,
    REMOVED_MEAN,
    SUBWORD_MEAN,
    SUBWORD_VECTORS,
    SUBWORDS,
    WEIGHT,
    Context,
    Counted,
    StageSpec,
    System,
    read_subwords,
    read_vectors,
    vectors_at,
)
from distembed.lift import lift
from distembed.linalg.blocks import centered_gram, split_columns, without_directions
from distembed.linalg.operators import column_powers
from distembed.linalg.singular import check_rank
from distembed.plan import Dimension, Dimensions, StagePlan, stage_plan, task
from distembed.stages import outputs as corpus_outputs
from distembed.stages.core import blocks_of_rows, core_counts, core_dimensions, plan_of_core
from distembed.stages.corpus import (
    COOCCURRENCE,
    DOCUMENTS,
    TOKENS,
    VOCABULARY,
    vocabulary_of,
)
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
from distembed.systems.psdvec.sides import JOINED, n_dimensions, sides_stages, solved_vectors
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


NOT_OF_THE_MAP = {"enabled", "weight"}
"""The keys of the section that `SubwordMap` does not take."""

NONCORE = "noncore"
"""The stage that solves the noncore words of a job before it learns n-grams from them."""


def solves_noncore_first(job: PSDVecJob) -> bool:
    """Return whether noncore words have a stage of their own, since sides and the map of n-grams need them, too."""
    return job.psdvec.n_core is not None and (job.subwords.enabled or job.sides is not None)


def unspelled_vectors(ctx: Context) -> da.Array:
    """Return the vectors of all words, lazily, before their spelling is added: joined where the job has sides."""
    if ctx.job.sides is not None:
        return outputs.JOINED_VECTORS.read(ctx.workspace)
    return solved_vectors(ctx.workspace)


def table_bytes(job: PSDVecJob, dims: Dimensions) -> list[int]:
    """Return the bytes of the vectors of n-grams in memory and of their names, where subwords are learned."""
    if not job.subwords.enabled:
        return []
    return [dims.whole("ngram", n_dimensions(job)), dims.whole("ngram", itemsize=NAME_BYTES)]


def subword_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the stage."""
    own = {} if job.sides is None else {"regularization": job.sides.regularization}
    return {SUBWORDS: job.subwords.model_dump(mode="json", exclude=NOT_OF_THE_MAP), **own}


def plan_subwords(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the subword map: a task solves a few columns, and all share the n-grams of the words."""
    width = n_dimensions(job)
    columns = min(COLUMNS_TOGETHER, width)
    return stage_plan(
        task(solve_ridge, dims.whole("word", columns), output=dims.whole("ngram", columns)),
        whole=[
            dims.whole("ngram_of_word", itemsize=NGRAM_BYTES),
            dims.whole("ngram", itemsize=NAME_BYTES),
            dims.whole(2, "word", width),
        ],
        stored=dims.whole("ngram", width),
        n_tasks=len(range(0, width, columns)),
    )


def run_subwords(ctx: Context) -> dict[str, Any]:
    """Learn the vectors of n-grams from those of all words."""
    vocabulary = vocabulary_of(ctx.workspace)
    options = ctx.job.subwords.model_dump(exclude=NOT_OF_THE_MAP)
    if (sides := ctx.job.sides) is not None:  # whose components have a regularization of their own
        both = (
            (options["regularization"], ctx.job.psdvec.n_components),
            (sides.regularization, sides.n_components),
        )
        options["regularization"] = [value for value, n in both for _ in range(n)]
    model = SubwordMap(**options).fit(list(vocabulary.words), unspelled_vectors(ctx))
    ctx.store(SUBWORD_VECTORS, da.asarray(model.vectors_).T)
    ctx.store(SUBWORD_MEAN, da.from_array(model.mean_, chunks=-1))
    ngrams = {"ngram": pa.array(model.ngrams_, pa.string()), "n_words": model.n_words_}
    ctx.store_table(NGRAMS, pa.table(ngrams))
    return {"n_ngrams": len(model.n_words_), "residual": float(model.residuals_.max())}


# --- counts -> vectors -----------------------------------------------------------------------------------------


NONCORE_OPTIONS = {"ridge", "bands", "uniform_weight", "batch_words"}


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
    counts = corpus_outputs.COOCCURRENCE.read(ctx.workspace)
    words = Words(vocabulary_of(ctx.workspace).counts.astype(float), marginals(counts).rows)
    model, n_words = PSDVec(**ctx.job.psdvec.options), len(counts)
    n_core = check_core_size(model.n_core, model.n_components, n_words)
    of_core, first = core_counts(ctx, counts, n_core), Words(*(values[:n_core] for values in words))
    ctx.store_table(outputs.ROW_TOTALS, pa.table({"n_pairs": words.row_totals}))
    if ctx.job.psdvec.core_vectors is None:
        model.fit(of_core, *first)
        vectors, eigenvalues, objective = model.core_vectors_, model.eigenvalues_, model.objective_
        facts = {"n_core": n_core, "weight_cutoff": str(model.weight_cutoff_)}
    else:
        found, learned = _completed(ctx, counts, words, model)
        vectors = da.from_array(found, chunks=("auto", -1))
        error, weighting = objective_of(of_core, *first, vectors[:n_core], model)
        eigenvalues, objective = np.sort(compute(column_powers(vectors, 2)))[::-1], np.array([error])
        facts = {"n_core": n_words, "weight_cutoff": str(weighting.cutoff), **learned}
    ctx.store(outputs.CORE_VECTORS, da.asarray(vectors))
    ctx.store_table(outputs.EIGENVALUES, pa.table({"eigenvalue": eigenvalues}))
    ctx.store_table(outputs.OBJECTIVE, pa.table({"weighted_squared_error": objective}))
    return facts


def _completed(
    ctx: Context, counts: da.Array, words: Words, model: PSDVec
) -> tuple[Float32s, dict[str, str]]:
    """Return vectors of all words: the given ones as they are, others solved against them; and what was learned.

    Raises
    ------
    JobError
        If no word of the vocabulary has a given vector, or these have another number of components.
    """
    given = _given_vectors(ctx.job)
    rows = given.index(vocabulary_of(ctx.workspace).words)
    known, new = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
    if not len(known):
        raise JobError(
            f"the vectors in {ctx.job.psdvec.core_vectors} have none of the words of the core: are they of one "
            "language, and written in one case?"
        )
    ctx.reporter.note(f"core: {plural(len(known), 'word')} known, {plural(len(new), 'word')} new")
    found = np.zeros((len(rows), given.vectors.shape[1]), np.float32)
    found[known] = given.vectors[rows[known]]
    if not len(new):
        return found, {}
    solved, learned = solve_noncore(counts, words, new, known, da.from_array(found[known]), model)
    found[new] = compute(solved)
    return found, _written(learned)


def _given_vectors(job: PSDVecJob, *, max_words: int | None = None) -> WordVectors:
    """Return the finished vectors of core words that a job names.

    Raises
    ------
    JobError
        If they have another number of components than the job asks for.
    """
    path = job.psdvec.core_vectors
    assert path is not None
    found = vectors_at(path, max_words=max_words)
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
        task(solve_new_words, pairs, output=dims.block("noncore", k)),
        task(split_columns, read, output=read),
        whole=[dims.whole(2, "core", k), dims.whole(2, "noncore_pair", itemsize=PAIR_BYTES)],
        stored=dims.whole("noncore", k),
        n_tasks=dims.n_blocks("noncore"),
    )


def plan_vectors(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of all vectors: with the noncore words where they are solved here, and with their spelling."""
    width = n_dimensions(job)
    rows, vectors = dims.block("row", width), dims.whole("row", width)
    moments = dims.whole(2, width, width, itemsize=8) if job.psdvec.components_removed else 0
    solved = stage_plan()
    if not (solves_noncore_first(job) or job.sides or job.psdvec.n_core is None):
        solved = plan_noncore(job, dims)
    return stage_plan(
        solved.task_bytes,
        task(add_spelling, rows, rows, output=rows),
        task(centered_gram, rows, output=moments) if moments else 0,
        whole=[
            moments,
            solved.whole_bytes,
            *([*table_bytes(job, dims), vectors] if job.subwords.enabled else []),
        ],
        stored=vectors,
        n_tasks=max(solved.tasks, dims.n_blocks("row")),
    )


def vectors_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the vectors, the weight of their spelling only where it is learned."""
    spelling = {WEIGHT: job.subwords.weight} if job.subwords.enabled else {}
    n_removed = job.psdvec.components_removed
    return {
        "psdvec": job.psdvec.options,
        **spelling,
        **({"components_removed": n_removed} if n_removed else {}),
    }


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Put the vectors of all words together, and add the directions of their spelling."""
    if solves_noncore_first(ctx.job):
        vectors, facts = unspelled_vectors(ctx), ctx.workspace.stages()[NONCORE].facts
        facts = {name: facts[name] for name in ("n_noncore", *Learned._fields) if name in facts}
    elif ctx.job.sides:
        vectors, facts = unspelled_vectors(ctx), {"n_noncore": 0}
    else:
        noncore, facts = _solve_noncore(ctx)
        core = outputs.CORE_VECTORS.read(ctx.workspace)
        vectors = core if noncore is None else da.concatenate([core, noncore])
    if ctx.job.subwords.enabled and ctx.job.subwords.weight:
        table, words = read_subwords(ctx.workspace), vocabulary_of(ctx.workspace).words
        # A graph would take all of them to a cluster.
        composed = keep("spelling", lambda: da.from_array(table.compose(words), chunks=vectors.chunks))
        options = {"center": table.mean, "weight": ctx.job.subwords.weight}
        vectors = lift(add_spelling, "wc,wc->wc", vectors, composed, **options)
    if n_removed := ctx.job.psdvec.components_removed:
        mean, axes = first_directions(vectors, n_removed)
        ctx.store(REMOVED_MEAN, da.from_array(mean, chunks=-1))
        ctx.store(REMOVED_AXES, da.from_array(axes, chunks=-1))
        vectors = lift(without_directions, "wc,c,ck->wc", vectors, mean, axes)
    ctx.store(outputs.VECTORS, vectors)
    return facts


def run_noncore(ctx: Context) -> dict[str, Any]:
    """Solve the noncore words against the core, and store them where there are any."""
    noncore, facts = _solve_noncore(ctx)
    if noncore is not None:
        ctx.store(outputs.NONCORE_VECTORS, noncore)
    return facts


def _solve_noncore(ctx: Context) -> tuple[da.Array | None, dict[str, Any]]:
    """Return the vectors of the noncore words, None where there are none, and what the estimator learned of them."""
    core, counts = outputs.CORE_VECTORS.read(ctx.workspace), corpus_outputs.COOCCURRENCE.read(ctx.workspace)
    n_core, n_words = len(core), len(counts)
    if n_core == n_words:
        facts = ctx.workspace.stages()["core"].facts
        return None, {"n_noncore": 0, **{name: facts[name] for name in Learned._fields if name in facts}}
    row_totals = np.asarray(outputs.ROW_TOTALS.read(ctx.workspace)["n_pairs"])
    words, new = Words(vocabulary_of(ctx.workspace).counts.astype(float), row_totals), slice(n_core, n_words)
    model = PSDVec(**ctx.job.psdvec.options)
    noncore, learned = solve_noncore(counts, words, new, slice(n_core), core, model)
    return noncore, {"n_noncore": n_words - n_core, **_written(learned)}


def _written(learned: Learned) -> dict[str, str]:
    return {name: str(value) for name, value in learned._asdict().items()}


# --- vectors -> numbers ----------------------------------------------------------------------------------------


def plan_evaluation(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the scores: the vectors are held twice, as blocks beside the whole and then of unit length."""
    files = sum(int(stamp[0]) for path in job.evaluation.sets for stamp in sizes_at(path).values())
    cosines = min(BLOCK_MEMORY, dims.whole("word", min(dims.size("word"), files)))
    return stage_plan(
        cosines,
        whole=[
            dims.whole(2, "word", n_dimensions(job)),
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
        vectors, sets = read_vectors(ctx.workspace), find_sets(section.sets).sets
        policy = Policy(section.case, section.unknown)
        scores = evaluation.evaluate_sets(vectors, sets, policy, needs_known=True)
        if advice := evaluation.case_advice(vectors, sets, policy):
            ctx.reporter.note(f"evaluation: {advice}")
    store_scores(ctx, corpus_outputs.EVALUATION, scores)
    return {"n_sets": len(scores)}


KEPT_DISTANCES = KeptRows(
    outputs.VECTORS, "vectors", "two words", metric_of_words, "word", lambda job, _: n_dimensions(job)
)


def stages(job: PSDVecJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job."""
    solved: tuple[str, ...] = ("core", NONCORE) if solves_noncore_first(job) else ("core",)
    noncore = StageSpec(
        NONCORE, ("core",), lambda job: {"psdvec": job.psdvec.options}, run_noncore, plan_noncore
    )
    joined = (JOINED,) if job.sides else solved
    map_of_ngrams = StageSpec(
        SUBWORDS, (*joined, "vocabulary"), subword_parameters, run_subwords, plan_subwords
    )
    made_of = (*joined, SUBWORDS) if job.subwords.enabled else joined
    return (
        TOKENS,
        VOCABULARY,
        DOCUMENTS,
        COOCCURRENCE,
        *kept_stages(job, KEPT_PMI),
        StageSpec(
            "core",
            ("cooccurrence", "vocabulary"),
            core_parameters,
            run_core,
            plan_core,
            check_given_vectors,
        ),
        *((noncore,) if NONCORE in solved else ()),
        *(sides_stages(solved) if job.sides else ()),
        *((map_of_ngrams,) if job.subwords.enabled else ()),
        StageSpec("vectors", made_of, vectors_parameters, run_vectors, plan_vectors),
        *kept_stages(job, KEPT_DISTANCES.stage_spec),
        StageSpec(
            "evaluation",
            ("vectors",),
            lambda job: {"evaluation": job.evaluation.model_dump(mode="json")},
            run_evaluation,
            plan_evaluation,
            check_evaluation,
        ),
    )


def psdvec_dimensions(job: PSDVecJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, its pairs, and those of its sides."""
    corpus, block_memory = corpus_dimensions(job, counted), job.resources.block_memory
    word, pair = corpus.dimensions["word"], pair_dimension(corpus, counting_options(job), counted)
    dimensions = corpus.dimensions | {"pair": pair} | core_dimensions(job.psdvec, word, pair, block_memory)
    # A word that occurs c times has at most 2 c times as many pairs with core words in either order as the window has
    # places, or two with each word of the core. The first batch has the most frequent words.
    n_core, options, batch = dimensions["core"].size, counting_options(job), job.psdvec.batch_words
    places = 2 * options.window * (2 if options.direction == "symmetric" else 1)
    most, n_noncore = np.minimum(places * corpus.counts[n_core:], 2 * n_core), word.size - n_core
    n_pairs = min(pair.size, round(float(most.sum())))
    of_batch = min(n_pairs, round(float(most[:batch].sum())))
    dimensions |= {
        "noncore": Dimension(n_noncore, min(n_noncore, batch), word.counted),
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
        REMOVED_MEAN,
        REMOVED_AXES,
        SUBWORD_VECTORS,
        SUBWORD_MEAN,
        NGRAMS,
        corpus_outputs.EVALUATION,
        KEPT_DISTANCES.output,
    ),
    presets=PRESETS,
)
