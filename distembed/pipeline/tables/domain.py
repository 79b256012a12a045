"""What is known of every name, the vectors there are, and both joined by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.linalg.blocks import directions
from distembed.neighbors.distances import Metric
from distembed.pipeline.tables.config import DomainSection, KnownSection, MatchingSection
from distembed.pipeline.tables.features import features_of, key_and_problems
from distembed.pipeline.tables.files import (
    COMPRESSIONS,
    TABLE_SUFFIXES,
    Floats,
    Table,
    TableError,
    column_of,
    read_table,
    refuse_twice,
    texts_of,
)
from distembed.pipeline.tables.names import match_names
from distembed.pipeline.tables.returns import from_prices
from distembed.pipeline.tables.rows import Domain, settled
from distembed.vectors import WordVectors


def read_domain(section: DomainSection) -> Domain:
    """Return the domain matrix of a job, a row per name.

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a cell holds no finite number, where the section does
        not say what is to become of it; all problems are told at once.
    """
    table = read_table(section.path, delimiter=section.delimiter, encoding=section.encoding)
    key, problems = key_and_problems(
        table, section, [*section.columns, *filter(None, [section.label_column])]
    )
    make = from_prices if section.transform == "return_correlation" else _from_features
    domain = settled(
        _renamed(make(section, table, key, problems), section), section, key="domain", problems=problems
    )
    return domain._replace(matrix=_standardized(domain.matrix)) if section.standardizes else domain


def _from_features(section: DomainSection, table: Table, key: str, problems: list[str]) -> Domain:
    names = texts_of(table.columns[key])
    label = section.label_column
    labels = texts_of(table.columns[label]) if label in table.columns else [""] * len(names)
    wanted = section.columns or [name for name in table.columns if name not in (key, label, *section.drop)]
    return features_of(section, table, names, wanted, problems)._replace(labels=labels)


def _renamed(domain: Domain, section: DomainSection) -> Domain:
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
    left_out = [each._replace(name=new.get(each.name, each.name)) for each in domain.left_out]
    return domain._replace(names=names, labels=labels, left_out=left_out, notes=[*domain.notes, *table.notes])


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


def _standardized(matrix: Floats) -> Floats:
    """Return columns of mean 0 and variance 1; a constant column becomes zeros and says nothing."""
    spread = matrix.std(axis=0, dtype=np.float64)
    centered = matrix - matrix.mean(axis=0, dtype=np.float64)
    return (centered / np.where(spread > 0, spread, 1.0)).astype(matrix.dtype)


def column_shares(matrix: Floats, *, metric: Metric) -> NDArray[np.float64]:
    """Return the share of each column in the squared distances between rows, all pairs together, (d,).

    It is that of the column's variance in the sum of all variances; zeros where all rows are equal.
    """
    rows = directions(np.asarray(matrix, np.float64)) if metric == "cosine" else matrix
    variances = rows.var(axis=0, dtype=np.float64)
    total = variances.sum()
    return np.asarray(variances / total if total > 0 else np.zeros_like(variances))


MOST = 0.6
"""Share of the distance above which a column alone decides which names are neighbors; half would be one of two."""


NEARLY_ALL = 0.9
"""Share of the length of all known vectors above which a column is hardly a component of them."""


def warn_of_one_column(domain: Domain, *, metric: Metric) -> str:
    """Return what to say of a column that carries most of the distance between names, "" where none does."""
    largest, share = _most(column_shares(domain.matrix, metric=metric), MOST)
    if not share:
        return ""
    return (
        f"the column {domain.columns[largest]!r} carries {share:.1%} of the distance between names, and all "
        f"{len(domain.columns) - 1} others the rest: set domain.standardize = true, or leave it out with domain.drop"
    )


def _warn_of_one_component(known: Domain) -> str:
    """Return what to say of a column of known vectors that is larger than all others, "" where none is."""
    squares = (np.asarray(known.matrix, np.float64) ** 2).sum(axis=0)
    largest, share = _most(squares / max(squares.sum(), np.finfo(float).tiny), NEARLY_ALL)
    if not share:
        return ""
    return (
        f"warning: the column {known.columns[largest]!r} holds {share:.1%} of the length of the known vectors: if it "
        "is no component of them, leave it out with known.drop"
    )


def _most(shares: NDArray[np.float64], limit: float) -> tuple[int, float]:
    """Return the column of the largest share, and its share, 0 where it is not above the limit."""
    largest = int(shares.argmax())
    return largest, float(shares[largest]) if len(shares) > 1 and shares[largest] > limit else 0.0


class Known(NamedTuple):
    """The vectors a job knows, and what was done to the table they came from."""

    vectors: WordVectors
    notes: list[str]


def read_known(section: KnownSection) -> Known:
    """Return the vectors a job knows, from a vector file or a table.

    Raises
    ------
    TableError
        As `read_domain`.
    ValueError
        If the vector file is damaged, or a name stands twice.
    """
    bare = section.path
    for compression in COMPRESSIONS:
        bare = bare.removesuffix(compression)
    if section.format == "vectors" or (section.format == "auto" and not bare.endswith(TABLE_SUFFIXES)):
        return Known(WordVectors.load(section.path, max_words=section.max_words), [])
    table = read_table(section.path, delimiter=section.delimiter, encoding=section.encoding)
    key, problems = key_and_problems(table, section, [])
    cut = {name: column[: section.max_words] for name, column in table.columns.items()}
    wanted = [name for name in cut if name != key and name not in section.drop]
    read = features_of(section, table._replace(columns=cut), texts_of(cut[key]), wanted, problems)
    read = settled(read, section, key="known", problems=problems)
    warning = _warn_of_one_component(read)
    return Known(WordVectors(read.names, read.matrix), [*read.notes, *filter(None, [warning])])


class Joined(NamedTuple):
    """A domain joined with known vectors: n names, then the words that are no name of it."""

    domain: Domain
    rows: NDArray[np.int64]  # (n,): row of a name among the known vectors, -1 where it is to be imputed
    known: Known
    others: NDArray[np.int64]  # rows of known vectors that no name matched

    @property
    def words(self) -> Sequence[str]:
        """The words with a known vector."""
        return self.known.vectors.words

    @property
    def targets(self) -> NDArray[np.float32]:
        """The vectors of the names, float32 (n, s), NaN where they are to be imputed."""
        vectors = self.known.vectors.vectors[self.rows]
        vectors[self.rows < 0] = np.nan
        return vectors

    def vocabulary(self, *, with_others: bool) -> pa.Table:
        """Return word, name in the table, origin and label of each row of the vectors."""
        found = [self.words[row] if row >= 0 else "" for row in self.rows]
        names, labels = list(self.domain.names), list(self.domain.labels)
        words = [word or name for word, name in zip(found, names, strict=True)]
        origin = ["known" if word else "imputed" for word in found]
        if with_others:
            more = [self.words[row] for row in self.others]
            words, names, labels = words + more, names + [""] * len(more), labels + [""] * len(more)
            origin += ["other"] * len(more)
        refuse_twice("the joined table", "word", words)
        return pa.table({"word": words, "name": names, "origin": origin, "label": labels})


def join(domain: Domain, known: Known, matching: MatchingSection) -> Joined:
    """Join a domain with known vectors by name; see `match_names`."""
    rows = match_names(
        domain.names,
        known.vectors.words,
        ignore_case=matching.ignore_case,
        ignore_underscores=matching.ignore_underscores,
    )
    others = np.setdiff1d(np.arange(len(known.vectors)), rows)
    return Joined(domain, rows, known, others)
