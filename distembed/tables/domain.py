"""What is known of every name, the vectors there are, and both joined by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from distembed.dtypes import Float32s, Floats, Int64s
from distembed.formats.cells import Decimal, NumberColumns, read_numbers, readings
from distembed.formats.tables import (
    Table,
    TableError,
    column_of,
    no_column,
    read_table,
    refuse_twice,
    texts_of,
)
from distembed.tables.advice import advice_on
from distembed.tables.features import features_of, from_prices, key_and_problems
from distembed.tables.known import Known, from_vectors, holds_vectors
from distembed.tables.names import match_names
from distembed.tables.rows import (
    Domain,
    Scales,
    filled,
    missing_cells,
    on_scales,
    scaled,
    settled,
    without_named,
)
from distembed.tables.sections import DomainSection, MatchingSection


def read_domain(section: DomainSection) -> Domain:
    """Return the domain matrix of a job, a row per name.

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a cell holds no finite number, where the section does
        not say what is to become of it; all problems are named at once.
    """
    if holds_vectors(section.path, section.format):
        lacking: list[str] = []
        domain = renamed(without_named(from_vectors(section), section.drop_rows, lacking), section)
        domain = settled(domain, section, key="domain", problems=lacking)
        return scaled(domain, standardize=True) if section.standardize else domain
    table = section.table()
    key, problems = key_and_problems(
        table, section, [*section.columns, *filter(None, [section.label_column])]
    )
    has_features = section.transform == "none"
    make = _from_features if has_features else from_prices
    made = without_named(make(section, table, key, problems), section.drop_rows, problems)
    domain = settled(renamed(made, section), section, key="domain", problems=problems)
    left_out = [each._replace(name=domain.spellings.get(each.name, each.name)) for each in domain.left_out]
    domain = domain._replace(left_out=left_out)
    if not has_features:
        return scaled(domain, standardize=True) if section.standardize else domain
    domain = domain._replace(notes=[*domain.notes, *advice_on(domain)])
    return scaled(domain, standardize=section.standardize is not False)


def _from_features(section: DomainSection, table: Table, key: str, problems: list[str]) -> Domain:
    names = texts_of(table.columns[key])
    label = section.label_column
    labels = texts_of(table.columns[label]) if label in table.columns else [""] * len(names)
    wanted = section.columns or [name for name in table.columns if name not in (key, label, *section.drop)]
    found = features_of(section, table, names, wanted, problems, remedy="set domain.decimal")
    return found._replace(labels=labels)


def renamed(domain: Domain, section: DomainSection) -> Domain:
    """Return the domain under the names of the table of names, where there is one, with its labels."""
    if section.names is None:
        return domain
    table = read_table(section.names)
    new = _mapping(table, section.names_from, section.names_to)
    labels = domain.labels
    if section.names_label is not None:
        given = _mapping(table, section.names_from, section.names_label)
        labels = [given.get(name, "") for name in domain.names]
    names = [new.get(name, name) for name in domain.names]
    own = {
        name: before for name, before in reversed([*zip(names, domain.names, strict=True)]) if name != before
    }
    return domain._replace(names=names, labels=labels, notes=[*domain.notes, *table.notes], spellings=own)


def _mapping(table: Table, key: str, value: str) -> dict[str, str]:
    """Return what one column of a table says of the names in another; rows that say nothing are passed over."""
    found: dict[str, str] = {}
    keys, values = (texts_of(column_of(table, name)) for name in (key, value))
    for name, text in zip(keys, values, strict=True):
        if name and text and found.setdefault(name, text) != text:
            raise TableError(
                f"{table.path} has the name {name!r} twice, as {found[name]!r} and {text!r}: keep one"
            )
    return found


class Joined(NamedTuple):
    """A domain joined with known vectors: n names, then the words that are no name of it.

    Attributes
    ----------
    domain : Domain
    rows : int64 (n,)
        The row of a name among the known vectors, -1 where it is to be imputed.
    known : Known
    others : int64
        The rows of known vectors that no name matched.
    rare : int64 (n,)
        The row among the known vectors of a name that was seen too rarely to count as known, -1 for all others.
    """

    domain: Domain
    rows: Int64s
    known: Known
    others: Int64s
    rare: Int64s

    @property
    def words(self) -> Sequence[str]:
        """The words with a known vector."""
        return self.known.vectors.words

    @property
    def matched(self) -> Int64s:
        """The row of a name among the known vectors, taken as known or not, -1 where there is none."""
        return np.maximum(self.rows, self.rare)

    @property
    def targets(self) -> Float32s:
        """The vectors of the names, float32 (n, s), NaN where they are to be imputed."""
        vectors = self.known.vectors.vectors[self.rows]
        vectors[self.rows < 0] = np.nan
        return vectors

    @property
    def names(self) -> list[str]:
        """The names as the table has them."""
        return [self.domain.spellings.get(name, name) for name in self.domain.names]

    def vocabulary(self, *, with_others: bool) -> pa.Table:
        """Return word, name in the table, origin and label of each row of the vectors."""
        found = [self.words[row] if row >= 0 else "" for row in self.matched]
        names, labels = self.names, list(self.domain.labels)
        words = [word or name for word, name in zip(found, self.domain.names, strict=True)]
        origin = ["known" if row >= 0 else "imputed" for row in self.rows]
        if with_others:
            more = [self.words[row] for row in self.others]
            words, names, labels = words + more, names + [""] * len(more), labels + [""] * len(more)
            origin += ["other"] * len(more)
        refuse_twice("the joined table", "word", words)
        return pa.table({"word": words, "name": names, "origin": origin, "label": labels})

    def replaced(self) -> pa.Table:
        """Return the names whose vector is imputed again: word, name in the table, and how often it was seen."""
        names = np.flatnonzero(self.rare >= 0)
        rows = self.rare[names]
        counts = np.zeros(0, np.int64) if self.known.counts is None else self.known.counts[rows]
        return pa.table(
            {
                "word": pa.array([self.words[row] for row in rows], pa.string()),
                "name": pa.array([self.names[name] for name in names], pa.string()),
                "count": pa.array(counts, pa.int64()),
            }
        )


def join(domain: Domain, known: Known, matching: MatchingSection, *, min_count: int | None = None) -> Joined:
    """Join a domain with known vectors by name; see `match_names`.

    Parameters
    ----------
    domain : Domain
    known : Known
    matching : MatchingSection
    min_count : int, optional
        Names that were seen less often are imputed, whatever vector they have. A name of which the counts say nothing
        stays known.

    Raises
    ------
    TableError
        If no name matches, or none of those that match was seen often enough.
    """
    rows = match_names(domain.names, known.vectors.words, matching)
    others = np.setdiff1d(np.arange(len(known.vectors)), rows)
    rare = np.full(len(rows), -1)
    if min_count is not None and known.counts is not None:
        counts = known.counts[rows]
        is_rare = (rows >= 0) & (counts >= 0) & (counts < min_count)
        rare[is_rare], rows[is_rare] = rows[is_rare], -1
        if (rows < 0).all():
            raise TableError(
                f"known.min_count is {min_count}, and the most frequent of the {is_rare.sum():,} names with a vector "
                f"was seen {counts.max():,} times: choose a smaller known.min_count"
            )
    return Joined(domain, rows, known, others, rare)


def read_new_rows(
    section: DomainSection, columns: Sequence[str], scales: Scales, *, decimal: Decimal | None = None
) -> Domain:
    """Return new rows in the columns of an earlier table and on its scales; other columns are ignored.

    An empty cell takes the median of its column in the earlier table where the section says `missing = "median"`.

    Parameters
    ----------
    section : DomainSection
        That of the job, with the path of the new table.
    columns : sequence of str
        The columns of the earlier table.
    scales : Scales
        Of these columns.
    decimal : "." or ",", optional
        The decimal sign of the earlier table, for cells such as 1,234 that are numbers with either.

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a cell holds no finite number, where the section does
        not say what is to become of it; or if it holds no row.
    """
    problems: list[str] = []
    if holds_vectors(section.path, section.format):
        domain = _components(section, columns)
    else:
        domain = _cells(section, columns, decimal, problems)
    if not domain.names:
        raise TableError(f"{section.path} has no row: give one per new name")
    if section.missing == "median" and not problems and np.isnan(domain.matrix).any():
        domain = filled(domain, scales.medians)
    if section.missing != "drop_row" and (cells := missing_cells(domain)):
        problems.append(f'{cells}: fill the cells in, or set domain.missing = "median" or "drop_row"')
    domain = settled(
        renamed(domain, section),
        section.model_copy(update={"missing": "drop_row"}),
        key="domain",
        problems=problems,
    )
    return domain._replace(matrix=on_scales(domain.matrix, scales), scales=scales)


def _components(section: DomainSection, columns: Sequence[str]) -> Domain:
    """Return vectors of words, which have as many components as the earlier ones."""
    domain = from_vectors(section)
    if len(domain.columns) != len(columns):
        raise TableError(
            f"{section.path} holds vectors of {len(domain.columns)} components, but the job has {len(columns)} columns "
            "per name: give vectors of the same set"
        )
    return domain


def _cells(
    section: DomainSection, columns: Sequence[str], decimal: Decimal | None, problems: list[str]
) -> Domain:
    """Return the columns of a table that the earlier one had; what is wrong with them is added to the problems."""
    table = section.table()
    drop = tuple(name for name in section.drop if name in table.columns)
    key, _ = key_and_problems(table, section.model_copy(update={"drop": drop}), [])
    if key in columns:
        raise TableError(
            f"{section.path} has numbers of the job in the column {key!r}, where names are looked for: name the column "
            "of names with domain.name_column"
        )
    names, wanted = texts_of(table.columns[key]), set(columns)
    # A matrix is a column of the file, and each column of the matrix has its number in brackets.
    held = [name for name in table.columns if name in wanted or f"{name}[0]" in wanted]
    read = read_numbers(table, held, decimal=section.decimal, ties=decimal)
    matrix = np.zeros((len(names), len(columns)))
    values = {column.name: column.values for column in read.numbers}
    for place, column in enumerate(columns):
        fault = _fault(column, len(names), values, read, table)
        if fault:
            problems.append(fault)
        else:
            matrix[:, place] = values.get(column, np.nan)
    matrix[~np.isfinite(matrix)] = np.nan
    unread = {column.name: column.unread for column in read.numbers if column.unread}
    notes = [*table.notes, *readings(read.numbers)]
    return Domain(names, matrix, list(columns), [""] * len(names), [], notes, unread)


def _fault(column: str, n_names: int, values: dict[str, Floats], read: NumberColumns, table: Table) -> str:
    """Return what is wrong with a column that the job reads, "" where nothing is."""
    if column in values:
        n_values = len(values[column])
        return (
            ""
            if n_values == n_names
            else f"has {n_values} values in the column {column!r} for {n_names} names"
        )
    if column in read.empty:
        return ""
    if column in read.texts:
        return f"holds text in the column {column!r}, where the job has read numbers"
    return f"{no_column(table, column)}, and the job reads it"
