"""Checks of the arguments of `PSDVec`: counts with the totals of their words, and the ridge of each word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from distembed.dtypes import Floats
from distembed.linalg.operators import row_blocks
from distembed.typing import VectorLike, refuse_collection
from distembed.validation import check_matrix
from distembed.weighting.pmi import Marginals


def check_length(values: VectorLike, n: int, name: str) -> Floats:
    """Return one finite number that is not negative for each of n words, as floats.

    Raises
    ------
    ValueError
        If there are more or fewer numbers, or one is negative, NaN or infinite.
    """
    refuse_collection(values, name)
    array = np.asarray(values, float)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}; give one number for each of the {n} words")
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(
            f"{name} holds {array[place]} at word {place}; give finite numbers that are not negative"
        )
    return array


def check_square(shape: tuple[int, int]) -> None:
    """Raise ValueError for counts that are not over one vocabulary."""
    if shape[0] != shape[1]:
        raise ValueError(
            f"counts are {shape[0]} × {shape[1]}; give a square matrix over one vocabulary, row = left word"
        )


def check_counted(sums: Marginals, word_counts: Floats) -> None:
    """Raise ValueError for a word that occurs in pairs although its own count is 0."""
    wrong = np.flatnonzero((word_counts == 0) & (sums.rows + sums.columns > 0))
    if wrong.size:
        raise ValueError(
            f"word_counts is 0 for {wrong.size} words that occur in pairs of counts, first word {wrong[0]}: "
            "give the occurrences of the words in the text that the pairs come from"
        )


def check_core_size(n_core: int | None, n_components: int, n: int) -> int:
    """Return how many of n words are core words.

    Raises
    ------
    ValueError
        If there are fewer words than core words, or fewer core words than components.
    """
    n_core = n if n_core is None else n_core
    if not 1 <= n_core <= n:
        raise ValueError(
            f"n_core is {n_core} but there are {n} words: choose n_core between 1 and {n}, or None"
        )
    if not 1 <= n_components <= n_core:
        raise ValueError(
            f"n_components is {n_components} but there are {n_core} core words: "
            f"choose n_components between 1 and {n_core}, or more core words"
        )
    return n_core


def check_pairs(
    new_rows: Any, new_columns: Any, n_core: int, *, estimator: Any, nonnegative: bool
) -> tuple[da.Array, da.Array]:
    """Return the counts of m new words with the core words, and the reverse, as row blocks.

    Raises
    ------
    ValueError
        If they are not (m, n_core) and (n_core, m), or, where `nonnegative` is asked for, a count is NaN, infinite or
        negative.
    """
    rules: dict[str, Any] = {"estimator": estimator, "finite": nonnegative, "nonnegative": nonnegative}
    rows = check_matrix(new_rows, name="new_rows", **rules)
    columns = check_matrix(new_columns, name="new_columns", **rules)
    m, c = rows.shape
    if c != n_core or columns.shape != (c, m):
        raise ValueError(
            f"new_rows are {m} × {c} and new_columns {columns.shape[0]} × {columns.shape[1]}; "
            f"for new words and {n_core} core words give m × {n_core} and {n_core} × m"
        )
    return row_blocks(rows), row_blocks(columns)


def ridge_of_words(ridge: float | Sequence[float], bands: Sequence[int] | None, m: int) -> Floats:
    """Return the ridge of each of m noncore words, which is that of its frequency band, (m,).

    Raises
    ------
    ValueError
        If there is not one ridge for each band.
    """
    values = np.atleast_1d(np.asarray(ridge, float))
    sizes = [m] if bands is None else list(bands)
    if len(values) != len(sizes) or min(sizes) < 0:
        raise ValueError(
            f"ridge has {len(values)} values and bands has {len(sizes)} sizes; give one ridge for each band"
        )
    # The last band takes what is left: how many words a corpus has is known only once it is counted.
    return np.repeat(values, [*sizes[:-1], m])[:m]
