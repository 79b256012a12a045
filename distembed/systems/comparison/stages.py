"""The stages of a comparison: a corpus to parts, counts of groups of documents, one core, and differences of words.

All parts are solved against one core, so that their vectors can be compared without rotating anything. The counts of
each part lie in groups of its documents: sums of them are halves of the part, whose distance is the noise of a word,
and draws of documents, whose distances are an interval.
"""

from __future__ import annotations

import zlib
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.corpus import parts as of_corpus
from distembed.corpus.partitions import FILE, file_keys, read_partition
from distembed.counting import document_groups
from distembed.counting.cooccurrence import cooccurrence_row_blocks
from distembed.display import plural
from distembed.dtypes import Int64s, Mask
from distembed.execution import compute
from distembed.factorization import replicates
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import check_core_size, pairs_between
from distembed.job.model import check_figures
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, Counted, StageSpec, System, sections
from distembed.lift import FAN_IN, lift
from distembed.linalg.csr import row_sums
from distembed.linalg.operators import count_values
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages import corpus as corpus_stages
from distembed.stages import outputs as corpus_outputs
from distembed.stages.core import core_counts, core_dimensions, plan_of_core
from distembed.stages.corpus_sections import counting_options
from distembed.stages.dimensions import PAIR_BYTES, counting_dimensions, described
from distembed.storage.workspace import Workspace
from distembed.systems.comparison import outputs
from distembed.systems.comparison.job import OF_FILES, ComparisonJob

NUMBERS_OF_A_PAIR = 6
"""Numbers of four bytes of a pair of a word in each sample: its count, weight, moment, and products on the way."""

NO_WORD_JUDGED = (
    "no word can be judged: each part needs {groups} documents or files, and a word {least.min_count} occurrences in "
    "{least.min_documents} documents of two parts (comparison.min_count and min_documents): make the parts larger, or "
    "lower these"
)

SOLVING_OPTIONS = {"ridge", "uniform_weight"}
"""The keys of `[psdvec]` that the core does not depend on."""


# --- which part each document is of ----------------------------------------------------------------------------


