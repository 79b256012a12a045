"""What the costs of searches, graphs and distances say, against the arrays that runs make."""

from __future__ import annotations

import inspect
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import distembed as de
from distembed.costs import Cost
from distembed.linalg.operators import row_blocks
from distembed.neighbors import graphs, search
from distembed.neighbors.costs import RowSizes, affinity_cost, distances_cost, search_cost
from distembed.neighbors.distances import distance_rows, domain_rows
from tests.costs.test_costs import Sizes, bytes_of
from tests.costs.test_counts import Options, check, watched

# --- rows -> graphs ---------------------------------------------------------------------------------------------

N_ROWS, N_COLUMNS = 120, 6

SEARCH: Options = {"n_neighbors": 5, "block_memory": 2**20}

SEARCH_OPTIONS: Options = {
    "n_neighbors": 7,
    "metric": "cosine",
    "is_sparse": True,
    "block_memory": 2**12,
}


def rows_of(given: Options) -> Any:
    made = np.random.default_rng(0).random((N_ROWS, N_COLUMNS)).astype(np.float32)
    return row_blocks(made, values_per_block=10**6) if given.get("is_sparse") else made


def search_sizes(given: Options) -> Sizes:
    metric, memory = given.get("metric", "euclidean"), given["block_memory"]
    with watched() as found:
        rows = domain_rows(rows_of(given), metric=metric, block_memory=memory)
        near = search.nearest_rows(
            rows, given["n_neighbors"], metric=metric, block_memory=memory, reread=True
        )
        made = de.execution.compute([near.lists])
    return found | {"lists": bytes_of(made)}


def row_sizes_of(given: Options) -> RowSizes:
    return RowSizes(N_ROWS, N_COLUMNS, N_ROWS * N_COLUMNS if given.get("is_sparse") else None, itemsize=4)


def search_costs(given: Options) -> Cost:
    metric, memory = given.get("metric", "euclidean"), given["block_memory"]
    return search_cost(
        row_sizes_of(given), given["n_neighbors"], metric=metric, block_memory=memory, reread=True
    )


@pytest.mark.parametrize("option", SEARCH_OPTIONS)
def test_an_option_of_the_search_that_changes_the_arrays_changes_the_cost(option: str) -> None:
    base = SEARCH | ({"metric": "cosine"} if option == "is_sparse" else {})
    check(search_sizes, search_costs, base, {option: SEARCH_OPTIONS[option]})


@pytest.mark.parametrize("block_memory", [2**14, 2**11])  # of fewer blocks than have limits, and of more
def test_the_search_stores_what_its_cost_says(block_memory: int) -> None:
    n_stored = [0]

    def keep(_name: str, make: Any) -> da.Array:
        made = make()
        n_stored[0] += made.nbytes
        return made.persist()

    rows = domain_rows(rows_of({}), metric="euclidean", block_memory=block_memory)
    near = search.nearest_rows(rows, 5, metric="euclidean", block_memory=block_memory, checkpoint=keep)
    assert near.lists.shape[0] == N_ROWS
    cost = search_cost(row_sizes_of({}), 5, metric="euclidean", block_memory=block_memory)
    assert cost.written_bytes == n_stored[0]


AFFINITY: Options = {"n_neighbors": 5, "metric": "euclidean", "block_memory": 2**20}

AFFINITY_OPTIONS: Options = {
    "n_neighbors": 7,
    "affinity": "gaussian",
    "symmetry": "mutual",
    "metric": "cosine",
    "degree": 2,
    "block_memory": 2**12,
}


def affinity_sizes(given: Options) -> Sizes:
    with watched() as found:
        made = de.execution.compute(graphs.affinity_rows(rows_of({}), **given))
    return found | {"stored values": made.nnz if given.get("symmetry") == "mutual" else 0}


def affinity_costs(given: Options) -> Cost:
    chosen = {
        name: given[name] for name in ("n_neighbors", "metric", "symmetry", "block_memory") if name in given
    }
    return affinity_cost(row_sizes_of({}), **chosen)


@pytest.mark.parametrize("option", AFFINITY_OPTIONS)
def test_an_option_of_an_affinity_that_changes_the_arrays_changes_the_cost(option: str) -> None:
    assert {*AFFINITY_OPTIONS} == {*inspect.signature(graphs.affinity_rows).parameters} - {
        "X",
        "checkpoint",
        "reread",
    }
    base = AFFINITY | ({"metric": "cosine", "affinity": "polynomial"} if option == "degree" else {})
    check(affinity_sizes, affinity_costs, base, {option: AFFINITY_OPTIONS[option]})


def test_the_memory_of_kept_distances_changes_their_cost() -> None:
    def sizes(given: Options) -> Sizes:
        with watched() as found:
            de.execution.compute(distance_rows(rows_of({}), **given))
        return found

    def costs(given: Options) -> Cost:
        return distances_cost(row_sizes_of({}), **given)

    check(sizes, costs, {"block_memory": 2**18}, {"block_memory": 2**16})


def test_the_distances_read_their_rows_as_often_as_their_cost_says() -> None:
    n_reads = [0]

    def read(block: Any) -> Any:
        n_reads[0] += 1
        return block

    X = np.random.default_rng(0).standard_normal((90, 4))
    rows = da.from_array(X, chunks=(30, -1)).map_blocks(read, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="synchronous"):
        de.execution.compute(distance_rows(rows, block_memory=2**15))
    cost = distances_cost(RowSizes(90, 4), block_memory=2**15)
    assert cost.read_bytes * 3 == n_reads[0] * X.nbytes
    assert distance_rows(X, block_memory=2**15).numblocks[0] > 3
