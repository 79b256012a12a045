"""Correspondences between the rows of two sets, and the values that they give to the second set.

A *correspondence* states that a row of the first set and a row of the second describe the same thing. It may
be certain (confidence 1) or probable.
"""

from __future__ import annotations

from typing import Any

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
        pairs = np.asarray(correspondences, np.float64)
        pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
        if pairs.ndim != 2 or pairs.shape[1] not in {2, 3}:
            raise ValueError(
                f"correspondences have shape {pairs.shape}: give rows (first, second[, confidence])"
            )
        table = pairs if pairs.shape[1] == 3 else np.column_stack([pairs, np.ones(len(pairs))])
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
    rows, columns = table[:, :2].astype(np.int64).T
    _, first, same = np.unique(table[:, :2], axis=0, return_index=True, return_inverse=True)
    bad = np.flatnonzero(table[first, 2][same] != table[:, 2])
    if bad.size:
        at = bad[0]
        raise ValueError(
            f"the pair ({rows[at]}, {columns[at]}) has the confidences {table[first[same[at]], 2]:g} and "
            f"{table[at, 2]:g}: keep one"
        )
    return sp.csr_array((table[first, 2], (rows[first], columns[first])), shape=(n_first, n_second))


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
    values, known = known_values(V1, links.shape[0], "V1")
    usable = sp.csr_array(sp.diags_array(known) @ links)
    weight = np.asarray(usable.sum(axis=0)).ravel()
    squares = np.asarray(usable.power(2).sum(axis=0)).ravel()
    shared = usable.T @ values
    shared = np.divide(shared, weight[:, None], out=np.full_like(shared, np.nan), where=weight[:, None] > 0)
    first = np.where(known[:, None] > 0, values, np.nan)
    return np.concatenate([first, shared]), np.concatenate(
        [known, np.divide(squares, weight, out=np.zeros_like(weight), where=weight > 0)]
    )


def known_values(V: MatrixLike, n_rows: int, name: str = "V") -> tuple[Float64s, Float64s]:
    """Return V with zeros for unknown rows, and 1 for known rows."""
    values: Float64s = np.array(compute(array_of(V, name)), np.float64)
    known = known_rows(values, n_rows, name)
    values[~known] = 0.0
    return values, known.astype(np.float64)


def known_rows(Y: Any, n_rows: int, name: str = "Y") -> Any:
    """Return which rows of Y are known, bool, shape (n,); the others are NaN throughout.

    Raises
    ------
    ValueError
        If Y has not n_rows rows, is not of floats, or has rows that are NaN in part, infinite or all NaN.
    """
    if Y.ndim != 2 or Y.shape[0] != n_rows or Y.shape[1] == 0:
        raise ValueError(
            f"{name} must have a row for each of the {n_rows} to learn from, and columns, but its shape is {Y.shape}"
        )
    if Y.dtype.kind != "f":
        raise ValueError(f"{name} must be of floats, with rows of NaN to impute, but its dtype is {Y.dtype}")
    missing, infinite = compute((np.isnan(Y).sum(axis=1), np.isinf(Y).any(axis=1)))
    partly = (missing > 0) & (missing < Y.shape[1])
    for bad, what in ((infinite, "holds infinity"), (partly, "is NaN in part")):
        if bad.any():
            raise ValueError(
                f"{name} {what} in {bad.sum()} of {n_rows} rows, first {np.nonzero(bad)[0][:5].tolist()}: "
                "a row is known or NaN throughout"
            )
    known = missing == 0
    if not known.any():
        raise ValueError(f"no row of {name} is known: give at least one row without NaN")
    return known
