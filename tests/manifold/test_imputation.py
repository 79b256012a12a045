"""Latent Semantic Imputation: parity, limits, exactness; the weights of a row; rows that come after the fit."""

from __future__ import annotations

from contextlib import suppress

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsRegressor

from distembed.linalg.csr import unit_rows
from distembed.manifold import imputation_systems, regressions
from distembed.manifold.imputation import LatentSemanticImputation, known_shares, strongest_paths
from distembed.manifold.imputation_systems import LEAST_COLUMNS, LEAST_FLOOR
from distembed.manifold.regressions import RIDGES, KernelRidge, LinearRidge
from distembed.neighbors import distances
from distembed.states import keeping
from distembed.vectors import WordVectors
from tests.kept_states import KeptStates, KilledError
from tests.references import imputation as oracle


def problem(*, n=60, d=6, s=7, n_known=15, seed=0, dtype=np.float64):
    """Return rows and a smooth map of them, most of it hidden."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = np.tanh(X @ rng.standard_normal((d, s)))
    Y = truth.astype(dtype)
    Y[np.sort(rng.permutation(n)[n_known:])] = np.nan
    return X.astype(dtype), Y


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_equals_the_plain_method(solver):
    X, Y = problem()
    model = LatentSemanticImputation(min_degree=4, solver=solver, tol=1e-13).fit(X, Y)
    np.testing.assert_allclose(model.vectors_, oracle.impute(X, Y, 4), atol=1e-4)
    np.testing.assert_allclose(model.vectors_, oracle.limit(model.weights_.toarray(), Y), atol=1e-10)
    assert model.residual_ < 1e-11
    assert model.converged_


@pytest.mark.parametrize(
    ("weights", "tol", "at_once"),
    [("simplex", 1e-4, 32), ("normalise_after", 1e-4, 32), ("simplex", 1e-6, 3)],
)
def test_power_follows_the_papers_rule_to_the_sweep(weights, tol, at_once, monkeypatch):
    monkeypatch.setattr(imputation_systems, "SWEEPS_AT_ONCE", at_once)
    X, Y = problem()
    model = LatentSemanticImputation(min_degree=4, solver="power", tol=tol, weights=weights).fit(X, Y)
    plain, sweeps = oracle.power(model.weights_.toarray(), Y, tol, False, 1000)
    assert model.n_iter_ == sweeps > (6 if at_once == 3 else 0)
    np.testing.assert_allclose(model.vectors_, plain, atol=1e-12)


def test_weights_and_vectors_are_those_of_the_published_program(shared):
    """Its sweeps are of (W + I)/2; by its rule the 825th is the last, on their way to the limit of each column."""
    reference, Y = np.load(shared / "reference/imputation_sp500_google.npz"), np.full((480, 20), np.nan)
    Y[:117] = reference["sem"][:, :20]
    model = LatentSemanticImputation(tol=1e-12, max_iter=5000, weights="normalise_after")
    model.fit(reference["aff"], Y)
    W = sp.csr_array((reference["W_data"], reference["W_indices"], reference["W_indptr"]), shape=(480, 480))
    assert abs(model.weights_ - W).max() < 1e-6
    assert model.certificate_.max() < 1e-9
    stopped, theirs = oracle.power(model.weights_, Y, 0.0, True, 825)[0], reference["PQ_eta1e-06"][117:, :20]
    gaps = [np.abs(found[117:] - theirs).sum() / np.abs(theirs).sum() for found in (stopped, model.vectors_)]
    assert gaps[0] < 1e-4
    assert gaps[0] < gaps[1] < 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [
        {"min_degree": 4, "solver": "krylov"},
        {"min_degree": 4, "solver": "power"},
        *({"regressor": each} for each in (RidgeCV(), LinearRidge(), KernelRidge(), KNeighborsRegressor(3))),
    ],
)
def test_numpy_and_dask_give_the_same_bits_and_known_rows_those_of_y(options, dtype):
    X, Y = problem(n=200, s=20, dtype=dtype)
    before, known, model = Y.copy(), ~np.isnan(Y[:, 0]), LatentSemanticImputation(**options)
    plain = model.fit(X, Y).vectors_
    lazy = clone(model).fit(da.from_array(X, chunks=(33, 4)), da.from_array(Y, chunks=(41, 7))).vectors_
    assert isinstance(lazy, da.Array)
    assert lazy.compute().tobytes() == plain.tobytes()
    assert plain.dtype == dtype
    assert plain[known].tobytes() == Y[known].tobytes()
    assert np.isfinite(plain).all()
    np.testing.assert_array_equal(Y, before)


@pytest.mark.parametrize("chunk", [20, 7])
def test_graph_and_weights_do_not_depend_on_the_blocks(chunk, monkeypatch):
    X, Y = problem()
    model = LatentSemanticImputation(min_degree=4).fit(X, Y)
    monkeypatch.setattr(distances, "row_chunk", lambda n_rows, row_bytes, block_memory: chunk)
    with dask.config.set({"distembed.block_memory": 40_000 * chunk}):
        other = LatentSemanticImputation(min_degree=4).fit(X, Y)
    assert (other.graph_ != model.graph_).nnz == 0
    assert other.weights_.data.tobytes() == model.weights_.data.tobytes()
    np.testing.assert_allclose(other.vectors_, model.vectors_, atol=1e-6)


@pytest.mark.parametrize(("solver", "tol"), [("krylov", 1e-10), ("power", 1e-6)])
def test_the_history_is_of_what_a_solver_stops_by_and_a_long_one_is_thinned(solver, tol, monkeypatch):
    X, Y = problem(s=20)
    model = LatentSemanticImputation(min_degree=4, solver=solver, tol=tol).fit(X, Y)
    steps, measures = model.history_.T
    np.testing.assert_array_equal(steps, np.arange(1, model.n_iter_ + 1))
    with pytest.warns(ConvergenceWarning, match="raise max_iter") as told:
        stopped = clone(model).set_params(max_iter=1).fit(X, Y)
    assert (len(told), stopped.n_iter_, stopped.converged_) == (1, 1, False)
    assert stopped.residual_ > tol
    if solver == "krylov":  # a run that ends there has the residual the record says
        assert measures[-1] == pytest.approx(model.residual_, rel=0.5)
        assert stopped.residual_ == pytest.approx(measures[0], rel=1e-6)
    else:
        assert measures[-1] < tol <= measures[-2]
        assert clone(model).set_params(tol=1e-3).fit(X, Y).n_iter_ == 1 + np.argmax(measures < 1e-3)
    monkeypatch.setattr(imputation_systems.columns, "RECORDED_STEPS", 5)
    thin = clone(model).fit(X, Y).history_
    stride = int(thin[0, 0])
    assert stride > 1
    assert len(thin) == len(steps) // stride <= 5
    np.testing.assert_array_equal(thin, model.history_[stride - 1 :: stride])


class StoredOtherwise(KeptStates):
    """States that come back in blocks of their own, as those of a job's store do; how many row blocks they had."""

    def __init__(self):
        super().__init__(0)
        self.n_blocks = {}

    def store(self, name, array, **about):
        self.n_blocks[name.rpartition("/")[2]] = array.numblocks[0]
        return super().store(name, array.rechunk(-1), **about)


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_an_interrupted_fit_goes_on_after_what_it_has_kept(solver, monkeypatch):
    """Each state is the last that one run stores; none is made twice, and a past batch of sweeps is forgotten.

    A row block is what a task writes: blocks of columns would wait for each other, and one task write them all.
    """
    monkeypatch.setattr(imputation_systems, "ROW_BLOCKS", 4)
    X, Y = problem(s=2 * LEAST_COLUMNS + 1)
    model = LatentSemanticImputation(min_degree=4, solver=solver, tol=1e-9)
    expected, states, found = clone(model).fit(X, Y), StoredOtherwise(), None
    with keeping(states):
        while found is None:
            states.most += 1
            with suppress(KilledError):
                found = clone(model).fit(X, Y)
    assert found.vectors_.tobytes() == expected.vectors_.tobytes()
    assert found.n_iter_ == expected.n_iter_
    np.testing.assert_array_equal(found.history_, expected.history_)
    # of several blocks of columns, which take steps of their own, too
    assert found.history_[-1, 1] == pytest.approx(found.residual_ if solver == "krylov" else 1e-9, rel=0.9)
    made = [name.rpartition("/")[2] for name in states.stored]
    assert len(set(states.stored)) == len(made)
    solved = "solved" if solver == "krylov" else "sweeps-00001"
    assert {"weights", solved} <= set(made)
    assert sum("sweeps" in name for name in states.arrays) == (solver == "power")
    assert {name: states.n_blocks[name] for name in ("weights", solved)} == {"weights": 4, solved: 3}


