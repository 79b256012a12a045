"""What is known of every name, the vectors there are, and both joined by name."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from distembed.display import first_repeat, plural
from distembed.dtypes import Floats, Int64s
from distembed.execution import one_blas_thread
from distembed.formats.names import TABLE_SUFFIXES, suffix_of
from distembed.formats.streams import reading
from distembed.formats.tables import Table, TableError, names_of, read_table, some
from distembed.job.inputs import file_sizes
from distembed.job.stage import vectors_at
from distembed.storage.workspace import Workspace
from distembed.tables import rows
from distembed.tables.rows import Domain, LeftOut, Scales, read_rows, refusal
from distembed.tables.sections import DomainSection, KnownSection, PricesSection
from distembed.vectors import WordVectors
from distembed.vectors.files import promised_words, vector_format

NUMBER = r" [-+]?[.\d]+(?:[eE][-+]?\d+)?"
VECTOR_LINE = re.compile(rf"(\d+|[^\s,;|]+(?:{NUMBER})+){NUMBER}\s*")
"""The first line of vectors as text: their numbers, or a word and its vector of two components or more."""

TEXT_VECTORS = (".txt", ".vec", ".csv", ".tsv")
"""Endings of files whose numbers are written as text, not compressed."""

KNOWN_WORD_BYTES = 300
"""Bytes of a known word while its name is matched: the text, lists, and dictionaries of its spellings."""


# ---- the domain --------------------------------------------------------------------------------------------------


def read_domain(section: DomainSection) -> Domain:
    """Return the domain matrix of a job, a row per name.

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a cell holds no finite number, where the section does
        not say what is to become of it; all problems are named at once.
    """
    is_table, problems = not holds_vectors(section.path, section.format), list[str]()
    if not is_table:
        domain = _from_vectors(section)
    elif isinstance(section, PricesSection):
        domain = from_prices(section)
    else:
        domain, problems = read_rows(section, columns=section.columns, label=section.label_column)
    domain = rows.settled(renamed(domain, section), section, "domain", problems)
    own = [each._replace(name=domain.spellings.get(each.name, each.name)) for each in domain.left_out]
    has_features = is_table and section.transform == "none"
    standardize = has_features if section.standardize is None else section.standardize
    domain = domain._replace(left_out=own)
    return rows.scaled(domain, standardize=standardize) if has_features or standardize else domain


def holds_vectors(path: str, chosen: str) -> bool:
    """Return whether the domain at a path is vectors of words, as it says or by its name and its first line.

    A `.parquet` file counts as a table unless `format = "vectors"`, and so does text whose fields are separated by
    more than spaces.
    """
    if chosen != "auto":
        return chosen == "vectors"
    by_name = vector_format(path)
    if by_name not in (None, "word2vec", "parquet") or Workspace.exists(path):
        return True
    if by_name == "parquet" or suffix_of(path) in TABLE_SUFFIXES:
        return False
    with reading(path, TableError) as file:
        return VECTOR_LINE.fullmatch(file.readline(1 << 20).decode(errors="replace")) is not None


def _from_vectors(section: DomainSection) -> Domain:
    """Return vectors of words as a domain: a row per word, as it came."""
    of_tables = section.model_dump(include={"columns", "drop", "name_column", "label_column"})
    named = [name for name, value in of_tables.items() if value]
    if named := ["transform"] * (section.transform != "none") + named:
        raise TableError(
            f"{section.path} holds vectors of words, of which domain.{named[0]} says nothing: leave it out, or set "
            'domain.format = "table"'
        )
    vectors = vectors_at(section.path, max_words=section.max_words)
    words, matrix = list(vectors.words), np.asarray(vectors.vectors)
    columns = [f"component {number}" for number in range(matrix.shape[1])]
    note = (
        f"{section.path} holds vectors of words: {len(words):,} words x {matrix.shape[1]} components, whose directions "
        'imputation.metric = "cosine" compares'
    )
    return Domain(words, matrix, columns, [""] * len(words), [], [note])


def renamed(domain: Domain, section: DomainSection) -> Domain:
    """Return the domain under the names of the table of names, where there is one, with its labels."""
    if section.names is None:
        return domain
    table = read_table(section.names, has_options=False)
    new = _mapping(table, section.names_from, section.names_to)
    labels = domain.labels
    if section.names_label is not None:
        given = _mapping(table, section.names_from, section.names_label)
        labels = [given.get(name, "") for name in domain.names]
    names = [new.get(name, name) for name in domain.names]
    pairs = reversed([*zip(names, domain.names, strict=True)])
    own = {name: before for name, before in pairs if name != before}
    return domain._replace(names=names, labels=labels, notes=[*domain.notes, *table.notes], spellings=own)


def _mapping(table: Table, key: str, value: str) -> dict[str, str]:
    """Return what one column of a table says of the names in another; rows that say nothing are passed over."""
    found: dict[str, str] = {}
    for name, text in zip(names_of(table, key), names_of(table, value), strict=True):
        if name and text and found.setdefault(name, text) != text:
            raise TableError(
                f"{table.path} has the name {name!r} twice, as {found[name]!r} and {text!r}: keep one"
            )
    return found


def read_new_rows(section: DomainSection, columns: Sequence[str], scales: Scales) -> Domain:
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

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a cell holds no finite number, where the section does
        not say what is to become of it; or if it holds no row.
    """
    problems: list[str] = []
    if holds_vectors(section.path, section.format):
        domain = _from_vectors(section)
        if len(domain.columns) != len(columns):
            raise TableError(
                f"{section.path} holds vectors of {len(domain.columns)} components, but the job has {len(columns)} "
                "columns per name: give vectors of the same set"
            )
    else:
        domain, problems = read_rows(section.model_copy(update={"drop": ()}), columns=columns)
        if not problems and (left := [name for name in columns if name not in domain.columns]):
            raise TableError(
                f"{section.path} has numbers of the job in the column {left[0]!r}, where names are looked for: name "
                "the column of names with domain.name_column"
            )
    if not domain.names:
        raise TableError(f"{section.path} has no row: give one per new name")
    domain = rows.settled(renamed(domain, section), section, "domain", problems, medians=scales.medians)
    return domain._replace(matrix=rows.on_scales(domain.matrix, scales), scales=scales)


