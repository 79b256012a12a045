from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.linalg import sqrtm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.inference import AS_PRINTED
from distembed.neighbors.graphs import joint_adjacency, laplacian, neighbor_affinity
from distembed.states import keeping
from tests.kept_states import KeptStates, KilledError
from tests.references import alignment as reference

GRID = {"n_neighbors": 8, "affinity": "gaussian", "metric": "euclidean"}


def planted(n=120, d=12, f=4, seed=0):
    """Two sets that are one up to a rotation and a little noise, and features smooth over them."""
    generator = np.random.default_rng(seed)
    centers = generator.standard_normal((6, d))
    X1 = centers[generator.integers(6, size=n)] + 0.4 * generator.standard_normal((n, d))
    rotation = np.linalg.qr(generator.standard_normal((d, d)))[0]
    X2 = X1 @ rotation + 0.02 * generator.standard_normal((n, d))
    return X1, X2, np.tanh(X1 @ generator.standard_normal((d, f)) / 3)


def pairs_of(numbers):
    return np.column_stack([numbers, numbers])


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.mark.parametrize("n_known", [1, 7])
def test_the_papers_alternation_equals_the_kronecker_system(n_known, quiet):
    X, V = reference.grid_toy()
    V = np.column_stack([V, V**2, np.sin(V)])
    pairs = pairs_of(np.random.default_rng(n_known).permutation(16)[:n_known])
    model = FeaturePreservingEmbedding(
        3, **GRID, **{**AS_PRINTED, "solver_tol": 1e-14}, max_iter=4, random_state=3
    ).fit(X, -X, V, pairs)  # fmt: skip
    known = np.concatenate([np.ones(16, bool), np.isin(np.arange(16), pairs[:, 1])])
    start = np.random.default_rng(3).uniform(-1, 1, (32, 3))
    both = np.concatenate([V, V])
    L = laplacian(model.adjacency_).toarray()
    Z, F = reference.alternate(L, both, known, start, 4)
    np.testing.assert_allclose(model.embedding_, Z, atol=1e-8 * abs(Z).max())
    np.testing.assert_allclose(model.features_, (Z @ F)[16:], atol=1e-8 * abs(V).max())


@pytest.mark.parametrize(("smoothness", "n_features"), [(1, 3), (2, 1)])
def test_masked_solution_is_stationary_for_the_kronecker_system(smoothness, n_features, quiet):
    """Its objective is that of the best scale of the factors, with the nuclear norm of the roughness."""
    X, V = reference.grid_toy()
    V = np.column_stack([V, V**2, np.sin(V)])[:, :n_features]
    model = FeaturePreservingEmbedding(
        3, **GRID, smoothness=smoothness, max_iter=3000, tol=1e-15, solver_tol=1e-13, solver_max_iter=5000,
        regularization=0.5,
    ).fit(X, -X, V, [(0, 0, 1.0), (6, 6, 0.5), (7, 6, 0.25), (9, 9, 1.0)])  # fmt: skip
    L = np.linalg.matrix_power(laplacian(model.adjacency_, normalization="none").toarray(), smoothness)
    target = np.concatenate([V, np.zeros_like(V)])
    target[[16, 25]] = V[[0, 9]]
    target[22] = (0.5 * V[6] + 0.25 * V[7]) / 0.75
    target -= model.mean_
    assert model.confidence_[[16, 22, 25]].tolist() == pytest.approx([1.0, 0.3125 / 0.75, 1.0])
    product = model.embedding_ @ model.regression_
    again = reference.best_embedding(L, model.regression_, target, model.confidence_) @ model.regression_
    np.testing.assert_allclose(product, again, atol=1e-4 * abs(V).max())
    ridge = model.regularization * model.variance_
    factors, rest = (model.embedding_, model.regression_), (target, model.confidence_)
    value = reference.objective(L, *factors, *rest, ridge=ridge)
    assert model.objective_[-1] == pytest.approx(value)
    nuclear = np.linalg.svd(np.real(sqrtm(L)) @ product, compute_uv=False).sum()
    misfit = reference.objective(L, *factors, *rest, ridge=0) - np.trace(factors[0].T @ L @ factors[0])
    assert value == pytest.approx(2 * np.sqrt(ridge) * nuclear + misfit, rel=1e-5)


