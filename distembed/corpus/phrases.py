"""Names of several words as one token: a list of names, and the scanner that finds them while text is tokenized.

A name is found where its words stand one after the other, as the tokenizer gives them: in its case, with whatever
separates words between them, and never across a border (`Tokenizer.border`). Of the names that begin at a token the
longest is taken, and the search goes on behind it. The token is the words of the name, joined by `JOINT`.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import phrase_blocks as blocks
from distembed.corpus.errors import CorpusError
from distembed.corpus.records import Batch, batch_of, document_table
from distembed.corpus.scanners import DictionarySlice, Scanned, Scanner
from distembed.display import plural
from distembed.files import read_small

JOINT = "_"
"""What stands between the words of a name."""

LEAST_WORDS = 1 << 15
"""Words of a scanner for which there is room at once; it doubles as needed."""


class Gazetteer(NamedTuple):
    """Names of several words, ready to be searched for."""

    words: list[str]
    parts: Mapping[str, int]
    trie: blocks.PhraseTrie
    roots: NDArray[np.int32]
    """Int32 (n_parts,), the node that a name beginning with each word leads to, -1 where none does."""
    n_single: int


def read_names(path: str) -> bytes:
    """Return a file of names, one per line, without a byte order mark.

    Raises
    ------
    CorpusError
        If it cannot be read.
    """
    try:
        data = read_small(path).removeprefix(codecs.BOM_UTF8)
        data.decode()
    except (OSError, ValueError) as error:
        raise CorpusError(f"The names in {path} (phrases_file) cannot be read ({error}).") from error
    return data


def gazetteer(data: bytes, words: Scanner, *, path: str) -> Gazetteer:
    """Return the names of a file, one per line, cut into words by a scanner that has seen nothing.

    Raises
    ------
    CorpusError
        If no name has several words.
    """
    lines = data.split(b"\n")
    nothing = pa.nulls(len(lines), pa.string())
    scanned = words.scan(batch_of(lines, document_table(nothing, nothing, nothing)))
    known = [word for part in words.words() for word in part.words.to_pylist()]
    bounds = np.append(0, scanned.id_stops).tolist()
    ids = scanned.ids.tolist()
    found = (tuple(ids[begin:end]) for begin, end in pairwise(bounds))
    names = list(dict.fromkeys(name for name in found if name))
    several = [tuple(known[word] for word in name) for name in names if len(name) > 1]
    if not several:
        raise CorpusError(
            f"{path} (phrases_file) has no name of several words: write one name per line, such as New York"
        )
    return _searchable(several, n_single=len(names) - len(several))


def names_in_words(names: Gazetteer, *, path: str) -> str:
    """Return how many names of a file are joined, in words."""
    single = f"; {plural(names.n_single, 'name')} of one word left as they are" if names.n_single else ""
    return f"joining {plural(len(names.words), 'name')} of several words from {path}{single}"


def _searchable(names: Sequence[tuple[str, ...]], *, n_single: int) -> Gazetteer:
    """Return names as a trie. A token that is a whole name already, as a tokenizer may give it, is that name too."""
    joined = {JOINT.join(name): number for number, name in reversed(list(enumerate(names)))}
    parts: dict[str, int] = {}
    nodes: list[dict[int, int]] = [{}]
    ends = {}
    for words in (*names, *((word,) for word in joined)):
        node = 0
        for word in words:
            part = parts.setdefault(word, len(parts))
            if part not in nodes[node]:
                nodes[node][part] = len(nodes)
                nodes.append({})
            node = nodes[node][part]
        ends[node] = joined[JOINT.join(words)]
    roots = np.array([nodes[0].get(part, -1) for part in range(len(parts))], np.int32)
    return Gazetteer([JOINT.join(name) for name in names], parts, _trie(nodes, ends), roots, n_single)


def _trie(nodes: Sequence[Mapping[int, int]], ends: Mapping[int, int]) -> blocks.PhraseTrie:
    edges = [sorted(node.items()) for node in nodes]
    flat = np.array([edge for node in edges for edge in node], np.int32).reshape(-1, 2)
    starts = np.append(0, np.cumsum([len(node) for node in edges])).astype(np.int64)
    phrases = np.array([ends.get(node, -1) for node in range(len(nodes))], np.int32)
    return blocks.PhraseTrie(starts, flat[:, 0].copy(), flat[:, 1].copy(), phrases)


class PhraseScanner:
    """A scanner whose tokens are those of another, with the names of a gazetteer joined."""

    def __init__(self, words: Scanner, names: Gazetteer) -> None:
        self.scanner, self.names = words, names
        self.held = np.empty(0, np.int32)  # the end of what was scanned, which may begin a name
        self.n_seen = 0  # words of the other scanner that were looked up
        self.parts, self.roots = np.empty(LEAST_WORDS, np.int32), np.empty(LEAST_WORDS, np.int32)
        self.state = self._empty()

    def begin(self, url: str) -> None:
        """Go on with another file, which errors then name."""
        self.scanner.begin(url)

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        scanned = self.scanner.scan(batch)
        ids = np.concatenate([self.held, scanned.ids])
        stops = scanned.id_stops + len(self.held)
        self._learn(int(ids.max(initial=-1)) + 1)
        out, n_tokens = np.empty(len(ids), np.int32), np.empty(len(stops), np.int64)
        out_stops = np.empty(len(stops), np.int64)
        n_out, n_read = blocks.join_phrases(
            ids, stops, self.parts, self.roots, self.names.trie, self.state, out, out_stops, n_tokens
        )
        self.held = ids[n_read:].copy()
        return Scanned(out[:n_out], out_stops, n_tokens)

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        return int(self.state.fields[blocks.N_WORDS])

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again."""
        fields = self.state.fields
        if not self.held.size:  # what is held back are ids of the other scanner
            self.scanner.forget()
            self.n_seen = 0
        self.state = self._empty()
        self.state.fields[:] = fields
        self.state.fields[blocks.N_WORDS] = 0

    def words(self) -> Iterator[DictionarySlice]:
        """Yield the dictionary in slices of 2^20 words."""
        plain = self.scanner.texts(0, self.n_seen)
        every = pa.concat_arrays([plain, pa.array(self.names.words, pa.string())])
        for first in range(0, max(self.n_words, 1), 1 << 20):
            last = min(first + (1 << 20), self.n_words)
            sources, stats = self.state.sources[first:last], self.state.stats[first:last]
            places = np.where(sources < 0, len(plain) - 1 - sources, sources)
            yield DictionarySlice(every.take(pa.array(places)), stats[:, 0].copy(), stats[:, 1].copy())

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        words = [part.words for part in self.words()]
        return pa.concat_arrays(words)[first:last]

    def skipped(self) -> tuple[int, int]:
        """Return the numbers of short segments and of overlong tokens left out."""
        return self.scanner.skipped()

    def _empty(self) -> blocks.JoinState:
        n_words, n_names = len(self.parts), len(self.names.words)
        return blocks.JoinState(
            fields=np.zeros(blocks.N_FIELDS, np.int64),
            word_ids=np.full(n_words, -1, np.int32),
            phrase_ids=np.full(n_names, -1, np.int32),
            sources=np.zeros(n_words + n_names, np.int64),
            stats=np.zeros((n_words + n_names, 3), np.int64),
        )

    def _learn(self, n_words: int) -> None:
        """Look the new words of the other scanner up among those of names, and make room for them."""
        if n_words <= self.n_seen:
            return
        if n_words > len(self.parts):
            self._grow(max(2 * len(self.parts), n_words))
        new = self.scanner.texts(self.n_seen, n_words).to_pylist()
        found = np.fromiter((self.names.parts.get(word, -1) for word in new), np.int32, len(new))
        self.parts[self.n_seen : n_words] = found
        self.roots[self.n_seen : n_words] = np.where(found >= 0, self.names.roots[found], -1)
        self.n_seen = n_words

    def _grow(self, capacity: int) -> None:
        """Make room for so many words of the other scanner."""
        old = self.state
        self.parts = np.append(self.parts, np.empty(capacity - len(self.parts), np.int32))
        self.roots = np.append(self.roots, np.empty(capacity - len(self.roots), np.int32))
        self.state = self._empty()._replace(fields=old.fields, phrase_ids=old.phrase_ids)
        self.state.word_ids[: len(old.word_ids)] = old.word_ids
        self.state.sources[: len(old.sources)] = old.sources
        self.state.stats[: len(old.stats)] = old.stats