# ---- prices ------------------------------------------------------------------------------------------------------


YEAR_FIRST = re.compile(r"\d{4}([-/.]?)\d{2}\1\d{2}(?!\d)")
"""A date whose order as text is its order in time."""

A_BOUND = re.compile(r"\d{4}([-/.]?\d{2}){0,2}(?!\d)")
"""A year, a month or a day."""


def from_prices(section: PricesSection) -> Domain:
    """Return the correlations of the returns of all columns that have prices enough in the window of dates.

    Raises
    ------
    TableError
        If the table has other cells than dates and numbers, or fewer than two names have returns.
    """
    read, problems = read_rows(section, columns=section.columns)
    if problems:
        raise refusal(section.path, problems)
    chosen = _rows_in_time(section, read.names)
    found = returns_of(read.matrix[chosen], read.columns, max_missing=section.max_missing)
    if len(found.names) < 2:
        often, remedy = "every date", "set domain.max_missing = 0.2, which keeps names with gaps"
        if section.max_missing:
            often, remedy = "enough dates", f"raise domain.max_missing, which is {section.max_missing}"
        raise TableError(
            f"{section.path} has prices on {often} for {len(found.names)} names: choose other dates, or {remedy}"
        )
    with one_blas_thread():
        matrix = np.asarray(np.corrcoef(found.matrix, rowvar=False))
    return found._replace(matrix=matrix, notes=[*read.notes, *found.notes])


def _rows_in_time(section: PricesSection, dates: Sequence[str]) -> Int64s:
    """Return the rows of the window from the oldest to the newest."""
    for key in ("first", "last"):
        if (bound := getattr(section, key)) and not A_BOUND.match(bound):
            raise TableError(f"domain.{key} is {bound!r}: write the year first, such as 2020-01-31")
    if other := next((date for date in dates if date and not YEAR_FIRST.match(date)), None):
        raise TableError(
            f"{section.path} has the date {other!r}: write dates with the year first, such as 2020-01-31, and name "
            "their column with domain.name_column"
        )
    if twice := first_repeat(filter(None, dates)):
        raise TableError(
            f"{section.path} has the date {twice[0]!r} in several rows: turn the table: a row is a day, and each name "
            "is a column (DataFrame.pivot in pandas)"
        )
    digits = [re.sub(r"\D", "", date) for date in dates]
    first, last = (re.sub(r"\D", "", bound or "") for bound in (section.first, section.last))
    # A bound takes in all of its day, or month: what is compared has as many digits as the bound.
    taken = (bool(date) and date[: len(first)] >= first and date[: len(last)] <= last for date in digits)
    chosen = [row for row, is_taken in enumerate(taken) if is_taken]
    if len(chosen) < 3:
        raise TableError(
            f"{section.path} has {len(chosen)} dates from {section.first} to {section.last}: returns need 3"
        )
    return np.array(sorted(chosen, key=digits.__getitem__), np.int64)


