"""The stages of a comparison: a corpus to parts, counts of groups of documents, one core, and differences of words.

All parts are solved against one core, so that their vectors can be compared without rotating anything. The counts of
each part lie in groups of its documents: sums of them are halves of the part, whose distance is the noise of a word,
and draws of documents, whose distances are an interval.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

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
from distembed.execution import compute
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import check_core_size, pairs_between
from distembed.factorization.replicates import (
    BATCH_WORDS,
    Design,
    Part,
    Regression,
    differences,
    equal_sizes,
    group_samples,
    measured_words,
    measures_of,
    whole_vector,
    words_in_samples,
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
from distembed.storage.workspace import Workspace
from distembed.systems.comparison import outputs
from distembed.systems.comparison.job import ComparisonJob
from distembed.systems.comparison.parts import (
    PartCounts,
    check_parts,
    no_word_judged,
    part_counts,
    run_parts,
)

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
    groups = outputs.DOCUMENT_GROUPS.read(ctx.workspace)["group"].to_numpy()
    stored = ctx.store(outputs.WORDS, words_of_groups(tokens, vocabulary, groups, _n_groups(ctx.workspace)))
    part_counts(ctx.job, ctx.workspace, stored)  # refuses words of which none can be judged
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
    groups = outputs.DOCUMENT_GROUPS.read(ctx.workspace)["group"].to_numpy()
    sizes = [item.summary["n_documents"] for item in corpus_outputs.TOKENS.read(ctx.workspace)]
    of_partitions = np.split(groups, np.cumsum(sizes)[:-1])
    runs = added_runs(
        ctx, outputs.GROUP_COUNTS.name, options, group_row_blocks(own, n_groups),
        groups=dict(zip(tokens_of(ctx.workspace).partitions, of_partitions, strict=True)),
    )  # fmt: skip
    stored = ctx.store(outputs.GROUP_COUNTS, own_columns(runs, n_groups))
    totals = lift(row_sums, "wc->w", stored, dtype=np.float64).reshape((n_groups, -1))
    ctx.store(outputs.GROUP_TOTALS, totals)
    return {"n_nonzero": count_values(stored)}


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
    return store_counts(ctx, corpus_outputs.COOCCURRENCE.of(window=ctx.job.counting.window), counts)


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


def _plan_of_samples(job: ComparisonJob, dims: Dimensions, *, n_samples: int, width: int) -> StagePlan:
    """Return the plan of solving words: a task has the pairs of a batch in all groups, and one word in all samples."""
    k, pairs = job.psdvec.n_components, dims.block("pair_of_batch", itemsize=PAIR_BYTES)
    of_word = dims.whole("core", k + dims["group"].size + NUMBERS_OF_A_PAIR * n_samples)
    totals = dims.whole("group", "word", 2, itemsize=8)
    return stage_plan(
        task(measured_words, pairs, dims.whole("core", k), output=dims.block("batch", width)) + of_word,
        dims.block("group_pair", 3, itemsize=PAIR_BYTES),
        whole=[2 * totals],
        stored=dims.whole("word", width),
        n_tasks=dims.n_blocks("batch") * (1 + dims["group"].size),
    )


def plan_vectors(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the vectors of each part."""
    k = job.psdvec.n_components
    plan = _plan_of_samples(job, dims, n_samples=1, width=k)
    return plan._replace(stored_bytes=dims.whole("part", "word", k))


def plan_differences(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of solving all samples of each part."""
    width = len(measures_of(dims["part"].size))
    return _plan_of_samples(job, dims, n_samples=_design(job).n_samples, width=width)


def _read_parts(ctx: Context) -> tuple[PartCounts, list[Part], da.Array, Regression]:
    """Return the counts of the parts, and by what words are solved in the samples of each, which its name decides."""
    workspace, options = ctx.workspace, ctx.job.psdvec
    counted = part_counts(ctx.job, workspace, outputs.WORDS.read(workspace))
    core, pairs = outputs.CORE_VECTORS.read(workspace), compute(outputs.GROUP_TOTALS.read(workspace)).T
    groups = counts_of_groups(outputs.GROUP_COUNTS.read(workspace), pairs.shape[1])
    groups = [pairs_between(one, slice(None), slice(core.shape[0])) for one in groups]
    parts = []
    for name, own in zip(counted.names, counted.groups, strict=True):
        seed = [ctx.job.comparison.random_state, zlib.crc32(name.encode())]
        samples = group_samples(len(groups[own]), _design(ctx.job), seed)
        parts.append(Part(groups[own], pairs[:, own], counted.in_groups[:, own], samples))
    facts = workspace.stages()["core"].facts
    weighting = PairWeighting(options.smoothing, float(facts["weight_cutoff"]), float(facts["weight_scale"]))
    return counted, parts, core, Regression(weighting, options.ridge, options.uniform_weight)


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Solve the words of each part against the core."""
    _, parts, core, rules = _read_parts(ctx)
    found = []
    for part in parts:
        alone = part._replace(samples=[part.samples[0][:, :1]])
        found.append(words_in_samples(whole_vector, core.shape[1], [alone], core, rules))
    ctx.store(outputs.PART_VECTORS, da.concatenate(found))
    return {}


def run_differences(ctx: Context) -> dict[str, Any]:
    """Measure each word between each two parts, and its noise in each."""
    counted, parts, core, rules = _read_parts(ctx)
    names, measures = counted.names, measures_of(len(parts))
    judged = counted.judged & (counted.judged.sum(axis=1, keepdims=True) > 1)
    sizes = equal_sizes(counted.counts, counted.judged, [len(part.counts) for part in parts])
    measure = partial(differences, design=_design(ctx.job))
    found = words_in_samples(measure, len(measures), parts, core, rules, wanted=judged, sizes=sizes)
    stored = ctx.store(outputs.DIFFERENCES, found)
    table = {
        "measure": [name for name, _, _ in measures],
        "part": [names[part] for _, part, _ in measures],
        "other": [None if other < 0 else names[other] for _, _, other in measures],
    }
    ctx.store_table(outputs.MEASURES, pa.table(table))
    chances = compute(stored)[:, [name == "chance" for name, *_ in measures]]
    known = chances[np.isfinite(chances)].astype(np.float64)
    if not known.size:
        raise ValueError(no_word_judged(ctx.job))
    # a change must be so many times the noise that few words of one text seem to change as much; of so few words that
    # none would be allowed, one is
    share = max(ctx.job.comparison.false_alarms, 1 / (known.size + 1))
    floor = float(np.quantile(known, 1 - share))
    return {"n_judged": int(judged.any(axis=1).sum()), "floor": floor, "n_chances": int(known.size)}


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
        (
            "core",
            ("cooccurrence", "group_counts", "vocabulary"),
            core,
            run_core,
            lambda _, dims: plan_of_core(psdvec, dims),
        ),
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