@pytest.mark.parametrize("weights", ["simplex", "normalise_after"])
def test_rows_that_are_all_equal_become_the_mean_of_walks(weights):
    Y = np.full((10, 2), np.nan)
    Y[0], Y[1] = 1.0, 3.0
    vectors = LatentSemanticImputation(min_degree=3, weights=weights).fit(np.ones((10, 4)), Y).vectors_
    assert ((vectors >= 1) & (vectors <= 3)).all()


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_what_is_right_from_the_start_has_converged(solver):
    """Nothing is to be found, or nothing moves: no share of nothing has to be undercut."""
    X, whole, zeros = problem()[0], np.arange(120.0).reshape(60, 2), np.zeros((60, 2))
    model = LatentSemanticImputation(solver=solver)
    assert model.fit(X, whole).vectors_.tobytes() == whole.tobytes()
    assert (model.n_iter_, model.residual_, model.converged_) == (0, 0.0, True)
    zeros[::3] = np.nan
    assert not model.fit(X, zeros).vectors_.any()
    assert model.converged_


def test_a_users_graph_is_taken_where_it_joins_all_rows_to_a_known_one():
    X, Y = problem(n=6, n_known=1, s=2)
    known = int(np.flatnonzero(~np.isnan(Y[:, 0]))[0])
    whole, parts = (
        sp.csr_array((np.ones(6), (np.arange(6), to)), shape=(6, 6))
        for to in ([1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3])
    )
    model = LatentSemanticImputation(tol=1e-12)
    np.testing.assert_allclose(model.fit(X, Y, graph=whole).vectors_, np.tile(Y[known], (6, 1)), atol=1e-9)
    with pytest.raises(ValueError, match="3 rows to impute are joined to no known vector") as told:
        model.fit(X, Y, graph=parts)
    assert told.value.rows.tolist() == ([3, 4, 5] if known < 3 else [0, 1, 2])


