"""Word spaces of sparse rows: scored and searched without ever being held dense.

`SparseSpace` answers what the evaluations ask of `WordVectors`, for the words of the sets alone;
`nearest_words` reads a whole space once, block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.execution import compute, whole
from distembed.lift import first_rows, lift
from distembed.linalg.csr import check_block, row_lengths
from distembed.linalg.operators import row_blocks, sparse_times
from distembed.vectors.rows import rows_by_lower_case

PAIRS_AT_ONCE = 1024
"""Pairs whose rows are held at a time."""


class SparseSpace:
    """Words and their sparse rows.

    Parameters
    ----------
    words : sequence of str
        n distinct words; row i belongs to word i.
    rows : csr_array (n, m)
        Kept as it is if its indices are sorted.
    is_whole : bool
        Whether these are all words of the space, so that ranks among them are ranks among all.

    Raises
    ------
    ValueError
        If the lengths differ, a word occurs twice, or a value is NaN or infinite.
    """

    def __init__(self, words: Iterable[str], rows: csr_array, *, is_whole: bool = False) -> None:
        self.words = tuple(words)
        self.is_whole = is_whole
        self.rows = rows if rows.has_sorted_indices else rows.sorted_indices()
        self._places = {word: place for place, word in enumerate(self.words)}
        if rows.shape[0] != len(self.words) or len(self._places) < len(self.words):
            raise ValueError(
                f"{len(self.words)} words, {len(self._places)} of them distinct, with {rows.shape[0]} rows; "
                "give one row per word"
            )
        self.norms = row_lengths(check_block(self.rows, first_rows(rows), called="the space"))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._places

    def index(self, words: Iterable[str], *, ignore_case: bool = False) -> NDArray[np.int64]:
        """Return the row of each word, int64; -1 where there is none."""
        if ignore_case:
            return np.array([self._lowered.get(word.lower(), -1) for word in words], dtype=np.int64)
        return np.array([self._places.get(word, -1) for word in words], dtype=np.int64)

    @cached_property
    def _lowered(self) -> dict[str, int]:
        return rows_by_lower_case(self.words)

    def similarities(self, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine of each pair of rows, pairs int64 (p, 2), in float64; 0 for a row of zeros."""
        dots = np.empty(len(pairs))
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            left, right = (
                self.rows[some].astype(np.float64) for some in pairs[start : start + PAIRS_AT_ONCE].T
            )
            dots[start : start + PAIRS_AT_ONCE] = left.multiply(right).sum(axis=1)
        lengths = self.norms[pairs].prod(axis=1)
        return np.divide(dots, lengths, out=np.zeros(len(pairs)), where=lengths > 0)


def nearest_words(
    space: da.Array, words: Sequence[str], asked: Sequence[str], *, n: int = 10
) -> dict[str, list[tuple[str, float]]]:
    """Return the n nearest words by cosine of each word asked for, nearest first, of equal ones the first.

    Parameters
    ----------
    space : Dask array (n_words, m), dense or of csr_array row blocks
    words : of its rows
    asked : words among them; one whose row is zeros has no neighbors
    n : int
        The number of neighbors per word.
    """
    places = {word: place for place, word in enumerate(words)}
    rows = row_blocks(space)
    chosen = [places[word] for word in asked]
    queries = np.vstack([compute(rows[row : row + 1]).toarray() for row in chosen])
    dots = sparse_times(rows, whole(queries.T.astype(np.float64)))
    found, norms = compute((dots, lift(row_lengths, "wc->w", rows, dtype=np.float64)))
    scale = norms[:, None] * norms[chosen]
    cosines = np.divide(found, scale, out=np.zeros_like(found), where=scale > 0)
    orders = np.argsort(-cosines, axis=0, kind="stable")[: n + 1].T.tolist()
    return {
        word: [(words[place], float(column[place])) for place in order if place != own and column[own]][:n]
        for word, own, column, order in zip(asked, chosen, cosines.T, orders, strict=True)
    }
