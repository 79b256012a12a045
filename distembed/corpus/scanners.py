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
    """The ids of a batch (int32, -1 at borders), and the end of the ids and the tokens of each document."""

    ids: NDArray[np.int32]
    id_stops: NDArray[np.int64]
    n_tokens: NDArray[np.int64]


class Scanner:
    """Turns batches of text into ids, and counts the words of a partition."""

    def __init__(self, words: Words, names: Gazetteer | None = None, *, min_tokens: int = 1) -> None:
        self.source, self.min_tokens = words, min_tokens
        self.joiner = None if names is None else NameJoiner(names, words)
        self.stats = np.zeros((0, 3), np.int64)  # tokens, documents and the last document of each word
        self.n_documents = self.n_short = 0

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        ids, stops = self.source.scan(batch)
        if self.min_tokens > 1 and len(ids):
            ids, stops = self._without_short(ids, stops)
        if self.joiner is not None:
            ids, stops = self.joiner.join(ids, stops)
        if self.n_words > len(self.stats):
            more = np.tile(np.array([0, 0, -1]), (max(self.n_words, 1 << 15), 1))
            self.stats = np.concatenate([self.stats, more])
        starts, n_tokens = np.append(0, stops)[: len(stops)], np.empty(len(stops), np.int64)
        tally(ids, starts, stops, self.n_documents + np.arange(len(stops)), self.stats, n_tokens)
        self.n_documents += len(stops)
        return Scanned(ids, stops, n_tokens)

    @property
    def n_words(self) -> int:
        """The number of words in the dictionary."""
        return self.source.n_words

    def words(self) -> pa.Table:
        """Return the dictionary, in order of first appearance, with the numbers of tokens and of documents."""
        columns = self.stats[: self.n_words, :2].T.copy()
        return pa.table([self.source.texts(0, self.n_words), *columns], schema=WORDS_SCHEMA)

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again."""
        self.source.forget()
        if self.joiner is not None:
            self.joiner.forget()
        self.stats = np.zeros((0, 3), np.int64)

    def _without_short(
        self, ids: NDArray[np.int32], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids without documents, lines or sentences of fewer tokens, and the borders before them."""
        is_border = ids < 0
        document = np.repeat(np.arange(len(stops)), np.diff(stops, prepend=0))
        segment = np.cumsum(is_border | (np.diff(document, prepend=-1) != 0)) - 1
        n_tokens = np.bincount(segment[~is_border], minlength=segment[-1] + 1)
        is_short = (n_tokens > 0) & (n_tokens < self.min_tokens)
        self.n_short += int(is_short.sum())
        stays = np.flatnonzero(~is_short[segment])
        is_first = np.diff(document[stays], prepend=-1) != 0
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
