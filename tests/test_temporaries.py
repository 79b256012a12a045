"""What block functions declare that they hold beside their arguments and result, measured while estimators run."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array, issparse, random_array

import distembed as de
from distembed.execution import compute
from distembed.linalg.operators import row_blocks
from distembed.neighbors import distances, graphs
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


RUNS = (search, *runs_of_words.RUNS, *runs_of_manifold.RUNS)
"""What reaches the block functions, on arrays of some hundred kilobytes."""

OF_FILES = ("tokenize_partition", "build_vocabulary", "count_partition", "merge_files", "select_documents")
"""What reads and writes files, and takes no array as an argument: the peaks of their stages show what they hold."""

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


def asserted() -> set[str]:
    """Return the names of the functions that other tests measure and pass to `assert_declared`."""
    trees = (
        ast.parse(file.read_text(encoding="utf-8"))
        for file in Path(__file__).parent.glob("*/test_*temporaries.py")
    )
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {
        argument.attr if isinstance(argument, ast.Attribute) else getattr(argument, "id", "")
        for call in calls
        if getattr(call.func, "id", "") == "assert_declared"
        for argument in call.args
    }


def test_every_block_function_is_measured(taken: dict[Callable[..., Any], float]) -> None:
    elsewhere = asserted() | set(OF_FILES)
    missing = [one for one in declared() if one not in taken and one.__name__ not in elsewhere]
    assert not [f"{one.__module__}.{one.__qualname__}" for one in missing]
    undeclared = [one for one in taken if not hasattr(one, "temporaries")]
    assert not [f"{one.__module__}.{one.__qualname__}" for one in undeclared]


def test_block_functions_hold_what_they_declare(taken: dict[Callable[..., Any], float]) -> None:
    wrong = {
        f"{function.__module__}.{function.__qualname__}": (declares, round(taken[function], 2))
        for function, declares in declared().items()
        if function in taken and not declares - BELOW <= taken[function] <= declares + ABOVE
    }
    assert not wrong, f"declared and measured multiples of the largest array: {wrong}"
