"""The weights that rebuild each row from its neighbors, and the systems of equations that they make."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.execution import compute, one_blas_thread, tell
from distembed.lift import lift
from distembed.linalg import columns
from distembed.linalg.chunks import ROW_BLOCKS, row_chunk
from distembed.linalg.csr import rows_of
from distembed.manifold import imputation_blocks as blocks
from distembed.manifold.regressions import fit_known, predictions, with_known
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.search import nearest_rows, search_lists
from distembed.neighbors.spanning_tree import spanning_neighbor_graph, spanning_tree_of
from distembed.states import block_memory, keep, newest, scope
from distembed.validation import array_of

# Copies of a column of unknown vectors that a solving task holds: BiCGSTAB's Y, R, P, V, T, B, temporaries.
COLUMN_COPIES = 10
LEAST_COLUMNS = 8  # with fewer the sparse product has no columns to share an index over
# Sweeps of the power iteration between two looks at the stopping rule, which stays exact to the sweep.
SWEEPS_AT_ONCE = 32


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
    partly = (missing > 0) & (missing < Y.shape[1])
    for bad, what in ((infinite, "holds infinity"), (partly, "is NaN in part")):
        if bad.any():
            raise ValueError(
                f"Y {what} in {bad.sum()} of {n_rows} rows, first {np.nonzero(bad)[0][:5].tolist()}: "
                "a row is known or NaN throughout"
            )
    known = missing == 0
    if not known.any():
        raise ValueError("no row of Y is known: check that the names of X and of the vectors agree")
    return known


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
        near = nearest_rows(rows, min_degree)
        return spanning_neighbor_graph(spanning_tree_of(rows, near), near, min_degree=min_degree)


def given_graph(graph: Any, n_rows: int) -> sp.csr_array:
    """Return a copy of a sparse graph, or a Dask array of sparse row blocks, of n_rows rows.

    Raises
    ------
    ValueError
        If it has not n_rows rows and columns, or has rows among their own neighbors.
    """
    found = sp.csr_array(compute(graph) if isinstance(graph, da.Array) else graph, copy=True)
    found.sum_duplicates()
    if found.shape != (n_rows, n_rows):
        raise ValueError(f"the graph must be {n_rows} x {n_rows} like the rows of X, not {found.shape}")
    if (found.indices == rows_of(found)).any():
        raise ValueError("the graph has rows among their own neighbors: clear its diagonal")
    return found


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
        ends = [*cuts[1:], graph.indptr.size - 1]
        batches = [(a, b) for a, b in zip(cuts, ends, strict=True) if graph.indptr[b] > graph.indptr[a]]
        return da.concatenate(
            [_batch_weights(rows, graph, *batch, simplex=simplex, floor=floor) for batch in batches]
        )

    with one_blas_thread(), scope("weights", simplex, floor, rows, graph):
        values = compute(keep("weights", make))
    has_entries = np.diff(graph.indptr) > 0
    certificates = np.zeros(graph.shape[0])
    certificates[has_entries] = values[graph.indptr[:-1][has_entries], 1]
    weights = np.ascontiguousarray(values[:, 0])
    return sp.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape), certificates


def entries_per_batch(n_entries: int, row_bytes: int, block_memory: int) -> int:
    """Return the number of neighbors of a batch of rows whose weights one task learns."""
    return max(1, min(block_memory // (2 * row_bytes), -(-n_entries // ROW_BLOCKS)))


def _batch_weights(
    rows: da.Array, graph: sp.csr_array, start: int, stop: int, *, simplex: bool, floor: float
) -> da.Array:
    """Return the weights and certificates of the rows start to stop, shape (entries, 2), lazily."""
    indptr = graph.indptr[start : stop + 1].astype(np.int64)
    neighbors = graph.indices[indptr[0] : indptr[-1]]
    own = np.arange(start, stop)
    needed, places = np.unique(np.concatenate([own, neighbors]), return_inverse=True)
    return lift(
        blocks.weigh, "nd->ed", rows[needed].rechunk((-1, -1)), dtype=np.float64, sizes={"e": neighbors.size, "d": 2},
        rows=places[: stop - start], indptr=indptr - indptr[0], neighbors=places[stop - start :],
        floor=floor, simplex=simplex,
    )  # fmt: skip


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


class Imputed(NamedTuple):
    """The vectors of all rows, the solution behind them, and the regressor whose residuals were imputed, if any."""

    vectors: Any
    solution: Solution
    regressor: Any


def impute(W: sp.csr_array, Y: Any, known: Mask, X: Any, *, regressor: Any = None, **limits: Any) -> Imputed:
    """Return Y with its unknown rows found from the weights, or with a regressor from its residuals.

    Parameters
    ----------
    W : weights (n, n), rows sum to one
    Y : NumPy or Dask array (n, s), floats; a row is known, or NaN throughout
    known : what `known_rows` returns
    X : rows (n, d), which a regressor reads
    regressor : scikit-learn regressor, optional
    limits : solver, tol and max_iter, see `LatentSemanticImputation`
    """
    with one_blas_thread(), scope("vectors", regressor, limits, W, Y, X):
        if regressor is None:
            solved = solve(W, Y, known, **limits)
            return Imputed(filled(Y, solved.vectors, known), solved, None)
        model = fit_known(regressor, X, Y, known)
        base = predictions(model, X, Y.shape[1])
        solved = solve(W, residuals := array_blocks(Y) - base, known, **limits)
        found = base + filled(residuals, solved.vectors, known).rechunk(base.chunks)
        vectors = with_known(Y, found, known)
        return Imputed(vectors if isinstance(Y, da.Array) else compute(vectors), solved, model)


def array_blocks(array: Any) -> da.Array:
    """Return an array in blocks."""
    return array if isinstance(array, da.Array) else da.from_array(array)


def solve(W: sp.csr_array, Y: Any, known: Mask, *, solver: str, tol: float, max_iter: int) -> Solution:
    """Solve for the unknown rows of Y by the solver that is asked for, a task for each group of columns.

    Raises
    ------
    UnreachedRowsError
        If unknown rows are joined to no known one.
    """
    reached = blocks.unreached_rows(W, known)
    if reached.size:
        raise UnreachedRowsError(reached)
    unknown = W[np.nonzero(~known)[0]]
    inside, carried = (unknown[:, np.nonzero(chosen)[0]] for chosen in (~known, known))
    width = system_columns(Y.shape[1], len(inside.indptr) - 1, block_memory())
    of_columns = Y.rechunk((-1, width)) if isinstance(Y, da.Array) else da.from_array(Y, chunks=(-1, width))
    method = solve_by_krylov if solver == "krylov" else solve_by_power
    system = {"inside": inside, "carried": carried, "known": known}
    solved = method(of_columns, system, tol=tol, max_iter=max_iter)
    if not solved.converged:
        warnings.warn(
            f"{solver} did not reach tol = {tol} in {solved.n_iter} steps (residual "
            f"{solved.residual:.2e}): raise max_iter",
            ConvergenceWarning,
            stacklevel=3,
        )
    return solved


def system_columns(n_columns: int, n_unknown: int, block_memory: int) -> int:
    """Return the number of columns for which one task solves the system."""
    return row_chunk(n_columns, 8 * n_unknown, block_memory, copies=COLUMN_COPIES, least=LEAST_COLUMNS)


def solve_by_krylov(Y: da.Array, system: dict[str, Any], *, tol: float, max_iter: int) -> Solution:
    """Solve (I - W_qq) Y_q = W_qp Y_p by restarted BiCGSTAB."""
    q = system["inside"].shape[0]

    def make() -> da.Array:
        sizes = {"r": q + 2 + columns.RECORDED_STEPS}
        return lift(
            blocks.krylov, "nc->cr", Y, dtype=np.float64, sizes=sizes, tol=tol, max_iter=max_iter, **system
        )

    solved = keep("solved", make)
    residual, steps, *record = compute(solved[:, q:]).T
    n_iter, history = int(steps.max()), _history(np.array(record), steps.astype(np.int64))
    return Solution(solved[:, :q], n_iter, float(residual.max()), bool((residual <= tol).all()), history)


def _history(record: Float64s, steps: Int64s) -> Float64s:
    """Return the largest residual of all columns by step, from the thinned record of each, shape (m, 2).

    Blocks of columns take steps of their own: one that is done counts with its last residual on record.
    """
    strides = np.array([columns.record_stride(int(n)) for n in steps])
    stride = int(strides.max(initial=1))
    at = np.arange(stride, int(steps.max(initial=0)) + 1, stride)
    if not at.size:
        return np.empty((0, 2))
    rows = np.minimum(at[:, None], np.maximum(steps, 1)) // strides - 1
    values = np.take_along_axis(record, np.maximum(rows, 0), axis=0)
    return np.column_stack([at, np.nanmax(values, axis=1)])


def solve_by_power(Y: da.Array, system: dict[str, Any], *, tol: float, max_iter: int) -> Solution:
    """Iterate until a sweep moves at most tol of ‖Y_q‖₁ (equation 6).

    The sweeps are done SWEEPS_AT_ONCE by one task per block of columns, and the last batch again up to the
    sweep where the rule stops. A batch is kept in rows of columns: the vectors before it and after it, and how far
    each sweep so far has moved and from what size.
    """
    q = system["inside"].shape[0]

    def swept(state: da.Array, first: int, last: int, *, again: bool = False) -> da.Array:
        """Return the state of sweep `last` from that of sweep `first`, or from the vectors before its batch."""
        state = state.rechunk((Y.chunks[1], -1))  # it may be stored in other blocks
        return lift(
            blocks.power_sweeps, "nc,cs->cr", Y, state,
            dtype=np.float64, sizes={"r": 2 * (q + last)}, first=first, last=last, again=again, **system,
        )  # fmt: skip

    done, state = newest("sweeps")
    if state is None:
        state = lift(blocks.power_start, "nc->cr", Y, dtype=np.float64, sizes={"r": 2 * q}, **system)
    while True:
        moves, lengths = np.ascontiguousarray(compute(state[:, 2 * q :]).T).sum(axis=1).reshape(2, done)
        settled = np.flatnonzero(moves <= tol * lengths)
        if settled.size or done >= max_iter or q == 0:
            break
        last = min(done + SWEEPS_AT_ONCE, max_iter)
        state, done = keep("sweeps", partial(swept, state, done, last), number=last), last
        tell("sweeps", done)
    if settled.size and settled[0] + 1 < done:
        begun, done = (done - 1) // SWEEPS_AT_ONCE * SWEEPS_AT_ONCE, int(settled[0]) + 1
        state = keep("stopped", partial(swept, state, begun, done, again=True))
    state, of_column = state.rechunk((Y.chunks[1], -1)), {"r": 1}
    residual = compute(
        lift(blocks.power_residuals, "nc,cs->cr", Y, state, dtype=np.float64, sizes=of_column, **system)
    )
    shares = moves[:done] / np.where(lengths[:done] > 0, lengths[:done], 1.0)
    history, stride = np.column_stack([np.arange(1, done + 1), shares]), columns.record_stride(done)
    converged = bool(settled.size) or q == 0
    thinned = history[stride - 1 :: stride]
    return Solution(state[:, q : 2 * q], done, float(residual.max(initial=0.0)), converged, thinned)


def filled(Y: Any, solved: da.Array, known: Mask) -> Any:
    """Return Y with its unknown rows set, in Y's dtype; NumPy for NumPy, lazy for Dask."""
    of_columns = Y.rechunk((-1, solved.chunks[0])) if isinstance(Y, da.Array) else Y
    vectors = lift(blocks.fill, "nc,cq->nc", of_columns, solved, dtype=Y.dtype, known=known)
    return vectors if isinstance(Y, da.Array) else compute(vectors)


