"""The linear map is scikit-learn's ridge; the combination imputes its residuals; the choice finds the better one."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise_distances

from distembed.linalg.blocks import directions
from distembed.manifold import imputation_blocks as blocks
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.manifold.imputation_choice import RIDGES, Candidate, best_candidate, candidates_of
from distembed.manifold.imputation_maps import fit_ridge_path
from tests.references import imputation as oracle

MEMORY = 2**20


def problem(*, n=90, d=4, s=6, n_known=40, seed=0, bend=1.0, slope=1.0):
    """Return rows, vectors that are a linear and a bent map of them, most of them hidden, and all the vectors."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = 3 + slope * X @ rng.standard_normal((d, s)) + bend * np.sin(2 * X @ rng.standard_normal((d, s)))
    Y = truth.astype(np.float32)
    Y[np.sort(rng.permutation(n)[n_known:])] = np.nan
    return X, Y, truth


@pytest.mark.parametrize("d", [4, 70])
@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_the_map_is_a_ridge_regression_with_an_intercept(d, ridge):
    X, Y, _ = problem(d=d)
    known = ~np.isnan(Y[:, 0])
    rows = da.from_array(X, chunks=(20, -1))
    path = fit_ridge_path(rows, Y, known, block_memory=MEMORY)
    centered = X[known] - X[known].mean(axis=0)
    assert path.unit == pytest.approx((centered**2).sum(axis=1).mean())
    plain = Ridge(alpha=ridge * path.unit).fit(X[known], Y[known].astype(np.float64))
    np.testing.assert_allclose(blocks.map_weights(path, ridge), plain.coef_.T, atol=1e-8)
    found = LatentSemanticImputation(min_degree=4, method="linear_map", ridge=ridge).fit(X, Y).vectors_
    np.testing.assert_allclose(found[~known], plain.predict(X[~known]), rtol=1e-4)
    assert found[known].tobytes() == Y[known].tobytes()


def test_the_map_of_kernel_features_is_kernel_ridge():
    X, Y, _ = problem()
    known = ~np.isnan(Y[:, 0])
    model = LatentSemanticImputation(min_degree=4, method="linear_map", kernel="rbf", ridge=0.1).fit(X, Y)
    squares = pairwise_distances(X, X[known], metric="sqeuclidean")
    kernel = np.exp(-squares / np.median(squares[known]))
    centered = kernel - kernel[known].mean(axis=0)
    centered -= centered.mean(axis=1, keepdims=True)
    unit = np.trace(centered[known]) / known.sum()
    mean = Y[known].mean(axis=0, dtype=np.float64)
    dual = np.linalg.solve(centered[known] + 0.1 * unit * np.eye(known.sum()), Y[known] - mean)
    np.testing.assert_allclose(model.vectors_[~known], (centered @ dual + mean)[~known], rtol=1e-3, atol=1e-3)


def test_the_scale_of_the_kernel_is_that_of_rows_that_differ():
    """Of a one-hot table in which most rows are equal the median distance is 0, and nearness is still told apart."""
    landmarks = np.repeat([[0.0, 0.1], [2.0, 0.1], [3.0, 0.1]], [45, 10, 5], axis=0)
    assert blocks.fit_kernel_features(landmarks).scale == pytest.approx(4.0)
    assert blocks.fit_kernel_features(np.tile(landmarks[0], (4, 1))).scale == 1.0


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("d", [3, 30])
def test_known_rows_that_are_all_equal_give_the_mean(kernel, d):
    X, Y = np.tile(0.1 * np.arange(1, d + 1), (13, 1)), np.random.default_rng(0).standard_normal((13, 4))
    X[-1], Y[-1] = 5.0, np.nan
    model = LatentSemanticImputation(min_degree=4, method="linear_map", kernel=kernel, ridge=1e-3).fit(X, Y)
    np.testing.assert_allclose(model.vectors_[-1], Y[:-1].mean(axis=0))


