"""Isomap from landmarks: equal to scikit-learn's where every row is a landmark, and what it does with few of them."""

from __future__ import annotations

from collections.abc import Callable

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.manifold import Isomap

from distembed.manifold.isomap import isomap
from distembed.manifold.projection import neighborhood_graph

N_ROWS, N_NEIGHBORS = 150, 8


def curve() -> np.ndarray:
    """Return unit rows along a curve, which turns around more than once."""
    along = np.sort(np.random.default_rng(1).uniform(0, 4, N_ROWS))
    rows = np.column_stack([np.cos(2 * along), np.sin(2 * along), along, np.cos(along)])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


GRAPH = neighborhood_graph(curve(), n_neighbors=N_NEIGHBORS)


def up_to_signs(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return found * np.sign((found * expected).sum(axis=0))


def test_with_all_rows_as_landmarks_it_is_scikit_learn_s() -> None:
    expected = Isomap(n_neighbors=N_NEIGHBORS, n_components=4, eigen_solver="dense").fit_transform(curve())
    found = isomap(GRAPH, 4)
    np.testing.assert_allclose(up_to_signs(found, expected), expected, atol=1e-8)
    np.testing.assert_allclose(isomap(GRAPH, 2), found[:, :2], atol=1e-12)


def test_few_landmarks_place_the_rows_between_them() -> None:
    whole, some = isomap(GRAPH, 2), isomap(GRAPH, 2, n_landmarks=40, random_state=3)
    apart = np.linalg.norm(whole[:, None] - whole, axis=2)
    apart_of_some = np.linalg.norm(some[:, None] - some, axis=2)
    assert np.corrcoef(apart.ravel(), apart_of_some.ravel())[0, 1] > 0.999
    assert not np.allclose(apart, apart_of_some)
    assert (some == isomap(GRAPH, 2, n_landmarks=40, random_state=3)).all()
    assert (some != isomap(GRAPH, 2, n_landmarks=40, random_state=4)).any()


def test_rows_that_no_path_leads_to_are_zero() -> None:
    pair, single = sp.csr_array([[0, 0.9], [0.9, 0]]), sp.csr_array((1, 1))
    graph = sp.csr_array(sp.block_diag([pair, GRAPH, single], format="csr"))
    found = isomap(graph, 3)
    assert (found[2:-1] == isomap(GRAPH, 3)).all()
    assert not found[[0, 1, -1]].any()


def test_equal_rows_are_at_one_place() -> None:
    rows = curve()
    rows[1] = rows[0]
    found = isomap(neighborhood_graph(rows, n_neighbors=N_NEIGHBORS), 3)
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


def test_the_paths_that_were_kept_are_taken() -> None:
    kept: dict[str, da.Array] = {}

    def checkpoint(name: str, make: Callable[[], da.Array]) -> da.Array:
        if name not in kept:
            kept[name] = make().persist()
        return kept[name]

    found = isomap(GRAPH, 3, n_landmarks=40, checkpoint=checkpoint)
    kept["paths"] = 4 * kept["paths"]
    np.testing.assert_allclose(isomap(GRAPH, 3, n_landmarks=40, checkpoint=checkpoint), 2 * found)


def test_more_dimensions_than_the_paths_have_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"n_components is 10, but the paths between 4 landmarks have [23] dim"
    ):
        isomap(GRAPH, 10, n_landmarks=4)
