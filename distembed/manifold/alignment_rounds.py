"""The rounds of feature-preserving embeddings, which improve the embedding and the regression in turn.

`distembed.manifold.feature_preserving` defines the objective. Z, F, L, p, c, λ and σ are those of
`FeaturePreservingEmbedding`. A round solves k sparse systems for Z, in tasks of a group of columns each, and
a small regression for F.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Float64s, Mask
from distembed.execution import compute, delayed, map_blocks, tell
from distembed.linalg import columns
from distembed.manifold import alignment_blocks as blocks
from distembed.manifold.eigenmaps import smallest_eigenpairs
from distembed.validation import seed_of

SYSTEM_COPIES = 8
"""Copies of its columns that a task of `solve_shifted` holds."""
SYSTEM_GROUPS = 8
"""Largest number of groups of systems: in smaller groups the sparse product cannot share its index over columns."""
LEAST_SYSTEMS = 4
EXPLAINED = 1e-8
"""The least share of the largest known value that a start from eigenvectors explains, beyond rounding."""


class Problem(NamedTuple):
    """The data that are the same in every round."""

    laplacian: Any
    confidence: Float64s
    target: Float64s
    unreached: Mask
    options: Any
    """The `FeaturePreservingEmbedding`."""


class Embedding(NamedTuple):
    """Z and F, with the objective and the convergence of the systems after each round."""

    Z: Float64s
    F: Float64s
    objective: Float64s
    residuals: Float64s
    converged: bool


def alternate(problem: Problem) -> Embedding:
    """Improve Z and F in turn until the objective falls by less than the share tol.

    A round whose systems have not converged is never the last, however little the objective fell in it.
    """
    options = problem.options
    known = _Known(problem.confidence, problem.target)
    if options.missing == "imputed":
        known = _Known(np.ones_like(problem.confidence), problem.target * problem.confidence[:, None])
    Z, F, value = _begin(problem, known)
    objective, residuals, converged = [value], list[float](), False
    while not converged and len(residuals) < options.max_iter:
        known = _fill_unknown(problem, Z, F)
        step = _Step(problem, known, Z, F)
        Z = np.asarray(compute(options.checkpoint(f"embedding-{len(objective)}", step.solve)))
        residuals.append(step.residual(Z))
        tell("rounds", len(residuals))
        Z, F, value = _regress(problem, Z, known)
        fallen = objective[-1] - value <= options.tol * abs(objective[-1])
        converged = fallen and residuals[-1] <= options.solver_tol
        objective.append(value)
    return Embedding(Z, F, np.array(objective), np.array(residuals), converged)


class _Known(NamedTuple):
    """The values that one round is fitted to, and their confidences."""

    confidence: Float64s
    target: Float64s


def _fill_unknown(problem: Problem, Z: Float64s, F: Float64s) -> _Known:
    """Return the known values, or those with the unknown ones filled with Z F (the paper's step 8.3).

    Filling majorizes the objective, so that it falls in these rounds too.
    """
    if problem.options.missing == "masked":
        return _Known(problem.confidence, problem.target)
    weight = problem.confidence[:, None]
    return _Known(np.ones_like(problem.confidence), weight * problem.target + (1 - weight) * (Z @ F))


def _begin(problem: Problem, known: _Known) -> tuple[Float64s, Float64s, float]:
    """Return the first Z and F and their objective.

    Eigenvectors that are constant over the known rows, as the first of a connected graph is, explain nothing of
    centered values, and no round departs from them: then the start is random.
    """
    found = _regress(problem, _start(problem, problem.options.init), known)
    explained = np.abs(known.confidence[:, None] * (found[0] @ found[1])).max()
    if explained > EXPLAINED * np.abs(known.target).max():
        return found
    return _regress(problem, _start(problem, "random"), known)


def _start(problem: Problem, init: Literal["alignment", "random"]) -> Float64s:
    options, shape = problem.options, (problem.confidence.size, problem.options.n_components)
    seed = seed_of(options.random_state)
    if init == "random":
        Z = np.random.default_rng(seed).uniform(-1, 1, shape)
    else:
        Z = smallest_eigenpairs(options.adjacency_, options.n_components, random_state=seed)[1]
    if options.missing == "masked":
        Z[problem.unreached] = 0.0
    return Z


def _regress(problem: Problem, Z: Float64s, known: _Known) -> tuple[Float64s, Float64s, float]:
    """Return Z and the best F for it, in the best scale, and the objective."""
    ridge = problem.options.regularization * problem.options.variance_
    F = blocks.regression_weights(Z, known.target, known.confidence, ridge)
    if ridge > 0 and F.any():
        Z, F = blocks.balance_factors(Z, F, _roughness(problem, Z), ridge)
    smooth = float(np.trace(_roughness(problem, Z)))
    misfit = float((problem.confidence[:, None] * (Z @ F - problem.target) ** 2).sum())
    return Z, F, smooth + misfit + ridge * float((F**2).sum())


def _roughness(problem: Problem, Z: Float64s) -> Float64s:
    return Z.T @ columns.apply_power(problem.laplacian, Z, problem.options.smoothness)


class _Step(NamedTuple):
    """The step that computes the best Z for F: k sparse systems, solved in groups of columns."""

    problem: Problem
    known: _Known
    Z: Float64s
    F: Float64s

    def systems(self) -> tuple[Float64s, Float64s, Float64s]:
        """Return s (k,), Q (k × k) and b (N × k) of the systems (L^p + s_i M) y_i = b_i of y = Z Q."""
        confidence, target = self.known
        shifts, basis = blocks.decoupling_basis(self.F)
        right = (confidence[:, None] * target) @ (self.F.T @ basis)
        right[:, shifts == 0] = 0.0
        return shifts, basis, right

    def solve(self) -> da.Array:
        """Return Z, (N × k) in one chunk."""
        shifts, basis, right = self.systems()
        options = self.problem.options
        width = group_width(right.shape[0], right.shape[1], options.block_memory)
        solved = map_blocks(
            _solve_group,
            da.from_array(shifts[None], chunks=(1, width)),
            da.from_array(right, chunks=(-1, width)),
            da.from_array(self.Z @ basis, chunks=(-1, width)),
            delayed((self.problem.laplacian, self.known.confidence), traverse=False),
            order=options.smoothness,
            tol=options.solver_tol,
            max_iter=options.solver_max_iter,
            dtype=np.float64,
            chunks=((right.shape[0],), da.from_array(shifts, chunks=width).chunks[0]),
            meta=np.empty((0, 0)),
        )
        whole = solved.rechunk((-1, -1))
        return map_blocks(np.matmul, whole, basis.T, dtype=np.float64, meta=np.empty((0, 0)))

    def residual(self, Z: Float64s) -> float:
        """Return the largest relative residual of the systems at a solution Z."""
        shifts, basis, right = self.systems()
        order = self.problem.options.smoothness
        left = columns.system_residuals(
            self.problem.laplacian, self.known.confidence, shifts, right, Z @ basis, order=order
        )
        return float(left.max())


def _solve_group(
    shifts: Float64s, right: Float64s, start: Float64s, system: Any, *, order: int, tol: float, max_iter: int
) -> Float64s:
    smoother, confidence = system
    return columns.solve_shifted(
        smoother, confidence, shifts[0], right, start, order=order, tol=tol, max_iter=max_iter
    ).values


def group_width(n_rows: int, n_systems: int, block_memory: int) -> int:
    """Return the number of systems of one task, from the problem and the memory of a task."""
    fitting = max(1, block_memory // (SYSTEM_COPIES * 8 * n_rows))
    return min(fitting, max(LEAST_SYSTEMS, -(-n_systems // SYSTEM_GROUPS)), n_systems)