@pytest.mark.parametrize("d", [4, 70])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_combination_is_the_map_plus_its_imputed_residuals(d, metric):
    X, Y, _ = problem(d=d)
    known, rows = ~np.isnan(Y[:, 0]), X if metric == "euclidean" else directions(X)
    model = LatentSemanticImputation(
        min_degree=4, method="combined", ridge=0.1, metric=metric, tol=1e-10
    ).fit(X, Y)
    path = fit_ridge_path(rows, Y, known, block_memory=MEMORY)
    mapped = blocks.map_rows(rows, path, blocks.map_weights(path, 0.1))
    residuals = oracle.limit(model.weights_.toarray(), np.where(known[:, None], Y - mapped, np.nan))
    np.testing.assert_allclose(model.vectors_, mapped + residuals, rtol=1e-4, atol=1e-5)
    assert model.vectors_[known].tobytes() == Y[known].tobytes()


@pytest.mark.parametrize(
    ("bend", "slope", "method"), [(0.0, 1.0, "linear_map"), (1.0, 0.0, "graph"), (0.5, 1.0, "combined")]
)
def test_the_choice_is_the_method_that_finds_all_vectors_best(bend, slope, method):
    X, Y, truth = problem(n=300, n_known=150, d=2, bend=bend, slope=slope)
    unknown = np.isnan(Y[:, 0])
    chosen = LatentSemanticImputation(method="auto").fit(X, Y)
    assert chosen.method_ == method
    assert max(chosen.choice_, key=chosen.choice_.get) == (chosen.method_, chosen.ridge_, "linear")
    errors = {
        one: ((LatentSemanticImputation(method=one).fit(X, Y).vectors_ - truth)[unknown] ** 2).mean()
        for one in ("graph", "linear_map", "combined")
    }
    assert ((chosen.vectors_ - truth)[unknown] ** 2).mean() <= min(errors.values()) + 1e-9


def test_the_kind_and_the_chunks_of_the_input_change_nothing():
    X, Y, _ = problem()
    plain = LatentSemanticImputation(method="auto").fit(X, Y)
    lazy = LatentSemanticImputation(method="auto").fit(
        da.from_array(X, chunks=(17, 2)), da.from_array(Y, chunks=(31, 5))
    )
    assert isinstance(lazy.vectors_, da.Array)
    assert (lazy.method_, lazy.ridge_) == (plain.method_, plain.ridge_)
    np.testing.assert_allclose(lazy.vectors_.compute(), plain.vectors_, rtol=1e-5)


def test_a_hidden_row_is_not_seen():
    """What a fold finds is the same whatever the vectors of its hidden rows are."""
    X, Y, _ = problem()
    hidden = np.flatnonzero(~np.isnan(Y[:, 0]))[::4]
    model = LatentSemanticImputation(min_degree=4, kernel="auto").fit_graph(X).fit_weights(X)
    other = Y.copy()
    other[hidden] = 77
    one, two = (model.hidden_fold(X, vectors, hidden) for vectors in (Y, other))
    np.testing.assert_array_equal(one.graph, two.graph)
    for kernel in ("linear", "rbf"):
        for here, there in zip(one.maps[kernel][:2], two.maps[kernel][:2], strict=True):
            np.testing.assert_array_equal(here, there)


def test_too_few_known_rows_cannot_choose_and_a_ridge_needs_no_choice():
    X, Y, _ = problem(n_known=9)
    with pytest.raises(ValueError, match='9 rows of Y are known: choose method = "graph"'):
        LatentSemanticImputation(method="auto").fit(X, Y)
    model = LatentSemanticImputation(method="combined", ridge=1.0).fit(X, Y)
    assert not hasattr(model, "choice_")
    with pytest.raises(ValueError, match="call fit_vectors"):
        model.fit_vectors(Y)


