"""Checks of the arguments of an imputation: the known vectors, and the graph of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from distembed.execution import compute
from distembed.linalg.csr import rows_of


def known_rows(Y: Any, n_rows: int) -> Any:
    """Return which rows of Y are known, bool, shape (n,); the others are NaN throughout.

    Raises
    ------
    ValueError
        If Y has not n_rows rows, is not of floats, or has rows that are NaN in part, infinite or all NaN.
    """
    if Y.ndim != 2 or Y.shape[0] != n_rows or Y.shape[1] == 0:
        raise ValueError(
            f"Y must have a row for each of the {n_rows} of X and columns, but its shape is {Y.shape}"
        )
    if Y.dtype.kind != "f":
        raise ValueError(f"Y must be of floats, with rows of NaN to impute, but its dtype is {Y.dtype}")
    missing, infinite = compute((np.isnan(Y).sum(axis=1), np.isinf(Y).any(axis=1)))
    for bad, what in (
        (infinite, "holds infinity"),
        ((missing > 0) & (missing < Y.shape[1]), "is NaN in part"),
    ):
        if bad.any():
            raise ValueError(
                f"Y {what} in {bad.sum()} of {n_rows} rows, first {np.nonzero(bad)[0][:5].tolist()}: "
                "a row is known or NaN throughout"
            )
    known = missing == 0
    if not known.any():
        raise ValueError("no row of Y is known: check that the names of X and of the vectors agree")
    return known


def check_graph(graph: sp.csr_array, n_rows: int) -> None:
    """Raise ValueError for a graph that does not have n_rows rows, or has rows among their own neighbors."""
    if graph.shape != (n_rows, n_rows):
        raise ValueError(f"the graph must be {n_rows} x {n_rows} like the rows of X, not {graph.shape}")
    if graph.nnz and (graph.indices == rows_of(graph)).any():
        raise ValueError("the graph has rows among their own neighbors: clear its diagonal")
