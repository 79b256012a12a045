"""The weights that rebuild each row from its neighbors, and the systems of equations that they make."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.tokenize import tokenize
from dask.utils import key_split
from sklearn.exceptions import ConvergenceWarning

from distembed.dtypes import Float64s, Int64s
from distembed.execution import (
    Checkpoint,
    blockwise,
    compute,
    delayed,
    delayed_blocks,
    map_blocks,
    persist,
    tell,
)
from distembed.linalg import columns
from distembed.linalg.chunks import COLUMN_BLOCKS, batches, column_chunk, row_chunk
from distembed.linalg.csr import rows_of
from distembed.linalg.operators import row_blocks
from distembed.manifold import imputation_blocks as blocks
from distembed.neighbors.search import search_lists

# Copies of a column of unknown vectors that a solving task holds: BiCGSTAB's Y, R, P, V, T, B, temporaries.
COLUMN_COPIES = 10
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


def held_csr(matrix: Any) -> sp.csr_array:
    """Return a sparse matrix, or a Dask array of sparse blocks, as one matrix in memory."""
    if isinstance(matrix, da.Array):
        matrix = sp.vstack(compute(delayed_blocks(row_blocks(matrix)).ravel().tolist()), format="csr")
    return sp.csr_array(matrix)


def check_graph(graph: sp.csr_array, n_rows: int) -> None:
    """Raise ValueError for a graph that does not have n_rows rows, or has rows among their own neighbors."""
    if graph.shape != (n_rows, n_rows):
        raise ValueError(f"the graph must be {n_rows} x {n_rows} like the rows of X, not {graph.shape}")
    if (graph.indices == rows_of(graph)).any():
        raise ValueError("the graph has rows among their own neighbors: clear its diagonal")


# --- weights ---------------------------------------------------------------------------------------------------


def reconstruction_weights(
    rows: da.Array,
    graph: sp.csr_array,
    *,
    simplex: bool,
    floor: float,
    block_memory: int,
    checkpoint: Checkpoint,
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
    block_memory : int
        The memory of one task in bytes.
    checkpoint : keeps them under "weights_by_column"

    Returns
    -------
    csr_array, shape (m, n), float64, and float64 array, shape (m,)
    """

    def make() -> da.Array:
        entries = entries_per_batch(int(graph.indptr[-1]), rows.shape[1] * 8, block_memory)
        cuts = np.unique(np.searchsorted(graph.indptr, np.arange(0, graph.indptr[-1], entries))).tolist()
        ends = [*cuts[1:], graph.indptr.size - 1]
        batches = [(a, b) for a, b in zip(cuts, ends, strict=True) if graph.indptr[b] > graph.indptr[a]]
        weighed = [_batch_weights(rows, graph, *batch, simplex=simplex, floor=floor) for batch in batches]
        return da.concatenate(weighed, axis=1)

    values = compute(_kept_by_columns(checkpoint, "weights_by_column", make))
    has_entries = np.diff(graph.indptr) > 0
    certificates = np.zeros(graph.shape[0])
    certificates[has_entries] = values[1, graph.indptr[:-1][has_entries]]
    return sp.csr_array((values[0], graph.indices, graph.indptr), shape=graph.shape), certificates


def _kept_by_columns(checkpoint: Checkpoint, name: str, make: Callable[[], da.Array]) -> da.Array:
    """Return an array in blocks of columns after a checkpoint of its transpose: a row block is what a task writes."""

    def turned() -> da.Array:
        array = make()
        step = (
            f"{key_split(array.name)}-turned-{tokenize(array.name)}"  # "transpose" would hide what is solved
        )
        return blockwise(np.transpose, "cr", array, "rc", name=step, dtype=array.dtype)

    return checkpoint(name, turned).T