def test_cosine_measures_directions():
    X, Y = problem()
    model = LatentSemanticImputation(min_degree=4, tol=1e-12)
    expected = clone(model).fit(unit_rows(X), Y).vectors_
    np.testing.assert_allclose(model.set_params(metric="cosine").fit(X, Y).vectors_, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**600])
@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_the_unit_of_the_vectors_changes_nothing(solver, scale):
    """The squares of such vectors are zero or infinite."""
    X, Y = np.random.default_rng(0).standard_normal((2, 30, 3))
    Y[::3] = np.nan
    model = LatentSemanticImputation(min_degree=4, solver=solver)
    expected = model.fit(X, Y).vectors_
    np.testing.assert_array_equal(model.fit(X, scale * Y).vectors_, scale * expected)


COARSE = st.integers(-3, 3).map(float)
"""A coarse grid of values gives many equal ones."""


def rebuilt(x, A, *, simplex, floor=0.0, function=imputation_systems.rebuild_rows):
    """Return the weights of one row and their certificate."""
    structure = np.array([0]), np.array([0, len(A)]), np.arange(1, len(A) + 1)
    weights, certificates = function(np.vstack([x, A]), *structure, floor, simplex)
    return weights, certificates[0]


SIZES = st.tuples(st.integers(1, 9), st.integers(1, 12))


