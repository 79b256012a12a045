"""Compiled search for names of several words among token ids: the longest name that begins at each token is one token.

The names are a trie whose edges are words. The ids are those of a dictionary, and each call says which of its words are
words of names, and which node of the trie a name that begins with the word leads to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


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
