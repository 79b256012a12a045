"""The match of the names of a table with the words of vectors, and the pairs that nearly match."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import ne
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import plural
from distembed.formats.tables import SHOWN, Floats, TableError, some
from distembed.tables.rows import Domain, LeftOut
from distembed.tables.sections import MatchingSection


def match_names(names: Sequence[str], words: Sequence[str], matching: MatchingSection) -> NDArray[np.int64]:
    """Return the row among `words` of each name, int64, shape (n,), -1 where there is none.

    A name takes the word that is spelled like it; only a name without one takes the first word that differs from
    it in no more than what is ignored (vector files have their frequent words first).

    Raises
    ------
    TableError
        If no name has a word, or two names would take the same.
    """
    fold = folding(matching)
    exact = {word: row for row, word in enumerate(words)}
    folded = {fold(word): row for row, word in reversed(list(enumerate(words)))}
    rows = [exact.get(name, -1) for name in names]
    rows = [folded.get(fold(name), -1) if row < 0 else row for name, row in zip(names, rows, strict=True)]
    taken: dict[int, list[str]] = {}
    for name, row in zip(names, rows, strict=True):
        if row >= 0:
            taken.setdefault(row, []).append(name)
    shared = [(words[row], same) for row, same in taken.items() if len(same) > 1]
    if shared:
        raise TableError(_of_shared_words(shared))
    if not taken:
        raise TableError(
            f"no name of the table ({some(names)}) is a word with a vector ({some(words)}): see [matching]"
        )
    return np.array(rows, dtype=np.int64)


def _of_shared_words(shared: list[tuple[str, list[str]]]) -> str:
    pairs = [f"{' and '.join(map(repr, same))} both match the word {word!r}" for word, same in shared]
    more = f"; and so do {plural(len(pairs) - SHOWN, 'more pair')}" if len(pairs) > SHOWN else ""
    return f"the names {'; '.join(pairs[:SHOWN])}{more}: rename or drop one of each"


def folding(matching: MatchingSection) -> Callable[[str], str]:
    """Return what makes two names equal that differ in no more than what `matching` ignores."""

    def fold(name: str) -> str:
        name = "_".join(name.replace("_", " ").split()) if matching.ignore_underscores else name
        return name.casefold() if matching.ignore_case else name

    return fold


# ---- near misses -------------------------------------------------------------------------------------------

LEGAL_FORMS = frozenset(
    re.findall(
        r"\w+",
        "ab ag asa bv co company corp corporation gmbh group holding holdings inc incorporated kg kgaa limited llc lp "
        "ltd nv oyj plc sa sarl se spa the",
    )
)
"""Words that a name may have or lack: the forms of companies, and the article."""

SEARCHED_WORDS = 500_000
"""Words without a name, the first ones, among which near misses are sought; vector files have frequent words first."""

LEAST_LETTERS = 6
"""Letters of the shorter of two spellings, without spaces, that may differ in one of them and still be offered."""


MOST_OF_A_HALF = 20
"""Names that begin or end alike, at most, to be compared with a word letter by letter: it bounds the time."""


class NearMiss(NamedTuple):
    """A name without a vector, a word with one that no name has, and in what they differ."""

    name: str
    word: str
    difference: str


def near_misses(
    names: Sequence[str], words: Sequence[str], rows: NDArray[np.int64], matching: MatchingSection
) -> list[NearMiss]:
    """Return the names without a word that differ little from a word without a name, in the order of the names.

    Two spellings differ little that are equal but for what `matching` could ignore; for accents, punctuation, legal
    forms of companies and articles; or for one letter. Time grows with the number of names and words, not with
    their product.

    Parameters
    ----------
    names : of the table
    words : with a known vector
    rows : the row among the words of each name, -1 where there is none, as `match_names` gives it
    matching : MatchingSection
        How names are matched.
    """
    used = set(rows.tolist())
    wanted = [name for name, row in zip(names, rows, strict=True) if row < 0]
    offered = [word for row, word in enumerate(words) if row not in used][:SEARCHED_WORDS]
    found: dict[str, NearMiss] = {}
    for difference, fold in _foldings(matching).items():
        by_fold = {fold(word): word for word in reversed(offered)}
        for name in wanted:
            word = by_fold.get(fold(name)) if name not in found else None
            if word is not None and fold(name):
                found[name] = NearMiss(name, word, difference)
    for name, word in _one_letter_apart([name for name in wanted if name not in found], offered):
        found.setdefault(name, NearMiss(name, word, "one letter"))
    return [found[name] for name in wanted if name in found]


def advice_on(misses: Sequence[NearMiss]) -> str:
    """Return what to say of near misses, "" where there are none."""
    counts = Counter(miss.difference for miss in misses)
    sentences = [
        f"{plural(counts[option], 'more name')} would match with matching.{option} = true"
        for option in ("ignore_case", "ignore_underscores")
        if counts[option]
    ]
    others = [miss for miss in misses if not miss.difference.startswith("ignore")]
    if others:
        first = others[0]
        more = f", and {plural(len(others) - 1, 'more pair')}" if len(others) > 1 else ""
        sentences.append(
            f"{first.name!r} is like {first.word!r}{more}: to match them, export the names, strike what is wrong "
            "in the column like, and set domain.names to that file, with domain.names_from = 'name' and "
            "domain.names_to = 'like'"
        )
    return "; ".join(sentences)


def _foldings(matching: MatchingSection) -> dict[str, Callable[[str], str]]:
    """Return by difference what makes two spellings equal that differ in no more; the least difference first."""
    more = {
        name: folding(matching.model_copy(update={name: True}))
        for name in ("ignore_underscores", "ignore_case")
        if not getattr(matching, name)
    }
    return more | {"punctuation, accents or legal form": _bare}


def _bare(name: str) -> str:
    """Return the letters and digits of a name in lower case, without accents, spaces and legal forms."""
    name = name.casefold()
    if not name.isascii():
        name = "".join(
            sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign)
        )
    return "".join(part for part in re.split(r"[\W_]+", name) if part not in LEGAL_FORMS)


def _one_letter_apart(names: Sequence[str], words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and words whose bare spellings differ by one letter: another, one more or one less.

    Of two such spellings, one begins with the first half of the other, or ends with its second half.
    """
    halves: dict[tuple[str, int, str], list[tuple[str, str]]] = {}
    for name in names:
        bare = _bare(name)
        if len(bare) >= LEAST_LETTERS:
            middle = len(bare) // 2
            halves.setdefault(("begin", len(bare), bare[:middle]), []).append((name, bare))
            halves.setdefault(("end", len(bare), bare[middle:]), []).append((name, bare))
    if not halves:
        return
    for word in words:
        bare = _bare(word)
        for length in (
            range(max(len(bare) - 1, LEAST_LETTERS), len(bare) + 2) if len(bare) >= LEAST_LETTERS else ()
        ):
            begin = ("begin", length, bare[: length // 2])
            end = ("end", length, bare[len(bare) - (length - length // 2) :])
            for half in (halves.get(begin, ()), halves.get(end, ())):
                if len(half) <= MOST_OF_A_HALF:
                    yield from ((name, word) for name, other in half if _is_one_letter(bare, other))


def _is_one_letter(one: str, other: str) -> bool:
    """Return whether two texts differ by one letter exchanged, added or left out."""
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    differs = [*map(ne, short, long)]
    at = differs.index(True) if True in differs else len(short)
    return len(long) - len(short) < 2 and short[at + (len(short) == len(long)) :] == long[at + 1 :]


def side_by_side(
    first: Domain, further: Sequence[Domain], *, paths: Sequence[str], matching: MatchingSection
) -> Domain:
    """Return the names that stand in every table, with the columns of all.

    Each table is divided by the root of its total variance over these names, so that the tables have equal shares in
    the squared distances between names, however many columns they have and whatever their units are.

    Parameters
    ----------
    first : Domain
        It gives the order of the names, their spelling and their labels.
    further : sequence of Domain
    paths : sequence of str
        Where the further tables lie.
    matching : MatchingSection

    Raises
    ------
    TableError
        If a table has no name of the first, or fewer than two names stand in all.
    """
    rows = [_rows_of(first, domain, path, matching) for domain, path in zip(further, paths, strict=True)]
    found = np.stack(rows)
    kept = np.flatnonzero((found >= 0).all(axis=0))
    if kept.size < 2:
        raise TableError(
            f"{plural(kept.size, 'name')} of {len(first.names):,} in domain.path is also in all of domain.also: "
            "name tables of the same names, or see [matching]"
        )
    parts = [
        first.matrix[kept],
        *(domain.matrix[row[kept]] for domain, row in zip(further, rows, strict=True)),
    ]
    columns = [
        name if number == 0 else f"{name} (of {path})"
        for number, (path, domain) in enumerate(zip(("", *paths), (first, *further), strict=True))
        for name in domain.columns
    ]
    return first._replace(
        names=[first.names[row] for row in kept.tolist()],
        labels=[first.labels[row] for row in kept.tolist()],
        matrix=np.hstack([of_equal_variance(part) for part in parts]),
        columns=columns,
        left_out=[*first.left_out, *_left_out(first, rows, paths)],
        notes=_notes(first, further, rows, paths),
        holds_vectors=first.holds_vectors and all(domain.holds_vectors for domain in further),
        scales=None,
    )


def _rows_of(
    first: Domain, domain: Domain, path: str, matching: MatchingSection
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    try:
        return match_names(first.names, domain.names, matching)
    except TableError as error:
        raise TableError(f"{path} in domain.also: {error}") from None


def of_equal_variance(matrix: Floats) -> Floats:
    """Return a matrix divided by the root of the sum of its columns' variances; one of equal rows as it is."""
    total = float(matrix.var(axis=0, dtype=np.float64).sum())
    return (matrix / np.sqrt(total)).astype(matrix.dtype) if total > 0 else matrix


def _left_out(first: Domain, rows: Sequence[np.ndarray], paths: Sequence[str]) -> list[LeftOut]:
    """Return the names of the first table that another lacks, each once."""
    lacking = {
        name: path
        for path, row in reversed([*zip(paths, rows, strict=True)])
        for name, at in zip(first.names, row.tolist(), strict=True)
        if at < 0
    }
    return [
        LeftOut(name, f"it is not in {lacking[name]}", "add it there, or leave that table out of domain.also")
        for name in first.names
        if name in lacking
    ]


def _notes(
    first: Domain, further: Sequence[Domain], rows: Sequence[np.ndarray], paths: Sequence[str]
) -> list[str]:
    """Return the notes of all tables, and how many names each lacks or has beside."""
    notes = list(first.notes)
    for domain, row, path in zip(further, rows, paths, strict=True):
        lacking = [name for name, at in zip(first.names, row.tolist(), strict=True) if at < 0]
        more = len(domain.names) - int((row >= 0).sum())
        lost = f"lacks {plural(len(lacking), 'name')} of domain.path, left out ({some(lacking)})"
        unused = f"; of its own, {plural(more, 'name')} more are not used" if more else ""
        notes += domain.notes
        notes.append(f"{path} {lost if lacking else 'has all names of domain.path'}{unused}")
    return notes