@settings(deadline=None, max_examples=30)
@given(A=SIZES.flatmap(lambda size: hnp.arrays(float, size, elements=COARSE)))
def test_simplex_weights_are_on_the_simplex_and_optimal(A):
    x = np.zeros(A.shape[1])
    w, certificate = rebuilt(x, A, simplex=True)
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1)
    assert certificate < 1e-8
    plain = oracle.simplex_weights(x, A)
    scale = (A**2).sum(axis=1).mean()
    assert ((w @ A) ** 2).sum() <= ((plain @ A) ** 2).sum() + 1e-8 * scale


@pytest.mark.parametrize(
    ("A", "found", "simplex", "certificate"),
    [
        # w = (3, 0): its gradient is (27 - 3, -1), and A x is (3, 1)
        ([[3.0, 0.0], [0.0, 1.0]], [3.0, 0.0], False, 3 * 24 / 3),
        ([[3.0, 0.0], [0.0, 1.0]], [0.0, 0.0], False, 1.0),
        ([[4.0, 1.0], [1.0, 2.0]], [1.0, 0.0], True, 9 / 5),  # G is diag(9, 1), seen from (1, 1)
    ],
)
def test_the_certificate_sees_weights_that_are_not_optimal(A, found, simplex, certificate, monkeypatch):
    monkeypatch.setattr(imputation_systems, "nonnegative_least_squares", lambda _G, _c: np.array(found))
    plain = imputation_systems.rebuild_rows.py_func
    assert rebuilt(np.ones(2), np.array(A), simplex=simplex, function=plain)[1] == pytest.approx(certificate)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(3, 15))
def test_cone_weights_equal_scipys(seed, k, d):
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((k, d)), rng.standard_normal(d)
    w, certificate = rebuilt(x, A, simplex=False)
    # Gram matrices square the condition of A, and it is the squared residual that they are exact in: the largest
    # difference of 4,000 random problems was 2e-10, of which the root is 1e-5. The largest certificate found is 3e-6.
    assert certificate < 1e-5
    plain, residual = nnls(A.T, x)
    assume(plain.any())  # else there is nothing to divide by its sum
    made = w @ A
    best = (x @ made) / (made @ made) * made
    assert ((x - best) ** 2).sum() == pytest.approx(residual**2, abs=1e-8)


@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.5]), st.booleans())
@settings(deadline=None, max_examples=30)
def test_floor_makes_every_weight_positive(seed, floor, simplex):
    rng = np.random.default_rng(seed)
    A, x = np.round(rng.standard_normal((rng.integers(1, 9), 3))), rng.standard_normal(3)
    raised = rebuilt(x, A, simplex=simplex, floor=floor)[0]
    assert (raised > 0).all()
    bare, least = rebuilt(x, A, simplex=simplex)[0], LEAST_FLOOR / len(A) if simplex else 0.0
    np.testing.assert_allclose(raised, oracle.with_floor(bare, floor, least), rtol=1e-9)


def test_a_tiny_weight_does_not_make_the_floor_tiny():
    """The last of three neighbors hardly counts: a floor of its weight would let I - W grow singular."""
    A = np.array([[1.0, 1e-13], [-1.0, 1e-13], [1.0, -3.0]])
    assert 0 < rebuilt(np.zeros(2), A, simplex=True)[0][2] < 1e-9
    weights = rebuilt(np.zeros(2), A, simplex=True, floor=0.1)[0]
    assert weights.min() == pytest.approx(0.1 * LEAST_FLOOR / 3, rel=1e-3)


K = 4


