"""The weights that rebuild each row from its neighbors, and the systems of equations that they make.

Letters
-------
X : rows in the domain space, shape (n, d); x_i is one row.
Y : vectors in the target space, shape (n, s); p of its rows are known, q = n - p are not.
W : reconstruction weights, w_ij >= 0, each row sums to one.
G : Gram matrix of one row's neighbors, seen from that row, shape (k, k).
A : the neighbors of one row as rows, or what they differ from it, shape (k, d).
B : carried sums W_qp Y_p, shape (q, s).
"""

from __future__ import annotations

import warnings
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse import csgraph
from sklearn.exceptions import ConvergenceWarning

from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.execution import compute, one_blas_thread, tell
from distembed.lift import as_it_is, block, lift
from distembed.linalg import columns
from distembed.linalg.chunks import ROW_BLOCKS, row_chunk
from distembed.linalg.columns import nonnegative_least_squares, relative_residual, solve_columns
from distembed.manifold.regressions import fit_known, predictions
from distembed.neighbors.search import kept_lists
from distembed.neighbors.spanning_tree import spanning_neighbor_graph, spanning_tree_of
from distembed.states import block_memory, keep, newest, scope

# Copies of a column of unknown vectors that a solving task holds: BiCGSTAB's Y, R, P, V, T, B, temporaries.
COLUMN_COPIES = 10
LEAST_COLUMNS = 8  # with fewer the sparse product has no columns to share an index over
# Sweeps of the power iteration between two looks at the stopping rule, which stays exact to the sweep.
SWEEPS_AT_ONCE = 32
# Ridge on the diagonal relative to its mean: far below the data's digits, yet it makes the answer unique
# (equal shares) where neighbors coincide.
RIDGE = 1e-10
# Smallest floor under a simplex weight, relative to an equal share: bounds the condition of I - W.
LEAST_FLOOR = 1e-6


# --- the graph and the weights ---------------------------------------------------------------------------------


def mst_knn_graph(rows: da.Array, min_degree: int) -> sp.csr_array:
    """Return the distances of each row to those it is rebuilt from: its nearest ones and those of a spanning tree.

    Parameters
    ----------
    rows : what `domain_rows` returns, dense (n, d)
    min_degree : smallest number of neighbors of a row

    Raises
    ------
    ValueError
        If min_degree is not less than n.
    """
    if min_degree >= (n := rows.shape[0]):
        raise ValueError(
            f"min_degree = {min_degree} needs more rows than the {n} of X: lower it, or give more rows"
        )
    # The rows have unit length already where the metric is cosine: their lists are of Euclidean distances.
    with one_blas_thread(), scope("graph", min_degree, rows):
        near = kept_lists(rows, min_degree)
        return spanning_neighbor_graph(spanning_tree_of(rows, near), near, min_degree=min_degree)


def reconstruction_weights(
    rows: da.Array, graph: sp.csr_array, *, simplex: bool, floor: float
) -> tuple[sp.csr_array, Float64s]:
    """Return the weights that rebuild each row from its neighbors in the graph, and each row's certificate.

    Parameters
    ----------
    rows : what `domain_rows` returns, dense
    graph : sparse (m, n)
        Row i holds the neighbors of row i, at least one; m is n, or less where only the first rows are to be rebuilt.
    simplex : weights on the simplex, else non-negative least squares divided by its sum
    floor : float
        The share of the smallest positive weight that is added to all weights of a row.

    Returns
    -------
    csr_array, shape (m, n), float64, and float64 array, shape (m,)
    """

    def make() -> da.Array:
        entries = entries_per_batch(int(graph.indptr[-1]), rows.shape[1] * 8, block_memory())
        cuts = np.unique(np.searchsorted(graph.indptr, np.arange(0, graph.indptr[-1], entries))).tolist()
        batches = []
        for start, stop in pairwise([*cuts, graph.indptr.size - 1]):
            indptr = graph.indptr[start : stop + 1].astype(np.int64)
            neighbors, size = graph.indices[indptr[0] : indptr[-1]], stop - start
            if neighbors.size:
                both = np.concatenate([np.arange(start, stop), neighbors])
                needed, places = np.unique(both, return_inverse=True)
                batches.append(lift(
                    weigh, "nd->ed", rows[needed].rechunk((-1, -1)), dtype=np.float64,
                    sizes={"e": neighbors.size, "d": 2}, rows=places[:size], neighbors=places[size:],
                    indptr=indptr - indptr[0], floor=floor, simplex=simplex,
                ))  # fmt: skip
        return da.concatenate(batches)

    with one_blas_thread(), scope("weights", simplex, floor, rows, graph):
        values = compute(keep("weights", make)) if graph.indptr[-1] else np.zeros((0, 2))
    has_entries = np.diff(graph.indptr) > 0
    certificates = np.zeros(graph.shape[0])
    certificates[has_entries] = values[graph.indptr[:-1][has_entries], 1]
    weights = np.ascontiguousarray(values[:, 0])
    return sp.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape), certificates


