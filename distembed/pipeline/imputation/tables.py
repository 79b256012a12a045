"""Tables of names and numbers, and the join of their names: CSV (any compression), Parquet and NumPy's npz.

A domain table says something of every name; known vectors exist for some. What is read here fits in memory: a row
is a name, and names are few beside the words of a corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.execution import one_blas_thread
from distembed.pipeline.imputation.config import DomainSection, KnownSection, MatchingSection
from distembed.vectors import WordVectors

Columns: TypeAlias = Mapping[str, NDArray[Any]]
Floats: TypeAlias = NDArray[np.floating[Any]]

TABLE_SUFFIXES = (".csv", ".tsv", ".npz")
COMPRESSIONS = (".xz", ".gz", ".bz2", ".zst")
SHOWN = 3
"""Names shown of a list that is at fault."""


class TableError(ValueError):
    """A table that does not hold what the job says."""


class Domain(NamedTuple):
    """What is known of every name."""

    names: list[str]
    matrix: Floats  # (n, d)
    labels: list[str]  # one a name, "" where there is none
    left_out: dict[str, str]  # name: why it has no row


# ---- reading ----------------------------------------------------------------------------------------------


def read_columns(path: str) -> Columns:
    """Read the columns of a table by name; those of an npz file may be matrices, a row an entry.

    Raises
    ------
    TableError
        If two columns have one name, or the file is no table.
    """
    suffix = _suffix(path)
    with fsspec.open(path, "rb", compression=None if suffix in (".npz", ".parquet") else "infer") as file:
        if suffix == ".npz":
            with np.load(file) as arrays:
                return {name: arrays[name] for name in arrays.files}
        # Read in this thread: one of Arrow's, still at a file of Python's when the program ends, aborts it.
        table = (
            pq.read_table(file, use_threads=False, pre_buffer=False, page_checksum_verification=True)
            if suffix == ".parquet"
            else _read_csv(path, file, suffix)
        )
    _refuse_twice(path, "column", table.column_names)
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}


def _read_csv(path: str, file: Any, suffix: str) -> pa.Table:
    try:
        options = pacsv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        return pacsv.read_csv(file, parse_options=options)
    except pa.ArrowInvalid as error:
        raise TableError(f"{path} is not a table of comma-separated values: {error}") from None


def _suffix(path: str) -> str:
    """Return the end of a file's name that tells its format, without the end of a compression."""
    for compression in COMPRESSIONS:
        path = path.removesuffix(compression)
    return next((end for end in (".npz", ".parquet", ".tsv") if path.endswith(end)), ".csv")


def _refuse_twice(path: str, kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TableError(f"{path} has the {kind} {name!r} twice: keep one")
        seen.add(name)


def _texts(values: NDArray[Any]) -> list[str]:
    return [str(value) for value in values.tolist()]


def _column(path: str, columns: Columns, name: str) -> NDArray[Any]:
    if name not in columns:
        raise TableError(f"{path} has no column {name!r}; it has {_some(columns)}")
    return columns[name]


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(map(repr, names[:SHOWN])) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )


def _key(path: str, columns: Columns, name: str | None) -> str:
    """Return the column of names: the one asked for, else the first that is no matrix."""
    if name is not None:
        _column(path, columns, name)
        return name
    plain = [name for name, values in columns.items() if values.ndim == 1]
    if not plain:
        raise TableError(f"{path} has no column of names; it has {_some(columns)}")
    return plain[0]


def _features(path: str, columns: Columns, names: Sequence[str], wanted: Iterable[str]) -> Floats:
    """Return the wanted columns side by side, a row a name; refuse what is no number."""
    parts = [_numbers(path, columns[name], name, names) for name in wanted]
    if not parts:
        raise TableError(f"{path} has no column of numbers beside its names")
    dtype = np.result_type(*parts, np.float32)
    return np.concatenate([part.astype(dtype, copy=False) for part in parts], axis=1)


def _numbers(path: str, values: NDArray[Any], column: str, names: Sequence[str]) -> NDArray[Any]:
    if values.dtype.kind not in "fiub" or values.ndim > 2 or len(values) != len(names):
        what = f"shape {values.shape} and type {values.dtype}"
        raise TableError(
            f"the column {column!r} of {path} has {what}, not a number for each of {len(names)} names: drop it"
        )
    matrix = values.reshape(len(values), -1)
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        first = names[int(np.flatnonzero(bad)[0])]
        raise TableError(
            f"the column {column!r} of {path} has no finite number for {bad.sum()} of {len(names)} names, first "
            f"{first!r}: drop the column, or fill in the values"
        )
    return matrix


# ---- the domain -------------------------------------------------------------------------------------------