@pytest.mark.parametrize(
    ("missing", "init", "ridge", "normalization"),
    [
        ("masked", "alignment", 0.0, "none"),
        ("masked", "random", 1.0, "symmetric"),
        ("imputed", "alignment", 1.0, "symmetric"),
        ("imputed", "random", 0.0, "none"),
    ],
)
def test_objective_never_rises(missing, init, ridge, normalization, quiet):
    X, V = reference.grid_toy()
    model = FeaturePreservingEmbedding(
        4, **GRID, missing=missing, init=init, regularization=ridge, normalization=normalization, max_iter=30,
        tol=1e-9, solver_tol=1e-3,
    ).fit(X, -X, np.column_stack([V, V**2]), pairs_of([2, 5, 9]))  # fmt: skip
    values = model.objective_
    assert np.all(np.diff(values) <= 1e-9 * values[:-1])
    assert values[-1] < values[0]


def test_one_set_with_missing_rows_is_interpolated():
    X, _, V = planted(150)
    given = np.where(np.arange(150)[:, None] < 100, V, np.nan)
    model = FeaturePreservingEmbedding(4, regularization=0.01).fit(pd.DataFrame(X).add_prefix("x"), given)
    assert model.feature_names_in_.tolist() == [f"x{column}" for column in range(12)]
    assert model.features_.shape == V.shape
    error = np.sqrt(np.mean((model.features_ - V)[100:] ** 2))
    assert error < 0.8 * np.sqrt(np.mean((V[:100].mean(axis=0) - V[100:]) ** 2))


def test_three_sets_by_their_joint_graph():
    X1, X2, V = planted(60)
    graphs = [neighbor_affinity(X, 8) for X in (X1, X2, X1[::-1].copy())]
    links = {
        (0, 1): correspondence_matrix(pairs_of(np.arange(60)), 60, 60),
        (1, 2): correspondence_matrix(np.column_stack([np.arange(60), 59 - np.arange(60)]), 60, 60),
    }
    values = np.concatenate([V, np.full((120, 4), np.nan)])
    adjacency = joint_adjacency(graphs, links, weight=100.0)
    links[0, 2] = 0 * links[0, 1]  # a pair of weight 0 is none
    assert joint_adjacency(graphs, links, weight=100.0).nnz == adjacency.nnz
    model = FeaturePreservingEmbedding(4, regularization=1e-4).fit_graph(adjacency, values)
    np.testing.assert_allclose(model.features_[60:120], V, atol=0.1)
    np.testing.assert_allclose(model.features_[120:], V[::-1], atol=0.2)


@pytest.mark.parametrize("normalization", ["none", "symmetric"])
def test_transform_puts_known_rows_near_their_place(normalization):
    X1, X2, V = planted()
    X2, numbers = X2[::-1], np.arange(0, 120, 2)
    model = FeaturePreservingEmbedding(4, regularization=0.01, normalization=normalization)
    model.fit(X1, X2, V, np.column_stack([numbers, 119 - numbers]))
    again = model.predict(X2, data_set=1)
    assert model.transform(X2[:3], data_set=1).shape == (3, 4)
    assert np.corrcoef(again.ravel(), model.features_.ravel())[0, 1] > 0.9
    np.testing.assert_allclose(model.predict(np.zeros((1, 12)), data_set=0)[0], model.mean_)
    model.set_params(normalization="none", metric="euclidean", n_neighbors=2)  # for the next fit
    np.testing.assert_array_equal(model.predict(X2, data_set=1), again)