def entries_per_batch(n_entries: int, row_bytes: int, block_memory: int) -> int:
    """Return the number of neighbors of a batch of rows whose weights one task learns."""
    return max(1, min(block_memory // (2 * row_bytes), -(-n_entries // ROW_BLOCKS)))


@njit(cache=True, nogil=True)
def rebuild_rows(
    X: Floats, rows: Int64s, indptr: Int64s, neighbors: Int64s, epsilon: float, simplex: bool
) -> Float64s:
    """Return the weights that rebuild each row x from its neighbors a_j, and how far they are from the best.

    On the simplex w = argmin ‖Σ_j w_j (a_j - x)‖² over w >= 0, Σ w = 1. With any m > 0 the minimizer v of vᵀG v + m(Σv
    - 1)² over v >= 0 is a multiple of w (for a direction w of the simplex the best scale leaves m q/(m + q), rising in
    q = wᵀG w), so one non-negative least squares is enough. The certificate is (q - min_j (G w)_j) / mean diagonal of G
    >= 0: half the Frank-Wolfe duality gap, zero exactly at the optimum.

    Otherwise w = argmin ‖x - Σ_j w_j a_j‖² over w >= 0, divided by its sum. The certificate is the largest violation of
    w >= 0, g = Gw - Ax >= 0, w∘g = 0, relative to |Ax|.

    Then epsilon times the smallest positive weight is added to all, on the simplex of one that is no less than
    `LEAST_FLOOR` of an equal share, and the sum is made one: every edge of the spanning tree stays positive, which
    convergence needs. Weights that are all zero become equal.

    Parameters
    ----------
    X : array, shape (m, d): the rows and all their neighbors
    rows : int64 array, shape (r,): place in X of each row
    indptr, neighbors : CSR structure over these r rows; neighbors as places in X
    epsilon : the floor
    simplex : whether the weights are sought on the simplex

    Returns
    -------
    float64 array, shape (2, entries): weights, and each entry's row's certificate.
    """
    out = np.empty((2, neighbors.shape[0]))
    for i in range(rows.shape[0]):
        start, stop = indptr[i], indptr[i + 1]
        k, x = stop - start, X[rows[i]].astype(np.float64)
        A = X[neighbors[start:stop]].astype(np.float64)
        if simplex:
            A = A - x
        G = A @ A.T
        mean, w, certificate = np.trace(G) / k, np.full(k, 1.0 / k if simplex else 0.0), 0.0
        if mean > 0.0 and simplex:  # else every neighbor coincides with the row
            v = nonnegative_least_squares(G + RIDGE * mean * np.eye(k) + mean, np.full(k, mean))
            w = v / np.sum(v)
            gradient = G @ w
            certificate = max(0.0, (w @ gradient - np.min(gradient)) / mean)
        elif mean > 0.0:
            c = A @ x
            w = nonnegative_least_squares(G + RIDGE * mean * np.eye(k), c)
            gradient, scale = G @ w - c, max(np.max(np.abs(c)), 1e-300)
            certificate = max(np.max(np.abs(w * gradient)) / scale, max(0.0, -np.min(gradient)) / scale)
        positive = w[w > 0.0]
        if positive.size:
            raised = w + epsilon * max(positive.min(), LEAST_FLOOR / k if simplex else 0.0)
            out[0, start:stop] = raised / np.sum(raised)
        else:
            out[0, start:stop] = 1.0 / k
        out[1, start:stop] = certificate
    return out


@block(temporaries=0.55)
def weigh(X: Floats, *, rows: Any, indptr: Any, neighbors: Any, floor: float, simplex: bool) -> Float64s:
    """Return `rebuild_rows` in rows: the weight of each entry, and the certificate of its row."""
    # A plain function, because Dask names a task by pickling its function: 30 ms for one compiled by numba.
    return rebuild_rows(X, rows, indptr, neighbors, floor, simplex).T


# --- systems of equations --------------------------------------------------------------------------------------


class UnreachedRowsError(ValueError):
    """An error because some rows without a vector are connected to no row with one."""

    def __init__(self, rows: Int64s) -> None:
        self.rows = rows
        super().__init__(
            f"{rows.size} rows to impute are joined to no known vector, first rows {rows[:5].tolist()}: "
            "give one of each such part a vector, or use a connected graph"
        )


class Solution(NamedTuple):
    """The unknown vectors and how well they solve the system."""

    vectors: da.Array
    """Float64 (s, q), in row blocks: a row is a column of the unknown vectors."""
    n_iter: int
    residual: float
    converged: bool
    history: Float64s
    """The steps done, and the residual or move of that step. Shape (m, 2)."""


def check_reached(W: sp.csr_array, known: Mask) -> None:
    """Raise `UnreachedRowsError` unless each row is joined to a known one."""
    # A vertex with an edge to each known row, from which the weights are gone through backwards.
    backward = sp.csr_array(sp.vstack([W.T, sp.csr_array(known[None].astype(np.float64))]))
    backward.resize((W.shape[0] + 1,) * 2)
    backward.eliminate_zeros()
    reached = csgraph.breadth_first_order(backward, W.shape[0], return_predecessors=False)
    if (unreached := np.setdiff1d(np.arange(W.shape[0]), reached)).size:
        raise UnreachedRowsError(unreached)


def impute(
    W: sp.csr_array,
    Y: Any,
    known: Mask,
    X: Any,
    *,
    regressor: Any = None,
    solver: str = "krylov",
    tol: float = 1e-6,
    max_iter: int = 10_000,
) -> tuple[Any, Solution, Any]:
    """Return Y with its unknown rows solved from the weights, the solution, and the fitted regressor.

    With a regressor its residuals are solved for, and added to its predictions.

    Parameters
    ----------
    W : weights (n, n), rows sum to one
    Y : NumPy or Dask array (n, s), floats; a row is known, or NaN throughout
    known : what `known_rows` returns
    X : rows (n, d), which a regressor reads
    regressor : scikit-learn regressor, optional
    solver, tol, max_iter : see `LatentSemanticImputation`

    Raises
    ------
    UnreachedRowsError
        If unknown rows are joined to no known one.
    """
    check_reached(W, known)
    unknown = W[np.flatnonzero(~known)]
    inside, carried = (unknown[:, np.flatnonzero(chosen)] for chosen in (~known, known))
    system = {"inside": inside, "carried": carried, "known": known}
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    with one_blas_thread(), scope("vectors", regressor, solver, limits, W, Y, X):
        model, values = None, Y
        if regressor is not None:
            model = fit_known(regressor, X, Y, known)
            predicted = predictions(model, X, Y.shape[1])
            values = da.asarray(Y) - predicted
        chunks = -1, system_columns(Y.shape[1], inside.shape[0], block_memory())
        of_columns = values.rechunk(chunks) if isinstance(values, da.Array) else da.from_array(values, chunks)
        if solver == "krylov":
            rows = {"r": inside.shape[0] + 2 + columns.RECORDED_STEPS}
            make = partial(
                lift, krylov, "nc->cr", of_columns, dtype=np.float64, sizes=rows, **limits, **system
            )
            solved = recorded(keep("solved", make), inside.shape[0], tol)
        else:
            solved = solve_by_power(of_columns, system, **limits)
        if not solved.converged:
            warnings.warn(
                f"{solver} did not reach tol = {tol} in {solved.n_iter} steps (residual "
                f"{solved.residual:.2e}): raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        found = solved.vectors.rechunk((of_columns.chunks[1], -1))  # it may be stored in other blocks
        if regressor is not None:
            found = predicted[np.flatnonzero(~known)].T.rechunk(found.chunks) + found
            of_columns = da.asarray(Y).rechunk(chunks)
        vectors = lift(fill, "nc,cq->nc", of_columns, found, dtype=Y.dtype, known=known)
        return vectors if isinstance(Y, da.Array) else compute(vectors), solved, model


def system_columns(n_columns: int, n_unknown: int, block_memory: int) -> int:
    """Return the number of columns for which one task solves the system."""
    return row_chunk(n_columns, 8 * n_unknown, block_memory, copies=COLUMN_COPIES, least=LEAST_COLUMNS)


def recorded(solved: da.Array, q: int, tol: float) -> Solution:
    """Return q unknown vectors as `krylov` made them, and the record of all blocks of columns."""
    residual, steps, *record = compute(solved[:, q:]).T
    # The largest residual of all columns by step, from the thinned record of each. Blocks of columns take steps of
    # their own: one that is done counts with its last residual on record.
    steps = steps.astype(np.int64)
    strides = np.array([columns.record_stride(int(n)) for n in steps])
    n_iter, stride = int(steps.max()), int(strides.max())
    at = np.arange(stride, n_iter + 1, stride)
    rows = np.minimum(at[:, None], np.maximum(steps, 1)) // strides - 1
    values = np.take_along_axis(np.array(record), np.maximum(rows, 0), axis=0)
    history = np.column_stack([at, np.nanmax(values, axis=1)])
    return Solution(solved[:, :q], n_iter, float(residual.max()), bool((residual <= tol).all()), history)


def solve_by_power(Y: da.Array, system: dict[str, Any], *, tol: float, max_iter: int) -> Solution:
    """Iterate until a sweep moves at most tol of ‖Y_q‖₁ (equation 6).

    One task does SWEEPS_AT_ONCE for a block of columns; where the rule stops among them, they are done again up to
    there. A state is what `power_sweeps` returns.
    """
    q = system["inside"].shape[0]

    def sweep(state: da.Array, last: int) -> da.Array:
        state, sizes = state.rechunk((Y.chunks[1], -1)), {"r": q + 1 + 2 * last}  # it may be stored in others
        return lift(power_sweeps, "nc,cs->cr", Y, state, dtype=np.float64, sizes=sizes, last=last, **system)

    def moves_of(state: da.Array) -> Float64s:
        """Return ‖ΔY_q‖₁ of each sweep and ‖Y_q‖₁ before it, (2, sweeps)."""
        return np.ascontiguousarray(compute(state[:, q + 1 :]).T).sum(axis=1).reshape(2, -1)

    number, state = newest("sweeps")
    state = da.zeros((Y.shape[1], q + 1)) if state is None else state
    moves, lengths = moves_of(state)
    is_settled = q == 0 or bool((moves <= tol * lengths).any())
    while not is_settled and (done := len(moves)) < max_iter:
        after = sweep(state, min(done + SWEEPS_AT_ONCE, max_iter)).persist()
        moves, lengths = moves_of(after)
        settled = np.flatnonzero(moves <= tol * lengths)
        if is_settled := bool(settled.size):
            last = int(settled[0]) + 1
            after, moves, lengths = sweep(state, last), moves[:last], lengths[:last]
        number += 1
        state = keep("sweeps", partial(as_it_is, after), number=number)
        tell("sweeps", done)
    shares, stride = moves / np.where(lengths > 0, lengths, 1.0), columns.record_stride(len(moves))
    history = np.column_stack([np.arange(1, len(moves) + 1), shares])[stride - 1 :: stride]
    residual = float(compute(state[:, q]).max(initial=0.0))
    return Solution(state[:, :q], len(moves), residual, is_settled, history)


@block(temporaries=8)
def krylov(
    Y: Floats, *, inside: sp.csr_array, carried: sp.csr_array, known: Mask, tol: float, max_iter: int
) -> Float64s:
    """Solve (I - W_qq) Y_q = W_qp Y_p for some columns of Y by restarted BiCGSTAB, from their means, (s, q + …)."""
    of_known = Y[known]
    B = np.asarray(carried @ of_known.astype(np.float64))
    mean = of_known.mean(axis=0, dtype=np.float64)[None]
    return solve_columns(inside, B, mean, tol=tol, max_iter=max_iter).T


@block(temporaries=4)
def power_sweeps(
    Y: Floats, state: Float64s, *, inside: sp.csr_array, carried: sp.csr_array, known: Mask, last: int
) -> Float64s:
    """Do the sweeps Y_q <- W_qq Y_q + W_qp Y_p up to the last, and record how far each moved.

    Parameters
    ----------
    Y : array, shape (n, s)
    state : array, shape (s, q + 1 + 2 t)
        Of each column the unknown vectors after t sweeps, their relative residual, ‖ΔY‖₁ of each sweep, and ‖Y‖₁
        before each.
    inside, carried, known : W_qq, W_qp and the known rows
    last : the number of sweeps then

    Returns
    -------
    float64 array, shape (s, q + 1 + 2 last): the state then.
    """
    q, of_known = inside.shape[0], Y[known]
    B = np.asarray(carried @ of_known.astype(np.float64))
    mean = of_known.mean(axis=0, dtype=np.float64)[None]
    del of_known
    done = (state.shape[1] - q - 1) // 2
    vectors = np.ascontiguousarray(state[:, :q].T) if done else np.repeat(mean, q, axis=0)
    moves, sizes = (np.pad(old, ((0, 0), (0, last - done))) for old in np.split(state[:, q + 1 :], 2, axis=1))
    for sweep in range(done, last):
        new = inside @ vectors
        new += B
        sizes[:, sweep] = np.abs(vectors).sum(axis=0)
        moves[:, sweep] = np.abs(new - vectors).sum(axis=0)
        vectors = new
    left = relative_residual(inside, B, vectors)
    return np.concatenate([vectors.T, left.T, moves, sizes], axis=1)


@block(temporaries=0.5)
def fill(Y: Floats, solved: Float64s, *, known: Mask) -> Floats:
    """Return columns of Y with the unknown rows that were solved for them, (s, q)."""
    out = Y.copy()
    out[~known] = solved.T
    return out
