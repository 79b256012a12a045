"""What is known of every name, the vectors there are, and both joined by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import one_blas_thread
from distembed.linalg.blocks import directions
from distembed.neighbors.distances import Metric
from distembed.pipeline.tables.config import DomainSection, KnownSection, MatchingSection
from distembed.pipeline.tables.files import (
    COMPRESSIONS,
    TABLE_SUFFIXES,
    Columns,
    Floats,
    TableError,
    column_of,
    key_column,
    number_columns,
    number_names,
    read_columns,
    refuse_twice,
    texts_of,
)
from distembed.pipeline.tables.names import match_names
from distembed.vectors import WordVectors


class Domain(NamedTuple):
    """What is known of every name."""

    names: list[str]
    matrix: Floats  # (n, d)
    columns: list[str]  # d names
    labels: list[str]  # one a name, "" where there is none
    left_out: dict[str, str]  # name: why it has no row


def read_domain(section: DomainSection) -> Domain:
    """Return the domain matrix of a job, a row a name.

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a value is no finite number.
    """
    columns = read_columns(section.path)
    for name in section.drop:
        column_of(section.path, columns, name)
    columns = {name: values for name, values in columns.items() if name not in section.drop}
    key = key_column(section.path, columns, section.name_column)
    make = _from_prices if section.transform == "return_correlation" else _from_features
    domain = _renamed(make(section, columns, key), section)
    refuse_twice(section.names or section.path, "name", domain.names)
    return domain._replace(matrix=_standardized(domain.matrix)) if section.standardizes else domain


def _from_features(section: DomainSection, columns: Columns, key: str) -> Domain:
    names = texts_of(columns[key])
    wanted = section.columns or [name for name in columns if name not in (key, section.label_column)]
    for name in wanted:
        column_of(section.path, columns, name)
    labels = [""] * len(names)
    if section.label_column is not None:
        labels = texts_of(column_of(section.path, columns, section.label_column))
    matrix = number_columns(section.path, columns, names, wanted)
    return Domain(names, matrix, number_names(columns, wanted), labels, {})


def _from_prices(section: DomainSection, columns: Columns, key: str) -> Domain:
    """Return the correlations of the returns of all columns that have a price on every date of the window."""
    dates = np.array(texts_of(columns[key]))
    chosen = (dates >= (section.first or "")) & (dates <= (section.last or "\U0010ffff"))
    if chosen.sum() < 3:
        raise TableError(
            f"{section.path} has {chosen.sum()} dates from {section.first} to {section.last}: returns need 3"
        )
    names = [name for name in section.columns or columns if name != key]
    prices = np.stack([_prices(section.path, columns, name)[chosen] for name in names], axis=1)
    returns, left_out = _complete_returns(prices[np.argsort(dates[chosen], kind="stable")], names)
    kept = [name for name in names if name not in left_out]
    if len(kept) < 2:
        raise TableError(f"{section.path} has prices on every date for {len(kept)} names: choose other dates")
    with one_blas_thread():
        matrix: NDArray[np.float64] = np.asarray(np.corrcoef(returns, rowvar=False))
    return Domain(kept, matrix, kept, [""] * len(kept), left_out)


def _prices(path: str, columns: Columns, name: str) -> NDArray[np.float64]:
    values = column_of(path, columns, name)
    if values.dtype.kind not in "fiu" or values.ndim != 1:
        raise TableError(f"the column {name!r} of {path} holds {values.dtype}, not prices: drop it")
    return values.astype(np.float64)


def _complete_returns(
    prices: NDArray[np.float64], names: Sequence[str]
) -> tuple[NDArray[np.float64], dict[str, str]]:
    """Return p_t / p_(t-1) - 1 of the complete series, and the names left out with the reason."""
    missing: NDArray[np.bool_] = np.asarray(~(prices > 0).all(axis=0))
    returns = prices[1:, ~missing] / prices[:-1, ~missing] - 1
    still = np.zeros_like(missing)
    still[~missing] = np.ptp(returns, axis=0) == 0
    left_out = {
        name: "its price never moves" if still[i] else "a price is missing or not positive"
        for i, name in enumerate(names)
        if missing[i] or still[i]
    }
    return returns[:, ~still[~missing]], left_out


def _renamed(domain: Domain, section: DomainSection) -> Domain:
    """Return the domain under the names of the table of names, where there is one, with its labels."""
    if section.names is None:
        return domain
    columns = read_columns(section.names)
    keys = texts_of(column_of(section.names, columns, section.names_from))
    refuse_twice(section.names, "name", keys)
    new = dict(zip(keys, texts_of(column_of(section.names, columns, section.names_to)), strict=True))
    labels = domain.labels
    if section.names_label is not None:
        given = dict(zip(keys, texts_of(column_of(section.names, columns, section.names_label)), strict=True))
        labels = [given.get(name, "") for name in domain.names]
    names = [new.get(name, name) for name in domain.names]
    left_out = {new.get(name, name): why for name, why in domain.left_out.items()}
    return domain._replace(names=names, labels=labels, left_out=left_out)


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


def warn_of_one_column(domain: Domain, *, metric: Metric) -> str:
    """Return what to say of a column that carries most of the distance between names, "" where none does."""
    shares = column_shares(domain.matrix, metric=metric)
    largest = int(shares.argmax())
    if len(shares) < 2 or not shares[largest] > MOST:
        return ""
    return (
        f"the column {domain.columns[largest]!r} carries {shares[largest]:.1%} of the distance between names, and "
        f"the {plural(len(shares) - 1, 'other column')} together the rest: set domain.standardize = true, or leave it "
        "out with domain.drop"
    )


def read_known(section: KnownSection) -> WordVectors:
    """Return the vectors a job knows, from a vector file or a table.

    Raises
    ------
    TableError
        If the table lacks a column, or a value is no finite number.
    ValueError
        If the vector file is damaged, or a name stands twice.
    """
    bare = section.path
    for compression in COMPRESSIONS:
        bare = bare.removesuffix(compression)
    if section.format == "vectors" or (section.format == "auto" and not bare.endswith(TABLE_SUFFIXES)):
        return WordVectors.load(section.path, max_words=section.max_words)
    columns = read_columns(section.path)
    for name in section.drop:
        column_of(section.path, columns, name)
    key = key_column(section.path, columns, section.name_column)
    names = texts_of(columns[key])[: section.max_words]
    wanted = [name for name in columns if name != key and name not in section.drop]
    columns = {name: columns[name][: section.max_words] for name in wanted}
    refuse_twice(section.path, "name", names)
    return WordVectors(names, number_columns(section.path, columns, names, wanted))


class Joined(NamedTuple):
    """A domain joined with known vectors: n names, then the words that are no name of it."""

    domain: Domain
    rows: NDArray[np.int64]  # (n,): row of a name among the known vectors, -1 where it is to be imputed
    known: WordVectors
    others: NDArray[np.int64]  # rows of known vectors that no name matched

    @property
    def targets(self) -> NDArray[np.float32]:
        """The vectors of the names, float32 (n, s), NaN where they are to be imputed."""
        vectors = self.known.vectors[self.rows]
        vectors[self.rows < 0] = np.nan
        return vectors

    def vocabulary(self, *, with_others: bool) -> pa.Table:
        """Return word, name in the table, origin and label of each row of the vectors."""
        found = [self.known.words[row] if row >= 0 else "" for row in self.rows]
        names, labels = list(self.domain.names), list(self.domain.labels)
        words = [word or name for word, name in zip(found, names, strict=True)]
        origin = ["known" if word else "imputed" for word in found]
        if with_others:
            more = [self.known.words[row] for row in self.others]
            words, names, labels = words + more, names + [""] * len(more), labels + [""] * len(more)
            origin += ["other"] * len(more)
        refuse_twice("the joined table", "word", words)
        return pa.table({"word": words, "name": names, "origin": origin, "label": labels})


def join(domain: Domain, known: WordVectors, matching: MatchingSection) -> Joined:
    """Join a domain with known vectors by name; see `match_names`."""
    rows = match_names(
        domain.names,
        known.words,
        ignore_case=matching.ignore_case,
        ignore_underscores=matching.ignore_underscores,
    )
    others = np.setdiff1d(np.arange(len(known)), rows)
    return Joined(domain, rows, known, others)
