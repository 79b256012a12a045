"""What the costs of judging imputed vectors say, against the memory that their runs take."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import dask
import numpy as np
import pytest

from distembed.costs import Cost
from distembed.evaluation import imputation
from distembed.evaluation.costs import baseline_cost, labels_cost, ranking_bytes, recovery_cost
from distembed.evaluation.transfer import score_retrieval

METHODS = (imputation.nearest_mean, imputation.nearest_one)


def held_bytes(run: Callable[[], Any]) -> int:
    """Return the most bytes of arrays that a run holds."""
    with dask.config.set(scheduler="synchronous"):
        run()  # what is loaded and compiled once does not count
        tracemalloc.start()
        run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def assert_near(taken: int, cost: Cost) -> None:
    assert taken <= cost.peak_bytes(1) <= 4 * taken, (taken, cost)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(900, 300, 20, 20), (400, 30, 60, 90), (150, 400, 100, 5)])
def test_a_method_without_a_graph_takes_what_its_cost_says(
    method: imputation.Imputer, sizes: tuple[int, int, int, int]
) -> None:
    n_fitted, n_hidden, n_columns, n_components = sizes
    generator = np.random.default_rng(0)

    def run() -> Any:
        X, Y = (generator.standard_normal((n_fitted + n_hidden, n)) for n in (n_columns, n_components))
        Y[:n_hidden] = np.nan
        return method(X, Y)

    cost = baseline_cost(n_fitted, n_hidden, n_columns=n_columns, n_components=n_components)
    assert_near(held_bytes(run), cost)
    assert cost.written_bytes == run()[:n_hidden].astype(np.float32).nbytes


def test_the_mean_takes_no_more_than_its_cost() -> None:
    rows = np.ones((500, 30))
    cost = baseline_cost(400, 100, n_columns=30, n_components=30)
    assert held_bytes(lambda: imputation.mean_vector(rows, rows.copy())) <= cost.peak_bytes(1)


@pytest.mark.parametrize("n_hidden", [300, 1500])
def test_ranks_and_shares_of_labels_take_what_their_cost_says(n_hidden: int) -> None:
    """All hidden names were compared with all known ones at once: 24 bytes for each pair."""
    n_known = 3000
    known = np.random.default_rng(0).standard_normal((n_known, 20)).astype(np.float32)
    rows, labels = np.arange(n_hidden), [str(number % 7) for number in range(n_known)]
    taken = held_bytes(lambda: imputation.recovery(known[rows], rows, known, labels=labels))
    assert_near(taken, recovery_cost(1, n_known, n_hidden, 20))


def test_ranks_by_cosine_take_what_is_planned_for_a_block() -> None:
    first = np.random.default_rng(0).random((1500, 8))
    taken = held_bytes(lambda: score_retrieval(first, first[:1000], np.arange(1000)))
    assert taken <= ranking_bytes(1500, 1000) <= 2 * taken


@pytest.mark.parametrize("n_labels", [2, 1500])
def test_votes_of_neighbors_take_what_their_cost_says(n_labels: int) -> None:
    """The order of all names was kept for each that was asked, and a share of each label for each neighbor."""
    vectors = np.random.default_rng(0).random((3000, 40), np.float32)
    spaces = {"all": (vectors, [str(number % n_labels) for number in range(3000)])}
    taken = held_bytes(lambda: imputation.label_accuracies(spaces, max_names=2000, seed=0))
    assert_near(taken, labels_cost(3000, vectors.nbytes, 2000))
