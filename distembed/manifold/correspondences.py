"""Correspondences between the rows of two sets, and the values that they give to the second set.

A *correspondence* states that a row of the first set and a row of the second describe the same thing. It may
be certain (confidence 1) or probable.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s
from distembed.execution import compute
from distembed.typing import InMemory, MatrixLike
from distembed.validation import array_of


def correspondence_matrix(correspondences: InMemory, n_first: int, n_second: int) -> sp.csr_array:
    """Return correspondences as a sparse matrix of confidences, (n_first × n_second), 0 < c_ij <= 1.

    Parameters
    ----------
    correspondences : integer pairs (first row, second row), (c × 2); the same with a confidence, (c × 3);
        or a sparse matrix. A row may occur in several pairs. A pair given twice alike counts once.
    n_first : int
        The number of rows of the first set.
    n_second : int
        The number of rows of the second set.

    Raises
    ------
    ValueError
        If the shape is another, a row number is not whole or out of range, a confidence is not in (0, 1], or
        a pair has two different confidences.
    """
    if sp.issparse(correspondences):
        given = sp.coo_array(correspondences)
        if given.shape != (n_first, n_second):
            raise ValueError(
                f"correspondences have shape {given.shape}, the sets {n_first} and {n_second} rows"
            )
        table = np.column_stack([given.row, given.col, given.data]).astype(np.float64)
    else:
        table = _pair_table(correspondences)
    for column, size in ((0, n_first), (1, n_second)):
        numbers = table[:, column]
        bad = np.flatnonzero(~((numbers >= 0) & (numbers < size) & (numbers == np.floor(numbers))))
        if bad.size:
            raise ValueError(
                f"correspondence {bad[0]} names row {numbers[bad[0]]:g} of set {column + 1}, "
                f"which has the rows 0 to {size - 1}"
            )
    bad = np.flatnonzero(~((table[:, 2] > 0) & (table[:, 2] <= 1)))
    if bad.size:
        raise ValueError(f"correspondence {bad[0]} has the confidence {table[bad[0], 2]:g}: give 0 < c <= 1")
    pairs, first = np.unique(table[:, :2], axis=0, return_index=True)
    rows, columns = pairs.astype(np.int64).T
    links = sp.csr_array((table[first, 2], (rows, columns)), shape=(n_first, n_second))
    _check_one_confidence(table, links)
    return links


def _pair_table(correspondences: InMemory) -> Float64s:
    pairs = np.asarray(correspondences, np.float64)
    pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] not in {2, 3}:
        raise ValueError(f"correspondences have shape {pairs.shape}: give rows (first, second[, confidence])")
    return pairs if pairs.shape[1] == 3 else np.column_stack([pairs, np.ones(len(pairs))])


def _check_one_confidence(table: Float64s, links: sp.csr_array) -> None:
    rows, columns = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    bad = np.flatnonzero(np.asarray(links[rows, columns]).ravel() != table[:, 2]) if len(table) else rows
    if bad.size:
        i, j = rows[bad[0]], columns[bad[0]]
        raise ValueError(
            f"the pair ({i}, {j}) has the confidences {links[i, j]:g} and {table[bad[0], 2]:g}: keep one"
        )


# -------------------------------------------------------------------------------------- what they tell


def shared_values(V1: MatrixLike, links: sp.csr_array) -> tuple[Float64s, Float64s]:
    """Return the values and confidences of both sets, those of the second from their correspondents.

    Row j of the second set has the value Σ_i c_ij v_i / Σ_i c_ij with the confidence Σ_i c_ij² / Σ_i c_ij,
    over the rows i with a known value.

    Parameters
    ----------
    V1 : (n × f), rows that are all NaN are unknown
    links : (n × m), c_ij

    Returns
    -------
    (n + m, f), unknown rows NaN, and (n + m,), 0 for unknown rows
    """
    values, known = known_values(V1, links.shape[0])
    usable = sp.csr_array(sp.diags_array(known) @ links)
    weight = np.asarray(usable.sum(axis=0)).ravel()
    squares = np.asarray(usable.power(2).sum(axis=0)).ravel()
    shared = usable.T @ values
    shared = np.divide(shared, weight[:, None], out=np.full_like(shared, np.nan), where=weight[:, None] > 0)
    first = np.where(known[:, None] > 0, values, np.nan)
    return np.concatenate([first, shared]), np.concatenate(
        [known, np.divide(squares, weight, out=np.zeros_like(weight), where=weight > 0)]
    )


def known_values(V: MatrixLike, n_rows: int) -> tuple[Float64s, Float64s]:
    """Return V with zeros for unknown rows, and 1 for known rows."""
    values: Float64s = np.array(compute(array_of(V, "V")), np.float64)
    if values.ndim != 2 or values.shape[0] != n_rows:
        raise ValueError(f"the feature values have shape {values.shape}, but there are {n_rows} rows")
    if np.isinf(values).any():
        raise ValueError(
            f"row {np.flatnonzero(np.isinf(values).any(axis=1))[0]} of the feature values is infinite"
        )
    missing = np.isnan(values)
    partly = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if partly.size:
        raise ValueError(
            f"row {partly[0]} of the feature values is partly NaN: a row is either known or NaN throughout"
        )
    known: Float64s = np.where(missing.any(axis=1), 0.0, 1.0)
    values[missing] = 0.0
    return values, known
