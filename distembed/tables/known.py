"""The vectors that a job knows: of a vector file, a workspace or a table, and how often each word was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import plural
from distembed.formats.cells import read_numbers
from distembed.formats.delimiters import DELIMITERS
from distembed.formats.names import TABLE_SUFFIXES, suffix_of, vector_format
from distembed.formats.tables import (
    Table,
    TableError,
    column_of,
    key_column,
    read_table,
    some,
    texts_of,
)
from distembed.job.inputs import file_sizes
from distembed.job.stage import vectors_at
from distembed.storage.workspace import Workspace
from distembed.tables.features import features_of, key_and_problems
from distembed.tables.names import match_names
from distembed.tables.rows import Domain, settled, warn_of_one_component, without_empty_rows
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection
from distembed.urls import opened
from distembed.vectors import WordVectors

ONLY_OF_TABLES = ("columns", "drop", "name_column", "label_column", "first", "last")
"""Keys of the section that say nothing of a vector file."""


def holds_vectors(path: str, chosen: str) -> bool:
    """Return whether the domain at a path is vectors of words, as it says or by its name and its first line.

    A `.parquet` file counts as a table unless `format = "vectors"`, and so does text whose fields are separated by
    more than spaces.
    """
    if chosen != "auto":
        return chosen == "vectors"
    by_name = vector_format(path)
    if by_name not in (None, "word2vec", "parquet"):
        return True
    is_table = by_name == "parquet" or suffix_of(path) in TABLE_SUFFIXES
    return Workspace.exists(path) or (not is_table and _begins_like_vectors(path))


def _begins_like_vectors(path: str) -> bool:
    """Return whether the first line is the header of a vector file, or a word and numbers between spaces."""
    with opened(path, "rb", compression="infer") as file:
        line = file.readline(1 << 16).decode(errors="replace")
    fields = line.split()
    numbers = fields if len(fields) == 2 else fields[1:]
    is_delimited = any(sign in line for sign in DELIMITERS)
    return len(fields) > 1 and not is_delimited and all(map(_is_number, numbers))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def from_vectors(section: DomainSection) -> Domain:
    """Return vectors of words as a domain: a row per word, as it came.

    Raises
    ------
    TableError
        If the section has a key that says nothing of vectors.
    """
    named: Sequence[str] = [name for name in ONLY_OF_TABLES if getattr(section, name)]
    if section.transform != "none":
        named = ["transform", *named]
    if named:
        raise TableError(
            f"{section.path} holds vectors of words, of which domain.{named[0]} says nothing: leave it out, or set "
            'domain.format = "table"'
        )
    vectors = vectors_at(section.path, max_words=section.max_words)
    words = list(vectors.words)
    matrix = np.asarray(vectors.vectors)
    columns = [f"component {number}" for number in range(matrix.shape[1])]
    note = f"{section.path} holds vectors of words: {len(words):,} words x {matrix.shape[1]} components"
    return Domain(words, matrix, columns, [""] * len(words), [], [note], holds_vectors=True)


TEXT_VECTORS = (".txt", ".vec", ".csv", ".tsv")
"""Endings of files whose numbers are written as text, not compressed."""


class Known(NamedTuple):
    """The vectors a job knows, what was done to the table they came from, and how often each word was seen.

    Attributes
    ----------
    vectors : WordVectors
    notes : list of str
    counts : int64 (n_words,), optional
        -1 where nothing is said of a word.
    """

    vectors: WordVectors
    notes: list[str]
    counts: NDArray[np.int64] | None = None


class WordCounts(NamedTuple):
    """How often each of some words was seen, and where that stands."""

    words: Sequence[str]
    counts: NDArray[np.int64]
    place: str


def read_known(section: KnownSection, matching: MatchingSection | None = None) -> Known:
    """Return the vectors a job knows, from a vector file, a workspace or a table; with counts where they are asked for.

    Raises
    ------
    TableError
        As `distembed.tables.domain.read_domain`; or if the section has `min_count` and nothing says how often
        names were seen.
    ValueError
        If the vector file is damaged, or a name stands twice.
    """
    if _is_table(section):
        table = section.table()
        known = _from_table(section, table)
    else:
        table = None
        known = Known(vectors_at(section.path, max_words=section.max_words), [])
    if section.min_count is None:
        return known
    counted = _word_counts(section, table)
    words = known.vectors.words
    try:
        rows = match_names(words, counted.words, matching or MatchingSection())
    except TableError as error:
        raise TableError(f"the counts of {counted.place}: {error}") from None
    counts = np.where(rows >= 0, counted.counts[rows], -1)
    without = [words[row] for row in np.flatnonzero(rows < 0)[:4].tolist()]
    notes = [*known.notes]
    if without:
        n_without = plural(int((rows < 0).sum()), "known vector")
        notes.append(f"{n_without} without a count in {counted.place} stayed known: {some(without)}")
    return known._replace(counts=counts, notes=notes)


def known_width(section: KnownSection) -> int:
    """Return the number of components of the vectors a job knows, from the first of them."""
    if not _is_table(section):
        return int(vectors_at(section.path, max_words=1).vectors.shape[1])
    table = section.table()
    return int(_from_table(section.model_copy(update={"max_words": 1}), table).vectors.vectors.shape[1])


def known_bytes(section: KnownSection, n_components: int) -> int:
    """Return about how many bytes the vectors that a job knows take in memory: at most those of their file.

    A component of four bytes takes about nine characters as text, and about four where that is compressed.
    """
    if Workspace.exists(section.path):
        n_bytes = 4 * math.prod(Workspace.open(section.path).describe("vectors").spec.shape)
    else:
        n_bytes = file_sizes([section.path])[section.path]
        n_bytes //= 2 if section.path.lower().endswith(TEXT_VECTORS) else 1
    return n_bytes if section.max_words is None else min(n_bytes, 4 * section.max_words * n_components)


def _is_table(section: KnownSection) -> bool:
    by_name = suffix_of(section.path) in TABLE_SUFFIXES
    return section.format == "table" or (section.format == "auto" and by_name)


def _from_table(section: KnownSection, table: Table) -> Known:
    """Return the columns of numbers of a table as vectors; the column of counts is none of them."""
    key, problems = key_and_problems(table, section, [])
    cut = {name: column[: section.max_words] for name, column in table.columns.items()}
    not_components = {key, *section.drop}
    if section.min_count is not None and section.counts is None:
        not_components.add(section.counts_column)
    wanted = [name for name in cut if name not in not_components]
    read = features_of(
        section, table._replace(columns=cut), texts_of(cut[key]), wanted, problems, remedy="set known.decimal"
    )
    read = settled(without_empty_rows(read), section, key="known", problems=problems)
    warning = warn_of_one_component(read)
    return Known(WordVectors(read.names, read.matrix), [*read.notes, *filter(None, [warning])])


# --- how often each word was seen -----------------------------------------------------------------------------


def _word_counts(section: KnownSection, table: Table | None) -> WordCounts:
    """Return the counts of a section: of its own file or workspace, else of where the vectors are.

    Raises
    ------
    TableError
        If nothing says how often words were seen.
    """
    place = section.counts or section.path
    if Workspace.exists(place):
        return _counts_of_workspace(place)
    if section.counts is not None:
        return _counts_of_table(read_table(place), section, section.counts_name)
    if table is not None and section.counts_column in table.columns:
        return _counts_of_table(table, section, section.name_column)
    raise TableError(
        f"known.min_count is {section.min_count} and nothing says how often names were seen: set known.counts to a "
        f"table or a workspace{'' if table is None else f', or known.counts_column to a column of {section.path}'}"
    )


def _counts_of_workspace(url: str) -> WordCounts:
    """Return the counts of the vocabulary of a workspace."""
    vocabulary = Workspace.open(url).table("vocabulary")
    if "count" not in vocabulary.column_names:
        raise TableError(f"the vocabulary of {url} has no counts: set known.counts to a table of them")
    return WordCounts(vocabulary["word"].to_pylist(), vocabulary["count"].to_numpy().astype(np.int64), url)


def _counts_of_table(table: Table, section: KnownSection, name_column: str | None) -> WordCounts:
    """Return the counts of a table; a cell without a whole number, or a name twice, is refused."""
    column_of(table, section.counts_column)
    key = key_column(table, name_column)
    read = read_numbers(table, [section.counts_column], decimal=section.decimal)
    if not read.numbers:
        raise TableError(
            f"{table.path} holds no numbers in the column {section.counts_column!r}: name that of the counts with "
            "known.counts_column"
        )
    words, values = texts_of(table.columns[key]), read.numbers[0].values
    wrong = [
        word
        for word, value in zip(words, values.tolist(), strict=True)
        if not (value >= 0 and value % 1 == 0)
    ]
    if wrong:
        raise TableError(
            f"{table.path} has no whole count for {plural(len(wrong), 'name')} ({some(wrong)}) in the column "
            f"{section.counts_column!r}: write 0 where a name was not seen, and set known.decimal where 1.234 or 1,234 "
            "is a thousand"
        )
    return WordCounts(words, values.astype(np.int64), table.path)
