"""The rounds of feature-preserving embeddings, which improve the embedding and the regression in turn.

`distembed.manifold.feature_preserving` defines the objective. Z, F, L, p, c, λ and σ are those of
`FeaturePreservingEmbedding`. A round solves k sparse systems for Z, in tasks of a group of columns each, and
a small regression for F.

Letters
-------
L : graph Laplacian, n × n, symmetric, positive semidefinite, CSR.
m : confidence of the known value of each row, (n,), 0 where there is none; M = diag(m).
V : feature values, (n × f). Z : embedding, (n × k). F : regression weights, (k × f).
s, Q : eigenvalues and eigenvectors of F Fᵀ; (L + s_i M) (Z Q)_i = (M V Fᵀ Q)_i is system i.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import dask.array as da
import numpy as np

from distembed.dtypes import Float64s, Mask
from distembed.execution import compute, tell
from distembed.lift import block, lift
from distembed.linalg import columns
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
ZERO_EIGENVALUE = 1e-13
"""Share of the largest eigenvalue of F Fᵀ under which one is rounding: the pseudo-inverse's cut-off."""
LEAST_ROUGHNESS = 1e-12
"""Roughness of a constant against that of the embedding: it bounds the scale of what L does not see."""

Known: TypeAlias = tuple[Float64s, Float64s]
"""The confidences of the values that one round is fitted to, and the values."""


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
    """Return the best Z for F, and the best F for that, with the largest relative residual of k sparse systems.

    They are (L^p + s_i M) y_i = b_i of y = Z Q, and are solved in groups of columns.
    """
    options, L, (Z, F, objective, residuals) = problem.options, problem.laplacian, state
    confidence, target = known = _fill_unknown(problem, Z @ F)
    shifts, basis = np.linalg.eigh(F @ F.T)
    shifts[shifts < ZERO_EIGENVALUE * max(shifts[-1], 0.0)] = 0.0
    right = (confidence[:, None] * target) @ (F.T @ basis)
    right[:, shifts == 0] = 0.0
    width = group_width(right.shape[0], right.shape[1], block_memory())
    solved = lift(
        solve_group, "k,nk,nk->nk", da.from_array(shifts, chunks=width),
        *(da.from_array(values, chunks=(-1, width)) for values in (right, Z @ basis)), dtype=np.float64,
        laplacian=L, confidence=confidence,
        order=options.smoothness, tol=options.solver_tol, max_iter=options.solver_max_iter,
    )  # fmt: skip
    Z = compute(solved) @ np.ascontiguousarray(basis.T)
    left = columns.system_residuals(L, confidence, shifts, right, Z @ basis, order=options.smoothness)
    Z, F, value = _regress(problem, Z, known)
    return Embedding(Z, F, np.append(objective, value), np.append(residuals, float(left.max())))


def _fill_unknown(problem: Problem, inferred: Float64s) -> Known:
    """Return the known values, or those with the unknown ones filled with inferred ones (the paper's step 8.3).

    Filling majorizes the objective, so that it falls in these rounds too.
    """
    if problem.options.missing == "masked":
        return problem.confidence, problem.target
    weight = problem.confidence[:, None]
    return np.ones_like(problem.confidence), weight * problem.target + (1 - weight) * inferred


def _begin(problem: Problem) -> tuple[Float64s, Float64s, Float64s]:
    """Return the first Z and F and their objective, (1,).

    Eigenvectors that are constant over the known rows, as the first of a connected graph is, explain nothing of
    centered values, and no round departs from them: then the start is random.
    """
    known = _fill_unknown(problem, np.zeros_like(problem.target))
    Z, F, value = _regress(problem, _start(problem, problem.options.init), known)
    if np.abs(known[0][:, None] * (Z @ F)).max() <= EXPLAINED * np.abs(known[1]).max():
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


def _regress(problem: Problem, Z: Float64s, known: Known) -> tuple[Float64s, Float64s, float]:
    """Return Z and the best F = (ZᵀMZ + ridge I)^+ ZᵀMV for it, in the best scale, and the objective."""
    confidence, target = known
    ridge = problem.options.regularization * problem.options.variance_
    scaled = Z * confidence[:, None]
    gram, right = scaled.T @ Z, scaled.T @ target
    if ridge > 0:
        gram.flat[:: len(gram) + 1] += ridge
        F = np.asarray(np.linalg.solve(gram, right), np.float64)
    else:
        F = np.asarray(np.linalg.pinv(gram, rcond=ZERO_EIGENVALUE, hermitian=True) @ right, np.float64)
    if ridge > 0 and F.any():
        Z, F = balance_factors(Z, F, _roughness(problem, Z), ridge)
    smooth = float(np.trace(_roughness(problem, Z)))
    misfit = float((problem.confidence[:, None] * (Z @ F - problem.target) ** 2).sum())
    return Z, F, smooth + misfit + ridge * float((F**2).sum())


def _roughness(problem: Problem, Z: Float64s) -> Float64s:
    return Z.T @ columns.apply_power(problem.laplacian, Z, problem.options.smoothness)


def balance_factors(Z: Float64s, F: Float64s, roughness: Float64s, ridge: float) -> tuple[Float64s, Float64s]:
    """Return the factors of Z F for which tr(ZᵀLZ) + ridge ‖F‖² is least, 2 √ridge ‖L^½ Z F‖_*.

    With the singular values σ and right vectors W of L^½ Z F: F = ridge^-¼ σ^½ Wᵀ, Z = ridge^¼ Z F W σ^-½.

    Parameters
    ----------
    Z : array (n × k)
        The embedding.
    F : array (k × f)
        The regression weights.
    roughness : ZᵀLZ, (k × k); `LEAST_ROUGHNESS` of the identity is added to L, so that constants keep a scale
    ridge : float
        The weight of the penalty on F.
    """
    gram = Z.T @ Z
    gram /= max(float(np.trace(gram)), np.finfo(float).tiny)
    squares, basis = np.linalg.eigh(roughness + LEAST_ROUGHNESS * np.trace(roughness) * gram)
    root = np.sqrt(np.maximum(squares, 0.0))[:, None] * basis.T
    _, values, right = np.linalg.svd(root @ F, full_matrices=False)
    sizes = np.sqrt(np.maximum(values, ZERO_EIGENVALUE * max(values[0], np.finfo(float).tiny)))
    weights = np.zeros_like(F)
    weights[: len(sizes)] = ridge**-0.25 * sizes[:, None] * right
    rotated = np.zeros_like(Z)
    rotated[:, : len(sizes)] = ridge**0.25 * (Z @ (F @ right.T)) / sizes
    return rotated, weights


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
