"""PSDVec written plainly on dense arrays, from the formulas of the paper and its program."""

from __future__ import annotations

import numpy as np

from distembed.execution import compute
from distembed.linalg.eigen import Eigenpairs, fix_signs
from distembed.linalg.operators import dense_blocks


def dense_eigenpairs(matrix, k, **_options):
    """Return what `largest_eigenpairs` looks for, from the whole matrix."""
    dense = compute(matrix.apply(dense_blocks(np.eye(sum(matrix.row_chunks)), matrix.row_chunks)))
    values, vectors = np.linalg.eigh((dense + dense.T) / 2)
    values, vectors = values[::-1][:k], fix_signs(vectors[:, ::-1][:, :k])
    residuals = np.linalg.norm(dense @ vectors - vectors * values, axis=0)
    return Eigenpairs(values, dense_blocks(vectors.astype(np.float32), matrix.row_chunks), residuals, 1)


def smoothed_pmi(counts, row_totals, unigram, kappa):
    conditional = (1 - kappa) * counts / np.maximum(row_totals, 1e-300)[:, None] + kappa * unigram
    return np.log(conditional) - np.log(unigram)


def halved_cutoff(counts):
    roots = np.sqrt(counts[counts > 0])
    start = cut = np.sqrt(counts[0, 0])
    while cut >= 10:
        if (roots >= cut).mean() >= 0.0002:
            return cut
        cut /= 2
    return start if start > 0 else np.inf


def core_weights(counts, cutoff):
    weights = np.minimum(np.sqrt(counts), cutoff)
    np.fill_diagonal(weights, 0)
    return weights / (weights.max() or 1)


def core(counts, row_totals, word_counts, *, d, rounds=4, kappa=0.02):
    """Return (vectors, objective of each round)."""
    target = smoothed_pmi(counts, row_totals, word_counts / word_counts.sum(), kappa)
    weights = core_weights(counts, halved_cutoff(counts))
    model, objective = target / 2, []
    for t in range(1, rounds + 1):
        mixed = weights * target + (1 - weights) * model
        values, directions = np.linalg.eigh((mixed + mixed.T) / 2)
        rank = d + rounds - t
        vectors = directions[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0))
        model = vectors @ vectors.T
        objective.append((weights * (target - model) ** 2).sum())
    return vectors, np.array(objective)


def noncore(
    rows,
    columns,
    core_vectors,
    totals,
    core_totals,
    u,
    core_u,
    *,
    ridge,
    background=0.0,
    uniform=0.0,
    kappa=0.02,
):
    """Return vectors of words with counts rows (m × c, word left) and columns (c × m).

    `background` is the weight of target 0 where a word has no count with a core word: 0.001 in the program, 0 in the
    paper.
    """
    cutoff = halved_cutoff(columns)
    w21, w12 = np.minimum(np.sqrt(rows), cutoff), np.minimum(np.sqrt(columns.T), cutoff)
    scale = max(w21.max(), w12.max()) or 1
    w21, w12 = w21 / scale, w12 / scale
    g21, g12 = smoothed_pmi(rows, totals, core_u, kappa), smoothed_pmi(columns, core_totals, u, kappa).T
    out = np.zeros((len(rows), core_vectors.shape[1]))
    for i in range(len(rows)):
        w = w12[i] + w21[i]
        seen = w > 0
        g = np.where(seen, (w12[i] * g12[i] + w21[i] * g21[i]) / np.where(seen, w, 1), 0)
        right = np.where(seen, w * g + uniform * (g12[i] + g21[i]), 0)
        w = np.where(seen, w, background) + 2 * uniform
        normal = core_vectors.T @ (w[:, None] * core_vectors) + ridge * np.eye(core_vectors.shape[1])
        if seen.any():
            out[i] = np.linalg.solve(normal, core_vectors.T @ right)
    return out