@pytest.mark.parametrize("kind", ["euclidean", "cosine", "cosine of sparse rows"])
@pytest.mark.parametrize("n_equal", [0, 7, 8, 14])
def test_new_rows_are_placed_by_nearness_whatever_number_of_rows_they_equal(n_equal, kind, quiet):
    """Parallel rows are as near as equal ones by the cosine."""
    X, _, V = planted(40)
    x = X[:1]
    X, V = (np.vstack([np.tile(rows[:1], (n_equal, 1)), rows[1:]]) for rows in (X, V))
    if kind != "euclidean":
        X, x = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (X, x))
    given, new = X, x
    if kind == "cosine of sparse rows":
        given, new = sp.csr_array(X * 2.0 ** (np.arange(len(X)) % 9)[:, None]), sp.csr_array(x)
    model = FeaturePreservingEmbedding(4, n_neighbors=9, metric=kind.split()[0]).fit(given, V)
    expected = reference.nearness(x[0], X, 9) @ model.embedding_
    np.testing.assert_allclose(model.transform(new)[0], expected, rtol=1e-7, atol=1e-12)


def test_rows_without_a_direction_are_no_neighbors_of_new_ones(quiet):
    """A graph of one's own may join rows of zeros; fewer than n_neighbors of the others are left to be near."""
    X, graph = np.zeros((12, 2)), sp.csr_array(np.diag(np.ones(11), 1) + np.diag(np.ones(11), -1))
    X[:3] = [[1, 0], [0, 1], [1, 1]]
    model = FeaturePreservingEmbedding(2).fit_graph(graph, np.arange(12.0)[:, None], sets=(X,))
    expected = reference.nearness(np.array([1.0, 0.0]), X[:3] / np.linalg.norm(X[:3], axis=1)[:, None], 3)
    np.testing.assert_allclose(model.transform([[2, 0]])[0], expected @ model.embedding_[:3], rtol=1e-8)


def test_dask_rows_chunks_and_schedulers_give_the_same_bits():
    X1, X2, V = planted(90)
    pairs = pairs_of(np.arange(20))
    with dask.config.set({"distembed.block_memory": 2**16}):
        expected = FeaturePreservingEmbedding(6).fit(X1, X2, V, pairs)
    for chunks, scheduler in (((37, 5), "sync"), ((9, 12), "threads")):
        with dask.config.set({"scheduler": scheduler, "distembed.block_memory": 2**16}):
            model = FeaturePreservingEmbedding(6)
            model.fit(da.from_array(X1, chunks=chunks), da.from_array(X2, chunks=chunks), V, pairs)
        np.testing.assert_array_equal(model.embedding_, expected.embedding_)


def test_one_component_carries_one_feature():
    """The only eigenvector of a connected graph is constant: every row got the mean, as a converged result."""
    line = np.arange(5.0)[:, None]
    other = np.hstack([10 - 2 * line, 2 * line])
    options = {"n_neighbors": 2, "metric": "euclidean", "regularization": 1e-3, "tol": 1e-6}
    one, two = (
        FeaturePreservingEmbedding(k, **options).fit(line, other, line, pairs_of([0, 2, 4])) for k in (1, 2)
    )
    assert one.converged_
    assert one.objective_[-1] == pytest.approx(two.objective_[-1], rel=1e-3)
    np.testing.assert_allclose(one.features_, two.features_, atol=0.05)
    assert abs(one.features_ - line).max() < 0.5


def test_each_part_of_a_graph_has_its_known_value():
    """The whole start lies where the Laplacian is zero: every row got the mean, as a converged result."""
    graph = sp.block_diag([np.eye(2)[::-1]] * 2 + [np.zeros((1, 1))], format="csr")
    X, V = (
        np.array([[0.0], [1.0], [10.0], [11.0], [20.0]]),
        np.array([[0.0], [np.nan], [3.0], [np.nan], [6.0]]),
    )
    options = {"n_neighbors": 2, "metric": "euclidean", "normalization": "symmetric"}
    model = FeaturePreservingEmbedding(2, **options).fit_graph(graph, V, sets=(X,))
    np.testing.assert_allclose(model.features_.ravel(), [0, 0, 3, 3, 6], atol=1e-3)
    np.testing.assert_allclose(model.predict([[15.5]]), 4.5, atol=1e-3)  # as near to a row without an edge


