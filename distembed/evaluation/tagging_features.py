"""The features of a tagger without vectors: words, given tags, affixes and shapes in a window, all of them 0 or 1.

They are those of the baseline of Turian, Ratinov and Bengio (2010) for chunking: the words from two before to two
after and two pairs of neighbors; the given tags in the same window, their pairs and triples. Further, which theirs
lacks, the first and the last one to four characters of the word, and the shapes of it and its neighbors, on which names
depend.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

PLACES = (-2, -1, 0, 1, 2)
"""The window: the places of the words that count, relative to the word that is tagged."""

MAX_AFFIX = 4
MIN_OCCURRENCES = 2
"""Words of the training part that a feature has, at least: others are names of a single place in it."""

Codes = NDArray[np.int64]


def shape(word: str) -> str:
    """Return the kinds of characters of a word, runs as one: X for capitals, x for other letters, 9 for digits.

    >>> from distembed.evaluation.tagging_features import shape
    >>> shape("McDonald's-1996")
    "XxXx'x-9"
    """
    kinds = re.sub(r"\d+", "9", word)
    return re.sub(r"([Xx])\1+", r"\1", "".join(_kind(sign) for sign in kinds))


def _kind(sign: str) -> str:
    if not sign.isalpha():
        return sign
    return "X" if sign.isupper() else "x"


def neighbors_at(codes: Codes, starts: NDArray[np.int64], place: int) -> Codes:
    """Return the code of the word at a place relative to each word, -1 beyond the ends of its sentence."""
    sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    target = np.arange(len(codes)) + place
    inside = (target >= 0) & (target < len(codes))
    inside[inside] &= sentence[target[inside]] == sentence[inside]
    return np.where(inside, codes[np.where(inside, target, 0)], -1)


def feature_matrix(
    words: Sequence[str], given: Sequence[Sequence[str]], starts: NDArray[np.int64], n_train: int
) -> csr_array:
    """Return the features of all words, CSR (n_words, n_features) of float64.

    Parameters
    ----------
    words : sequence of str, (n_words,)
        Those of the training part come first.
    given : sequence of sequences of str
        Tags that are known of each word, each (n_words,).
    starts : int64 array (n_sentences + 1,)
        The first word of each sentence, and the number of words.
    n_train : int
        The number of words of the training part; features that occur there `MIN_OCCURRENCES` times are kept.
    """
    columns, n_columns = list[Codes](), 0
    for codes in _templates(words, given, starts):
        known, counts = np.unique(codes[:n_train], return_counts=True)
        kept = known[counts >= MIN_OCCURRENCES]
        places = np.minimum(np.searchsorted(kept, codes), max(len(kept) - 1, 0))
        found = kept[places] == codes if kept.size else np.zeros(len(codes), np.bool_)
        columns.append(np.where(found, places + n_columns, -1))
        n_columns += len(kept)
    table = np.stack(columns, axis=1)
    is_there = table >= 0
    stops = np.concatenate([[0], is_there.sum(axis=1).cumsum()])
    return csr_array((np.ones(stops[-1]), table[is_there], stops), shape=(len(words), n_columns))


def _templates(
    words: Sequence[str], given: Sequence[Sequence[str]], starts: NDArray[np.int64]
) -> Iterator[Codes]:
    """Yield one array of codes per kind of feature: words of one code share a feature."""
    word = {place: neighbors_at(_code(words), starts, place) for place in PLACES}
    yield from word.values()
    yield from (_join_codes(word[-1], word[0]), _join_codes(word[0], word[1]))
    for column in given:
        tag = [neighbors_at(_code(column), starts, place) for place in PLACES]
        for length in (1, 2, 3):
            yield from (_join_codes(*tag[first : first + length]) for first in range(len(tag) - length + 1))
    for length in range(1, MAX_AFFIX + 1):
        yield _code([each[:length] for each in words])
        yield _code([each[-length:] for each in words])
    shapes = _code([shape(each) for each in words])
    yield from (neighbors_at(shapes, starts, place) for place in (-1, 0, 1))


def _code(values: Sequence[str]) -> Codes:
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(value, len(codes)) for value in values], np.int64)


def _join_codes(*codes: Codes) -> Codes:
    """Return one code for each combination of codes at the same word."""
    joined = codes[0]
    for each in codes[1:]:
        joined = np.unique(joined, return_inverse=True)[1] * (each.max(initial=-1) + 2) + each + 1
    return joined
