"""The rows that texts are sums of: word vectors with the weight of each word, whitened, folded into one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.encoding import blocks
from distembed.execution import one_blas_thread
from distembed.typing import VectorLike
from distembed.vectors import WordVectors

BLOCK_ROWS = 1 << 13
"""Rows that are weighted at a time, in float64: 20 MB of 300 components."""

Whitening = Literal["none", "component", "half", "full"]

WHITENING_POWERS = {"half": -0.25, "full": -0.5}
"""The power of the second moments that weighted rows are multiplied by."""

Counts = VectorLike | Mapping[str, float]


class WordShares(NamedTuple):
    """The share of each word among all tokens, float64 (n_words,), and where it is taken from."""

    shares: NDArray[np.float64]
    source: str


class FoldedRows(NamedTuple):
    """The rows whose mean over the tokens of a text is its vector, and how rows of further words are made."""

    table: NDArray[np.float32]
    """Float32 array (n_words, d)."""
    weight: NDArray[np.float64] | None
    """The weight of a further word, that of the rarest of the vocabulary; None keeps vectors as they are. Float64 array
    (1,), or None.
    """
    whitening: NDArray[np.float64] | None
    """The map that weighted rows are multiplied by. Float64 array (d, d), or None."""

    def fold(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rows of further words, float32 (k, d), from their vectors."""
        return _fold(vectors, self.weight, self.whitening)


def word_shares(vectors: WordVectors, counts: Counts | None) -> WordShares:
    """Return the share of each word among all tokens.

    Parameters
    ----------
    vectors : WordVectors
    counts : array (n_words,), mapping of str to number, or None
        A mapping may lack words, which then count as the rarest one that it has. None takes the words to be in
        falling order of frequency, and their counts to fall as Zipf's law has it, 1 / rank.

    Raises
    ------
    ValueError
        If there is not one count per word, a count is negative or not finite, or all of them are zero.
    """
    if counts is None:
        found, source = blocks.zipf_counts(len(vectors)), "Zipf's law, by the order of the words"
    elif isinstance(counts, Mapping):
        rarest = min(counts.values(), default=0)
        found = np.array([counts.get(word, rarest) for word in vectors.words], dtype=np.float64)
        source = "the counts of the words"
    else:
        found, source = np.asarray(counts, dtype=np.float64), "the counts of the words"
    if found.shape != (len(vectors),):
        raise ValueError(
            f"counts has shape {found.shape}, but there are {len(vectors)} words: give one count per word"
        )
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        raise ValueError("counts are numbers of tokens: give finite ones of 0 or more, not all of them 0")
    return WordShares(found / found.sum(), source)


def fold_rows(
    vectors: WordVectors,
    weights: NDArray[np.float64] | None,
    shares: NDArray[np.float64],
    whitening: Whitening,
) -> FoldedRows:
    """Fold the weights of the words, the unit length of their vectors and the whitening into one table.

    Parameters
    ----------
    vectors : WordVectors
    weights : float64 array (n_words,), or None
        The weight of each word, which its unit vector is multiplied by; None keeps the vectors as they are.
    shares : float64 array (n_words,)
        The share of each word among all tokens, as which it counts for the whitening.
    whitening : {"none", "component", "half", "full"}
        The linear map that follows, learned from the weighted rows of the vocabulary.
    """
    learned = whitening_map(vectors, weights, shares, whitening)
    table = np.empty_like(vectors.vectors)
    for part in _parts(len(vectors)):
        table[part] = _fold(vectors.vectors[part], None if weights is None else weights[part], learned)
    return FoldedRows(table, None if weights is None else np.full(1, weights.max()), learned)


def _fold(
    vectors: NDArray[np.float32], weights: NDArray[np.float64] | None, learned: NDArray[np.float64] | None
) -> NDArray[np.float32]:
    weighted = _weigh(vectors, weights)
    with one_blas_thread():
        return np.asarray(weighted if learned is None else weighted @ learned, dtype=np.float32)


def whitening_map(
    vectors: WordVectors,
    weights: NDArray[np.float64] | None,
    shares: NDArray[np.float64],
    whitening: Whitening,
) -> NDArray[np.float64] | None:
    """Return the map, float64 (d, d), that weighted rows are multiplied by; None for no map."""
    if whitening == "none":
        return None
    d = vectors.vectors.shape[1]
    moments = np.zeros((d, d))
    with one_blas_thread():
        for part in _parts(len(vectors)):
            rows = _weigh(vectors.vectors[part], None if weights is None else weights[part])
            moments += (rows * shares[part, None]).T @ rows
        if whitening == "component":
            return blocks.without_first_component(moments)
        return blocks.whitening(moments, WHITENING_POWERS[whitening])


def _weigh(rows: NDArray[np.float32], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return rows.astype(np.float64) if weights is None else blocks.unit_rows(rows) * weights[:, None]


def _parts(n_rows: int) -> list[slice]:
    return [slice(first, first + BLOCK_ROWS) for first in range(0, n_rows, BLOCK_ROWS)]
