"""Feature-preserving embeddings: the paper's toy over many seeds, and time against size.

The tables are printed: run with -s. Figures are recorded, never asserted.
"""

from __future__ import annotations

import resource
import time

import numpy as np
import pytest
import scipy.sparse as sp

from distembed.evaluation.transfer import mean_interval
from distembed.manifold.alignment import FeaturePreservingEmbedding, SemisupervisedAlignment
from distembed.manifold.graphs import joint_adjacency
from tests.manifold.test_alignment import GRID, TOY, pairs_of
from tests.references.alignment import grid_toy

PAPER = {
    **GRID, "normalization": "symmetric", "missing": "imputed", "init": "random", "centre": False,
    "regularization": 0.0, "max_iter": 30,
}  # fmt: skip
TOY_MODELS = {
    "embedding p=1": {**TOY, "smoothness": 1},
    "embedding p=4": TOY,
    "paper, 30 rounds": PAPER,
}


def toy_row(n_known, n_seeds):
    """Return the errors of each method over seeds of the paper's grid."""
    X, V = grid_toy()
    errors = {name: [] for name in [*TOY_MODELS, "alignment", "mean"]}
    for seed in range(n_seeds):
        numbers = np.random.default_rng(seed).permutation(16)[:n_known]
        rest = np.setdiff1d(np.arange(16), numbers)
        guesses = {"mean": np.full_like(V, V.mean())}
        guesses["alignment"] = SemisupervisedAlignment(2, **GRID).fit(X, -X, pairs_of(numbers)).transfer(V)
        for name, options in TOY_MODELS.items():
            guesses[name] = (
                FeaturePreservingEmbedding(2, **options).fit(X, -X, V, pairs_of(numbers)).features_
            )
        for name, guess in guesses.items():
            errors[name].append(np.sqrt(np.mean((guess - V)[rest] ** 2)))
    return {name: mean_interval(values) for name, values in errors.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_seeds", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_toy_of_the_paper(n_seeds):
    print(f"\nRMSE on the grid, mean ± half the 95 % interval of {n_seeds} seeds")
    for n_known in (1, 2, 3, 4, 5, 6, 7, 10, 15) if n_seeds > 3 else (3,):
        row = toy_row(n_known, n_seeds)
        cells = (f"{name} {value.mean:.2f} ± {value.high - value.mean:.2f}" for name, value in row.items())
        print(f"{n_known:3d} known: " + "; ".join(cells))


def ring_graph(n, n_edges, generator):
    """Return a graph of neighbours within 1 % of a circle: as local for every n, so that only n grows."""
    steps = generator.integers(1, max(20, n // 100), size=(n, n_edges))
    columns = (np.arange(n)[:, None] + steps) % n
    weights = generator.uniform(0.2, 1.0, size=n * n_edges)
    edges = sp.csr_array((weights, columns.ravel(), np.arange(0, n * n_edges + 1, n_edges)), shape=(n, n))
    return sp.csr_array(edges.maximum(edges.T))


def measure(n_rows, n_components=50, n_features=50):
    """Fit n_rows rows in two sets, 5 % corresponding; return seconds, edges, rounds."""
    generator = np.random.default_rng(0)
    half = n_rows // 2
    graphs = [ring_graph(half, 5, generator) for _ in range(2)]
    known = generator.permutation(half)[: half // 20]
    links = sp.csr_array((np.ones(known.size), (known, known)), shape=(half, half))
    angles = 2 * np.pi * np.arange(half) / half
    waves = np.cos(np.outer(angles, np.arange(n_features) // 10) + np.arange(n_features))
    V = np.concatenate([waves, np.full_like(waves, np.nan)])
    V[half + known] = waves[known]
    adjacency = joint_adjacency(graphs, {(0, 1): links})
    model = FeaturePreservingEmbedding(n_components, init="random")
    begin = time.perf_counter()
    model.fit_graph(adjacency, V)
    seconds = time.perf_counter() - begin
    error = np.sqrt(np.mean((model.features_[half:] - waves) ** 2))
    return seconds, adjacency.nnz, model.n_iter_, error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "n_rows", [2000, *(pytest.param(n, marks=pytest.mark.slow) for n in (20_000, 60_000, 200_000))]
)
def test_time_against_size(n_rows):
    seconds, n_edges, n_rounds, error = measure(n_rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"\n{n_rows} rows, {n_edges} non-zeros, k = 50: {seconds:.1f} s, {n_rounds} rounds, "
        f"{1e9 * seconds / n_edges / n_rounds:.0f} ns a non-zero and round, peak {peak:.2f} GiB, "
        f"RMSE {error:.3f}"
    )