def plain_mixtures(new, X, values):
    """Return Σ w v over the K nearest rows of X for each new row, by a general-purpose solver."""
    found = []
    for row, lengths in zip(new, pairwise_distances(new, X), strict=True):
        near = np.sort(np.argsort(lengths, kind="stable")[:K])
        weights = oracle.with_floor(oracle.simplex_weights(row, X[near]), 0.1, LEAST_FLOOR / K)
        found.append(weights @ np.asarray(values[near], np.float64))
    return np.array(found)


def fitted(**options):
    """Return a model fitted to all rows but the last 15, that part of the problem, and the last rows."""
    X, Y = problem(n=90, d=4, s=6, n_known=40, dtype=np.float32)
    return LatentSemanticImputation(min_degree=K, **options).fit(X[:-15], Y[:-15]), X[:-15], Y[:-15], X[-15:]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("regressor", [None, Ridge()])
def test_a_new_row_is_the_mixture_of_its_nearest_rows_vectors(metric, regressor):
    """With a regressor that of their residuals, added to the prediction for the row."""
    model, X, Y, new = fitted(metric=metric, regressor=regressor)
    of_metric, known = unit_rows if metric == "cosine" else np.asarray, ~np.isnan(Y[:, 0])
    plain = DummyRegressor(strategy="constant", constant=np.zeros(Y.shape[1]))
    plain = (regressor or plain).fit(X[known], Y[known].astype(np.float64))
    mixtures = plain_mixtures(of_metric(new), of_metric(X), model.vectors_ - plain.predict(X))
    found = model.infer(new, X, Y)
    assert found.dtype == Y.dtype
    np.testing.assert_allclose(found, plain.predict(new) + mixtures, rtol=1e-3, atol=1e-3)
    many = model.infer(np.tile(new, (6, 1)), X, Y)  # more rows than those of the fit
    np.testing.assert_allclose(many, np.tile(found, (6, 1)), rtol=1e-6)
    later = {"metric": "euclidean", "min_degree": 2, "weights": "normalise_after", "floor": 0.5}
    model.set_params(**later)  # for the next fit
    np.testing.assert_array_equal(model.infer(new, X, Y), found)


def test_the_kind_the_blocks_and_the_memory_change_nothing():
    model, X, Y, new = fitted(regressor=Ridge())
    expected = model.infer(new, X, Y)
    with dask.config.set({"distembed.block_memory": 2**12}):
        cut = model.infer(da.from_array(new, chunks=(4, 2)), da.from_array(X, chunks=(20, -1)), Y)
    np.testing.assert_allclose(cut, expected, rtol=1e-6)
    assert expected[:1].tobytes() == model.infer(new[:1], X, Y).tobytes()
    with dask.config.set({"distembed.block_memory": 2**10}):  # predictions come by row blocks
        np.testing.assert_allclose(clone(model).fit(X, Y).vectors_, model.vectors_, rtol=1e-4, atol=1e-5)


def test_shares_are_those_of_the_inverse_and_mix_to_the_imputed_vector():
    rng, known = np.random.default_rng(3), np.arange(50) < 15
    X, Y = rng.normal(size=(50, 4)), np.where(known[:, None], rng.normal(size=(50, 6)), np.nan)
    model = LatentSemanticImputation(min_degree=4, tol=1e-10).fit(X, Y)
    W = model.weights_.toarray()
    absorbed = np.linalg.inv(np.eye(35) - W[15:, 15:]) @ W[15:, :15]
    for row in (15, 49):
        shares = known_shares(model.weights_, known, row)
        np.testing.assert_allclose(shares[:15], absorbed[row - 15], atol=1e-8)
        assert not shares[15:].any()
        np.testing.assert_allclose(shares[:15] @ Y[:15], model.vectors_[row], atol=1e-7)


def test_the_path_is_the_most_probable_one_and_ends_at_the_first_known_row():
    W = np.zeros((5, 5))
    W[0, [1, 2]] = 0.4, 0.6
    W[1, [3]] = 1.0
    W[2, [3, 4]] = 0.5, 0.5
    W[3, [4]] = 1.0  # known: no walk goes on from here
    W[4, [3]] = 1.0
    known = np.array([False, False, False, True, True])
    to_third, to_fourth = strongest_paths(sp.csr_array(W), known, 0, [3, 4])
    assert to_third == ([0, 1, 3], pytest.approx(0.4))
    assert to_fourth == ([0, 2, 4], pytest.approx(0.3))
    np.testing.assert_allclose(known_shares(sp.csr_array(W), known, 0), [0, 0, 0, 0.7, 0.3])