def returns_of(prices: Floats, names: Sequence[str], *, max_missing: float) -> Domain:
    """Return p_t / p_(t-1) - 1 of the names with few gaps, (days, n), each gap filled by the mean of its day.

    A price that is missing, or not positive, takes two returns with it: that of its day and that of the next. Each gets
    the mean of the returns that the other names have on that day (Yao, Yu and Xiao 2019, section 5.2). Days on which
    no name has a price are left out first.

    Parameters
    ----------
    prices : (days, n), oldest first
        NaN where there is none.
    names : n names
    max_missing : float
        The share of the days, at most, on which a name that is kept may lack a price.
    """
    is_open = (prices > 0).any(axis=1)
    prices = np.where(prices > 0, prices, np.nan)[is_open].astype(np.float64)
    shares = np.isnan(prices).mean(axis=0) if len(prices) else np.ones(len(names))
    returns = prices[1:] / prices[:-1] - 1
    moves = [np.unique(column[~np.isnan(column)]).size > 1 for column in returns.T]
    left_out, reason = [], "a price is missing or not positive"
    remedy = "choose dates on which it has one with domain.first and domain.last"
    for name, share, is_moving in zip(names, shares.tolist(), moves, strict=True):
        if max_missing:
            reason = f"{share:.1%} of its prices are missing or not positive, more than domain.max_missing"
        if share > max_missing:
            left_out.append(LeftOut(name, reason, remedy))
        elif not is_moving:
            left_out.append(LeftOut(name, "its price never moves"))
    kept = np.flatnonzero((shares <= max_missing) & np.array(moves, bool))
    returns = returns[:, kept]
    returns = returns[~np.isnan(returns).all(axis=1)]
    gaps = np.isnan(returns)
    if gaps.any():
        returns = np.where(gaps, np.nanmean(returns, axis=1, keepdims=True), returns)
    kept_names, n_closed = [names[column] for column in kept.tolist()], int((~is_open).sum())
    notes = [f"{plural(n_closed, 'date')} on which no name has a price left out"] if n_closed else []
    if gaps.any():
        holed = [kept_names[column] for column in np.flatnonzero(gaps.any(axis=0)).tolist()]
        notes.append(
            f"{plural(int(gaps.sum()), 'daily return')} without a price took the mean of the day, in "
            f"{plural(len(holed), 'name')}: {some(holed)}"
        )
    return Domain(kept_names, returns, kept_names, [""] * len(kept_names), left_out, notes)


# ---- known vectors -----------------------------------------------------------------------------------------------


def read_known(section: KnownSection) -> tuple[WordVectors, list[str]]:
    """Return the vectors a job knows, from a vector file, a workspace or a table, and what was done to that.

    Raises
    ------
    TableError
        As `read_domain`.
    ValueError
        If the vector file is damaged, or a name stands twice.
    """
    if not _is_table(section):
        return vectors_at(section.path, max_words=section.max_words), []
    read, n = rows.read_values(section, key="known"), section.max_words
    return WordVectors(read.names[:n], read.matrix[:n]), read.notes


def _is_table(section: KnownSection) -> bool:
    return section.format == "table" or (
        section.format == "auto" and suffix_of(section.path) in TABLE_SUFFIXES
    )


def known_size(section: KnownSection) -> tuple[int, int]:
    """Return the number of components of the vectors a job knows, and about how many bytes they take in memory.

    Without a header that says how many words a file has, they follow from its bytes: a component of four bytes takes
    about nine characters as text, and about four where that is compressed.
    """
    path, is_table = section.path, _is_table(section)
    first = read_known(section)[0] if is_table else vectors_at(path, max_words=1)
    width, n = int(first.vectors.shape[1]), len(first) if is_table else None
    if Workspace.exists(path):
        n = math.prod(Workspace.open(path).describe("vectors").spec.shape) // width
    elif n is None and (n := promised_words(path)) is None:
        n_bytes = file_sizes([path])[path] // (2 if path.lower().endswith(TEXT_VECTORS) else 1)
        n = -(-n_bytes // (4 * width))
    return width, (4 * width + KNOWN_WORD_BYTES) * min(n, section.max_words or n)


# ---- both joined -------------------------------------------------------------------------------------------------


def joined_words(domain: Domain, known: Sequence[str], rows: Int64s, others: Int64s) -> pa.Table:
    """Return word, name in the table, origin and label of the names of a domain, and of other words below them.

    Parameters
    ----------
    domain : Domain
    known : the words with a vector
    rows : the row of each name among these, -1 where it is to be imputed, as `match_names` finds it
    others : the rows of the words that are no name

    Raises
    ------
    TableError
        If a word stands twice.
    """
    pairs, more = zip(rows.tolist(), domain.names, strict=True), [known[row] for row in others]
    words = [*(known[row] if row >= 0 else name for row, name in pairs), *more]
    if found := first_repeat(words):
        raise TableError(f"the joined table has the word {found[0]!r} twice: keep one")
    names = [domain.spellings.get(name, name) for name in domain.names]
    origin = [*np.where(rows >= 0, "known", "imputed").tolist(), *["other"] * len(more)]
    blank = [""] * len(more)
    return pa.table({"word": words, "name": names + blank, "origin": origin, "label": domain.labels + blank})
