"""From batches of text to the token ids of a partition, and the counts of its words.

What cuts text into words gives their ids, in order of first appearance. All that follows is done with ids: short
documents, lines or sentences are left out, names of several words are joined, and tokens and documents are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.dictionary_blocks import tally, word_hashes
from distembed.corpus.phrases import Gazetteer, NameJoiner
from distembed.corpus.records import Batch
from distembed.corpus.words import Words

SLICE_WORDS = 1 << 20
"""Words of a dictionary in one slice of it."""


class Scanned(NamedTuple):
    """The ids of a batch (int32, -1 at borders), and the end of the ids and the tokens of each closed document."""

    ids: NDArray[np.int32]
    id_stops: NDArray[np.int64]
    n_tokens: NDArray[np.int64]


class DictionarySlice(NamedTuple):
    """Consecutive words of a dictionary, in order of first appearance, with int64 counts of tokens and of documents."""

    words: pa.Array
    counts: NDArray[np.int64]
    document_counts: NDArray[np.int64]


class Scanner:
    """Turns batches of text into ids, and counts the words of a partition.

    Documents above `records.TEXT_BYTES` come in several batches. A name is not found across the place where they are
    cut, and the line or sentence that the cut runs through is long enough, however short its parts are.
    """

    def __init__(self, words: Words, names: Gazetteer | None = None, *, min_tokens: int = 1) -> None:
        self.source, self.min_tokens = words, min_tokens
        self.joiner = None if names is None else NameJoiner(names)
        self.stats = np.zeros((0, 3), np.int64)  # tokens, documents and the last document of each word
        self.document = self.n_open = self.n_short = 0
        self.seen = np.empty(0, np.uint64)  # hashes of the words of the open document in earlier dictionaries

    def begin(self, url: str) -> None:
        """Go on with another file, which errors then name."""
        self.source.begin(url)

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        ids, stops = self.source.scan(batch)
        if self.min_tokens > 1:
            ids, stops = self._without_short(ids, stops, batch)
        if self.joiner is not None:
            ids, stops = self.joiner.join(ids, stops, self.source)
        if self.n_words > len(self.stats):
            more = np.tile(np.array([0, 0, -1]), (max(self.n_words, 1 << 15), 1))
            self.stats = np.concatenate([self.stats, more])
        ends = np.append(stops, len(ids))
        documents, n_tokens = self.document + np.arange(len(ends)), np.empty(len(ends), np.int64)
        if len(stops) and self.seen.size:
            tally(ids, ends[:1], documents[:1], self.stats, n_tokens[:1])
            self._count_once()
            self.seen = np.empty(0, np.uint64)
            tally(ids[stops[0] :], ends[1:] - stops[0], documents[1:], self.stats, n_tokens[1:])
        else:
            tally(ids, ends, documents, self.stats, n_tokens)
        n_tokens[0] += self.n_open
        self.document, self.n_open = self.document + len(stops), int(n_tokens[-1])
        return Scanned(ids, stops, n_tokens[:-1])

    @property
    def n_words(self) -> int:
        """The number of words in the dictionary."""
        return self.source.n_words

    def words(self) -> Iterator[DictionarySlice]:
        """Yield the dictionary in slices of `SLICE_WORDS`."""
        if self.seen.size:
            self._count_once()
        for first in range(0, max(self.n_words, 1), SLICE_WORDS):
            last = min(first + SLICE_WORDS, self.n_words)
            counts, documents, _ = self.stats[first:last].T.copy()
            yield DictionarySlice(self.texts(first, last), counts, documents)

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        return self.source.texts(first, last)

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again. No document is counted in two dictionaries of a word."""
        self.seen = np.union1d(self.seen, self._open_words()[1])
        self.source.forget()
        if self.joiner is not None:
            self.joiner.forget()
        self.stats = np.zeros((0, 3), np.int64)

    def skipped(self) -> tuple[int, int]:
        """Return the numbers of short segments and of overlong tokens left out."""
        return self.n_short, self.source.n_long

    def _open_words(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the ids of the words of the open document, and their hashes."""
        ids = np.flatnonzero(self.stats[: self.n_words, 2] == self.document)
        words = self.texts(0, self.n_words).take(pa.array(ids)) if ids.size else pa.array([], pa.string())
        return ids, hashes_of(words)

    def _count_once(self) -> None:
        """Take the open document from the words that were counted in it by an earlier dictionary."""
        ids, hashes = self._open_words()
        self.stats[ids[np.isin(hashes, self.seen)], 1] -= 1

    def _without_short(
        self, ids: NDArray[np.int32], stops: NDArray[np.int64], batch: Batch
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids without documents, lines or sentences of fewer tokens, and the borders before them."""
        if not len(ids):
            return ids, stops
        is_border, begins = ids < 0, np.zeros(len(ids) + 1, bool)
        begins[np.append(0, stops)] = True
        segment = np.cumsum(begins[:-1] | is_border) - 1
        n_tokens = np.bincount(segment[~is_border], minlength=segment[-1] + 1)
        is_short = (n_tokens > 0) & (n_tokens < self.min_tokens)
        if batch.continues:
            is_short[0] = False
        if batch.is_open:
            is_short[-1] = False
        self.n_short += int(is_short.sum())
        stays = ~is_short[segment]
        firsts = np.append(0, np.cumsum(stays))
        starts = firsts[np.append(0, stops[:-1])] if len(stops) else firsts[:1]
        ids, stops = ids[stays], firsts[stops]
        leading = np.zeros(len(ids) + 1, bool)
        leading[starts[int(batch.continues) :]] = True
        stays = ~(leading[:-1] & (ids < 0))
        return ids[stays], np.append(0, np.cumsum(stays))[stops]


def hashes_of(words: pa.Array, seed: int = 0) -> NDArray[np.uint64]:
    """Return the hash of each word, uint64 (n,); the hashes of two seeds are independent."""
    _, offsets, data = words.buffers()
    bounds = np.frombuffer(offsets or bytes(4), np.int32)[words.offset : words.offset + len(words) + 1]
    return np.asarray(word_hashes(np.frombuffer(data or b"", np.uint8), bounds, seed))