def test_an_interrupted_fit_goes_on_with_its_newest_round():
    X1, X2, V = planted(60)
    given = X1, X2, V, pairs_of(np.arange(20))
    model, whole, states = FeaturePreservingEmbedding(4, tol=0, max_iter=5), KeptStates(), KeptStates()
    with keeping(whole):
        expected = clone(model).fit(*given)
    states.most = 1 + max(n for n, name in enumerate(whole.stored) if "round-00003" in name)
    with keeping(states):
        with pytest.raises(KilledError):
            model.fit(*given)
        assert {name.split("/")[-2] for name in states.announced() if "round" in name} == {"round-00003"}
        states.most = None
        model.fit(*given)
        assert states.stored == whole.stored
        clone(model).set_params(regularization=2.0, max_iter=2).fit(*given)
        assert len(states.stored) > len(whole.stored)  # other options have other states
    for name in ("features_", "objective_", "solver_residuals_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))


def test_duplicates_alike_count_once_and_matrices_are_taken():
    links = correspondence_matrix([(0, 1), (0, 1), (2, 1)], 3, 3)
    assert links.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
    assert (correspondence_matrix(links, 3, 3) != links).nnz == 0


def test_isolated_and_unknown_rows_are_inferred_from_the_rest_or_get_the_mean():
    X1, X2, V = planted(40)
    X2[7], V[3] = 0.0, np.nan
    with pytest.warns(UserWarning, match=r"1 rows are joined to no known value .*\[47\]"):
        model = FeaturePreservingEmbedding(3).fit(X1, X2, V, pairs_of(np.arange(5)))
    np.testing.assert_allclose(model.features_[7], model.mean_)
    assert model.confidence_[[3, 43, 44]].tolist() == [0, 0, 1]
    assert np.isfinite(model.features_).all()


def stiff_chain():
    """Return a chain of 80 rows, of which every sixteenth is known: the systems of a high order are stiff."""
    values = np.full((80, 1), np.nan)
    values[5::16, 0] = np.sin(np.linspace(0, 7, 80)[5::16])
    return sp.csr_array(sp.diags_array([np.ones(79)] * 2, offsets=[-1, 1])), values


def test_systems_left_unsolved_are_no_convergence():
    """The objective hardly falls in a round of a few steps, far above its smallest value."""
    graph, values = stiff_chain()
    model = FeaturePreservingEmbedding(1, smoothness=3, regularization=0.1, solver_max_iter=10, max_iter=20)
    short, one = clone(model), clone(model).set_params(max_iter=1, solver_max_iter=10_000)
    unsolved = "after 10 steps, above solver_tol 0.0001: raise solver_max_iter"
    for each, message in ((short, unsolved), (one, "round 1: raise max_iter")):
        with pytest.warns(ConvergenceWarning, match=message):
            assert not each.fit_graph(graph, values).converged_
    model.set_params(solver_max_iter=10_000).fit_graph(graph, values)
    power = np.linalg.matrix_power(laplacian(graph, normalization="none").toarray(), 3)
    target = np.where(np.isnan(values[:, 0]), 0.0, values[:, 0] - model.mean_)
    least = reference.smallest_objective(power, target, model.confidence_, ridge=0.1 * model.variance_)
    assert model.converged_
    assert model.objective_[-1] == pytest.approx(least, rel=0.02)  # the start is random here
    assert short.objective_[-1] > 10 * least


def test_the_last_round_is_the_first_whose_systems_are_solved_to_the_tolerance(quiet):
    """An objective of 0 or more falls by no more than the share 1, so that the systems alone decide."""
    model = FeaturePreservingEmbedding(1, regularization=0.1, tol=1.0, solver_max_iter=10, max_iter=6)
    every = clone(model).set_params(solver_tol=1e-12).fit_graph(*stiff_chain())
    residuals = every.solver_residuals_
    assert (len(residuals), every.converged_) == (6, False)
    for number in (1, 2, 4):  # what is left of the systems falls from round to round
        stopped = clone(model).set_params(solver_tol=residuals[number - 1]).fit_graph(*stiff_chain())
        assert (stopped.n_iter_, stopped.converged_) == (number, True)
