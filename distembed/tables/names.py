"""The match of the names of a table with the words of vectors, and the pairs that nearly match."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import plural
from distembed.formats.delimited import SHOWN
from distembed.formats.tables import TableError, some
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
    exact = {word: row for row, word in enumerate(words)}
    alike = {folded(word, matching): row for row, word in reversed(list(enumerate(words)))}
    rows = [exact[name] if name in exact else alike.get(folded(name, matching), -1) for name in names]
    taken: dict[int, list[str]] = {}
    for name, row in zip(names, rows, strict=True):
        if row >= 0:
            taken.setdefault(row, []).append(repr(name))
    shared = [(words[row], " and ".join(same)) for row, same in taken.items() if len(same) > 1]
    if pairs := [f"{same} both match the word {word!r}" for word, same in shared]:
        more = f"; and so do {plural(len(pairs) - SHOWN, 'more pair')}" if len(pairs) > SHOWN else ""
        raise TableError(f"the names {'; '.join(pairs[:SHOWN])}{more}: rename or drop one of each")
    if not taken:
        raise TableError(
            f"no name of the table ({some(names)}) is a word with a vector ({some(words)}): see [matching]"
        )
    return np.array(rows, dtype=np.int64)


def folded(name: str, matching: MatchingSection) -> str:
    """Return a name without what `matching` ignores: two are one where these are equal."""
    name = "_".join(name.replace("_", " ").split()) if matching.ignore_underscores else name
    return name.casefold() if matching.ignore_case else name


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


class NearMiss(NamedTuple):
    """A name without a vector, a word with one that no name has, and in what they differ."""

    name: str
    word: str
    difference: str


def near_misses(
    names: Sequence[str], words: Sequence[str], rows: NDArray[np.int64], matching: MatchingSection
) -> list[NearMiss]:
    """Return the names without a word that differ little from a word without a name, in the order of the names.

    Two spellings differ little that are equal but for what `matching` could ignore, or for accents, punctuation, legal
    forms of companies and articles. Time grows with the number of names and words, not with their product.

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
    foldings: dict[str, Callable[[str], str]] = {  # the least difference first
        option: partial(folded, matching=matching.model_copy(update={option: True}))
        for option in ("ignore_underscores", "ignore_case")
        if not getattr(matching, option)
    }
    for difference, fold in {**foldings, "punctuation, accents or legal form": _bare}.items():
        by_fold = {fold(word): word for word in reversed(offered)}
        for name in wanted:
            word = by_fold.get(fold(name)) if name not in found else None
            if word is not None and fold(name):
                found[name] = NearMiss(name, word, difference)
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


def _bare(name: str) -> str:
    """Return the letters and digits of a name in lower case, without accents, spaces and legal forms."""
    name = name.casefold()
    if not name.isascii():
        name = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return "".join(part for part in re.split(r"[\W_]+", name) if part not in LEGAL_FORMS)
