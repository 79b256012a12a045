"""Names of several words as one token: a list of names, and the scanner that finds them while text is tokenized.

A name is found where its words stand one after the other, as the tokenizer gives them: in its case, with whatever
separates words between them, and never across a border (`Tokenizer.border`). Of the names that begin at a token the
longest is taken, and the search goes on behind it. The token is the words of the name, joined by `JOINT`.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from distembed.corpus.blocks import MAX_TOKEN_BYTES
from distembed.corpus.errors import CorpusError
from distembed.corpus.records import batch_of, document_table
from distembed.corpus.words import Words
from distembed.display import plural
from distembed.files import read_small

JOINT = "_"
"""What stands between the words of a name."""


class PhraseTrie(NamedTuple):
    """Names of several words as a trie; node 0 is its root."""

    starts: np.ndarray
    """The first edge of each node. Int64 (n_nodes + 1,)."""
    parts: np.ndarray
    """The word of each edge, rising within a node. Int32 (n_edges,)."""
    children: np.ndarray
    """The node that each edge leads to. Int32 (n_edges,)."""
    phrases: np.ndarray
    """The name that ends at a node, -1 where none does. Int32 (n_nodes,)."""


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def child_of(trie: PhraseTrie, node: int, part: int) -> np.int64:
    """Return the node that the edge of a word leads to, -1 where there is none."""
    low, high = trie.starts[node], trie.starts[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if trie.parts[middle] < part:
            low = middle + 1
        else:
            high = middle
    if low < trie.starts[node + 1] and trie.parts[low] == part:
        return np.int64(trie.children[low])
    return np.int64(-1)


@njit(cache=True, nogil=True, _nrt=False)
def longest(
    ids: np.ndarray, begin: int, stop: int, node: int, parts: np.ndarray, trie: PhraseTrie
) -> tuple[np.int64, np.int64]:
    """Return the longest name that begins at a token, -1 where none does, and its end.

    Parameters
    ----------
    ids : int32 array
    begin, stop : int
        The token, and the end of its document.
    node : int
        The node that the token leads to from the root.
    parts : int32 array
        The word of names that each word is, -1 for others.
    trie : PhraseTrie
    """
    name, end, at = np.int64(trie.phrases[node]), np.int64(begin + 1), begin + 1
    here = np.int64(node)
    while at < stop and ids[at] >= 0 and parts[ids[at]] >= 0:
        here = child_of(trie, here, parts[ids[at]])
        if here < 0:
            break
        at += 1
        if trie.phrases[here] >= 0:
            name, end = np.int64(trie.phrases[here]), np.int64(at)
    return name, end


@njit(cache=True, nogil=True, _nrt=False)
def join_names(
    ids: np.ndarray,
    stops: np.ndarray,
    parts: np.ndarray,
    roots: np.ndarray,
    trie: PhraseTrie,
    out: np.ndarray,
    out_stops: np.ndarray,
) -> int:
    """Join the names among the ids of some documents; a name never crosses a border. Return the number of ids written.

    Parameters
    ----------
    ids : int32 array
        Ids of words, -1 at borders.
    stops : int64 array (n,)
        The end of the ids of each document that ends here; the last document may go on.
    parts : int32 array
        The word of names that each word is, -1 for others.
    roots : int32 array
        The node that a name that begins with each word leads to, -1 where none does.
    trie : PhraseTrie
    out : int32 array
        Output of at least ``ids.size`` entries: ids, -1 at borders, and -2 - k for the name k.
    out_stops : int64 array (n,)
        Output: the end of the ids of each document.
    """
    n_out, begin = 0, np.int64(0)
    for document in range(len(stops) + 1):
        stop = stops[document] if document < len(stops) else len(ids)
        while begin < stop:
            token = ids[begin]
            name, end = np.int64(-1), np.int64(begin + 1)
            if token >= 0 and roots[token] >= 0:
                name, end = longest(ids, begin, stop, roots[token], parts, trie)
            if name >= 0:
                out[n_out] = -2 - name
                begin = end
            else:
                out[n_out] = token
                begin += 1
            n_out += 1
        if document < len(stops):
            out_stops[document] = n_out
    return n_out


class Gazetteer(NamedTuple):
    """Names of several words, ready to be searched for."""

    words: list[str]
    parts: Mapping[str, int]
    trie: PhraseTrie
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


def gazetteer(data: bytes, words: Words, *, path: str) -> Gazetteer:
    """Return the names of a file, one per line, cut into words by a scanner that has seen nothing.

    Raises
    ------
    CorpusError
        If no name has several words.
    """
    lines = data.split(b"\n")
    nothing = pa.nulls(len(lines), pa.string())
    ids, stops = words.scan(batch_of(lines, document_table(nothing, nothing, nothing)))
    known = words.texts(0, words.n_words).to_pylist()
    bounds = np.append(0, stops).tolist()
    found = (tuple(ids[begin:end].tolist()) for begin, end in pairwise(bounds))
    names = list(dict.fromkeys(name for name in found if name))
    several = [tuple(known[word] for word in name) for name in names if len(name) > 1]
    several = [name for name in several if len(JOINT.join(name).encode()) <= MAX_TOKEN_BYTES]
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


def _trie(nodes: Sequence[Mapping[int, int]], ends: Mapping[int, int]) -> PhraseTrie:
    edges = [sorted(node.items()) for node in nodes]
    flat = np.array([edge for node in edges for edge in node], np.int32).reshape(-1, 2)
    starts = np.append(0, np.cumsum([len(node) for node in edges])).astype(np.int64)
    phrases = np.array([ends.get(node, -1) for node in range(len(nodes))], np.int32)
    return PhraseTrie(starts, flat[:, 0].copy(), flat[:, 1].copy(), phrases)


class NameJoiner:
    """Joins names among the ids of words, which get ids of their own in the same dictionary."""

    def __init__(self, names: Gazetteer) -> None:
        self.names = names
        self.parts = self.roots = np.empty(0, np.int32)  # of each word that was looked up
        self.ids = np.full(len(names.words), -1, np.int32)  # of each name that was found

    def join(
        self, ids: NDArray[np.int32], stops: NDArray[np.int64], words: Words
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids with names joined, and the end of each document among them."""
        self._learn(words)
        out, out_stops = np.empty(len(ids), np.int32), np.empty(len(stops), np.int64)
        n_out = join_names(ids, stops, self.parts, self.roots, self.names.trie, out, out_stops)
        out = out[:n_out]
        places = np.flatnonzero(out < -1)
        found = -2 - out[places]
        for name in np.unique(found[self.ids[found] < 0]).tolist():
            self.ids[name] = words.intern(self.names.words[name])
        out[places] = self.ids[found]
        return out, out_stops

    def forget(self) -> None:
        """Go on with an empty dictionary."""
        self.parts = self.roots = np.empty(0, np.int32)
        self.ids.fill(-1)

    def _learn(self, words: Words) -> None:
        """Look the new words of a dictionary up among those of names."""
        new = words.texts(len(self.parts), words.n_words).to_pylist()
        found = np.fromiter((self.names.parts.get(word, -1) for word in new), np.int32, len(new))
        self.parts = np.append(self.parts, found)
        self.roots = np.append(self.roots, np.where(found >= 0, self.names.roots[found], np.int32(-1)))
