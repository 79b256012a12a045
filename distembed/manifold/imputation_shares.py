"""The composition of an imputed vector: its shares of the known vectors, and the paths from which they come.

The imputed rows solve ``Y_q = W_qp Y_p + W_qq Y_q``, so that ``Y_q = (I - W_qq)^-1 W_qp Y_p``: every imputed vector
is a mixture of known ones. Its shares are the probabilities that a walk which starts at the row, and steps to a
neighbor with probability w_ij, ends at each known row (absorption in a Markov chain).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from distembed.dtypes import Float64s, Int32s, Mask
from distembed.linalg.columns import solve_columns

Bools = Mask

TOLERANCE, MAX_STEPS = 1e-10, 10_000
"""The relative residual of the shares, and the most steps of the solver."""


def known_shares(weights: sp.csr_array, known: Bools, row: int) -> Float64s:
    """Return the shares of the known rows in an imputed one, (n,) float64; they sum to one, those of others are 0.

    ``e_iᵀ (I - W_qq)^-1 W_qp``, by one system with the transposed weights: no inverse is formed.

    Parameters
    ----------
    weights : csr_array (n, n)
        `LatentSemanticImputation.weights_`, whose rows sum to one.
    known : (n,) bool
        Which rows are known.
    row : int
        The row to explain, an imputed one.

    Raises
    ------
    ValueError
        If the row is known, or no path of weights leads from it to a known row.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.manifold.imputation_shares import known_shares
    >>> from scipy.sparse import csr_array
    >>> weights = csr_array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    >>> known_shares(weights, np.array([False, True, False]), 0).round(6).tolist()
    [0.0, 1.0, 0.0]
    """
    if known[row]:
        raise ValueError(f"row {row} is known, and is no mixture of others: choose an imputed row")
    # The rows, in order, that walks from the row can come to before they end at a known row.
    reached = np.flatnonzero(np.isfinite(_distances(weights, known, row)[0]))
    inner, outer = reached[~known[reached]], reached[known[reached]]
    if not outer.size:
        raise ValueError(f"no path of weights leads from row {row} to a known row: connect it to one")
    rows = weights[inner]
    start = (inner == row).astype(np.float64)[:, None]
    solved = solve_columns(
        sp.csr_array(rows[:, inner].T), start, np.zeros((1, 1)), tol=TOLERANCE, max_iter=MAX_STEPS
    )
    shares = np.zeros(len(known))
    shares[outer] = rows[:, outer].T @ solved[: len(inner), 0]
    return shares


def _distances(weights: sp.csr_array, known: Bools, row: int) -> tuple[Float64s, Int32s]:
    """Return ``-log`` of the most probable paths from a row, inf where there is none, and the rows before."""
    # A walk ends at a known row, so that no path leads through one; a step of probability 1 keeps a length above 0.
    open_rows = sp.csr_array(sp.diags_array((~known).astype(np.float64)) @ weights)
    open_rows.eliminate_zeros()
    steps = -np.log(np.minimum(open_rows.data, 1 - 1e-15))
    graph = sp.csr_array((steps, open_rows.indices, open_rows.indptr), shape=weights.shape)
    lengths, before = dijkstra(graph, indices=row, return_predecessors=True)
    return lengths, before


class KnownPath(NamedTuple):
    """The most probable path from an imputed row to a known one."""

    rows: list[int]
    """From the imputed row to the known one."""
    probability: float
    """The product of the weights on it."""


def strongest_paths(weights: sp.csr_array, known: Bools, row: int, targets: list[int]) -> list[KnownPath]:
    """Return the most probable path from an imputed row to each of some known rows that walks from it end at."""
    lengths, before = _distances(weights, known, row)
    return [KnownPath(_trace(before, row, end), float(np.exp(-lengths[end]))) for end in targets]


def _trace(before: Int32s, row: int, end: int) -> list[int]:
    path = [end]
    while path[-1] != row:
        path.append(int(before[path[-1]]))
    return path[::-1]