# ------------------- residuals of any regressor are imputed; ridges are chosen by the error of leaving one row out


@pytest.mark.parametrize("d", [4, 70])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_regressor_is_fitted_to_known_rows_and_its_residuals_are_imputed(d, metric):
    X, Y = problem(n=90, d=d, n_known=40, dtype=np.float32)
    known = ~np.isnan(Y[:, 0])
    model = LatentSemanticImputation(min_degree=4, regressor=RidgeCV(), metric=metric, tol=1e-10).fit(X, Y)
    mapped = RidgeCV().fit(X[known], Y[known].astype(np.float64)).predict(X)
    residuals = oracle.limit(model.weights_.toarray(), np.where(known[:, None], Y - mapped, np.nan))
    np.testing.assert_allclose(model.vectors_, mapped + residuals, rtol=1e-4, atol=1e-5)
    assert model.vectors_[known].tobytes() == Y[known].tobytes()
    assert model.vectors_.dtype == Y.dtype


def best_ridge(X, Y):
    """Return the ridge regression whose ridge leaves the least error where each row is left out in turn."""

    def left_out_error(model):
        rows = np.arange(len(X))
        found = [model.fit(X[rows != row], Y[rows != row]).predict(X[[row]])[0] for row in rows]
        return ((np.array(found) - Y) ** 2).sum()

    unit = X.var(axis=0).sum()
    return min((Ridge(alpha=ridge * unit) for ridge in RIDGES), key=left_out_error).fit(X, Y)


def test_the_linear_ridge_is_chosen_by_leaving_one_out():
    X, Y = problem(n=30, n_known=30)
    np.testing.assert_allclose(LinearRidge().fit(X, Y).predict(X), best_ridge(X, Y).predict(X), rtol=1e-6)


def test_the_ridge_of_the_kernel_is_chosen_by_leaving_one_out():
    """A regression with a kernel is a linear one on the rows of a root of the kernel."""
    (X, truth), known = problem(n=40, n_known=40), np.arange(40) < 25
    squares = pairwise_distances(X, metric="sqeuclidean")
    values, basis = np.linalg.eigh(np.exp(-squares / np.median(squares[known][:, known])))
    rows = basis * np.sqrt(np.maximum(values, 0))
    found = KernelRidge().fit(X[known], truth[known]).predict(X)
    expected = best_ridge(rows[known], truth[known]).predict(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("regressor", [LinearRidge(), KernelRidge()])
@pytest.mark.parametrize("standardized", [False, True])
def test_most_rows_of_a_table_may_be_equal(regressor, standardized):
    """A category gets its own mean, although the median of the squared distances is 0, or rounding."""
    rng, kinds = np.random.default_rng(0), np.repeat([0, 1, 2, 3], [45, 5, 5, 5])
    X, means = np.eye(4)[kinds], rng.standard_normal((4, 5))
    X = (X - X.mean(axis=0)) / X.std(axis=0) if standardized else X
    Y, known = means[kinds], np.arange(60) % 3 > 0
    np.testing.assert_allclose(regressor.fit(X[known], Y[known]).predict(X), Y, atol=0.02)
    equal, far = np.tile(0.1 * np.arange(1, 4), (13, 1)), np.full((1, 3), 5.0)
    mean = type(regressor)().fit(equal, Y[:13]).predict(far)  # rows that all are give the mean
    np.testing.assert_allclose(mean[0], Y[:13].mean(axis=0))
    assert KernelRidge().fit(equal, np.ones((13, 1))).scale_ == 1.0
    np.testing.assert_array_equal(type(regressor)().fit(equal[:1], Y[:1]).predict(far), Y[:1])
    apart = np.repeat([[0.0, 0.1], [2.0, 0.1], [3.0, 0.1]], [45, 10, 5], axis=0)
    assert KernelRidge().fit(apart, np.ones((60, 1))).scale_ == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("name", "regressor"), [("LINEAR_ROWS", LinearRidge()), ("KERNEL_ROWS", KernelRidge())]
)
def test_many_rows_are_drawn_and_the_draw_is_always_the_same(name, regressor, monkeypatch):
    monkeypatch.setattr(regressions, name, 20)
    X, truth = problem(n=90, n_known=90)
    drawn = np.sort(np.random.default_rng(0).permutation(90)[:20])
    few = type(regressor)().fit(X[drawn], truth[drawn]).predict(X)
    assert regressor.fit(X, truth).predict(X).tobytes() == few.tobytes()


