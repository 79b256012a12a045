"""The stages of a comparison: a corpus to parts, counts of groups of documents, one core, and differences of words.

All parts are solved against one core, so that their vectors can be compared without rotating anything. The counts of
each part lie in groups of its documents: sums of them are halves of the part, whose distance is the noise of a word,
and draws of documents, whose distances are an interval.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.counting.cooccurrence import cooccurrence_row_blocks
from distembed.counting.document_groups import (
    counts_of_groups,
    group_row_blocks,
    own_columns,
    sum_of_blocks,
    sum_of_groups,
    words_of_block,
    words_of_groups,
)
from distembed.counting.partition_rows import TokenSpan
from distembed.execution import compute
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import check_core_size, pairs_between
from distembed.factorization.replicates import (
    FEWEST_GROUPS,
    Design,
    Part,
    Regression,
    Samples,
    Totals,
    differences_of_words,
    equal_sizes,
    group_samples,
    measures_of,
    part_vectors,
    samples_of_words,
    word_differences,
)
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, Counted, StageSpec, System, nothing_to_check, sections
from distembed.lift import FAN_IN, lift
from distembed.linalg.csr import row_sums
from distembed.linalg.operators import count_values
from distembed.plan import Dimension, Dimensions, StagePlan, stage_plan, task
from distembed.stages import corpus as corpus_stages
from distembed.stages import outputs as corpus_outputs
from distembed.stages.core import core_counts, core_dimensions, plan_of_core
from distembed.stages.corpus import (
    DOCUMENT_BYTES,
    DOCUMENTS,
    TOKENS,
    VOCABULARY,
    added_runs,
    store_counts,
    tokens_of,
    vocabulary_of,
)
from distembed.stages.corpus_sections import counting_options
from distembed.stages.dimensions import PAIR_BYTES, counting_dimensions, described
from distembed.stages.ranges import count_bundle_of
from distembed.storage.workspace import Workspace
from distembed.systems.comparison import outputs
from distembed.systems.comparison.job import ComparisonJob
from distembed.systems.comparison.parts import (
    check_parts,
    groups_of_documents,
    groups_of_parts,
    run_parts,
)

BATCH_WORDS = 200
"""Words of a task that solves samples."""

FEWEST_PARTS = 2

NUMBERS_OF_A_PAIR = 6
"""Numbers of four bytes of a pair of a word in each sample: its count, weight, moment, and products on the way."""

SOLVING_OPTIONS = {"ridge", "uniform_weight"}
"""The keys of `[psdvec]` that the core does not depend on."""


def plan_parts(job: ComparisonJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of telling the parts: all documents are dealt out together."""
    documents = dims.whole("document", itemsize=DOCUMENT_BYTES)
    return stage_plan(whole=[documents], stored=dims.whole("document"))


# --- counts ----------------------------------------------------------------------------------------------------


