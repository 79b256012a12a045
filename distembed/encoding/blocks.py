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


def whitening_map(moments: NDArray[np.float64], whitening: str) -> NDArray[np.float64]:
    r"""Return the symmetric map, float64 (d, d), that follows from the second moments of weighted rows.

    "component" removes the direction in which the rows spread most. "half" and "full" are :math:`E\,l^{p} E^\top` with
    p = -1/4 and -1/2, which makes all spreads equal; directions in which the rows do not spread are left out, so that
    noise is not amplified.
    """
    values, directions = np.linalg.eigh(moments)
    if whitening == "component":
        return np.asarray(np.eye(len(moments)) - np.outer(directions[:, -1], directions[:, -1]))
    spreads = values > LEAST_EIGENVALUE * max(values[-1], 0.0)
    scale = np.zeros_like(values)
    scale[spreads] = values[spreads] ** {"half": -0.25, "full": -0.5}[whitening]
    return np.asarray((directions * scale) @ directions.T)


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
