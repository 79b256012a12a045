"""Compiled search for names of several words among token ids: the longest name that begins at each token is one token.

The names are a trie whose edges are words. The ids are those of a scanner, and each call says which of its words are
words of names, and which node of the trie a name that begins with the word leads to. Everything that a call leaves
behind is in the arrays of `JoinState`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

# Fields of the state array.
N_WORDS, DOCUMENT, DOCUMENT_TOKENS, N_FIELDS = range(4)


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


class JoinState(NamedTuple):
    """The dictionary of joined tokens: words of the scanner, and names, in order of first appearance."""

    fields: np.ndarray
    """The counters named above. Int64 (N_FIELDS,)."""
    word_ids: np.ndarray
    phrase_ids: np.ndarray
    """The id of each word of the scanner and of each name, -1 before it appeared. Int32 (n_words,), (n_phrases,)."""
    sources: np.ndarray
    """What each id stands for: a word of the scanner, or -1 - a name. Int64 (limit,)."""
    stats: np.ndarray
    """The number of tokens, the number of documents and the last document of each id. Int64 (limit, 3)."""


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


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def count(state: JoinState, ids: np.ndarray, index: int, source: int) -> np.int64:
    """Return the id of a word or a name, a new one where it appears first, and count it."""
    f, stats = state.fields, state.stats
    word = np.int64(ids[index])
    if word < 0:
        word = f[N_WORDS]
        ids[index] = word
        state.sources[word] = source
        stats[word, 0], stats[word, 1], stats[word, 2] = 0, 0, -1
        f[N_WORDS] = word + 1
    stats[word, 0] += 1
    if stats[word, 2] != f[DOCUMENT]:
        stats[word, 2] = f[DOCUMENT]
        stats[word, 1] += 1
    f[DOCUMENT_TOKENS] += 1
    return word


@njit(cache=True, nogil=True, _nrt=False)
def longest(
    ids: np.ndarray, begin: int, stop: int, node: int, parts: np.ndarray, trie: PhraseTrie
) -> tuple[np.int64, np.int64, bool]:
    """Return the longest name that begins at a token, its end, and whether tokens to come could make it longer.

    Parameters
    ----------
    ids : int32 array
    begin, stop : int
        The token, and the end of the tokens there are.
    node : int
        The node that the token leads to from the root.
    parts : int32 array
        The word of names that each word of the scanner is, -1 for others.
    trie : PhraseTrie
    """
    name, end, at = np.int64(trie.phrases[node]), np.int64(begin + 1), begin + 1
    here = np.int64(node)
    while True:
        if at == stop:
            return name, end, trie.starts[here] < trie.starts[here + 1]
        part = parts[ids[at]] if ids[at] >= 0 else -1
        here = child_of(trie, here, part) if part >= 0 else np.int64(-1)
        if here < 0:
            return name, end, False
        at += 1
        if trie.phrases[here] >= 0:
            name, end = np.int64(trie.phrases[here]), np.int64(at)


@njit(cache=True, nogil=True, _nrt=False)
def join_span(
    ids: np.ndarray,
    begin: int,
    stop: int,
    is_closed: bool,
    parts: np.ndarray,
    roots: np.ndarray,
    trie: PhraseTrie,
    state: JoinState,
    out: np.ndarray,
    n_out: int,
) -> tuple[np.int64, np.int64]:
    """Join the tokens of a document or of a part of one; return the end of what was written and of what was read.

    What was not read of an open document may be the beginning of a name.
    """
    while begin < stop:
        token = ids[begin]
        if token < 0:
            out[n_out] = token
            begin += 1
        elif roots[token] < 0:
            out[n_out] = count(state, state.word_ids, token, token)
            begin += 1
        else:
            name, end, may_grow = longest(ids, begin, stop, roots[token], parts, trie)
            if may_grow and not is_closed:
                break
            if name >= 0:
                out[n_out] = count(state, state.phrase_ids, name, -1 - name)
                begin = end
            else:
                out[n_out] = count(state, state.word_ids, token, token)
                begin += 1
        n_out += 1
    return np.int64(n_out), np.int64(begin)


@njit(cache=True, nogil=True, _nrt=False)
def join_phrases(
    ids: np.ndarray,
    stops: np.ndarray,
    parts: np.ndarray,
    roots: np.ndarray,
    trie: PhraseTrie,
    state: JoinState,
    out: np.ndarray,
    out_stops: np.ndarray,
    n_tokens: np.ndarray,
) -> tuple[np.int64, np.int64]:
    """Join the names among the ids of a batch; a name never crosses a border.

    Parameters
    ----------
    ids : int32 array
        Ids of a scanner, -1 at borders; the first document may have begun before.
    stops : int64 array (n,)
        The end of the ids of each document that ends here; the last document may go on.
    parts : int32 array
        The word of names that each word of the scanner is, -1 for others.
    roots : int32 array
        The node that a name that begins with each word of the scanner leads to, -1 where none does.
    trie : PhraseTrie
    state : JoinState
        Changed in place; it has room for all words of the scanner and all names.
    out : int32 array
        Output of at least ``ids.size`` entries.
    out_stops, n_tokens : int64 array (n,)
        Output: for each closed document the end of its ids, and its number of tokens.

    Returns
    -------
    n_out, n_read : int
        The number of ids written, and of those read: the rest has to come again before the next batch.
    """
    f = state.fields
    n_out, begin = np.int64(0), np.int64(0)
    for document in range(len(stops)):
        n_out, begin = join_span(ids, begin, stops[document], True, parts, roots, trie, state, out, n_out)
        out_stops[document] = n_out
        n_tokens[document] = f[DOCUMENT_TOKENS]
        f[DOCUMENT] += 1
        f[DOCUMENT_TOKENS] = 0
    return join_span(ids, begin, len(ids), False, parts, roots, trie, state, out, n_out)