# --- new rows --------------------------------------------------------------------------------------------------


def infer(
    X_new: Any,
    X: Any,
    vectors: Any,
    *,
    model: Any = None,
    min_degree: int,
    metric: Metric,
    weights: str,
    floor: float,
) -> Floats:
    """Return the vectors of new rows from those of X, (m, s): the mixtures that `LatentSemanticImputation.infer` takes.

    Parameters
    ----------
    X_new, X : rows (m, d) and (n, d)
    vectors : NumPy or Dask array (n, s), those of X
    model : the fitted regressor of which `vectors` hold predictions and imputed residuals, optional
    min_degree, metric, weights, floor : see `LatentSemanticImputation`

    Raises
    ------
    ValueError
        If X_new has other columns than X, or holds NaN or infinity.
    """
    rows, X_new = domain_rows(X, metric=metric), array_of(X_new, "X_new")
    if X_new.ndim != 2 or X_new.shape[1] != rows.shape[1]:
        raise ValueError(
            f"X_new has the shape {X_new.shape}, but the rows of X have {rows.shape[1]} columns: give the same ones"
        )
    X_new = X_new.astype(rows.dtype)
    with one_blas_thread():
        new = domain_rows(X_new, metric=metric)
        mixed = new_weights(rows, new, min_degree, simplex=weights == "simplex", floor=floor)
        if model is None:
            return mixtures(mixed, vectors).astype(vectors.dtype)
        residuals = array_blocks(vectors) - predictions(model, X, vectors.shape[1])
        base = compute(predictions(model, X_new, vectors.shape[1]))
        return np.asarray(base + mixtures(mixed, residuals)).astype(vectors.dtype)


