"""The systems of equations of Latent Semantic Imputation, in groups of columns, by BiCGSTAB or power iteration."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from distembed.execution import Checkpoint, blockwise, compute, delayed, tell
from distembed.linalg import columns
from distembed.linalg.chunks import column_chunk
from distembed.manifold import imputation_blocks as blocks

# Copies of a column of unknown vectors that a solving task holds: BiCGSTAB's Y, R, P, V, T, B, temporaries.
COLUMN_COPIES = 10
# Sweeps of the power iteration between two looks at the stopping rule, which stays exact to the sweep.
SWEEPS_AT_ONCE = 32


class UnreachedRowsError(ValueError):
    """An error because some rows without a vector are connected to no row with one."""

    def __init__(self, rows: blocks.Int64s) -> None:
        self.rows = rows
        super().__init__(
            f"{rows.size} rows to impute are joined to no known vector, first rows {rows[:5].tolist()}: "
            "give one of each such part a vector, or use a connected graph"
        )


class Solution(NamedTuple):
    """The unknown vectors and how well they solve the system."""

    vectors: da.Array  # (q, s) float64, in blocks of columns
    n_iter: int
    residual: float
    converged: bool
    history: blocks.Float64s  # (m, 2): steps done, and the residual or move of that step


class _System(NamedTuple):
    """(I - W_qq) Y_q = W_qp Y_p."""

    W: Any  # delayed csr_array (q, q)
    B: da.Array  # (q, s), blocks of columns: W_qp Y_p
    start: da.Array  # (1, s): mean of the known vectors
    n_unknown: int


class SolverOptions(NamedTuple):
    """The options of `LatentSemanticImputation` that its systems of equations need."""

    solver: str
    tol: float
    max_iter: int
    lazy: bool
    block_memory: int


def solve(W: sp.csr_array, Y: Any, known: Any, options: SolverOptions, *, checkpoint: Checkpoint) -> Solution:
    """Solve for the unknown rows of Y by the solver that is asked for.

    Raises
    ------
    UnreachedRowsError
        If unknown rows are joined to no known one.
    """
    unreached = blocks.unreached_rows(W, known)
    if unreached.size:
        raise UnreachedRowsError(unreached)
    of_columns = in_columns(Y, int((~known).sum()), options.block_memory)
    limits: dict[str, Any] = {"tol": options.tol, "max_iter": options.max_iter, "checkpoint": checkpoint}
    if options.solver == "krylov":
        solved = solve_by_krylov(W, of_columns, known, **limits)
    else:
        solved = solve_by_power(W, of_columns, known, lazy=options.lazy, **limits)
    if not solved.converged:
        warnings.warn(
            f"{options.solver} did not reach tol = {options.tol} in {solved.n_iter} steps (residual "
            f"{solved.residual:.2e}): raise max_iter",
            ConvergenceWarning,
            stacklevel=3,
        )
    return solved


def imputed_rows(solved: Solution, known: Any, rows: Any, dtype: Any) -> da.Array:
    """Return some of the unknown rows of a solution, by their numbers among all rows, in one block."""
    at = np.cumsum(~known)[rows] - 1
    return solved.vectors[at].rechunk(-1).astype(dtype)


def in_columns(Y: Any, n_unknown: int, block_memory: int) -> da.Array:
    """Return Y in blocks of columns, whose systems are independent of each other."""
    chunk = column_chunk(Y.shape[1], COLUMN_COPIES * 8 * n_unknown, block_memory)
    return Y.rechunk((-1, chunk)) if isinstance(Y, da.Array) else da.from_array(Y, chunks=(-1, chunk))


def _system(W: sp.csr_array, Y: da.Array, known: Any) -> _System:
    unknown = W[np.nonzero(~known)[0]]
    inside, carried = (
        delayed(unknown[:, np.nonzero(~known)[0]]),
        delayed(unknown[:, np.nonzero(known)[0]]),
    )
    n_unknown = int((~known).sum())

    B = _by_columns(blocks.carried_sums, n_unknown, carried, Y, known=known)
    return _System(inside, B, _by_columns(blocks.known_mean, 1, Y, known=known), n_unknown)


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
    """Solve the system by restarted BiCGSTAB, one task per block of columns; the result is stored under "imputed"."""
    system = _system(W, Y, known)
    q = system.n_unknown

    def make() -> da.Array:
        return _by_columns(
            columns.solve_columns,
            q + 2 + columns.RECORDED_STEPS,
            system.W,
            system.B,
            system.start,
            tol=tol,
            max_iter=max_iter,
        )

    solved = checkpoint("imputed", make)
    residual, steps, *record = compute(solved[q:])
    n_iter, history = int(steps.max()), _history(np.array(record), steps.astype(np.int64))
    return Solution(solved[:q], n_iter, float(residual.max()), bool((residual <= tol).all()), history)


def _history(record: blocks.Float64s, steps: blocks.Int64s) -> blocks.Float64s:
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
    W: sp.csr_array, Y: da.Array, known: Any, *, tol: float, max_iter: int, lazy: bool, checkpoint: Checkpoint
) -> Solution:
    """Iterate until a sweep moves at most tol of ‖Y_q‖₁ (equation 6); kept under "power_<sweeps>".

    The sweeps are done SWEEPS_AT_ONCE by one task per block of columns, and the last batch again up to the
    sweep where the rule stops.
    """
    system = _system(W, Y, known)
    q = system.n_unknown
    state = _by_columns(blocks.same_start, q, system.start, system.B)
    options: dict[str, Any] = {"lazy": lazy, "checkpoint": checkpoint}
    done, converged = 0, q == 0
    shares: list[float] = []
    while done < max_iter and not converged:
        n_sweeps = min(SWEEPS_AT_ONCE, max_iter - done)
        batch = _sweep(system, state, done=done, n_sweeps=n_sweeps, **options)
        moves, sizes = compute(batch[q:]).sum(axis=1).reshape(2, n_sweeps)
        settled = np.nonzero(moves <= tol * sizes)[0]
        if settled.size:
            converged, n_sweeps = True, int(settled[0]) + 1
            batch = _sweep(system, state, done=done, n_sweeps=n_sweeps, **options)
        shares += (moves / np.where(sizes > 0, sizes, 1.0))[:n_sweeps].tolist()
        state, done = batch[:q], done + n_sweeps
        tell("sweeps", done)
    residual = compute(_by_columns(columns.relative_residual, 1, system.W, system.B, state))
    history = np.column_stack([np.arange(1, done + 1), shares])
    stride = columns.record_stride(done)
    return Solution(state, done, float(residual.max(initial=0.0)), converged, history[stride - 1 :: stride])


def _sweep(
    system: _System, state: da.Array, *, done: int, n_sweeps: int, lazy: bool, checkpoint: Checkpoint
) -> da.Array:
    """Return the state after n_sweeps more, with the record of each sweep in the rows below it."""

    def make() -> da.Array:
        n_rows = system.n_unknown + 2 * n_sweeps
        return _by_columns(
            blocks.power_sweeps, n_rows, system.W, system.B, state, n_sweeps=n_sweeps, lazy=lazy
        )

    # A checkpoint may come back in other blocks than it was given in; those of the system are needed.
    return checkpoint(f"power_{done + n_sweeps}", make).rechunk((-1, system.B.chunks[1]))


def filled(Y: Any, solved: da.Array, known: Any) -> Any:
    """Return Y with its unknown rows set, in Y's dtype; NumPy for NumPy, lazy for Dask."""
    if isinstance(Y, da.Array):
        vectors = Y.rechunk((-1, solved.chunks[1]))
        return blockwise(
            _fill,
            "jc",
            vectors,
            "jc",
            solved,
            "qc",
            known=known,
            dtype=Y.dtype,
            meta=np.empty((0, 0), Y.dtype),
        )
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
