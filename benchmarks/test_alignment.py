"""Feature-preserving embeddings: the paper's toy over many seeds, and time against size.

The tables are printed: run with -s. Figures are recorded, never asserted.
"""

from __future__ import annotations

import dask
import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.measures import peak_bytes, spent
from distembed.evaluation.transfer import mean_interval
from distembed.manifold.correspondences import correspondence_matrix, shared_values
from distembed.manifold.eigenmaps import smallest_eigenpairs
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.graphs import joint_adjacency, laplacian, neighbor_affinity
from tests.manifold.test_alignment import GRID, pairs_of
from tests.references.alignment import alternate, grid_toy

SMOOTH = {"smoothness": 4, "regularization": 0.003, "solver_tol": 1e-10, "solver_max_iter": 2000}


def toy_guesses(X, V, graph, numbers, weight):
    """Return what each method infers for the turned grid from some known pairs, with links of a weight."""
    links = correspondence_matrix(pairs_of(numbers), 16, 16)
    found = propagate_correspondences(X, -X, links, metric="euclidean").links

    def embedded(pairs, **options):
        joint = joint_adjacency([graph, graph], {(0, 1): pairs}, weight=weight)
        model = FeaturePreservingEmbedding(2, **options).fit_graph(joint, *shared_values(V, pairs))
        return model.features_[16:]

    joint = joint_adjacency([graph, graph], {(0, 1): links}, weight=weight)
    Z = smallest_eigenpairs(joint, 2, zeros="none").vectors
    nearest = np.argmin(((Z[16:, None] - Z[:16]) ** 2).sum(axis=2), axis=1)
    return {
        "mean": np.full_like(V, V.mean()),
        "alignment": V[nearest],
        "paper, 30 rounds": as_printed(graph, V, links, weight),
        "embedding, pairs given": embedded(links, **SMOOTH),
        "embedding, pairs found": embedded(found, **SMOOTH),
    }


def as_printed(graph, V, links, weight):
    """Return what the paper's steps give after 30 rounds from a random start, by the oracle."""
    known = np.concatenate([np.ones(16, bool), links.toarray().any(axis=0)])
    L = laplacian(joint_adjacency([graph, graph], {(0, 1): links}, weight=weight)).toarray()
    start = np.random.default_rng(links.indices[0]).uniform(-1, 1, (32, 2))
    Z, F = alternate(L, np.concatenate([V, V]), known, start, 30)
    return (Z @ F)[16:]


def toy_row(n_known, n_seeds, weight):
    """Return the errors of each method over seeds of the paper's grid, with links of a weight."""
    X, V = grid_toy()
    options = {"affinity": "gaussian", "metric": "euclidean", "symmetry": "mutual"}
    graph = neighbor_affinity(X, GRID["n_neighbors"], **options)
    errors = {}
    for seed in range(n_seeds):
        numbers = np.random.default_rng(seed).permutation(16)[:n_known]
        rest = np.setdiff1d(np.arange(16), numbers)
        for name, guess in toy_guesses(X, V, graph, numbers, weight).items():
            errors.setdefault(name, []).append(np.sqrt(np.mean((guess - V)[rest] ** 2)))
    return {name: mean_interval(values) for name, values in errors.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("n_seeds", "weight"), [(2, 1), *(pytest.param(100, mu, marks=pytest.mark.slow) for mu in (1, 10))]
)
def test_toy_of_the_paper(n_seeds, weight):
    print(f"\nRMSE on the grid, links of weight {weight}, mean ± half the 95 % interval of {n_seeds} seeds")
    with dask.config.set(scheduler="synchronous"):
        for n_known in (1, 2, 3, 4, 5, 7, 10, 15) if n_seeds > 2 else (3,):
            row = toy_row(n_known, n_seeds, weight).items()
            cells = (f"{name} {value.mean:.2f} ± {value.high - value.mean:.2f}" for name, value in row)
            print(f"{n_known:3d} known: " + "; ".join(cells), flush=True)


def ring_graph(n, n_edges, generator):
    """Return a graph of neighbors within 1 % of a circle: as local for every n, so that only n grows."""
    steps = generator.integers(1, max(20, n // 100), size=(n, n_edges))
    columns = (np.arange(n)[:, None] + steps) % n
    weights = generator.uniform(0.2, 1.0, size=n * n_edges)
    edges = sp.csr_array((weights, columns.ravel(), np.arange(0, n * n_edges + 1, n_edges)), shape=(n, n))
    return sp.csr_array(edges.maximum(edges.T))


def measure(n_rows, n_components, n_features=50):
    """Fit n_rows rows in two sets, 5 % corresponding; return what it took, edges, rounds, error."""
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
    seconds = spent(model.fit_graph, adjacency, V)
    error = np.sqrt(np.mean((model.features_[half:] - waves) ** 2))
    return seconds, adjacency.nnz, model.n_iter_, error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "n_rows", [200, *(pytest.param(n, marks=pytest.mark.slow) for n in (20_000, 60_000, 200_000))]
)
def test_time_against_size(n_rows):
    n_components = min(50, n_rows // 10)
    seconds, n_edges, n_rounds, error = measure(n_rows, n_components)
    each = 1e9 * seconds.cpu / n_edges / n_rounds
    print(
        f"\n{n_rows} rows, {n_edges} non-zeros, k = {n_components}: {seconds}, {n_rounds} rounds, {each:.0f} ns CPU "
        f"a non-zero and round, peak {peak_bytes() / 2**30:.2f} GiB, RMSE {error:.3f}"
    )
