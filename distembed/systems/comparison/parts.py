"""Which part each document of a job is of, and the groups that its documents are dealt into."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.partitions import read_partition
from distembed.corpus.parts import (
    Parts,
    chosen_parts,
    deal_groups,
    even_edges,
    parts_by_date,
    parts_by_value,
    values_of_paths,
    values_of_table,
    without_empty,
)
from distembed.display import plural
from distembed.factorization.replicate_blocks import FEWEST_GROUPS
from distembed.formats.tables import TableError, read_columns
from distembed.job.model import check_figures
from distembed.job.stage import Context
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import tokens_of
from distembed.stages.corpus_sections import corpus_of
from distembed.storage.workspace import Workspace
from distembed.systems.comparison import outputs
from distembed.systems.comparison.job import ComparisonJob, PartsSection


def part_parameters(job: ComparisonJob) -> dict[str, Any]:
    """Return what decides which part a document is of, and its group."""
    options = job.comparison.model_dump(mode="json", include={"groups", "random_state"})
    return {"parts": job.parts.model_dump(mode="json"), **options}


def check_parts(job: ComparisonJob) -> list[str]:
    """Open the table of metadata, and see whether the files fit the template of their paths."""
    check_figures(job, (), ())
    section = job.parts
    if section.metadata is not None:
        return [f"{plural(len(_rows_of_table(section)), 'row')} of metadata in {section.metadata}"]
    if section.path is not None and section.column is not None:
        urls = [partition.url for partition in corpus_of(job.corpus).partitions]
        found = sorted(set(values_of_paths(urls, section.path, section.column)))
        return [
            f"parts.path: {plural(len(found), 'value')} of {section.column}, from {found[0]} to {found[-1]}"
        ]
    return []


def run_parts(ctx: Context) -> dict[str, Any]:
    """Find which part each document is of, and deal the documents of each part into groups."""
    job: ComparisonJob = ctx.job
    documents = corpus_outputs.DOCUMENTS.read(ctx.workspace)
    ids = documents["id"].to_pylist()
    files = _files_of(ids) if job.parts.path is None else _urls_of(ctx)
    parts = parts_of(job, documents, files)
    units = _below_one_folder(files) if job.parts.drawn == "file" else ids
    groups, sizes = deal_groups(parts, units, job.comparison.groups, job.comparison.random_state)
    ctx.store_table(outputs.DOCUMENT_GROUPS, pa.table({"group": groups}))
    n_tokens = documents["n_tokens"].to_numpy()
    rows = [
        {
            "part": name,
            "n_documents": int((parts.of == place).sum()),
            "n_units": len({units[row] for row in np.flatnonzero(parts.of == place)}),
            "n_tokens": int(n_tokens[parts.of == place].sum()),
            "n_groups": sizes[place],
        }
        for place, name in enumerate(parts.names)
    ]
    _check_parts_can_be_judged(job, rows)
    ctx.store_table(outputs.PARTS, pa.Table.from_pylist(rows))
    n_left = int((parts.of < 0).sum())
    if n_left:
        ctx.reporter.note(f"parts: {plural(n_left, 'document')} in none, which only the core is learned from")
    return {"n_parts": len(parts.names), "n_groups": sum(sizes) + 1, "n_in_no_part": n_left}


def _check_parts_can_be_judged(job: ComparisonJob, rows: Sequence[dict[str, Any]]) -> None:
    least = job.comparison.min_documents
    for row in rows:
        if row["n_units"] < FEWEST_GROUPS or row["n_documents"] < least:
            has = f"{plural(row['n_documents'], 'document')} in {plural(row['n_units'], job.parts.drawn)} drawn as one"
            raise ValueError(
                f"no word of the part {row['part']!r} could be judged: it has {has}, and needs {least} "
                f"(comparison.min_documents) in {FEWEST_GROUPS}; join it with another part (wider bins), leave it "
                "out of parts.names, or lower the first"
            )


def parts_of(job: ComparisonJob, documents: pa.Table, files: Sequence[str]) -> Parts:
    """Return the parts of a job.

    Raises
    ------
    ValueError
        If there are fewer than two, or a value, a bin or a name is wrong.
    """
    section = job.parts
    values = _values(job, documents, files)
    where = [f"the document {one!r}" for one in documents["id"].to_pylist()]
    edges = list(section.bins) or (even_edges(values, section.every, where) if section.every else [])
    parts = parts_by_date(values, edges, where) if edges else parts_by_value(values)
    if section.every is not None:
        parts = without_empty(parts)
    parts = chosen_parts(parts, section.names) if section.names else parts
    if len(parts.names) < 2:
        found = f"the part {parts.names[0]!r} alone" if parts.names else "no parts"
        raise ValueError(
            f"the corpus has {found}, and a comparison needs two: name what tells them apart by corpus.label_field, "
            "parts.path or parts.metadata"
        )
    return parts


def _values(job: ComparisonJob, documents: pa.Table, files: Sequence[str]) -> list[str | None]:
    """Return the value of each document by which it is of a part."""
    section, ids = job.parts, documents["id"].to_pylist()
    if section.path is not None and section.column is not None:
        return list(values_of_paths(files, section.path, section.column))
    if section.metadata is None:
        labels: list[str | None] = documents["label"].to_pylist()
        field = job.corpus.model_dump()["label_field"]
        if field is not None and not any(labels):
            raise ValueError(
                f"no document has a value of {field!r} (corpus.label_field): name the field that "
                "tells the parts apart"
            )
        return labels
    return values_of_table(ids, _rows_of_table(section), _rows_of_files(files), str(section.metadata))


def _rows_of_files(files: Sequence[str]) -> dict[str, list[int]]:
    """Return the documents of each file, by its name, and by that without folders and extension where one has it."""
    found: dict[str, list[int]] = {}
    for row, file in enumerate(files):
        found.setdefault(file, []).append(row)
    stems = Counter(map(_stem, found))
    return {_stem(file): rows for file, rows in found.items() if stems[_stem(file)] == 1} | found


def _rows_of_table(section: PartsSection) -> list[tuple[str, str | None]]:
    """Return id and value of each row of the table of metadata.

    Raises
    ------
    TableError
        If it lacks a column.
    """
    assert section.metadata is not None
    columns = read_columns(section.metadata)
    for key, name in (("id_column", section.id_column), ("column", section.column)):
        if name not in columns:
            raise TableError(
                f"{section.metadata} has no column {name!r} (parts.{key}); it has {', '.join(map(repr, columns))}"
            )
    pairs = zip(columns[section.id_column].tolist(), columns[str(section.column)].tolist(), strict=True)
    return [(str(one), _text(value)) for one, value in pairs]


def _text(value: Any) -> str | None:
    """Return a value of a table as text, None for one that is missing; a year that was written as 1843.0 is 1843."""
    if isinstance(value, float):
        return None if math.isnan(value) else f"{value:g}" if value.is_integer() else str(value)
    return None if value in (None, "") else str(value)


def _files_of(ids: Sequence[str]) -> list[str]:
    """Return the name of the file of each document, which its id begins with; the id where it is one of its own."""
    return [one.rpartition(":")[0] or one for one in ids]


def _below_one_folder(files: Sequence[str]) -> list[str]:
    """Return the names of files without the folders that all share: what is drawn does not depend on where they lie."""
    folders = [file.split("/")[:-1] for file in dict.fromkeys(files)]
    levels = enumerate(zip(*folders, strict=False))
    n_shared = next((n for n, names in levels if len(set(names)) > 1), min(map(len, folders), default=0))
    return ["/".join(file.split("/")[n_shared:]) for file in files]


def _stem(file: str) -> str:
    """Return the name of a file without its folders and its extensions."""
    return file.rsplit("/", 1)[-1].split(".", 1)[0]


def _urls_of(ctx: Context) -> list[str]:
    """Return where the file of each document lies: that of its partition, or of its id where a task read several files.

    Raises
    ------
    ValueError
        If documents of several files that were read together have ids of their own.
    """
    corpus = corpus_of(ctx.job.corpus)
    named = {partition.name: partition.url for partition in corpus.partitions}
    found: list[str] = []
    for bundle, prefix in zip(corpus.bundles, tokens_of(ctx.workspace).partitions, strict=True):
        ids = read_partition(prefix, "documents")["id"].to_pylist()
        urls = {partition.url for partition in bundle}
        each = [*urls] * len(ids) if len(urls) == 1 else [named.get(file, "") for file in _files_of(ids)]
        if "" in each:
            raise ValueError(
                f"parts.path cannot tell which of {len(urls)} small files the document {ids[each.index('')]!r} is of: "
                "leave out corpus.id_field, or give the parts by corpus.label_field or parts.metadata"
            )
        found += each
    return found


def groups_of_documents(workspace: Workspace) -> NDArray[np.int32]:
    """Return the group of each document."""
    groups: NDArray[np.int32] = outputs.DOCUMENT_GROUPS.read(workspace)["group"].to_numpy()
    return groups


def groups_of_parts(workspace: Workspace) -> list[range]:
    """Return the groups of each part."""
    ends = np.cumsum(outputs.PARTS.read(workspace)["n_groups"].to_numpy()).tolist()
    return [range(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True)]
