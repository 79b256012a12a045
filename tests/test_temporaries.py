"""What block functions declare that they hold beside their arguments and their result, measured while estimators run."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array, issparse, random_array

import distembed as de
from distembed.execution import compute
from distembed.linalg.operators import row_blocks
from distembed.neighbors import distances, graphs
from distembed.weighting import documents, pmi
from tests import runs_of_manifold, runs_of_words
from tests.temporaries import measured

DRAW = np.random.default_rng(0)
DENSE = DRAW.normal(size=(1500, 60)).astype(np.float32)
COUNTS = csr_array(random_array((1200, 1200), density=0.05, rng=1))
COUNTS.data = np.ceil(9 * COUNTS.data).astype(np.int32)


def cut(matrix: Any, n_rows: int) -> da.Array:
    """Return a matrix in blocks of rows."""
    if issparse(matrix):
        return row_blocks(matrix, values_per_block=matrix.nnz * n_rows // matrix.shape[0])
    return da.from_array(matrix, chunks=(n_rows, -1))


def weigh() -> None:
    """Weigh counts of words by contexts, and of documents by words."""
    counts = cut(COUNTS, 400)
    smoothed = de.smoothed_pmi(counts, np.arange(1, 1201))
    compute([de.pmi(counts), de.ppmi(counts), smoothed.excess, de.directional_contexts(counts)])
    compute([de.log_entropy(counts), de.tf_idf(counts, sublinear=True)])
    pmi.weight_cutoff(counts, "halving", corner=400.0)
    pmi.largest_count(counts)
    compute(documents.select_words(counts, np.arange(0, 1200, 2)))
    compute(documents.select_pairs(counts, np.arange(1199, -1, -1)))


def factorize() -> None:
    """Factorize documents by every rule, with a graph and with an association, and cluster them."""
    rows, half = cut(COUNTS, 400), csr_array(COUNTS + COUNTS.T)
    for solver in ("hals", "multiplicative", "orthogonal"):
        model = de.NMF(10, solver=solver, n_iter=2, tol=0).fit(rows)
        compute([model.transform(rows), model.predict(rows)])
    de.NMF(10, n_iter=2, tol=0, n_init=2).fit(rows, graph=csr_array(half > 20).astype(np.float32))
    de.SemanticNMF(10, n_iter=2, tol=0).fit(rows, cut(half, 400))
    model = de.SphericalKMeans(10, n_iter=2).fit(rows)
    compute([model.transform(rows), model.predict(rows)])


def search() -> None:
    """Measure distances, search neighbors, and make graphs and trees of them."""
    for metric in ("euclidean", "cosine"):
        compute(de.pairwise_distances(cut(DENSE, 500), metric=metric))
        compute(de.nearest_neighbors(cut(DENSE, 500), 5, metric=metric))
    compute(
        [
            de.pairwise_distances(cut(COUNTS, 400), metric="cosine"),
            de.nearest_neighbors(cut(COUNTS, 400), 5, metric="cosine"),
        ]
    )
    de.spanning_tree(cut(DENSE, 500))
    compute(distances.distance_rows(cut(DENSE, 500)))
    for symmetry in ("union", "mutual"):
        for affinity in ("local", "binary", "polynomial"):
            compute(graphs.affinity_rows(cut(DENSE, 500), 15, symmetry=symmetry, affinity=affinity))


RUNS = (weigh, factorize, search, *runs_of_words.RUNS, *runs_of_manifold.RUNS)
"""What reaches the block functions, on arrays of some hundred kilobytes."""

ABOVE, BELOW = 0.05, 0.55
"""A function may take so much more than it declares, and so much less, in multiples of its largest array."""


def declared() -> dict[Callable[..., Any], float]:
    """Return every function of the package that declares its temporaries."""
    modules = (
        importlib.import_module(found.name) for found in pkgutil.walk_packages(de.__path__, "distembed.")
    )
    return {
        value: value.temporaries
        for module in modules
        for value in vars(module).values()
        if callable(value) and isinstance(getattr(value, "temporaries", None), int | float)
    }


@pytest.fixture(scope="module")
def taken() -> dict[Callable[..., Any], float]:
    """Return the most that each block function took in the runs, in multiples of its largest array."""
    with measured() as found:
        for run in RUNS:
            run()
    return {function: max(times for times, _ in calls) for function, calls in found.items()}


def test_every_block_function_is_measured(taken: dict[Callable[..., Any], float]) -> None:
    missing = [function for function in declared() if function not in taken]
    assert not [f"{one.__module__}.{one.__qualname__}" for one in missing]
    undeclared = [function for function in taken if not hasattr(function, "temporaries")]
    assert not [f"{one.__module__}.{one.__qualname__}" for one in undeclared]


def test_block_functions_hold_what_they_declare(taken: dict[Callable[..., Any], float]) -> None:
    wrong = {
        f"{function.__module__}.{function.__qualname__}": (declares, round(taken[function], 2))
        for function, declares in declared().items()
        if function in taken and not declares - BELOW <= taken[function] <= declares + ABOVE
    }
    assert not wrong, f"declared and measured multiples of the largest array: {wrong}"