def test_equal_scores_choose_the_graph_then_the_linear_map_and_then_the_smoothest():
    scores = [dict.fromkeys(candidates_of("auto", "auto"), np.ones(3))]

    def best(*way):
        return best_candidate(scores, candidates_of(*way))

    assert best("auto", "auto") == Candidate("graph", 0.0)
    assert best("combined", "auto") == Candidate("combined", max(RIDGES), "linear")
    assert best("linear_map", "rbf") == Candidate("linear_map", max(RIDGES), "rbf")


@pytest.mark.parametrize(("bend", "slope", "kernel"), [(0.0, 1.0, "linear"), (1.0, 0.0, "rbf")])
@pytest.mark.parametrize("options", [{"method": "linear_map"}, {"method": "linear_map", "ridge": 1e-3}])
def test_the_kernel_is_chosen_that_finds_all_vectors_best(bend, slope, kernel, options):
    X, Y, _ = problem(n=300, n_known=150, d=2, bend=bend, slope=slope)
    chosen = LatentSemanticImputation(kernel="auto", **options).fit(X, Y)
    assert chosen.kernel_ == kernel
    alone = LatentSemanticImputation(kernel=kernel, **options).fit(X, Y)
    np.testing.assert_array_equal(chosen.vectors_, alone.vectors_)
    np.testing.assert_array_equal(chosen.infer(X[:9], X, Y), alone.infer(X[:9], X, Y))


def test_a_choice_among_all_is_that_of_each_kernel_by_itself():
    """The same rows are hidden, and every candidate has the same score."""
    X, Y, _ = problem(n=150, n_known=60)
    both, *each = (
        LatentSemanticImputation(method="auto", kernel=name).fit(X, Y) for name in ("auto", "linear", "rbf")
    )
    assert both.choice_ == each[0].choice_ | each[1].choice_
    best = max(both.choice_, key=both.choice_.get)
    assert best == (both.method_, both.ridge_, both.kernel_)


def test_the_graph_is_imputed_once_for_all_kernels():
    X, Y, _ = problem()
    kept = []
    model = LatentSemanticImputation(method="auto", kernel="auto")
    model.set_params(checkpoint=lambda name, make: kept.append(name) or make().persist()).fit(X, Y)
    folds = [name for name in kept if name.startswith("fold-0-")]
    assert sorted(folds) == ["fold-0-features-hidden", "fold-0-table-hidden", "fold-0-vectors-hidden"]
    assert kept.count("kernel-features") == 1


def test_a_given_ridge_is_that_of_every_map_that_is_tried():
    X, Y, _ = problem()
    model = LatentSemanticImputation(method="auto", kernel="auto", ridge=0.3).fit(X, Y)
    assert {one.ridge for one in model.choice_} == {0.0, 0.3}
    assert len(model.choice_) == 5


@pytest.mark.parametrize("random_state", [None, np.random.default_rng(3)])
def test_a_seed_that_is_drawn_is_kept_for_a_fit_that_resumes(random_state, monkeypatch):
    """The landmarks that span the kernel and the rows that choose the ridge are those of the first try."""
    monkeypatch.setattr("distembed.manifold.imputation_maps.LANDMARKS", 10)
    X, Y, _ = problem()
    kept = {}

    def checkpoint(name, make):
        return kept.setdefault(name, make().persist())

    def fitted(**options):
        model = LatentSemanticImputation(
            min_degree=4, method="linear_map", kernel="rbf", random_state=random_state, **options
        )
        return model.fit(X, Y)

    first, again, other = fitted(checkpoint=checkpoint), fitted(checkpoint=checkpoint), fitted()
    assert first.seed_ == again.seed_ != other.seed_
    np.testing.assert_array_equal(again.vectors_, first.vectors_)
    np.testing.assert_allclose(first.infer(X, X, Y)[-1], first.vectors_[-1], rtol=1e-4)
    assert fitted().set_params(random_state=7).fit(X, Y).seed_ == 7