def read_domain(section: DomainSection) -> Domain:
    """Return the domain matrix of a job, a row a name.

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a value is no finite number.
    """
    columns = read_columns(section.path)
    for name in section.drop:
        _column(section.path, columns, name)
    columns = {name: values for name, values in columns.items() if name not in section.drop}
    key = _key(section.path, columns, section.name_column)
    make = _from_prices if section.transform == "return_correlation" else _from_features
    domain = _renamed(make(section, columns, key), section)
    _refuse_twice(section.names or section.path, "name", domain.names)
    return domain._replace(matrix=_standardised(domain.matrix)) if section.standardise else domain


def _from_features(section: DomainSection, columns: Columns, key: str) -> Domain:
    names = _texts(columns[key])
    wanted = section.columns or [name for name in columns if name not in (key, section.label_column)]
    for name in wanted:
        _column(section.path, columns, name)
    labels = [""] * len(names)
    if section.label_column is not None:
        labels = _texts(_column(section.path, columns, section.label_column))
    return Domain(names, _features(section.path, columns, names, wanted), labels, {})


def _from_prices(section: DomainSection, columns: Columns, key: str) -> Domain:
    """Return the correlations of the returns of all columns that have a price on every date of the window."""
    dates = np.array(_texts(columns[key]))
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
    return Domain(kept, matrix, [""] * len(kept), left_out)


def _prices(path: str, columns: Columns, name: str) -> NDArray[np.float64]:
    values = _column(path, columns, name)
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
    keys = _texts(_column(section.names, columns, section.names_from))
    _refuse_twice(section.names, "name", keys)
    new = dict(zip(keys, _texts(_column(section.names, columns, section.names_to)), strict=True))
    labels = domain.labels
    if section.names_label is not None:
        given = dict(zip(keys, _texts(_column(section.names, columns, section.names_label)), strict=True))
        labels = [given.get(name, "") for name in domain.names]
    names = [new.get(name, name) for name in domain.names]
    return Domain(names, domain.matrix, labels, {new.get(n, n): why for n, why in domain.left_out.items()})


def _standardised(matrix: Floats) -> Floats:
    """Return columns of mean 0 and variance 1; a constant column becomes zeros and says nothing."""
    spread = matrix.std(axis=0, dtype=np.float64)
    centred = matrix - matrix.mean(axis=0, dtype=np.float64)
    return (centred / np.where(spread > 0, spread, 1.0)).astype(matrix.dtype)


# ---- known vectors ----------------------------------------------------------------------------------------


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
        _column(section.path, columns, name)
    key = _key(section.path, columns, section.name_column)
    names = _texts(columns[key])[: section.max_words]
    wanted = [name for name in columns if name != key and name not in section.drop]
    columns = {name: columns[name][: section.max_words] for name in wanted}
    _refuse_twice(section.path, "name", names)
    return WordVectors(names, _features(section.path, columns, names, wanted))


# ---- joining ----------------------------------------------------------------------------------------------


def match_names(
    names: Sequence[str], words: Sequence[str], *, ignore_case: bool, ignore_underscores: bool
) -> NDArray[np.int64]:
    """Return the row among `words` of each name, int64, shape (n,), -1 where there is none.

    A name takes the word that is spelled like it; only a name without one takes the first word that differs from
    it in no more than what is ignored (vector files have their frequent words first).

    Raises
    ------
    TableError
        If no name has a word, or two names would take the same.
    """
    fold = _folding(ignore_case=ignore_case, ignore_underscores=ignore_underscores)
    exact = {word: row for row, word in enumerate(words)}
    folded = {fold(word): row for row, word in reversed(list(enumerate(words)))}
    rows = [exact.get(name, -1) for name in names]
    rows = [folded.get(fold(name), -1) if row < 0 else row for name, row in zip(names, rows, strict=True)]
    taken: dict[int, str] = {}
    for name, row in zip(names, rows, strict=True):
        if row >= 0 and taken.setdefault(row, name) != name:
            raise TableError(
                f"the names {taken[row]!r} and {name!r} both match the word {words[row]!r}: rename or drop one"
            )
    if not taken:
        raise TableError(
            f"no name of the table ({_some(names)}) is a word with a vector ({_some(words)}): see [matching]"
        )
    return np.array(rows, dtype=np.int64)


def _folding(*, ignore_case: bool, ignore_underscores: bool) -> Callable[[str], str]:
    def fold(name: str) -> str:
        name = "_".join(name.replace("_", " ").split()) if ignore_underscores else name
        return name.casefold() if ignore_case else name

    return fold


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
        _refuse_twice("the joined table", "word", words)
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
