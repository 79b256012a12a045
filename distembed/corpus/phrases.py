"""Names of several words as one token: a list of names, and the scanner that finds them while text is tokenized.

A name is found where its words stand one after the other, as the tokenizer gives them: in its case, with whatever
separates words between them, and never across a border (`Tokenizer.border`). Of the names that begin at a token the
longest is taken, and the search goes on behind it. The token is the words of the name, joined by `JOINT`.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.corpus.blocks import MAX_TOKEN_BYTES
from distembed.corpus.records import batch_of
from distembed.corpus.streams import CorpusError
from distembed.corpus.words import Words
from distembed.display import plural

JOINT = "_"
"""What stands between the words of a name."""


class Gazetteer(NamedTuple):
    """Names of several words as a trie, ready to be searched for; node 0 is its root."""

    words: list[str]
    """The token of each name."""
    n_single: int
    """The number of names of one word, which are left as they are."""
    parts: dict[str, int]
    """The number of each word of a name. Those that begin one come first: word k leads from the root to node k + 1."""
    n_first: int
    """The number of words that begin a name."""
    edges: NDArray[np.int64]
    """The other edges, rising: the node that each begins at times 2^32, and its word. Int64 (n_edges,)."""
    children: NDArray[np.int64]
    """The node that each of them leads to. Int64 (n_edges,)."""
    ends: NDArray[np.int64]
    """The name that ends at each node, -1 where none does. Int64 (n_nodes,)."""


@njit(cache=True, nogil=True)
def join_names(
    ids: np.ndarray, stops: np.ndarray, parts: np.ndarray, n_first: int, edges: np.ndarray, children: np.ndarray,
    ends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Join the names among the ids of some documents, the longest at each place; a name never crosses a border.

    Parameters
    ----------
    ids : int32 array
        Ids of words, -1 at borders.
    stops : int64 array (n,)
        The end of the ids of each document.
    parts : int32 array
        The word of names that each word is, -1 for others.
    n_first, edges, children, ends
        The trie of a `Gazetteer`.

    Returns
    -------
    int32 array
        Ids, -1 at borders, and -2 - k for the name k.
    int64 array (n,)
        The end of the ids of each document.
    """
    out, out_stops, n_out, begin = np.empty_like(ids), np.empty_like(stops), 0, 0
    for document, stop in enumerate(stops):
        while begin < stop:
            found, end, node, at = np.int64(ids[begin]), begin + 1, np.int64(0), begin
            while at < stop and ids[at] >= 0 and parts[ids[at]] >= 0:
                part = np.int64(parts[ids[at]])
                edge = (node << 32) | part
                place = np.searchsorted(edges, edge) if node else 0
                if part >= n_first if node == 0 else (place == len(edges) or edges[place] != edge):
                    break
                node = children[place] if node else part + 1
                at += 1
                if ends[node] >= 0:
                    found, end = -2 - ends[node], at
            out[n_out] = found
            n_out, begin = n_out + 1, end
        out_stops[document] = n_out
    return out[:n_out], out_stops


def gazetteer(data: bytes, words: Words, *, path: str) -> Gazetteer:
    """Return the names of a file, one per line, cut into words by a scanner that has seen nothing.

    A token that is a whole name already, as a tokenizer may give it, is that name too.

    Raises
    ------
    CorpusError
        If no name has several words.
    """
    lines = data.split(b"\n")
    ids, stops = words.scan(batch_of(lines))
    known = words.texts(0, words.n_words).to_pylist()
    cut = (tuple(known[word] for word in ids[begin:end]) for begin, end in pairwise([0, *stops.tolist()]))
    found = list(dict.fromkeys(name for name in cut if name))
    names = [name for name in found if len(name) > 1 and len(JOINT.join(name).encode()) <= MAX_TOKEN_BYTES]
    if not names:
        raise CorpusError(
            f"{path} (phrases_file) has no name of several words: write one name per line, such as New York"
        )
    tokens = [JOINT.join(name) for name in names]
    numbers = {token: number for number, token in reversed(list(enumerate(tokens)))}
    every = [*names, *((token,) for token in numbers)]
    first = dict.fromkeys(name[0] for name in every)
    parts = {word: part for part, word in enumerate(dict.fromkeys(chain(first, *every)))}
    nodes: dict[tuple[str, ...], int] = {(): 0} | {(word,): node for node, word in enumerate(first, 1)}
    for name in every:
        for length in range(2, len(name) + 1):
            nodes.setdefault(name[:length], len(nodes))
    inner = list(nodes)[1 + len(first) :]
    keys = np.array([nodes[name[:-1]] << 32 | parts[name[-1]] for name in inner], np.int64)
    ends = np.full(len(nodes), -1, np.int64)
    ends[[nodes[name] for name in every]] = [numbers[JOINT.join(name)] for name in every]
    order, n_single = np.argsort(keys), len(found) - len(names)
    return Gazetteer(tokens, n_single, parts, len(first), keys[order], order + 1 + len(first), ends)


def names_in_words(names: Gazetteer, *, path: str) -> str:
    """Return how many names of a file are joined, in words."""
    single = f"; {plural(names.n_single, 'name')} of one word left as they are" if names.n_single else ""
    return f"joining {plural(len(names.words), 'name')} of several words from {path}{single}"


class NameJoiner:
    """Joins names among the ids of words, which get ids of their own in the same dictionary."""

    def __init__(self, names: Gazetteer, words: Words) -> None:
        self.names, self.words = names, words
        self.forget()

    def forget(self) -> None:
        """Go on with an empty dictionary."""
        self.parts = np.empty(0, np.int32)  # of each word that was looked up
        self.ids = np.full(len(self.names.words), -1, np.int32)  # of each name that was found

    def join(
        self, ids: NDArray[np.int32], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids with names joined, and the end of each document among them."""
        new = self.words.texts(len(self.parts), self.words.n_words).to_pylist()
        looked_up = np.array([self.names.parts.get(word, -1) for word in new], np.int32)
        self.parts = np.append(self.parts, looked_up)
        out, out_stops = join_names(ids, stops, self.parts, *self.names[3:])
        places = np.flatnonzero(out < -1)
        found = -2 - out[places]
        for name in np.unique(found[self.ids[found] < 0]).tolist():
            self.ids[name] = self.words.intern(self.names.words[name])
        out[places] = self.ids[found]
        return out, out_stops