def new_weights(
    rows: da.Array, new: da.Array, min_degree: int, *, simplex: bool, floor: float
) -> sp.csr_array:
    """Return the weights that rebuild each new row from its nearest rows of a fit, (m, n), rows sum to one.

    Parameters
    ----------
    rows, new : what `domain_rows` returns, dense, (n, d) and (m, d)
    min_degree : neighbors of a new row
    simplex, floor : see `reconstruction_weights`
    """
    m, n, k = new.shape[0], rows.shape[0], min(min_degree, rows.shape[0])
    lists = compute(search_lists(new, np.full(m, -1), rows, np.arange(n), k=k))
    near = np.sort(lists[:, 1].astype(np.int64), axis=1) + m
    graph = sp.csr_array((np.ones(k * m), near.ravel(), k * np.arange(m + 1)), shape=(m, m + n))
    weights, _ = reconstruction_weights(da.concatenate([new, rows]), graph, simplex=simplex, floor=floor)
    return weights[:, m:]


def mixtures(weights: sp.csr_array, values: Any) -> Float64s:
    """Return the mixtures of rows of an array by sparse weights, reading the rows that some of them need at a time."""
    most = max(1, int(np.diff(weights.indptr).max()))
    size = row_chunk(weights.shape[0], 8 * most * values.shape[1], block_memory())
    mixed = []
    for first in range(0, weights.shape[0], size):
        rows = weights[first : first + size]
        needed = np.unique(rows.indices)
        mixed.append(rows[:, needed] @ np.asarray(compute(values[needed]), np.float64))
    return np.concatenate(mixed)
