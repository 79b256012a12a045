"""Passages of a tokenized corpus with a word, or with two that stand together: keywords in context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.partitions import PIECE, TokenBatch, Tokens
from distembed.corpus.readers import Corpus
from distembed.corpus.records import line_of
from distembed.dtypes import Int32s, Int64s

MARGIN = 8
"""Tokens that a passage shows before the first and after the last word that it is shown for."""

Pair = tuple[str, str]
"""A keyword and a context word."""


class Passage(NamedTuple):
    """A line of a concordance."""

    document: str
    title: str
    """The document's id and its title, "" where it has none."""
    words: tuple[str, ...]
    """The tokens of the passage, as the corpus was tokenized."""
    marked: tuple[int, ...]
    """The places in `words` of what was looked for."""


def document_passages(
    tokens: Tokens, number: int, weights: Mapping[str, float], *, n: int = 3, width: int = 24
) -> list[Passage]:
    """Return the stretches of one document whose words weigh most, in falling order, none overlapping another.

    Parameters
    ----------
    tokens : Tokens
    number : int
        The number of the document in the corpus, from 0.
    weights : mapping of word to float
        Words of no weight are left out; those with one are marked.
    n, width : int
        The number of passages, at most, and their tokens.
    """
    for partition in tokens.partitions:
        documents = tokens.documents(partition)
        if number < documents.num_rows:
            break
        number -= documents.num_rows
    pieces = (batch.ids[batch.document == number] for batch in tokens.iter_partition(partition))
    ids = np.concatenate([np.empty(0, np.int32), *pieces])
    dictionary = tokens.words(partition)["word"].combine_chunks()
    text = tuple(dictionary.take(pa.array(ids[ids >= 0])).to_pylist())
    values = np.array([weights.get(word, 0.0) for word in text])
    left, width, found = values.copy(), min(width, len(values)), list[Passage]()
    while len(found) < n and width:
        sums = np.convolve(left, np.ones(width), "valid")
        begin = int(sums.argmax())
        if sums[begin] <= 0:
            break
        cut = slice(begin, begin + width)
        found.append(_passage(documents, number, text[cut], tuple(np.flatnonzero(values[cut]).tolist())))
        left[max(0, begin - width + 1) : begin + width] = -np.inf  # what would overlap
    return found


def beginnings(tokens: Tokens, documents: NDArray[np.int64], n: int) -> dict[int, str]:
    """Return the first n words of some documents, in quotation marks, by their numbers in the corpus, rising."""
    found: dict[int, list[str]] = {number: [] for number in documents.tolist()}
    first = last = 0
    for partition in tokens.partitions:
        first, last = last, last + tokens.documents(partition).num_rows
        wanted = documents[(documents >= first) & (documents < last)] - first
        if not wanted.size:
            continue
        words = tokens.words(partition)["word"].combine_chunks()
        for batch in tokens.iter_partition(partition):
            ends = np.searchsorted(batch.document, [wanted, wanted + 1]).T.tolist()
            for number, (start, stop) in zip(wanted.tolist(), ends, strict=True):
                ids = batch.ids[start : min(stop, start + 2 * n + 1)]
                found[first + number] += words.take(pa.array(ids[ids >= 0])).to_pylist()
    return {
        number: f"“{' '.join(words[:n])}{' …' if len(words) > n else ''}”"
        for number, words in found.items()
        if words
    }


def find_passages(
    tokens: Tokens,
    pairs: Sequence[Pair],
    *,
    window: int,
    n: int = 3,
    wanted: NDArray[np.bool_] | None = None,
    several: bool = False,
) -> dict[Pair, list[Passage]]:
    """Return the first passages where the words of each pair stand within `window` places of each other.

    A document gives one passage of a pair, or `several`. The partitions are read in their order, until every pair has
    its passages. Without a window, the passages of a word are those of its pair with itself.

    Parameters
    ----------
    tokens : Tokens
    pairs : sequence of (keyword, context word)
    window : int
        The largest distance of the two words, in tokens.
    n : int
        The number of passages of each pair.
    wanted : bool array (documents,), optional
        The documents that passages may be of, by default all.
    several : bool
        Whether a document may give several passages of a pair.

    Returns
    -------
    dict of pair to list of Passage
        Shorter lists where the corpus has no more such documents.
    """
    found: dict[Pair, list[Passage]] = {pair: [] for pair in pairs}
    first = last = 0
    for partition in tokens.partitions:
        left = [pair for pair in found if len(found[pair]) < n]
        if not left:
            break
        words = tokens.words(partition)["word"].combine_chunks()
        # Of each word of the dictionary its place among the keywords, and among the contexts; -1 for others.
        sides = [list(dict.fromkeys(side)) for side in zip(*left, strict=True)]
        places = [
            np.asarray(pc.fill_null(pc.index_in(words, pa.array(side, pa.string())), -1)).astype(np.int32)
            for side in sides
        ]
        is_there = min(side.max(initial=-1) for side in places) >= 0
        if not is_there and wanted is None:
            continue
        documents = tokens.documents(partition)
        first, last = last, last + documents.num_rows
        numbers, seen = np.full([len(side) for side in sides], -1, np.int64), set[tuple[int, int]]()
        for number, (keyword, context) in enumerate(left):
            numbers[sides[0].index(keyword), sides[1].index(context)] = number
        batches = tokens.iter_partition(partition) if is_there else iter(())
        for batch, own in _with_margins(batches, window + MARGIN):
            met = meetings(batch.ids, batch.document, places[0], places[1], numbers, window=window)
            is_own = (met[0] >= own.start) & (met[0] < own.stop)
            for place, other, number in zip(*(part[is_own].tolist() for part in met), strict=True):
                passages, document = found[left[number]], int(batch.document[place])
                is_wanted = wanted is None or wanted[first + document]
                if len(passages) < n and is_wanted and (several or (number, document) not in seen):
                    seen.add((number, document))
                    around = slice(max(min(place, other) - MARGIN, 0), max(place, other) + MARGIN + 1)
                    shown = (batch.document[around] == document) & (batch.ids[around] >= 0)
                    rank = np.cumsum(shown) - 1
                    marked = tuple(sorted({int(rank[at - around.start]) for at in (place, other)}))
                    text = words.take(pa.array(batch.ids[around][shown])).to_pylist()
                    passages.append(_passage(documents, document, tuple(text), marked))
            if all(len(found[pair]) == n for pair in left):
                break
    return found