# --------------------------------------- data frames are matched by their index, whatever the order of their rows


def frames():
    """Return a table of 40 names, and the vectors of 25 of them in another order, with one that is no name of it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.standard_normal((40, 3)), index=[f"name {i}" for i in range(40)], columns=list("abc")
    )
    known = pd.DataFrame((X.to_numpy() @ rng.standard_normal((3, 4))).astype(np.float32), index=X.index)
    Y = known.iloc[rng.permutation(40)[:25]]
    return X, pd.concat([Y, pd.DataFrame(1.0, index=["elsewhere"], columns=Y.columns, dtype=np.float32)])


@pytest.mark.parametrize("regressor", [None, RidgeCV()])
def test_rows_are_matched_by_the_index(regressor):
    """Frames were matched by the place of their rows: the wrong names, without a word."""
    X, Y = frames()
    model = LatentSemanticImputation(min_degree=4, regressor=regressor).fit(X, Y)
    plain = LatentSemanticImputation(min_degree=4, regressor=regressor)
    plain.fit(X.to_numpy(), Y.reindex(X.index).to_numpy())
    assert model.vectors_.index.equals(X.index)
    assert model.vectors_.columns.equals(Y.columns)
    np.testing.assert_array_equal(model.vectors_.to_numpy(), plain.vectors_)
    assert isinstance(clone(model).fit(X, Y.reindex(X.index).to_numpy()).vectors_, np.ndarray)  # by place
    named = Y.index.drop("elsewhere")
    pd.testing.assert_frame_equal(model.vectors_.loc[named], Y.loc[named])
    new = model.infer(X.iloc[:3][["c", "a", "b"]].rename("new {}".format), X, Y)
    assert list(new.index) == [f"new name {i}" for i in range(3)]
    np.testing.assert_array_equal(
        new, plain.infer(X.to_numpy()[:3], X.to_numpy(), Y.reindex(X.index).to_numpy())
    )


def test_word_vectors_are_matched_by_their_words():
    X, Y = frames()
    words, model = WordVectors(list(Y.index), Y.to_numpy()), LatentSemanticImputation(min_degree=4)
    pd.testing.assert_frame_equal(model.fit(X, words).vectors_, model.fit(X, Y).vectors_, check_names=False)
    np.testing.assert_array_equal(model.infer(X.iloc[:2], X, words), model.infer(X.iloc[:2], X, Y))


def test_names_that_stand_twice_and_frames_without_a_common_name_are_refused():
    (X, Y), model = frames(), LatentSemanticImputation(min_degree=4)
    for table, vectors, message in (
        (
            pd.concat([X, X.iloc[:1]]),
            Y,
            r"the index of X has 1 name more than once \('name 0'\): keep one row",
        ),
        (X, pd.concat([Y, Y]), "the index of Y has 26 names more than once"),
        (X, Y.reset_index(drop=True), "no row of Y is one of X: the index of X begins with 'name 0'"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(table, vectors)
    with pytest.raises(KeyError, match="'b'"):
        model.fit(X, Y).infer(X[["a", "c"]], X, Y)
