"""What block functions declare that they hold beside their arguments and result, measured while estimators run."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy.sparse import csr_array, issparse, random_array

import distembed as de
from distembed.execution import compute
from distembed.linalg.operators import row_blocks
from distembed.neighbors import distances, graphs
from tests import runs_of_estimators
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
    with dask.config.set({"distembed.block_memory": 2**20}):  # in several blocks, whose lists are merged
        compute(de.nearest_neighbors(DENSE, 60))
    de.spanning_tree(cut(DENSE, 500))
    compute(distances.distance_rows(cut(DENSE, 500)))
    for symmetry in ("union", "mutual"):
        for affinity in ("local", "binary", "polynomial"):
            compute(graphs.affinity_rows(cut(DENSE, 500), 15, symmetry=symmetry, affinity=affinity))


RUNS = (search, *runs_of_estimators.RUNS)
"""What reaches the block functions, on arrays of some hundred kilobytes."""

UNMEASURED = (
    "corpus.partitions.tokenize_partition",
    "corpus.selection.select_documents",
    "corpus.vocabulary.build_vocabulary",
    "counting.cooccurrence.count_bundle",
    "counting.document_groups._own_columns",
    "encoding.encoder.encode_block",
    "factorization.consensus.run_start",
    "factorization.document_rows.inspect",
    "linalg.csr.row_lengths",
    "linalg.csr.to_single",
)
"""What no test measures. The first four read and write files: the peaks of their stages show what they hold."""

ABOVE, BELOW = 0.05, 0.55
"""A function may take so much more than it declares, and so much less, in multiples of its largest array."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the module of a function and its name."""
    return f"{function.__module__.removeprefix('distembed.')}.{function.__qualname__}"


def measured_elsewhere() -> set[str]:
    """Return the names that stand in other tests of what functions declare."""
    texts = (file.read_text() for file in Path(__file__).parent.glob("*/test_*.py"))
    return {name for text in texts if "assert_declared(" in text for name in re.findall(r"\w+", text)}


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


Found = dict[Callable[..., Any], list[tuple[float, int]]]


def differences(rounds: list[Found]) -> dict[str, tuple[float, float]]:
    """Return what functions declare and hold in each round, of those that do not hold what they declare."""
    declares = declared()
    most = {
        one: min(max(times for times, _ in found[one]) for found in rounds if one in found)
        for one in rounds[-1]
        if one in declares
    }
    return {
        name_of(one): (declares[one], round(times, 2))
        for one, times in most.items()
        if not declares[one] - BELOW <= times <= declares[one] + ABOVE
    }


def test_block_functions_hold_what_they_declare():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches that end before they have converged
        rounds = list[Found]()
        for _ in range(3):  # the first may compile, and other threads may allocate in some
            with measured() as found:
                for run in RUNS:
                    run()
            rounds.append(found)
            if not (wrong := differences(rounds)):
                break
    declares, elsewhere = declared(), measured_elsewhere()
    missing = {name_of(one) for one in declares if one not in found and one.__name__ not in elsewhere}
    assert missing <= {*UNMEASURED} <= {*map(name_of, declares)}
    assert not [name_of(one) for one in found if one not in declares], "they declare nothing"
    assert not wrong, f"declared and measured multiples of the largest array: {wrong}"