def plan_parts(job: ComparisonJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of telling the parts: all documents are dealt out together."""
    documents = dims.whole("document", itemsize=corpus_stages.DOCUMENT_BYTES)
    return stage_plan(whole=[documents], stored=dims.whole("document"))


def check_parts(job: ComparisonJob) -> list[str]:
    """Refuse a column that the documents do not have.

    Raises
    ------
    ValueError
        If they do not have it.
    """
    check_figures(job, (), ())
    known = ("label", "title", "id", OF_FILES, *job.corpus.carry_fields, *corpus_stages.columns_of(job).names)
    if job.parts.column not in known:
        raise ValueError(
            f"parts.column is {job.parts.column!r}, and the documents have {', '.join(map(repr, known))}: name one of "
            "these, or add columns by corpus.carry_fields, corpus.path_fields or corpus.metadata"
        )
    return []


def run_parts(ctx: Context) -> dict[str, Any]:
    """Find which part each document is of, and deal the documents of each part into groups."""
    job: ComparisonJob = ctx.job
    documents = corpus_outputs.DOCUMENTS.read(ctx.workspace)
    prefixes = corpus_stages.tokens_of(ctx.workspace).partitions
    files = [file for one in prefixes for file in read_partition(one, "documents")[FILE].to_pylist()]
    parts = parts_of(job, documents, files)
    units = files if job.drawn == "file" else documents["id"].to_pylist()
    groups, sizes = of_corpus.deal_groups(parts, units, job.comparison.groups, job.comparison.random_state)
    ctx.store_table(outputs.DOCUMENT_GROUPS, pa.table({"group": groups}))
    rows, n_tokens, least = [], documents["n_tokens"].to_numpy(), job.comparison.min_documents
    for place, name in enumerate(parts.names):
        own = np.flatnonzero(parts.of == place)
        n_units = len({units[row] for row in own})
        if n_units < replicates.FEWEST_GROUPS or own.size < least:
            raise ValueError(
                f"no word of the part {name!r} could be judged: it has {plural(own.size, 'document')} in "
                f"{plural(n_units, job.drawn)} drawn as one, and needs {least} (comparison.min_documents) in "
                f"{replicates.FEWEST_GROUPS}; join it with another part (wider bins), leave it out of parts.names, or "
                "lower the first"
            )
        counts = {"n_documents": own.size, "n_units": n_units, "n_tokens": int(n_tokens[own].sum())}
        rows.append({"part": name, **counts, "n_groups": sizes[place]})
    ctx.store_table(outputs.PARTS, pa.Table.from_pylist(rows))
    n_left = int((parts.of < 0).sum())
    if n_left:
        ctx.reporter.note(f"parts: {plural(n_left, 'document')} in none, which only the core is learned from")
    return {"n_parts": len(parts.names), "n_groups": sum(sizes) + 1, "n_in_no_part": n_left}


def parts_of(job: ComparisonJob, documents: pa.Table, files: list[str]) -> of_corpus.Parts:
    """Return the parts of a job.

    Raises
    ------
    ValueError
        If there are fewer than two, or a value, a bin or a name is wrong.
    """
    section = job.parts
    is_of_files = section.column == OF_FILES and OF_FILES not in documents.column_names
    values = [file_keys(one)[-1] for one in files] if is_of_files else documents[section.column].to_pylist()
    where = [f"the document {one!r}" for one in documents["id"].to_pylist()]
    edges = list(section.bins) or (
        of_corpus.even_edges(values, section.every, where) if section.every else []
    )
    parts = of_corpus.parts_by_date(values, edges, where) if edges else of_corpus.parts_by_value(values)
    if section.every is not None:
        sizes = np.bincount(parts.of[parts.of >= 0], minlength=len(parts.names))
        parts = of_corpus.chosen_parts(parts, [name for name, n in zip(parts.names, sizes, strict=True) if n])
    parts = of_corpus.chosen_parts(parts, section.names) if section.names else parts
    if len(parts.names) < 2:
        found = f"the part {parts.names[0]!r} alone" if parts.names else "no parts"
        raise ValueError(
            f"the corpus has {found} by the column {section.column!r}, and a comparison needs two: name what tells "
            "the documents apart by corpus.label_field or parts.column"
        )
    return parts


class PartCounts(NamedTuple):
    """How often each word occurs in the parts of a job, and where it can be judged."""

    names: list[str]
    groups: list[slice]
    """The groups of each part."""
    in_groups: Int64s
    """Occurrences. Array (words, groups)."""
    counts: Int64s
    documents: Int64s
    """Occurrences, and documents with the word. Arrays (words, parts)."""
    judged: Mask
    """Where a word is frequent, and spread over groups of documents. Array (words, parts)."""


def part_counts(job: ComparisonJob, workspace: Workspace, words: da.Array) -> PartCounts:
    """Return how often each word occurs in the parts, from what the output `WORDS` holds.

    Raises
    ------
    ValueError
        If no word can be judged in any part.
    """
    groups, (in_groups, documents_of_groups) = groups_of_parts(workspace), compute(words)
    counts, documents, spread = (
        np.stack([one[own].sum(axis=0) for own in groups], axis=1)
        for one in (in_groups, documents_of_groups, in_groups > 0)
    )
    least = job.comparison
    judged = (
        (counts >= least.min_count)
        & (documents >= least.min_documents)
        & (spread >= replicates.FEWEST_GROUPS)
    )
    if not judged.any():
        raise ValueError(NO_WORD_JUDGED.format(groups=replicates.FEWEST_GROUPS, least=least))
    names = outputs.PARTS.read(workspace)["part"].to_pylist()
    return PartCounts(names, groups, in_groups.T, counts, documents, judged)


def groups_of_parts(workspace: Workspace) -> list[slice]:
    """Return the groups of each part."""
    ends = np.cumsum([0, *outputs.PARTS.read(workspace)["n_groups"].to_pylist()]).tolist()
    return [slice(*bounds) for bounds in pairwise(ends)]


# --- counts ----------------------------------------------------------------------------------------------------


def plan_words(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of counting the words of each group: a task makes the table of all groups, another adds some."""
    table, terms = dims.whole(2, "group", "word", itemsize=8), dims.block("term", itemsize=PAIR_BYTES)
    added = dims.whole(FAN_IN, 2, 2, "group", "word", itemsize=8)  # as they are read, and as one array
    plan = corpus_stages.plan_document_terms(job, dims)
    return plan.beside(task(document_groups.words_of_block, terms, output=table), added)._replace(
        stored_bytes=table
    )


def _n_groups(workspace: Workspace) -> int:
    return int(workspace.stages()["parts"].facts["n_groups"])


def run_words(ctx: Context) -> dict[str, Any]:
    """Count how often each word occurs in each group of documents, and in how many of its documents."""
    tokens, vocabulary = corpus_stages.tokens_of(ctx.workspace), corpus_stages.vocabulary_of(ctx.workspace)
    groups = outputs.DOCUMENT_GROUPS.read(ctx.workspace)["group"].to_numpy()
    stored = ctx.store(
        outputs.WORDS, document_groups.words_of_groups(tokens, vocabulary, groups, _n_groups(ctx.workspace))
    )
    part_counts(ctx.job, ctx.workspace, stored)  # refuses words of which none can be judged
    return {}


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
    runs = corpus_stages.added_runs(
        ctx, outputs.GROUP_COUNTS.name, options, document_groups.group_row_blocks(own, n_groups),
        groups=dict(zip(corpus_stages.tokens_of(ctx.workspace).partitions, of_partitions, strict=True)),
    )  # fmt: skip
    stored = ctx.store(outputs.GROUP_COUNTS, document_groups.own_columns(runs, n_groups))
    totals = lift(row_sums, "wc->w", stored, dtype=np.float64).reshape((n_groups, -1))
    ctx.store(outputs.GROUP_TOTALS, totals)
    return {"n_nonzero": count_values(stored)}


def plan_cooccurrence(job: ComparisonJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of adding up the counts of all groups: a task has the same rows of each."""
    groups, pairs = dims.block("pair_of_groups", itemsize=PAIR_BYTES), dims.block("pair", itemsize=PAIR_BYTES)
    return stage_plan(
        task(document_groups.sum_of_blocks, groups, output=pairs),
        stored=dims.whole("pair"),
        n_tasks=dims.n_blocks("group_pair"),
    )


def run_cooccurrence(ctx: Context) -> dict[str, Any]:
    """Add the counts of all groups."""
    n_groups = _n_groups(ctx.workspace)
    counts = document_groups.sum_of_groups(
        document_groups.counts_of_groups(outputs.GROUP_COUNTS.read(ctx.workspace), n_groups)
    )
    return corpus_stages.store_counts(
        ctx, corpus_outputs.COOCCURRENCE.of(window=ctx.job.counting.window), counts
    )


def run_core(ctx: Context) -> dict[str, Any]:
    """Solve the core words jointly, from all text."""
    counts = corpus_outputs.COOCCURRENCE.read(ctx.workspace)
    model = PSDVec(**ctx.job.psdvec.model_dump(mode="json"))
    n_core = check_core_size(model.n_core, model.n_components, counts.shape[0])
    row_totals = compute(outputs.GROUP_TOTALS.read(ctx.workspace)).sum(axis=0)
    of_core = core_counts(ctx, counts, n_core)
    model.fit(of_core, corpus_stages.vocabulary_of(ctx.workspace).counts[:n_core], row_totals[:n_core])
    ctx.store(outputs.CORE_VECTORS, da.asarray(model.core_vectors_))
    return {
        "n_core": n_core,
        "weight_cutoff": str(model.weight_cutoff_),
        "weight_scale": str(model.weight_scale_),
        "objective": [float(value) for value in model.objective_],
    }


# --- the parts -------------------------------------------------------------------------------------------------


def design_of(job: ComparisonJob) -> replicates.Design:
    """Return the samples of each part."""
    return replicates.Design(job.comparison.halves, job.comparison.bootstrap, job.comparison.confidence)


def plan_differences(job: ComparisonJob, dims: Dimensions) -> StagePlan:
    """Return the plan of solving words: a task has the pairs of a batch in all groups, and one word in all samples."""
    k, width = job.psdvec.n_components, len(replicates.measures_of(dims["part"].size))
    pairs = dims.block("pair_of_batch", itemsize=PAIR_BYTES)
    solving = stage_plan(
        task(replicates.measured_words, pairs, dims.whole("core", k), output=dims.block("batch", width)),
        stored=dims.whole("word", width),
        whole=[dims.whole(2, "group", "word", 2, itemsize=8)],
        n_tasks=prod((dims.n_blocks("batch"), dims.size("group"))),
    )
    numbers = dims.whole("core", NUMBERS_OF_A_PAIR, design_of(job).n_samples)
    reading = stage_plan(
        dims.block("group_pair", 3, itemsize=PAIR_BYTES), stored=dims.whole("part", "word", k)
    )
    return in_turn(solving.beside(dims.whole("core", k), dims.whole("core", "group"), numbers), reading)


def run_differences(ctx: Context) -> dict[str, Any]:
    """Solve the words of each part against the core; measure each between each two parts, and its noise in each."""
    workspace, options, design = ctx.workspace, ctx.job.psdvec, design_of(ctx.job)
    counted = part_counts(ctx.job, workspace, outputs.WORDS.read(workspace))
    core, pairs = outputs.CORE_VECTORS.read(workspace), compute(outputs.GROUP_TOTALS.read(workspace)).T
    groups = document_groups.counts_of_groups(outputs.GROUP_COUNTS.read(workspace), pairs.shape[1])
    groups = [pairs_between(one, slice(None), slice(core.shape[0])) for one in groups]
    parts = []
    for name, own in zip(
        counted.names, counted.groups, strict=True
    ):  # its name decides how a part is sampled
        seed = [ctx.job.comparison.random_state, zlib.crc32(name.encode())]
        samples = replicates.group_samples(len(groups[own]), design, seed)
        parts.append(replicates.Part(groups[own], pairs[:, own], counted.in_groups[:, own], samples))
    facts = workspace.stages()["core"].facts
    weighting = PairWeighting(options.smoothing, float(facts["weight_cutoff"]), float(facts["weight_scale"]))
    solve = partial(
        replicates.words_in_samples,
        core=core,
        rules=replicates.Regression(weighting, options.ridge, options.uniform_weight),
    )
    whole = [[part._replace(samples=[part.samples[0][:, :1]])] for part in parts]
    ctx.store(
        outputs.PART_VECTORS,
        da.concatenate([solve(replicates.whole_vector, core.shape[1], one) for one in whole]),
    )
    names, measures = counted.names, replicates.measures_of(len(parts))
    judged = counted.judged & (counted.judged.sum(axis=1, keepdims=True) > 1)
    sizes = replicates.equal_sizes(counted.counts, counted.judged, [len(part.counts) for part in parts])
    measure = partial(replicates.differences, design=design)
    stored = ctx.store(outputs.DIFFERENCES, solve(measure, len(measures), parts, wanted=judged, sizes=sizes))
    table = {
        "measure": [name for name, _, _ in measures],
        "part": [names[part] for _, part, _ in measures],
        "other": [None if other < 0 else names[other] for _, _, other in measures],
    }
    ctx.store_table(outputs.MEASURES, pa.table(table))
    chances = compute(stored)[:, [name == "chance" for name, *_ in measures]]
    known = chances[np.isfinite(chances)].astype(np.float64)
    if not known.size:
        raise ValueError(NO_WORD_JUDGED.format(groups=replicates.FEWEST_GROUPS, least=ctx.job.comparison))
    # a change must be so many times the noise that few words of one text seem to change as much; of so few words that
    # none would be allowed, one is
    share = max(ctx.job.comparison.false_alarms, 1 / (known.size + 1))
    floor = float(np.quantile(known, 1 - share))
    return {"n_judged": int(judged.any(axis=1).sum()), "floor": floor, "n_chances": int(known.size)}


def stages(job: ComparisonJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job."""
    counting = sections("counting", grid=True)
    core = {*type(job.psdvec).model_fields} - SOLVING_OPTIONS
    measured = {*type(job.comparison).model_fields} - {"groups"}
    of_words = ("tokens", "vocabulary", "parts")
    return (
        corpus_stages.TOKENS,
        corpus_stages.VOCABULARY,
        corpus_stages.DOCUMENTS,
        StageSpec(
            "parts",
            ("tokens", "documents"),
            sections("parts", comparison={"groups", "random_state"}),
            run_parts,
            plan_parts,
            check_parts,
            counts=True,
        ),
        StageSpec("group_words", of_words, sections(grid=True), run_words, plan_words, counts=True),
        StageSpec("group_counts", of_words, counting, run_group_counts, plan_group_counts),
        StageSpec("cooccurrence", ("group_counts", "parts"), counting, run_cooccurrence, plan_cooccurrence),
        StageSpec(
            "core",
            ("cooccurrence", "group_counts", "vocabulary"),
            sections(psdvec=core),
            run_core,
            lambda _, dims: plan_of_core(job.psdvec, dims),
        ),
        StageSpec(
            "differences",
            ("vocabulary", "parts", "group_words", "group_counts", "core"),
            sections(psdvec=SOLVING_OPTIONS, comparison=measured),
            run_differences,
            plan_differences,
        ),
    )


def comparison_dimensions(job: ComparisonJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, of its parts and groups of documents, and of the core.

    Before the parts are told there are at least two, or as many as the job names.
    """
    options = counting_options(job)
    found = counting_dimensions(job, options, counted)
    word, pair, done = found["word"], found["pair"], {} if counted is None else counted.stages
    core = core_dimensions(job.psdvec, word, pair, job.resources.block_memory, counted)
    facts = done["parts"].facts if "parts" in done else {}
    n_parts = int(facts.get("n_parts", max(2, len(job.parts.names) or len(job.parts.bins) - 1)))
    # One more is for the documents of no part.
    n_groups = int(facts.get("n_groups", n_parts * job.comparison.groups + 1))
    if "group_counts" in done:
        n_pairs = int(done["group_counts"].facts["n_nonzero"])
    else:
        n_pairs = min(n_groups * pair.size, 2 * options.window * found["token"].size)
    is_counted = "group_counts" in done
    of_groups = -(-n_pairs // max(1, pair.size // max(1, pair.block)))
    of_batch = min(n_pairs, replicates.BATCH_WORDS * core["core"].size * n_groups)
    found |= {
        "part": Dimension(n_parts, 1, bool(facts)),
        "group": Dimension(n_groups, 1, bool(facts)),
        "group_pair": Dimension(n_pairs, min(n_pairs, pair.block), is_counted),
        "pair_of_groups": Dimension(n_pairs, of_groups, is_counted),
        "pair_of_batch": Dimension(n_pairs, of_batch, is_counted),
        "batch": Dimension(word.size, min(word.size, replicates.BATCH_WORDS), word.counted),
    }
    return described(found | core)


def report_bytes(job: ComparisonJob, dims: Dimensions) -> int:
    """Return the bytes of all measures, as read and in float64, and of the vectors of a part in three copies."""
    n_measures = len(replicates.measures_of(dims.size("part")))
    return dims.whole("word", n_measures, itemsize=4 + 8) + dims.whole(3, "word", job.psdvec.n_components)


SYSTEM = System(
    ComparisonJob,
    stages,
    comparison_dimensions,
    "distembed.systems.comparison.views",
    "distembed.systems.comparison.views",
    explorer=None,
    outputs=(
        *corpus_outputs.OF_TOKENS,
        corpus_outputs.RUNS,
        corpus_outputs.COOCCURRENCE,
        corpus_outputs.ROW_NONZEROS,
        *declared_in(outputs),
    ),
    report_bytes=report_bytes,
)
