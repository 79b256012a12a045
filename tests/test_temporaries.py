"""What block functions declare that they hold beside their arguments and result, measured while estimators run."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable
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

OF_FILES = (
    "corpus.partitions.tokenize_partition",
    "corpus.selection.select_documents",
    "corpus.vocabulary.build_vocabulary",
    "counting.cooccurrence.count_bundle",
)
"""What reads and writes files, and takes no array as an argument: the peaks of their stages show what they hold."""

ELSEWHERE = (
    "counting.cooccurrence.merge_row_block",
    "counting.document_groups._own_columns",
    "counting.document_groups.sum_of_blocks",
    "counting.document_groups.words_of_block",
    "counting.documents.count_document_block",
    "encoding.encoder.encode_block",
    "evaluation.contexts._terms_block",
    "evaluation.topics.documents_with_word",
    "evaluation.transfer.ranks_of_rows",
    "factorization.clustering.cluster_sums",
    "factorization.clustering.joint_sizes",
    "factorization.clustering.memberships",
    "factorization.clustering.nearest_centroid",
    "factorization.document_factors.column_shares",
    "factorization.document_factors.subtract_shift",
    "factorization.document_rows.document_sums",
    "factorization.document_rows.inspect",
    "factorization.document_rows.times",
    "factorization.lda.share_topics",
    "factorization.nmf_rounds.graph_loss",
    "factorization.nmf_rounds.membership",
    "factorization.nmf_rounds.scale",
    "factorization.nmf_rounds.solve_documents",
    "factorization.nmf_rounds.step_documents",
    "factorization.replicates.measured_words",
    "linalg.blocks.gram",
    "linalg.blocks.side_by_side",
    "linalg.csr.row_lengths",
    "systems.topics.stages._sum_of",
    "factorization.consensus.run_start",
    "linalg.csr.to_single",
    "weighting.blocks.chosen_columns",
    "weighting.blocks.column_entropy_sums",
    "weighting.blocks.column_frequencies",
    "weighting.blocks.excess_of_block",
    "weighting.blocks.times_sparse",
    "weighting.blocks.weigh_log_entropy",
    "weighting.blocks.weigh_tf_idf",
    "weighting.pmi.beside",
)
"""What the tests of temporaries of counting, weighting, documents and evaluation measure."""

ABOVE, BELOW = 0.05, 0.55
"""A function may take so much more than it declares, and so much less, in multiples of its largest array."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the module of a function and its name."""
    return f"{function.__module__.removeprefix('distembed.')}.{function.__qualname__}"


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


def test_block_functions_hold_what_they_declare() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches that end before they have converged
        for run in (search, *RUNS):  # which compiles
            run()
        rounds = list[Found]()
        for _ in range(
            3
        ):  # other threads may allocate meanwhile; what a function holds it holds in each round
            with measured() as found:
                for run in RUNS:
                    run()
            rounds.append(found)
            if not (wrong := differences(rounds)):
                break
    declares = declared()
    missing = {name_of(one) for one in declares if one not in found} - {*OF_FILES, *ELSEWHERE}
    assert not missing, "no test measures them"
    assert {*OF_FILES, *ELSEWHERE} <= set(map(name_of, declares))
    assert not [name_of(one) for one in found if one not in declares], "they declare nothing"
    assert not wrong, f"declared and measured multiples of the largest array: {wrong}"