def entries_per_batch(n_entries: int, row_bytes: int, block_memory: int) -> int:
    """Return the number of neighbors of a batch of rows whose weights one task learns."""
    return max(1, min(block_memory // (2 * row_bytes), -(-n_entries // COLUMN_BLOCKS)))


def _batch_weights(
    rows: da.Array, graph: sp.csr_array, start: int, stop: int, *, simplex: bool, floor: float
) -> da.Array:
    """Return the weights and certificates of the rows start to stop, shape (2, entries), lazily."""
    indptr = graph.indptr[start : stop + 1].astype(np.int64)
    neighbors = graph.indices[indptr[0] : indptr[-1]]
    own = np.arange(start, stop)
    needed, places = np.unique(np.concatenate([own, neighbors]), return_inverse=True)
    return map_blocks(
        _weigh,
        rows[needed].rechunk((-1, -1)),
        rows=places[: stop - start],
        indptr=indptr - indptr[0],
        neighbors=places[stop - start :],
        floor=floor,
        simplex=simplex,
        chunks=((2,), (neighbors.size,)),
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )


def _weigh(X: Any, *, rows: Any, indptr: Any, neighbors: Any, floor: float, simplex: bool) -> Any:
    # A plain function, because Dask names a task by pickling its function: 30 ms for one compiled by numba.
    return blocks.reconstruction_weights(X, rows, indptr, neighbors, floor, simplex)


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
    """Float64 (q, s), in blocks of columns."""
    n_iter: int
    residual: float
    converged: bool
    history: Float64s
    """The steps done, and the residual or move of that step. Shape (m, 2)."""


def solve(W: sp.csr_array, Y: Any, known: Any, *, solver: str, block_memory: int, **limits: Any) -> Solution:
    """Solve for the unknown rows of Y by the solver that is asked for; `limits` are those of `solve_by_krylov`.

    Raises
    ------
    UnreachedRowsError
        If unknown rows are joined to no known one.
    """
    unreached = blocks.unreached_rows(W, known)
    if unreached.size:
        raise UnreachedRowsError(unreached)
    of_columns = in_columns(Y, int((~known).sum()), block_memory)
    method = solve_by_krylov if solver == "krylov" else solve_by_power
    solved = method(W, of_columns, known, **limits)
    if not solved.converged:
        warnings.warn(
            f"{solver} did not reach tol = {limits['tol']} in {solved.n_iter} steps (residual "
            f"{solved.residual:.2e}): raise max_iter",
            ConvergenceWarning,
            stacklevel=3,
        )
    return solved


def in_columns(Y: Any, n_unknown: int, block_memory: int) -> da.Array:
    """Return Y in blocks of columns, whose systems are independent of each other."""
    chunk = system_columns(Y.shape[1], n_unknown, block_memory)
    return Y.rechunk((-1, chunk)) if isinstance(Y, da.Array) else da.from_array(Y, chunks=(-1, chunk))


def system_columns(n_columns: int, n_unknown: int, block_memory: int) -> int:
    """Return the number of columns for which one task solves the system."""
    return column_chunk(n_columns, COLUMN_COPIES * 8 * n_unknown, block_memory)


def _system(W: sp.csr_array, Y: da.Array, known: Any) -> tuple[Any, da.Array, da.Array]:
    """Return W_qq, B = W_qp Y_p and the mean of the known vectors of (I - W_qq) Y_q = B."""
    unknown = W[np.nonzero(~known)[0]]
    inside, carried = (delayed(unknown[:, np.nonzero(chosen)[0]]) for chosen in (~known, known))
    sums = _by_columns(blocks.carried_sums, unknown.shape[0], carried, Y, known=known)
    return inside, sums, _by_columns(blocks.known_mean, 1, Y, known=known)


def _by_columns(function: Any, n_rows: int, *arguments: Any, **options: Any) -> da.Array:
    """Lift a function of column blocks; an argument that is not a Dask array is passed to every task unchanged."""
    pairs: list[Any] = []
    for argument in arguments:
        pairs += [argument, "jc" if isinstance(argument, da.Array) else None]
    return blockwise(
        function,
        "jc",
        *pairs,
        **options,
        adjust_chunks={"j": n_rows},
        align_arrays=False,  # every array has the same blocks of columns
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )


def solve_by_krylov(
    W: sp.csr_array, Y: da.Array, known: Any, *, tol: float, max_iter: int, checkpoint: Checkpoint
) -> Solution:
    """Solve the system by restarted BiCGSTAB, a task per block of columns; kept under "imputed_by_column"."""
    system = _system(W, Y, known)
    q = system[1].shape[0]

    def make() -> da.Array:
        n_rows = q + 2 + columns.RECORDED_STEPS
        return _by_columns(columns.solve_columns, n_rows, *system, tol=tol, max_iter=max_iter)

    solved = _kept_by_columns(checkpoint, "imputed_by_column", make)
    residual, steps, *record = compute(solved[q:])
    n_iter, history = int(steps.max()), _history(np.array(record), steps.astype(np.int64))
    return Solution(solved[:q], n_iter, float(residual.max()), bool((residual <= tol).all()), history)


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


def solve_by_power(
    W: sp.csr_array, Y: da.Array, known: Any, *, tol: float, max_iter: int, checkpoint: Checkpoint
) -> Solution:
    """Iterate until a sweep moves at most tol of ‖Y_q‖₁ (equation 6); kept under "power_by_column_<sweeps>".

    The sweeps are done SWEEPS_AT_ONCE by one task per block of columns, and the last batch again up to the
    sweep where the rule stops.
    """
    inside, B, start = _system(W, Y, known)
    q = B.shape[0]
    state = _by_columns(blocks.same_start, q, start, B)
    done, converged = 0, q == 0
    shares: list[float] = []

    def sweep(n_sweeps: int) -> da.Array:
        """Return the state after n_sweeps more, with the record of each sweep in the rows below it."""
        before = state
        kept = _kept_by_columns(
            checkpoint,
            f"power_by_column_{done + n_sweeps}",
            lambda: _by_columns(blocks.power_sweeps, q + 2 * n_sweeps, inside, B, before, n_sweeps=n_sweeps),
        )
        # A checkpoint may come back in other blocks than it was given in; those of the system are needed.
        return kept.rechunk((-1, B.chunks[1]))

    while done < max_iter and not converged:
        n_sweeps = min(SWEEPS_AT_ONCE, max_iter - done)
        batch = sweep(n_sweeps)
        moves, sizes = compute(batch[q:]).sum(axis=1).reshape(2, n_sweeps)
        settled = np.nonzero(moves <= tol * sizes)[0]
        if settled.size:
            converged, n_sweeps = True, int(settled[0]) + 1
            batch = sweep(n_sweeps)
        shares += (moves / np.where(sizes > 0, sizes, 1.0))[:n_sweeps].tolist()
        state, done = batch[:q], done + n_sweeps
        tell("sweeps", done)
    residual = compute(_by_columns(columns.relative_residual, 1, inside, B, state))
    history = np.column_stack([np.arange(1, done + 1), shares])
    stride = columns.record_stride(done)
    return Solution(state, done, float(residual.max(initial=0.0)), converged, history[stride - 1 :: stride])


def filled(Y: Any, solved: da.Array, known: Any) -> Any:
    """Return Y with its unknown rows set, in Y's dtype; NumPy for NumPy, lazy for Dask."""
    if isinstance(Y, da.Array):
        vectors = Y.rechunk((-1, solved.chunks[1]))
        form: dict[str, Any] = {"dtype": Y.dtype, "meta": np.empty((0, 0), Y.dtype)}
        return blockwise(_fill, "jc", vectors, "jc", solved, "qc", known=known, **form)
    out = Y.copy()
    start = 0
    for block in solved.blocks.ravel():
        out[~known, start : start + block.shape[1]] = compute(block)
        start += block.shape[1]
    return out


def _fill(Y: Any, solved: list[Any], *, known: Any) -> Any:
    out = Y.copy()
    out[~known] = solved[0]
    return out


# --- new rows --------------------------------------------------------------------------------------------------


def new_weights(
    rows: da.Array, new: da.Array, min_degree: int, *, simplex: bool, floor: float, block_memory: int
) -> sp.csr_array:
    """Return the weights that rebuild each new row from its nearest rows of a fit, (m, n), rows sum to one.

    Parameters
    ----------
    rows, new : what `domain_rows` returns, dense, (n, d) and (m, d)
    min_degree : neighbors of a new row
    simplex, floor, block_memory : see `reconstruction_weights`
    """
    m, n, k = new.shape[0], rows.shape[0], min(min_degree, rows.shape[0])
    lists = compute(search_lists(new, np.full(m, -1), rows, np.arange(n), k=k))
    near = np.sort(lists[:, 1].astype(np.int64), axis=1) + m
    graph = sp.csr_array((np.ones(k * m), near.ravel(), k * np.arange(m + 1)), shape=(m, m + n))
    options: dict[str, Any] = {"simplex": simplex, "floor": floor, "block_memory": block_memory}
    weights, _ = reconstruction_weights(da.concatenate([new, rows]), graph, **options, checkpoint=persist)
    return weights[:, m:]


def mixtures(weights: sp.csr_array, values: Any, block_memory: int) -> Float64s:
    """Return the mixtures of rows of an array by sparse weights, reading the rows that some of them need at a time."""
    most = max(1, int(np.diff(weights.indptr).max()))
    sizes = batches(weights.shape[0], row_chunk(weights.shape[0], 8 * most * values.shape[1], block_memory))
    ends = np.cumsum(sizes)
    return np.concatenate(
        [_mixture(weights[end - size : end], values) for end, size in zip(ends, sizes, strict=True)]
    )


def _mixture(weights: sp.csr_array, values: Any) -> Float64s:
    needed = np.unique(weights.indices)
    of_needed = np.asarray(compute(values[needed]), np.float64)
    return np.asarray(weights[:, needed] @ of_needed)
