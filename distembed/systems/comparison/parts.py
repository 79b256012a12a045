"""Which part each document of a job is of, and the groups that its documents are dealt into."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.corpus.document_columns import FILE, file_keys
from distembed.corpus.partitions import read_partition
from distembed.corpus.parts import Parts, chosen_parts, deal_groups, even_edges, parts_by_date, parts_by_value
from distembed.display import plural
from distembed.dtypes import Int64s, Mask
from distembed.execution import compute
from distembed.factorization.replicates import FEWEST_GROUPS
from distembed.job.model import check_figures
from distembed.job.stage import Context
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import columns_of, tokens_of
from distembed.storage.workspace import Workspace
from distembed.systems.comparison import outputs
from distembed.systems.comparison.job import OF_FILES, ComparisonJob


def check_parts(job: ComparisonJob) -> list[str]:
    """Refuse a column that the documents do not have.

    Raises
    ------
    ValueError
        If they do not have it.
    """
    check_figures(job, (), ())
    known = ("label", "title", "id", OF_FILES, *job.corpus.carry_fields, *columns_of(job).names)
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
    prefixes = tokens_of(ctx.workspace).partitions
    files = [file for one in prefixes for file in read_partition(one, "documents")[FILE].to_pylist()]
    parts = parts_of(job, documents, files)
    units = files if job.drawn == "file" else documents["id"].to_pylist()
    groups, sizes = deal_groups(parts, units, job.comparison.groups, job.comparison.random_state)
    ctx.store_table(outputs.DOCUMENT_GROUPS, pa.table({"group": groups}))
    rows, n_tokens, least = [], documents["n_tokens"].to_numpy(), job.comparison.min_documents
    for place, name in enumerate(parts.names):
        own = np.flatnonzero(parts.of == place)
        n_units = len({units[row] for row in own})
        if n_units < FEWEST_GROUPS or own.size < least:
            raise ValueError(
                f"no word of the part {name!r} could be judged: it has {plural(own.size, 'document')} in "
                f"{plural(n_units, job.drawn)} drawn as one, and needs {least} (comparison.min_documents) in "
                f"{FEWEST_GROUPS}; join it with another part (wider bins), leave it out of parts.names, or lower the "
                "first"
            )
        counts = {"n_documents": own.size, "n_units": n_units, "n_tokens": int(n_tokens[own].sum())}
        rows.append({"part": name, **counts, "n_groups": sizes[place]})
    ctx.store_table(outputs.PARTS, pa.Table.from_pylist(rows))
    n_left = int((parts.of < 0).sum())
    if n_left:
        ctx.reporter.note(f"parts: {plural(n_left, 'document')} in none, which only the core is learned from")
    return {"n_parts": len(parts.names), "n_groups": sum(sizes) + 1, "n_in_no_part": n_left}


def parts_of(job: ComparisonJob, documents: pa.Table, files: list[str]) -> Parts:
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
    edges = list(section.bins) or (even_edges(values, section.every, where) if section.every else [])
    parts = parts_by_date(values, edges, where) if edges else parts_by_value(values)
    if section.every is not None:
        sizes = np.bincount(parts.of[parts.of >= 0], minlength=len(parts.names))
        parts = chosen_parts(parts, [name for name, n in zip(parts.names, sizes, strict=True) if n])
    parts = chosen_parts(parts, section.names) if section.names else parts
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
    judged = (counts >= least.min_count) & (documents >= least.min_documents) & (spread >= FEWEST_GROUPS)
    if not judged.any():
        raise ValueError(no_word_judged(job))
    names = outputs.PARTS.read(workspace)["part"].to_pylist()
    return PartCounts(names, groups, in_groups.T, counts, documents, judged)


def groups_of_parts(workspace: Workspace) -> list[slice]:
    """Return the groups of each part."""
    ends = np.cumsum([0, *outputs.PARTS.read(workspace)["n_groups"].to_pylist()]).tolist()
    return [slice(*bounds) for bounds in pairwise(ends)]


def no_word_judged(job: ComparisonJob) -> str:
    """Return why nothing can be compared."""
    least = job.comparison
    return (
        f"no word can be judged: each part needs {FEWEST_GROUPS} documents or files, and a word {least.min_count} "
        f"occurrences in {least.min_documents} documents of two parts (comparison.min_count and min_documents): "
        "make the parts larger, or lower these"
    )