def plan_words(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of counting the words of each group: a task makes the table of all groups, another adds some."""
    table, terms = dims.whole(2, "group", "word", itemsize=8), dims.block("term", itemsize=PAIR_BYTES)
    added = dims.whole(FAN_IN, 2, 2, "group", "word", itemsize=8)  # as they are read, and as one array
    plan = corpus_stages.plan_document_terms(job, dims)
    return plan.beside(task(words_of_block, terms, output=table), added)._replace(stored_bytes=table)


def run_words(ctx: Context) -> dict[str, Any]:
    """Count how often each word occurs in each group of documents, and in how many of its documents."""
    tokens, vocabulary = tokens_of(ctx.workspace), vocabulary_of(ctx.workspace)
    groups = groups_of_documents(ctx.workspace)
    ctx.store(outputs.WORDS, words_of_groups(tokens, vocabulary, groups, _n_groups(ctx.workspace)))
    words = compute(ctx.stage.array(outputs.WORDS.name))
    if not judged_words(ctx.job, groups_of_parts(ctx.workspace), words).any():
        raise ValueError(no_word_judged(ctx.job))
    return {}


def _n_groups(workspace: Workspace) -> int:
    return int(workspace.stages()["parts"].facts["n_groups"])


def plan_group_counts(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of counting the partitions, with a row for each word of each group, and of adding them up.

    A row has eight numbers: its sum, where its pairs begin, and its ends in the runs that are held.
    """
    rows = dims.whole(8, "group", "word", itemsize=8)
    return corpus_stages.plan_counts(job, dims, pair="group_pair").beside(rows)


def run_group_counts(ctx: Context) -> dict[str, Any]:
    """Count the pairs of each group of documents, group by group and row block by row block."""
    options, n_groups = counting_options(ctx.job), _n_groups(ctx.workspace)
    word_counts = corpus_outputs.VOCABULARY.read(ctx.workspace)["count"].to_numpy()
    own = cooccurrence_row_blocks(word_counts, window=options.window, direction=options.direction)
    items = corpus_outputs.TOKENS.read(ctx.workspace)
    ends = np.cumsum([0, *(item.summary["n_documents"] for item in items)]).tolist()
    documents = dict(zip(tokens_of(ctx.workspace).partitions, pairwise(ends), strict=True))
    row_blocks = group_row_blocks(own, n_groups)
    runs = added_runs(
        ctx, outputs.GROUP_COUNTS.name, options, row_blocks, make=_count_groups, documents=documents
    )
    stored = ctx.store(outputs.GROUP_COUNTS, own_columns(runs, n_groups))
    totals = lift(row_sums, "wc->w", stored, dtype=np.float64).reshape((n_groups, -1))
    ctx.store(outputs.GROUP_TOTALS, totals)
    return {"n_nonzero": count_values(stored)}


def _count_groups(
    index: int,
    prefix: str,
    *,
    workspace: str,
    bundles: Sequence[Sequence[TokenSpan]],
    documents: dict[str, tuple[int, int]],
    **options: Any,
) -> dict[str, Any]:
    """Count the bundle of a number, the documents of each group apart, as `count_bundle_of` does."""
    groups = groups_of_documents(Workspace.open(workspace))
    own = {span.partition: groups[slice(*documents[span.partition])] for span in bundles[index]}
    return count_bundle_of(index, prefix, workspace=workspace, bundles=bundles, groups=own, **options)


def plan_cooccurrence(job: ComparisonJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of adding up the counts of all groups: a task has the same rows of each."""
    groups, pairs = dims.block("pair_of_groups", itemsize=PAIR_BYTES), dims.block("pair", itemsize=PAIR_BYTES)
    return stage_plan(
        task(sum_of_blocks, groups, output=pairs),
        stored=dims.whole("pair"),
        n_tasks=dims.n_blocks("group_pair"),
    )


def run_cooccurrence(ctx: Context) -> dict[str, Any]:
    """Add the counts of all groups."""
    n_groups = _n_groups(ctx.workspace)
    counts = sum_of_groups(counts_of_groups(outputs.GROUP_COUNTS.read(ctx.workspace), n_groups))
    output = corpus_outputs.COOCCURRENCE.of(window=ctx.job.counting.window)
    return store_counts(ctx, output, counts)


# --- the core --------------------------------------------------------------------------------------------------


def plan_core(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of core mode."""
    return plan_of_core(job.psdvec, dims)


def run_core(ctx: Context) -> dict[str, Any]:
    """Solve the core words jointly, from all text."""
    counts = corpus_outputs.COOCCURRENCE.read(ctx.workspace)
    model = PSDVec(**ctx.job.psdvec.model_dump(mode="json"))
    n_core = check_core_size(model.n_core, model.n_components, counts.shape[0])
    row_totals = compute(outputs.GROUP_TOTALS.read(ctx.workspace)).sum(axis=0)
    of_core = core_counts(ctx, counts, n_core)
    model.fit(of_core, vocabulary_of(ctx.workspace).counts[:n_core], row_totals[:n_core])
    ctx.store(outputs.CORE_VECTORS, da.asarray(model.core_vectors_))
    return {
        "n_core": n_core,
        "weight_cutoff": str(model.weight_cutoff_),
        "weight_scale": str(model.weight_scale_),
        "objective": [float(value) for value in model.objective_],
    }


# --- the parts -------------------------------------------------------------------------------------------------


def _design(job: ComparisonJob) -> Design:
    return Design(job.comparison.halves, job.comparison.bootstrap, job.comparison.confidence)


def rules_of(job: ComparisonJob, workspace: Workspace) -> Regression:
    """Return what words are solved by: the weights of the core, and the ridge of the job."""
    facts, options = workspace.stages()["core"].facts, job.psdvec
    weighting = PairWeighting(options.smoothing, float(facts["weight_cutoff"]), float(facts["weight_scale"]))
    return Regression(weighting, options.ridge, options.uniform_weight)


def parts_with_counts(job: ComparisonJob, workspace: Workspace) -> list[Part]:
    """Return the counts of the groups of each part, and its samples, whose chance depends on the part's name alone."""
    names = outputs.PARTS.read(workspace)["part"].to_pylist()
    n_core = outputs.CORE_VECTORS.read(workspace).shape[0]
    groups = counts_of_groups(outputs.GROUP_COUNTS.read(workspace), _n_groups(workspace))
    groups = [pairs_between(one, slice(None), slice(n_core)) for one in groups]
    pairs = compute(outputs.GROUP_TOTALS.read(workspace)).T
    counts = compute(outputs.WORDS.read(workspace))[0].T
    seed, design = job.comparison.random_state, _design(job)
    return [
        Part(
            groups[own.start : own.stop],
            Totals(pairs[:, own.start : own.stop], counts[:, own.start : own.stop]),
            Samples(
                group_samples(len(own), design, [seed, zlib.crc32(name.encode())]),
                counts[:, own.start : own.stop].sum(axis=0).astype(np.float64),
            ),
        )
        for name, own in zip(names, groups_of_parts(workspace), strict=True)
    ]


def counts_of_parts(workspace: Workspace) -> NDArray[np.int64]:
    """Return the occurrences of each word in each part, and the documents that have it, (2, words, parts)."""
    words = compute(outputs.WORDS.read(workspace))
    sums = [words[:, own.start : own.stop].sum(axis=1) for own in groups_of_parts(workspace)]
    return np.stack(sums, axis=2)


def judged_words(job: ComparisonJob, parts: Sequence[range], words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where a word can be judged, (words, parts): where it is frequent, and spread over groups of documents.

    Parameters
    ----------
    job : ComparisonJob
    parts : sequence of range
        The groups of each part.
    words : int64 array (2, groups, words)
        The occurrences of each word in each group, and the documents that have it.
    """
    counts, documents = (np.stack([one[own].sum(axis=0) for own in parts], axis=1) for one in words)
    spread = [(words[0][own] > 0).sum(axis=0) for own in parts]
    is_frequent = (counts >= job.comparison.min_count) & (documents >= job.comparison.min_documents)
    return is_frequent & (np.stack(spread, axis=1) >= FEWEST_GROUPS)


def no_word_judged(job: ComparisonJob) -> str:
    """Return why nothing can be compared."""
    least = job.comparison
    return (
        f"no word can be judged: each part needs {FEWEST_GROUPS} documents or files, and a word {least.min_count} "
        f"occurrences in {least.min_documents} documents of two parts (comparison.min_count and min_documents): "
        "make the parts larger, or lower these"
    )


def plan_vectors(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the vectors of each part."""
    k = job.psdvec.n_components
    plan = _plan_of_samples(job, dims, samples_of_words, n_samples=1, width=k)
    return plan._replace(stored_bytes=dims.whole("part", "word", k))


def _plan_of_samples(
    job: ComparisonJob, dims: Dimensions, function: Any, *, n_samples: int, width: int
) -> StagePlan:
    """Return the plan of solving words: a task has the pairs of a batch in all groups, and one word in all samples."""
    k, pairs = job.psdvec.n_components, dims.block("pair_of_batch", itemsize=PAIR_BYTES)
    of_word = dims.whole("core", k + dims["group"].size + NUMBERS_OF_A_PAIR * n_samples)
    totals = dims.whole("group", "word", 2, itemsize=8)
    return stage_plan(
        task(function, pairs, dims.whole("core", k), output=dims.block("batch", width)) + of_word,
        dims.block("group_pair", 3, itemsize=PAIR_BYTES),
        whole=[2 * totals],
        stored=dims.whole("word", width),
        n_tasks=dims.n_blocks("batch") * (1 + dims["group"].size),
    )


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Solve the words of each part against the core."""
    core, rules = outputs.CORE_VECTORS.read(ctx.workspace), rules_of(ctx.job, ctx.workspace)
    parts = parts_with_counts(ctx.job, ctx.workspace)
    found = [part_vectors(part, core, rules, batch_words=BATCH_WORDS) for part in parts]
    ctx.store(outputs.PART_VECTORS, da.concatenate(found))
    return {}


def plan_differences(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of solving all samples of each part."""
    width = len(measures_of(dims["part"].size))
    return _plan_of_samples(job, dims, differences_of_words, n_samples=_design(job).n_samples, width=width)


def run_differences(ctx: Context) -> dict[str, Any]:
    """Measure each word between each two parts, and its noise in each."""
    core, rules = outputs.CORE_VECTORS.read(ctx.workspace), rules_of(ctx.job, ctx.workspace)
    parts, words = parts_with_counts(ctx.job, ctx.workspace), compute(outputs.WORDS.read(ctx.workspace))
    judged = judged_words(ctx.job, groups_of_parts(ctx.workspace), words)
    names = outputs.PARTS.read(ctx.workspace)["part"].to_pylist()
    measures = measures_of(len(parts))
    sizes = equal_sizes(counts_of_parts(ctx.workspace)[0], judged, [len(part.groups) for part in parts])
    found = word_differences(parts, core, rules, _design(ctx.job), judged, sizes, batch_words=BATCH_WORDS)
    stored = ctx.store(outputs.DIFFERENCES, found)
    table = {
        "measure": [name for name, _, _ in measures],
        "part": [names[part] for _, part, _ in measures],
        "other": [None if other < 0 else names[other] for _, _, other in measures],
    }
    ctx.store_table(outputs.MEASURES, pa.table(table))
    columns = [column for column, (name, *_) in enumerate(measures) if name == "chance"]
    chances = compute(stored)[:, columns]
    known = chances[np.isfinite(chances)].astype(np.float64)
    if not known.size:
        raise ValueError(no_word_judged(ctx.job))
    # a change must be so many times the noise that few words of one text seem to change as much; of so few words that
    # none would be allowed, one is
    share = max(ctx.job.comparison.false_alarms, 1 / (known.size + 1))
    floor = float(np.quantile(known, 1 - share))
    return {"n_judged": int((judged.sum(axis=1) > 1).sum()), "floor": floor, "n_chances": int(known.size)}


def stages(job: ComparisonJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job."""
    memory = {"block_memory": job.resources.block_memory}
    options, psdvec, counting = job.comparison, job.psdvec, {**sections("counting")(job), **memory}
    dealt = {**sections("parts")(job), **options.model_dump(mode="json", include={"groups", "random_state"})}
    core = {"psdvec": psdvec.model_dump(mode="json", exclude=SOLVING_OPTIONS)}
    solved = {"psdvec": psdvec.model_dump(mode="json", include=SOLVING_OPTIONS)}
    measured = {**solved, "comparison": options.model_dump(mode="json", exclude={"groups"})}
    of_words = ("tokens", "vocabulary", "parts")
    counted = ("vocabulary", "parts", "group_words", "group_counts", "core")
    found: tuple[tuple[str, tuple[str, ...], dict[str, Any], *tuple[Any, ...]], ...] = (
        ("parts", ("tokens", "documents"), dealt, run_parts, plan_parts, check_parts, True),
        ("group_words", of_words, memory, run_words, plan_words, nothing_to_check, True),
        ("group_counts", of_words, counting, run_group_counts, plan_group_counts),
        ("cooccurrence", ("group_counts", "parts"), counting, run_cooccurrence, plan_cooccurrence),
        ("core", ("cooccurrence", "group_counts", "vocabulary"), core, run_core, plan_core),
        ("part_vectors", counted, solved, run_vectors, plan_vectors),
        ("differences", counted, measured, run_differences, plan_differences),
    )
    return (
        TOKENS,
        VOCABULARY,
        DOCUMENTS,
        *(StageSpec(name, inputs, lambda _, own=own: own, *rest) for name, inputs, own, *rest in found),
    )


def comparison_dimensions(job: ComparisonJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, of its parts and groups of documents, and of the core.

    Before the parts are told there are at least two, or as many as the job names.
    """
    options = counting_options(job)
    found = counting_dimensions(job, options, counted)
    word, pair, done = found["word"], found["pair"], {} if counted is None else counted.stages
    core = core_dimensions(job.psdvec, word, pair, job.resources.block_memory)
    facts = done["parts"].facts if "parts" in done else {}
    n_parts = int(facts.get("n_parts", max(FEWEST_PARTS, len(job.parts.names) or len(job.parts.bins) - 1)))
    # One more is for the documents of no part.
    n_groups = int(facts.get("n_groups", n_parts * job.comparison.groups + 1))
    if "group_counts" in done:
        n_pairs = int(done["group_counts"].facts["n_nonzero"])
    else:
        n_pairs = min(n_groups * pair.size, 2 * options.window * found["token"].size)
    is_counted = "group_counts" in done
    of_groups = -(-n_pairs // max(1, pair.size // max(1, pair.block)))
    of_batch = min(n_pairs, BATCH_WORDS * core["core"].size * n_groups)
    found |= {
        "part": Dimension(n_parts, 1, bool(facts)),
        "group": Dimension(n_groups, 1, bool(facts)),
        "group_pair": Dimension(n_pairs, min(n_pairs, pair.block), is_counted),
        "pair_of_groups": Dimension(n_pairs, of_groups, is_counted),
        "pair_of_batch": Dimension(n_pairs, of_batch, is_counted),
        "batch": Dimension(word.size, min(word.size, BATCH_WORDS), word.counted),
    }
    return described(found | core)


SYSTEM = System(
    ComparisonJob,
    stages,
    comparison_dimensions,
    "distembed.systems.comparison.views",
    "distembed.systems.comparison.views",
    outputs=(
        *corpus_outputs.OF_TOKENS,
        corpus_outputs.RUNS,
        corpus_outputs.COOCCURRENCE,
        corpus_outputs.ROW_NONZEROS,
        *declared_in(outputs),
    ),
)
