"""What block functions declare that they hold beside their arguments and their result, measured while estimators run."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import distembed as de
from distembed.execution import compute
from distembed.linalg.operators import row_blocks
from tests.temporaries import measured

DRAW = np.random.default_rng(0)
DENSE = DRAW.normal(size=(1500, 60)).astype(np.float32)
COUNTS = sp.csr_array(sp.random_array((1200, 1200), density=0.05, rng=1, dtype=np.float32, data_sampler=lambda size: DRAW.integers(1, 9, size)))
KNOWN = DRAW.normal(size=(1500, 40)).astype(np.float32)


def cut(matrix: Any, n_rows: int) -> da.Array:
    """Return a matrix in blocks of rows."""
    if sp.issparse(matrix):
        return row_blocks(matrix, values_per_block=matrix.nnz * n_rows // matrix.shape[0])
    return da.from_array(matrix, chunks=(n_rows, -1))


def some_known() -> Any:
    """Return vectors of which every third is missing."""
    known = KNOWN.copy()
    known[::3] = np.nan
    return known


RUNS: tuple[Callable[[], Any], ...] = (
    lambda: compute([de.ppmi(cut(COUNTS, 500)), de.pmi(cut(COUNTS, 500)).excess, de.smoothed_pmi(cut(COUNTS, 500), np.ones(1200)).excess]),
    lambda: compute([de.tf_idf(cut(COUNTS, 500)), de.log_entropy(cut(COUNTS, 500))]),
    lambda: compute(de.directional_contexts(cut(COUNTS, 500))),
    lambda: de.LSA(20).fit_transform(cut(COUNTS, 500)),
    lambda: de.PSDVec(20, n_core=800, n_iter=2).fit(cut(COUNTS, 500), np.full(1200, 400.0)),
    *(
        lambda solver=solver: de.NMF(10, solver=solver, n_iter=3, tol=0).fit(cut(COUNTS, 500))
        for solver in ("hals", "multiplicative", "orthogonal")
    ),
    lambda: de.NMF(10, n_iter=3, tol=0, graph_weight=1.0).fit(cut(COUNTS, 500)),
    lambda: de.SemanticNMF(10, n_iter=3, tol=0).fit(cut(COUNTS, 500), cut(COUNTS, 500)),
    lambda: de.SphericalKMeans(10).fit(cut(COUNTS, 500)),
    lambda: compute(de.pairwise_distances(cut(DENSE, 500))),
    lambda: [compute(de.nearest_neighbors(cut(rows, 500), 5)) for rows in (DENSE, COUNTS)],
    lambda: de.spanning_tree(cut(DENSE, 500)),
    lambda: de.LatentSemanticImputation().fit(DENSE, some_known()),
    lambda: [de.LocalityPreservingProjection(8, solver=solver).fit_transform(cut(DENSE, 500)) for solver in ("regression", "eigen")],
)
"""What reaches the block functions of the estimators, on arrays of some hundred kilobytes."""

ABOVE, BELOW = 0.05, 0.55
"""A function may take so much more than it declares, and so much less, in multiples of its largest array."""


def declared() -> dict[Callable[..., Any], float]:
    """Return every function of the package that declares its temporaries."""
    modules = (importlib.import_module(found.name) for found in pkgutil.walk_packages(de.__path__, "distembed."))
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
