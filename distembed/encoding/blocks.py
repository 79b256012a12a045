r"""The vectors of the texts of one block: weights of words, sums of word rows over tokens, whitening.

Letters: ``p`` is the share of a word among all tokens, ``a`` the constant of smooth inverse frequency,
``C`` the second moments of the rows of a vocabulary, ``l`` its eigenvalues and ``E`` its eigenvectors.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

LEAST_EIGENVALUE = 1e-6
"""The share of the largest eigenvalue below which a direction counts as one without any words: far above the rounding
of unit rows, whose square is 4e-15 for float32, and 8e-8 for float16 or for a file with three decimals.
"""


def zipf_counts(n_words: int) -> NDArray[np.float64]:
    """Return counts that fall as Zipf's law has them, 1 / rank, for words in falling order of frequency."""
    return 1.0 / np.arange(1, n_words + 1)


def inverse_frequency(shares: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """Return the weight of each word, a / (a + p): Arora, Liang and Ma (2017), smooth inverse frequency."""
    return np.asarray(a / (a + shares))


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return rows divided by their lengths, float64; a zero row stays zero."""
    exact = rows.astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", exact, exact))[:, None]
    return np.divide(exact, norms, out=np.zeros_like(exact), where=norms > 0)


def whitening(moments: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    r"""Return the symmetric map :math:`E\,l^{power} E^\top`, float64 (d, d); -1/2 makes all spreads equal.

    Directions in which the rows do not spread are left out, so that noise is not amplified.
    """
    values, directions = np.linalg.eigh(moments)
    spreads = values > LEAST_EIGENVALUE * max(values[-1], 0.0)
    scale = np.zeros_like(values)
    scale[spreads] = values[spreads] ** power
    return np.asarray((directions * scale) @ directions.T)


def without_first_component(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the projection, float64 (d, d), that removes the direction in which the rows spread most."""
    first = np.linalg.eigh(moments)[1][:, -1]
    return np.asarray(np.eye(len(moments)) - np.outer(first, first))


@njit(cache=True, nogil=True)
def mean_rows(
    table: np.ndarray,
    extra: np.ndarray,
    rows: np.ndarray,
    stops: np.ndarray,
    total: np.ndarray,
    n_before: int,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the mean of the rows of the known tokens of each text that ends here.

    Parameters
    ----------
    table : float32 array (n_words, d)
        The rows of the vocabulary.
    extra : float32 array (k, d)
        Rows of further words, which follow those of the table.
    rows : int64 array (n_tokens,)
        The row of each token, -1 for an unknown word.
    stops : int64 array (n_texts,)
        The end of the tokens of each text; the tokens after the last one belong to a text that goes on.
    total : float64 array (d,)
        The sum of the known tokens of the text that began before; replaced by that of the text that goes on.
    n_before : int
        The number of these tokens.

    Returns
    -------
    means : float32 array (n_texts, d)
        Zero for a text without a known token.
    n_known : int64 array (n_texts,)
        The number of known tokens of each text.
    n_open : int
        The number of known tokens of the text that goes on.

    Raises
    ------
    IndexError
        If a row is that of no word: compiled code would read foreign memory.
    """
    n_words, d = table.shape
    n_rows = n_words + len(extra)
    if extra.shape[1] != d or len(total) != d:
        raise IndexError("the rows of further words have another number of components than the table")
    means = np.zeros((len(stops), d), np.float32)
    n_known = np.zeros(len(stops), np.int64)
    k, n = 0, n_before
    for text in range(len(stops) + 1):
        stop = stops[text] if text < len(stops) else len(rows)
        while k < stop:
            row = rows[k]
            k += 1
            if row < 0:
                continue
            if row >= n_rows:
                raise IndexError("a token has a row above those of the table and of further words")
            source = table[row] if row < n_words else extra[row - n_words]
            for j in range(d):
                total[j] += source[j]
            n += 1
        if text < len(stops):
            if n > 0:
                for j in range(d):
                    means[text, j] = total[j] / n
            n_known[text] = n
            total[:] = 0.0
            n = 0
    return means, n_known, n


def pair_cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the cosine of each row (n, d) with the same row of another block, float64; 0 for a zero row."""
    left, right = unit_rows(first), unit_rows(second)
    return np.asarray(np.einsum("ij,ij->i", left, right))
