from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from distembed.manifold import feature_preserving
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.eigenmaps import smallest_eigenpairs
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


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_balanced_factors_keep_the_product_and_reach_the_nuclear_norm(seed, k, f):
    generator = np.random.default_rng(seed)
    root = generator.standard_normal((12, 12))
    L, Z, F = root @ root.T, generator.standard_normal((12, k)), generator.standard_normal((k, f))
    ridge = 10.0 ** generator.integers(-3, 3)
    balanced, weights = feature_preserving.balance_factors(Z, F, Z.T @ L @ Z, ridge)
    np.testing.assert_allclose(balanced @ weights, Z @ F, atol=1e-8 * abs(Z @ F).max())
    value = np.trace(balanced.T @ L @ balanced) + ridge * (weights**2).sum()
    nuclear = np.linalg.svd(root.T @ Z @ F, compute_uv=False).sum()
    assert value == pytest.approx(2 * np.sqrt(ridge) * nuclear, rel=1e-6)
    assert value <= np.trace(Z.T @ L @ Z) + ridge * (F**2).sum() + 1e-9


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


@pytest.mark.parametrize("smoothness", [1, 2])
@pytest.mark.parametrize("n_features", [1, 3])
def test_masked_solution_is_stationary_for_the_kronecker_system(smoothness, n_features, quiet):
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
    factors, ridge = (model.embedding_, model.regression_), model.regularization * model.variance_
    value = reference.objective(L, *factors, target, model.confidence_, ridge=ridge)
    assert model.objective_[-1] == pytest.approx(value)


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


def test_the_grid_of_the_paper():
    """The 16 points: the embedding errs less than semisupervised alignment and than the mean."""
    X, V = reference.grid_toy()
    options = {**GRID, "smoothness": 4, "regularization": 0.003, "solver_tol": 1e-10, "solver_max_iter": 2000}
    graphs, errors = [neighbor_affinity(side, symmetry="mutual", **GRID) for side in (X, -X)], []
    for seed in range(4):
        numbers = np.random.default_rng(seed).permutation(16)[:3]
        rest = np.setdiff1d(np.arange(16), numbers)
        model = FeaturePreservingEmbedding(2, **options).fit(X, -X, V, pairs_of(numbers))
        links = correspondence_matrix(pairs_of(numbers), 16, 16)
        Z = smallest_eigenpairs(joint_adjacency(graphs, {(0, 1): links}), 2, zeros="none").vectors
        nearest = ((Z[16:, None] - Z[:16]) ** 2).sum(axis=2).argmin(axis=1)
        guesses = model.features_, V[nearest], np.full_like(V, V.mean())
        errors.append([np.sqrt(np.mean((guess - V)[rest] ** 2)) for guess in guesses])
    embedded, aligned, mean = np.mean(errors, axis=0)
    assert embedded < 0.75 * min(mean, aligned)


def test_one_set_with_missing_rows_is_interpolated():
    X, _, V = planted(150)
    given_values = V.copy()
    given_values[100:] = np.nan
    model = FeaturePreservingEmbedding(4, regularization=0.01).fit(X, given_values)
    error = np.sqrt(np.mean((model.features_ - V)[100:] ** 2))
    assert model.features_.shape == V.shape
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
    model = FeaturePreservingEmbedding(4, regularization=0.01, normalization=normalization)
    model.fit(X1, X2, V, pairs_of(np.arange(0, 120, 2)))
    again = model.predict(X2, data_set=1)
    assert model.transform(X2[:3], data_set=1).shape == (3, 4)
    assert np.corrcoef(again.ravel(), model.features_.ravel())[0, 1] > 0.9
    np.testing.assert_allclose(model.predict(np.zeros((1, 12)), data_set=0)[0], model.mean_)
    model.set_params(normalization="none", metric="euclidean", n_neighbors=2)  # for the next fit
    np.testing.assert_array_equal(model.predict(X2, data_set=1), again)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("n_equal", [0, 7, 8, 14])
def test_new_rows_are_placed_by_nearness_whatever_number_of_rows_they_equal(n_equal, metric, quiet):
    X, _, V = planted(40)
    X, V = np.vstack([np.tile(X[:1], (n_equal, 1)), X[1:]]), np.vstack([np.tile(V[:1], (n_equal, 1)), V[1:]])
    X = X / np.linalg.norm(X, axis=1)[:, None] if metric == "cosine" else X
    x = planted(40)[0][0]
    x = x / np.linalg.norm(x) if metric == "cosine" else x
    model = FeaturePreservingEmbedding(4, n_neighbors=9, metric=metric).fit(X, V)
    expected = reference.nearness(x, X, 9) @ model.embedding_
    np.testing.assert_allclose(model.transform(x[None])[0], expected, rtol=1e-8, atol=1e-12)
    if (
        metric == "cosine" and n_equal <= 9
    ):  # parallel rows, of which all are taken, are as near as equal ones
        scaled = sp.csr_array(X * np.arange(1, len(X) + 1)[:, None])
        model = FeaturePreservingEmbedding(4, n_neighbors=9).fit(scaled, V)
        expected = reference.nearness(x, X, 9) @ model.embedding_
        np.testing.assert_allclose(model.transform(sp.csr_array(x[None]))[0], expected, rtol=1e-7, atol=1e-12)


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
    np.testing.assert_array_equal(model.features_, expected.features_)
    np.testing.assert_array_equal(model.objective_, expected.objective_)
    np.testing.assert_array_equal(model.solver_residuals_, expected.solver_residuals_)


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


def test_systems_left_unsolved_are_no_convergence():
    """The objective hardly falls in a round of a few steps, far above its smallest value."""
    # On a chain the systems are stiff.
    graph = sp.csr_array(sp.diags_array([np.ones(149)] * 2, offsets=[-1, 1]))
    values = np.full((150, 1), np.nan)
    values[5::30, 0] = np.sin(np.linspace(0, 7, 150)[5::30])
    short = FeaturePreservingEmbedding(1, smoothness=3, regularization=0.1, solver_max_iter=10, max_iter=20)
    with pytest.warns(
        ConvergenceWarning, match="after 10 steps, above solver_tol 0.0001: raise solver_max_iter"
    ):
        short.fit_graph(graph, values)
    with pytest.warns(ConvergenceWarning, match="round 1: raise max_iter"):
        one = clone(short).set_params(max_iter=1, solver_max_iter=10_000).fit_graph(graph, values)
    assert not one.converged_
    assert not short.converged_
    assert short.solver_residuals_.shape == (short.n_iter_,)
    assert short.solver_residuals_[-1] > 1e-4
    model = clone(short).set_params(solver_max_iter=10_000).fit_graph(graph, values)
    power = np.linalg.matrix_power(laplacian(graph, normalization="none").toarray(), 3)
    target = np.where(np.isnan(values[:, 0]), 0.0, values[:, 0] - model.mean_)
    ridge = 0.1 * model.variance_
    least = reference.smallest_objective(power, target, model.confidence_, ridge=ridge)
    assert model.converged_
    assert model.solver_residuals_[-1] <= 1e-4
    assert model.objective_[-1] == pytest.approx(least, rel=0.02)  # the start is random here
    assert short.objective_[-1] > 50 * least
