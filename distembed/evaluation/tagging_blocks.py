r"""The linear-chain conditional random field (Lafferty, McCallum and Pereira 2001), and the features of words.

.. math:: \log p(y | x) = \sum_t (s_{t, y_t} + T_{y_{t-1}, y_t}) - \log Z,
          \qquad S = X A + \sum_o W_o (E B_o)

X (n, f) holds the features of the n words that are 0 or 1, W_o (n, v) which of the v distinct words stands at the
place o of the window around each word, and E (v, d) their vectors. A, B_o and T are learned. E B_o is computed once per
distinct word and not once per word of the text, so that vectors of hundreds of components cost less than X does.

The features X are words, given tags, affixes and shapes in a window. They are those of the baseline of Turian, Ratinov
and Bengio (2010) for chunking: the words from two before to two after and two pairs of neighbors; the given tags in
the same window, their pairs and triples. Further, which theirs lacks, the first and the last one to four characters of
the word, and the shapes of it and its neighbors, on which names depend.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


class TaggingInput(NamedTuple):
    """What tags depend on."""

    features: csr_array
    """The features of each word. CSR array (n, f) of float64."""
    window: tuple[csr_array, ...]
    """Which of v distinct words stands at each of k places around a word; none without vectors. Tuple of k CSR arrays
    (n, v) of float64.
    """
    vectors: Matrix
    """The vectors of the distinct words. Float64 array (v, d)."""
    starts: NDArray[np.int64]
    """The first word of each sentence, and n. Int64 array (n_sentences + 1,)."""


class Weights(NamedTuple):
    """The weights: of the features (f, q), of the vectors in the window (k, d, q), of pairs of tags (q, q)."""

    features: Matrix
    vectors: Matrix
    transitions: Matrix


def zero_weights(given: TaggingInput, n_tags: int) -> Weights:
    """Return the weights that every fit begins with."""
    shapes = (
        (given.features.shape[1], n_tags),
        (len(given.window), given.vectors.shape[1], n_tags),
        (n_tags, n_tags),
    )
    return Weights(*(np.zeros(shape) for shape in shapes))


def flat(weights: Weights) -> NDArray[np.float64]:
    """Return the weights as one vector."""
    return np.concatenate([each.ravel() for each in weights])


def reshape_like(values: NDArray[np.float64], like: Weights) -> Weights:
    """Return one vector as weights of the shapes of others."""
    parts = np.split(values, np.cumsum([each.size for each in like])[:-1])
    return Weights(*(part.reshape(each.shape) for part, each in zip(parts, like, strict=True)))


def tag_scores(given: TaggingInput, weights: Weights) -> Matrix:
    """Return the score S of each tag for each word, (n, q)."""
    scores = given.features @ weights.features
    n_places, n_components, n_tags = weights.vectors.shape
    beside = weights.vectors.transpose(1, 0, 2).reshape(n_components, n_places * n_tags)
    of_words = (given.vectors @ beside).reshape(len(given.vectors), n_places, n_tags)
    for number, place in enumerate(given.window):
        scores += place @ of_words[:, number]
    return np.ascontiguousarray(scores)


def penalized_loss(
    given: TaggingInput, tags: NDArray[np.int64], weights: Weights, strength: float
) -> tuple[float, Weights]:
    """Return the negative log-likelihood plus `strength` times the sum of squared weights, and its gradient.

    Parameters
    ----------
    given : TaggingInput
    tags : int64 array (n,)
        The tag of each word, between 0 and q - 1.
    weights : Weights
    strength : float
        The weight of the penalty.

    Returns
    -------
    tuple of float and Weights
    """
    scores = tag_scores(given, weights)
    log_z, expected, pairs = expectations(scores, weights.transitions, given.starts)
    words = np.arange(len(tags))
    follows = np.ones(len(tags), np.bool_)
    follows[given.starts[:-1]] = False
    before, after = tags[:-1][follows[1:]], tags[1:][follows[1:]]
    loss = log_z - scores[words, tags].sum() - weights.transitions[before, after].sum()
    expected[words, tags] -= 1
    np.subtract.at(pairs, (before, after), 1)
    gradient = _gradient(given, expected, pairs)
    penalty = strength * sum(float((each**2).sum()) for each in weights)
    sloped = (slope + 2 * strength * each for slope, each in zip(gradient, weights, strict=True))
    return float(loss + penalty), Weights(*sloped)


def _gradient(given: TaggingInput, residual: Matrix, pairs: Matrix) -> Weights:
    """Return the gradient of the likelihood alone from expected less observed counts of tags and pairs of tags."""
    n_words, n_components = given.vectors.shape
    of_words = np.zeros((n_words, len(given.window), len(pairs)))
    for number, place in enumerate(given.window):
        of_words[:, number] = place.T @ residual
    beside = given.vectors.T @ of_words.reshape(n_words, len(given.window) * len(pairs))
    of_vectors = beside.reshape(n_components, len(given.window), len(pairs)).transpose(1, 0, 2)
    return Weights(given.features.T @ residual, of_vectors, pairs)


def expectations(
    scores: Matrix, transitions: Matrix, starts: NDArray[np.int64]
) -> tuple[float, Matrix, Matrix]:
    """Return log Z over all sentences, the probability of each tag at each word, and the expected pairs of tags.

    Parameters
    ----------
    scores : float64 array (n, q)
    transitions : float64 array (q, q)
    starts : int64 array (n_sentences + 1,)

    Returns
    -------
    tuple of float, float64 array (n, q) and float64 array (q, q)
    """
    tops = scores.max(axis=1)
    likely = np.exp(scores - tops[:, None])
    top = transitions.max()
    steps = np.exp(transitions - top)
    forward, backward, scales = _forward_backward(likely, steps, starts)
    arrived = likely * backward / scales[:, None]
    arrived[starts[:-1]] = 0  # the first word of a sentence follows none
    pairs = steps * (forward[:-1].T @ arrived[1:])
    n_steps = len(scores) - (len(starts) - 1)
    log_z = float(np.log(scales).sum() + tops.sum() + n_steps * top)
    return log_z, forward * backward, pairs


@njit(cache=True, nogil=True)
def _forward_backward(likely, steps, starts):  # type: ignore[no-untyped-def]
    """Return forward and backward values, each word's scaled by a factor that is returned as well.

    The innermost loops run along a row of each array, so that the compiler makes vector instructions of them.
    """
    n, q = likely.shape
    forward, backward, scales = np.zeros((n, q)), np.ones((n, q)), np.empty(n)
    steps_to = np.ascontiguousarray(steps.T)
    for s in range(len(starts) - 1):
        for t in range(starts[s], starts[s + 1]):
            if t == starts[s]:
                forward[t] = 1.0
            else:
                for before in range(q):
                    for y in range(q):
                        forward[t, y] += forward[t - 1, before] * steps[before, y]
            forward[t] *= likely[t]
            scales[t] = forward[t].sum()
            forward[t] /= scales[t]
        for t in range(starts[s + 1] - 1, starts[s], -1):
            backward[t - 1] = 0.0
            for y in range(q):
                ahead = likely[t, y] * backward[t, y] / scales[t]
                for before in range(q):
                    backward[t - 1, before] += steps_to[y, before] * ahead
    return forward, backward, scales


@njit(cache=True, nogil=True)
def best_tags(scores, transitions, starts):  # type: ignore[no-untyped-def]
    """Return the most probable tags of each sentence, int64 (n,)."""
    n, q = scores.shape
    best, chosen = scores.copy(), np.zeros((n, q), np.int64)
    tags = np.zeros(n, np.int64)
    for s in range(len(starts) - 1):
        for t in range(starts[s] + 1, starts[s + 1]):
            for y in range(q):
                reached = best[t - 1] + transitions[:, y]
                chosen[t, y] = np.argmax(reached)
                best[t, y] += reached[chosen[t, y]]
        if starts[s + 1] > starts[s]:
            tags[starts[s + 1] - 1] = np.argmax(best[starts[s + 1] - 1])
        for t in range(starts[s + 1] - 1, starts[s], -1):
            tags[t - 1] = chosen[t, tags[t]]
    return tags


# ---- features ------------------------------------------------------------------------------------------

PLACES = (-2, -1, 0, 1, 2)
"""The window: the places of the words that count, relative to the word that is tagged."""

MAX_AFFIX = 4
MIN_OCCURRENCES = 2
"""Words of the training part that a feature has, at least: others are names of a single place in it."""


def shape(word: str) -> str:
    """Return the kinds of characters of a word, runs as one: X for capitals, x for other letters, 9 for digits.

    >>> from distembed.evaluation.tagging_blocks import shape
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
