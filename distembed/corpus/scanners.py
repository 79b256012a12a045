"""From batches of text to the token ids of a partition, and the counts of its words.

What cuts text into words gives their ids, in order of first appearance. All that follows is done with ids: short
documents, lines or sentences are left out, names of several words are joined, and tokens and documents are counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from distembed.corpus.phrases import Gazetteer, NameJoiner
from distembed.corpus.records import Batch
from distembed.corpus.words import Words

WORDS_SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64()), ("document_count", pa.int64())])


class Scanned(NamedTuple):
    """The ids of a batch (int32, -1 at borders), and the end of the ids and the tokens of each closed document."""

    ids: NDArray[np.int32]
    id_stops: NDArray[np.int64]
    n_tokens: NDArray[np.int64]


class Scanner:
    """Turns batches of text into ids, and counts the words of a partition.

    Documents above `records.TEXT_BYTES` come in several batches. A name is not found across the place where they are
    cut, and the line or sentence that the cut runs through is long enough, however short its parts are.
    """

    def __init__(self, words: Words, names: Gazetteer | None = None, *, min_tokens: int = 1) -> None:
        self.source, self.min_tokens = words, min_tokens
        self.joiner = None if names is None else NameJoiner(names, words)
        self.stats = np.zeros((0, 3), np.int64)  # tokens, documents and the last document of each word
        self.document = self.n_open = self.n_short = 0
        self.seen = np.empty(0, np.uint64)  # hashes of the words of the open document in earlier dictionaries

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        ids, stops = self.source.scan(batch)
        if self.min_tokens > 1 and len(ids):
            ids, stops = self._without_short(ids, stops, batch)
        if self.joiner is not None:
            ids, stops = self.joiner.join(ids, stops)
        if self.n_words > len(self.stats):
            more = np.tile(np.array([0, 0, -1]), (max(self.n_words, 1 << 15), 1))
            self.stats = np.concatenate([self.stats, more])
        starts, ends = np.append(0, stops), np.append(stops, len(ids))
        documents, n_tokens = self.document + np.arange(len(ends)), np.empty(len(ends), np.int64)
        for part in (slice(1), slice(1, None)):
            tally(ids, starts[part], ends[part], documents[part], self.stats, n_tokens[part])
            if part.stop and len(stops):  # the document ends that may have begun in an earlier dictionary
                self._count_once()
                self.seen = np.empty(0, np.uint64)
        n_tokens[0] += self.n_open
        self.document, self.n_open = self.document + len(stops), int(n_tokens[-1])
        return Scanned(ids, stops, n_tokens[:-1])

    @property
    def n_words(self) -> int:
        """The number of words in the dictionary."""
        return self.source.n_words

    def words(self) -> pa.Table:
        """Return the dictionary, in order of first appearance, with the numbers of tokens and of documents."""
        self._count_once()
        columns = self.stats[: self.n_words, :2].T.copy()
        return pa.table([self.source.texts(0, self.n_words), *columns], schema=WORDS_SCHEMA)

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again. No document is counted in two dictionaries of a word."""
        self.seen = np.union1d(self.seen, self._open_words()[1])
        self.source.forget()
        if self.joiner is not None:
            self.joiner.forget()
        self.stats = np.zeros((0, 3), np.int64)

    def _open_words(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the ids of the words of the open document, and their hashes."""
        ids = np.flatnonzero(self.stats[: self.n_words, 2] == self.document)
        words = self.source.texts(0, self.n_words) if ids.size else pa.array([], pa.string())
        return ids, hashes_of(words.take(pa.array(ids)))

    def _count_once(self) -> None:
        """Take the open document from the words that were counted in it by an earlier dictionary."""
        if self.seen.size:
            ids, hashes = self._open_words()
            self.stats[ids[np.isin(hashes, self.seen)], 1] -= 1

    def _without_short(
        self, ids: NDArray[np.int32], stops: NDArray[np.int64], batch: Batch
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids without documents, lines or sentences of fewer tokens, and the borders before them."""
        is_border = ids < 0
        document = np.repeat(np.arange(len(stops) + 1), np.diff(stops, prepend=0, append=len(ids)))
        segment = np.cumsum(is_border | (np.diff(document, prepend=-1) != 0)) - 1
        n_tokens = np.bincount(segment[~is_border], minlength=segment[-1] + 1)
        is_short = (n_tokens > 0) & (n_tokens < self.min_tokens)
        is_short[0] &= not batch.continues
        is_short[-1] &= not batch.is_open
        self.n_short += int(is_short.sum())
        stays = np.flatnonzero(~is_short[segment])
        is_first = (np.diff(document[stays], prepend=-1) != 0) & (
            (document[stays] > 0) | (not batch.continues)
        )
        stays = stays[~(is_first & is_border[stays])]
        return ids[stays], np.searchsorted(stays, stops)


def hashes_of(words: pa.Array, seed: int = 0) -> NDArray[np.uint64]:
    """Return the hash of each word, uint64 (n,); the hashes of two seeds are independent."""
    _, offsets, data = words.buffers()
    bounds = np.frombuffer(offsets or bytes(4), np.int32)[words.offset : words.offset + len(words) + 1]
    return np.asarray(word_hashes(np.frombuffer(data or b"", np.uint8), bounds, seed))


# ---- compiled ------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, _nrt=False)
def tally(
    ids: np.ndarray, starts: np.ndarray, stops: np.ndarray, documents: np.ndarray, stats: np.ndarray,
    n_tokens: np.ndarray,
) -> None:  # fmt: skip
    """Count the tokens and the documents of each word, and the tokens of each document.

    Parameters
    ----------
    ids : int32 array
        Ids of words; negative ones are no tokens.
    starts, stops, documents : int64 array (n,)
        Where the ids of each document begin and end, and its number.
    stats : int64 array (n_words, 3)
        The tokens, the documents and the last document of each word, which are added to.
    n_tokens : int64 array (n,)
        Output: the tokens of each document.
    """
    for row in range(len(stops)):
        n, document = 0, documents[row]
        for k in range(starts[row], stops[row]):
            word = ids[k]
            if word >= 0:
                n += 1
                stats[word, 0] += 1
                if stats[word, 2] != document:
                    stats[word, 2] = document
                    stats[word, 1] += 1
        n_tokens[row] = n


@njit(cache=True, nogil=True)
def word_hashes(data: np.ndarray, bounds: np.ndarray, seed: int) -> np.ndarray:
    """Return the FNV-1a hash of the bytes of each word, mixed, uint64 (n,).

    Parameters
    ----------
    data : uint8 array
        The bytes of the words.
    bounds : int32 array (n + 1,)
        The offset at which each word begins, and the end of the last.
    seed : int
        A number mixed into the hash: the hashes of two seeds are independent.
    """
    hashes = np.empty(len(bounds) - 1, np.uint64)
    for word in range(len(hashes)):
        h = np.uint64(0xCBF29CE484222325)
        for k in range(bounds[word], bounds[word + 1]):
            h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
        # FNV alone would deal the words of one bucket into few others, whatever the seed.
        h ^= np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        for _ in range(2):
            h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        hashes[word] = h
    return hashes
