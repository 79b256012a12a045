"""The rounds of feature-preserving embeddings, which improve the embedding and the regression in turn.

`distembed.manifold.feature_preserving` defines the objective. Z, F, L, p, c, λ and σ are those of
`FeaturePreservingEmbedding`. A round solves k sparse systems for Z, in tasks of a group of columns each, and
a small regression for F.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Float64s, Mask
from distembed.execution import compute, tell
from distembed.lift import block, lift
from distembed.linalg import columns
from distembed.manifold import alignment_blocks as blocks
from distembed.manifold.eigenmaps import smallest_eigenpairs
from distembed.states import block_memory, keep, newest
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
    """Z and F, with the objective before the first round and after each, and what was left of the systems of each."""

    Z: Float64s
    F: Float64s
    objective: Float64s
    residuals: Float64s


def alternate(problem: Problem) -> Embedding:
    """Improve Z and F in turn until the objective falls by less than the share tol; each round is kept."""
    state = compute(newest("round", Embedding)[1]) or Embedding(*_begin(problem), np.zeros(0))
    while not has_settled(state, problem.options) and len(state.residuals) < problem.options.max_iter:
        number = len(state.residuals) + 1
        state = compute(keep("round", partial(_round, problem, state), Embedding, number=number))
        tell("rounds", number)
    return state


def has_settled(found: Embedding, options: Any) -> bool:
    """Return whether the objective fell by no more than the share tol in the last round, and its systems are solved.

    A round whose systems have not converged is never the last, however little the objective fell in it.
    """
    if not found.residuals.size:
        return False
    before, value = found.objective[-2:]
    return bool(before - value <= options.tol * abs(before) and found.residuals[-1] <= options.solver_tol)


def _round(problem: Problem, state: Embedding) -> Embedding:
    known = _fill_unknown(problem, state.Z @ state.F)
    Z, residual = _solve(problem, known, state.Z, state.F)
    Z, F, value = _regress(problem, Z, known)
    return Embedding(Z, F, np.append(state.objective, value), np.append(state.residuals, residual))


class _Known(NamedTuple):
    """The values that one round is fitted to, and their confidences."""

    confidence: Float64s
    target: Float64s


def _fill_unknown(problem: Problem, inferred: Float64s) -> _Known:
    """Return the known values, or those with the unknown ones filled with inferred ones (the paper's step 8.3).

    Filling majorizes the objective, so that it falls in these rounds too.
    """
    if problem.options.missing == "masked":
        return _Known(problem.confidence, problem.target)
    weight = problem.confidence[:, None]
    return _Known(np.ones_like(problem.confidence), weight * problem.target + (1 - weight) * inferred)


def _begin(problem: Problem) -> tuple[Float64s, Float64s, Float64s]:
    """Return the first Z and F and their objective, (1,).

    Eigenvectors that are constant over the known rows, as the first of a connected graph is, explain nothing of
    centered values, and no round departs from them: then the start is random.
    """
    known = _fill_unknown(problem, np.zeros_like(problem.target))
    Z, F, value = _regress(problem, _start(problem, problem.options.init), known)
    explained = np.abs(known.confidence[:, None] * (Z @ F)).max()
    if explained <= EXPLAINED * np.abs(known.target).max():
        Z, F, value = _regress(problem, _start(problem, "random"), known)
    return Z, F, np.array([value])


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


def _solve(problem: Problem, known: _Known, Z: Float64s, F: Float64s) -> tuple[Float64s, float]:
    """Return the best Z for F, and the largest relative residual of its k sparse systems.

    They are (L^p + s_i M) y_i = b_i of y = Z Q, and are solved in groups of columns.
    """
    options, (confidence, target) = problem.options, known
    shifts, basis = blocks.decoupling_basis(F)
    right = (confidence[:, None] * target) @ (F.T @ basis)
    right[:, shifts == 0] = 0.0
    width = group_width(right.shape[0], right.shape[1], block_memory())
    solved = lift(
        solve_group, "k,nk,nk->nk", da.from_array(shifts, chunks=width),
        *(da.from_array(values, chunks=(-1, width)) for values in (right, Z @ basis)), dtype=np.float64,
        laplacian=problem.laplacian, confidence=confidence,
        order=options.smoothness, tol=options.solver_tol, max_iter=options.solver_max_iter,
    )  # fmt: skip
    Z = compute(solved) @ np.ascontiguousarray(basis.T)
    left = columns.system_residuals(
        problem.laplacian, confidence, shifts, right, Z @ basis, order=options.smoothness
    )
    return Z, float(left.max())


@block(temporaries=7)
def solve_group(
    shifts: Float64s, right: Float64s, start: Float64s, *, laplacian: Any, confidence: Float64s, **limits: Any
) -> Float64s:
    """Return the solutions of a group of systems."""
    return columns.solve_shifted(laplacian, confidence, shifts, right, start, **limits).values


def group_width(n_rows: int, n_systems: int, block_memory: int) -> int:
    """Return the number of systems of one task, from the problem and the memory of a task."""
    fitting = max(1, block_memory // (SYSTEM_COPIES * 8 * n_rows))
    return min(fitting, max(LEAST_SYSTEMS, -(-n_systems // SYSTEM_GROUPS)), n_systems)