def meetings(
    ids: Int32s,
    documents: Int64s,
    keywords: Int32s,
    contexts: Int32s,
    pairs: Int64s,
    *,
    window: int,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return where a keyword stands within `window` places of a context word that belongs to it.

    Parameters
    ----------
    ids : (n,) int32
        Token ids; -1 is a border, which no pair crosses and no place counts.
    documents : (n,) int64
        The document of each id.
    keywords, contexts : (n_words,) int32
        The number of the keyword, and of the context word, that an id is; -1 for none.
    pairs : (n_keywords, n_contexts) int64
        The number of each pair that is looked for; -1 for others.
    window : int
        The largest distance, in places; without one a word meets itself.

    Returns
    -------
    place, other, pair : (m,) int64
        The places of the keyword and of the context word among the ids, in the order of the text, and the number of
        their pair.
    """
    tokens = ids >= 0
    keyword, context = (np.where(tokens, numbers[ids], -1) for numbers in (keywords, contexts))
    borders = np.cumsum(~tokens)
    places = np.flatnonzero(keyword >= 0)
    steps = np.array([step for size in range(1, window + 1) for step in (-size, size)] or [0])
    own, others = np.repeat(places, len(steps)), (places[:, None] + steps).ravel()
    inside = (others >= 0) & (others < len(ids))
    own, others = own[inside], others[inside]
    met = (context[others] >= 0) & (documents[own] == documents[others]) & (borders[own] == borders[others])
    own, others = own[met], others[met]
    pair = pairs[keyword[own], context[others]]
    found = np.flatnonzero(pair >= 0)
    return own[found], others[found], pair[found]


def _with_margins(batches: Iterator[TokenBatch], margin: int) -> Iterator[tuple[TokenBatch, slice]]:
    """Yield batches with some ids of the batches before and after around them, and where their own are."""
    nothing = TokenBatch(np.empty(0, np.int64), np.empty(0, np.int32))
    before, batch = nothing, next(batches, nothing)
    while len(batch.ids):
        after, begin = next(batches, nothing), len(before.ids)
        documents = np.concatenate([before.document, batch.document, after.document[:margin]])
        ids = np.concatenate([before.ids, batch.ids, after.ids[:margin]])
        yield TokenBatch(documents, ids), slice(begin, begin + len(batch.ids))
        before, batch = TokenBatch(batch.document[-margin:], batch.ids[-margin:]), after


def _passage(documents: pa.Table, number: int, words: tuple[str, ...], marked: tuple[int, ...]) -> Passage:
    row = documents.slice(number, 1).to_pylist()[0]
    return Passage(row["id"] or "", row["title"] or "", words, marked)


def place_of(corpus: Corpus, document: str) -> str:
    """Return the file and the line of a document by its id; "" where the id is not made of them.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.corpus.concordance import place_of
    >>> from distembed.demos import titles
    >>> place_of(de.read_corpus(titles()), "titles.txt:58").rpartition("/")[2]
    'titles.txt, line 2'
    """
    if corpus.partitions[0].piece_words:
        document = re.sub(PIECE, "", document)
    name, sign, number = document.rpartition(":")
    for partition in corpus.partitions:
        if partition.is_one_document and partition.name == document:
            return partition.url
        if not sign or partition.name != name or not number.isdecimal():
            continue
        if partition.format in ("csv", "tsv"):
            return f"{partition.url}, row {number}"
        if partition.format in ("text", "jsonl") and (partition.stop is None or int(number) < partition.stop):
            return f"{partition.url}, line {line_of(partition, int(number))}"
    return ""
