"""Latent Semantic Imputation: parity, limits, exactness, bad input."""

from __future__ import annotations

import warnings
from contextlib import suppress

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from distembed.manifold import imputation_systems
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.manifold.imputation_systems import LEAST_COLUMNS
from distembed.neighbors import distances
from distembed.states import keeping
from tests.kept_states import KeptStates
from tests.references import imputation as oracle


def problem(*, n=60, d=6, s=7, n_known=15, seed=0, dtype=np.float64):
    """Return rows and a smooth map of them, most of it hidden."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = np.tanh(X @ rng.standard_normal((d, s)))
    Y = truth.astype(dtype)
    Y[np.sort(rng.permutation(n)[n_known:])] = np.nan
    return X.astype(dtype), Y


@pytest.fixture
def reference(shared):
    return np.load(shared / "reference" / "imputation_sp500_google.npz")


def published_problem(reference):
    Y = np.full((480, 300), np.nan)
    Y[:117] = reference["sem"]
    return reference["aff"], Y


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


class StoredOtherwise(KeptStates):
    """States that come back in blocks of their own, as those of a job's store do."""

    def store(self, name, array, **about):
        return super().store(name, array.rechunk(-1), **about)


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_states_that_come_back_in_other_blocks_change_nothing(solver):
    X, Y = problem(s=2 * LEAST_COLUMNS + 1)
    plain = LatentSemanticImputation(solver=solver).fit(X, Y)
    with keeping(StoredOtherwise()):
        kept = LatentSemanticImputation(solver=solver).fit(X, Y)
    assert plain.n_iter_ > imputation_systems.SWEEPS_AT_ONCE or solver == "krylov"
    assert kept.vectors_.tobytes() == plain.vectors_.tobytes()


def test_weights_of_the_published_program(reference):
    model = LatentSemanticImputation(weights="normalise_after").fit(*published_problem(reference))
    W = sp.csr_array((reference["W_data"], reference["W_indices"], reference["W_indptr"]), shape=(480, 480))
    assert abs(model.weights_ - W).max() < 1e-6
    assert model.certificate_.max() < 1e-9


def test_vectors_of_the_published_program(reference):
    X, Y = published_problem(reference)
    options = {"weights": "normalise_after", "max_iter": 5000}
    theirs = reference["PQ_eta1e-06"][117:]

    def gap(A, B):  # in the norm of the paper's stopping rule
        return np.abs(A - B).sum() / np.abs(B).sum()

    few = slice(20)  # columns: the stopping rule is of all of them, the limit of each is its own
    model = LatentSemanticImputation(tol=1e-12, **options).fit(X, Y[:, few])
    limit = model.vectors_[117:]
    settled = clone(model).set_params(solver="power", tol=1e-9).fit(X, Y[:, few])
    assert gap(settled.vectors_[117:], limit) < 1e-6
    # The program's sweeps are of (W + I)/2, and stop at eta = 1e-6 on their way to the same limit.
    stopped = oracle.power(model.weights_, Y, 1e-6, True, 5000)[0][117:]
    assert gap(stopped, theirs) < 1e-4
    assert gap(limit, theirs[:, few]) > gap(stopped[:, few], theirs[:, few])


@pytest.mark.parametrize("solver", ["krylov", "power"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_known_rows_come_back_bit_for_bit(solver, dtype):
    X, Y = problem(dtype=dtype)
    before = Y.copy()
    vectors = LatentSemanticImputation(min_degree=3, solver=solver).fit(X, Y).vectors_
    known = ~np.isnan(Y[:, 0])
    assert vectors.dtype == dtype
    assert vectors[known].tobytes() == Y[known].tobytes()
    assert np.isfinite(vectors).all()
    np.testing.assert_array_equal(Y, before)


@pytest.mark.parametrize("solver", ["krylov", "power"])
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_numpy_and_dask_give_the_same_bits(solver, scheduler):
    X, Y = problem(n=200, s=20, dtype=np.float32)
    model = LatentSemanticImputation(min_degree=4, solver=solver)
    plain = model.fit(X, Y).vectors_
    with dask.config.set(scheduler=scheduler):
        lazy = clone(model).fit(da.from_array(X, chunks=(33, 4)), da.from_array(Y, chunks=(41, 7))).vectors_
        assert isinstance(lazy, da.Array)
        assert lazy.compute().tobytes() == plain.tobytes()


@pytest.mark.parametrize("chunk", [60, 20, 7])
def test_graph_and_weights_do_not_depend_on_the_blocks(chunk, monkeypatch):
    X, Y = problem()
    model = LatentSemanticImputation(min_degree=4).fit(X, Y)
    monkeypatch.setattr(distances, "row_chunk", lambda n_rows, row_bytes, block_memory: chunk)
    with dask.config.set({"distembed.block_memory": 40_000 * chunk}):
        other = LatentSemanticImputation(min_degree=4).fit(X, Y)
    assert (other.graph_ != model.graph_).nnz == 0
    assert other.weights_.data.tobytes() == model.weights_.data.tobytes()
    np.testing.assert_allclose(other.vectors_, model.vectors_, atol=1e-6)


def test_every_edge_of_the_tree_has_a_positive_weight():
    X, Y = problem(n=150)
    model = LatentSemanticImputation(min_degree=3).fit(X, Y)
    assert (model.weights_.data > 0).all()
    np.testing.assert_allclose(model.weights_.sum(axis=1), 1, rtol=1e-14)
    assert model.certificate_.max() < 1e-9


def test_a_plane_is_recovered():
    # On a regular grid every inner point is the mean of its neighbors, and so is a linear map of it.
    X = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2)
    truth = X @ np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 1.0]])
    edge = ((X == 0) | (X == 11)).any(axis=1)
    Y = np.where(edge[:, None], truth, np.nan)
    vectors = LatentSemanticImputation(tol=1e-12, floor=1e-9).fit(X, Y).vectors_
    np.testing.assert_allclose(vectors, truth, atol=1e-5)


def test_krylov_history_is_of_the_residual():
    X, Y = problem(s=20)
    model = LatentSemanticImputation(min_degree=4, tol=1e-10).fit(X, Y)
    steps, residuals = model.history_.T
    np.testing.assert_array_equal(steps, np.arange(1, model.n_iter_ + 1))
    assert residuals[-1] == pytest.approx(model.residual_, rel=0.5)
    for step in (1, 3):  # a run that ends there has the residual the record says
        with pytest.warns(ConvergenceWarning):
            stopped = clone(model).set_params(max_iter=step).fit(X, Y)
        assert stopped.residual_ == pytest.approx(residuals[step - 1], rel=1e-6)


def test_power_history_is_of_the_papers_rule():
    X, Y = problem()
    model = LatentSemanticImputation(min_degree=4, solver="power", tol=1e-6).fit(X, Y)
    steps, shares = model.history_.T
    np.testing.assert_array_equal(steps, np.arange(1, model.n_iter_ + 1))
    assert shares[-1] < 1e-6 <= shares[-2]
    for tol in (1e-1, 1e-3):
        assert clone(model).set_params(tol=tol).fit(X, Y).n_iter_ == 1 + np.argmax(shares < tol)


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_a_long_history_is_thinned(solver, monkeypatch):
    X, Y = problem(s=20)
    model = LatentSemanticImputation(min_degree=4, solver=solver, tol=1e-10)
    whole = model.fit(X, Y).history_
    monkeypatch.setattr(imputation_systems.columns, "RECORDED_STEPS", 5)
    thin = clone(model).fit(X, Y).history_
    stride = int(thin[0, 0])
    assert stride > 1
    assert len(thin) == len(whole) // stride <= 5
    np.testing.assert_array_equal(thin, whole[stride - 1 :: stride])


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_an_interrupted_fit_goes_on_after_what_it_has_kept(solver, monkeypatch):
    """Each state is the last that one run stores; none is made twice, and a past batch of sweeps is forgotten."""
    X, Y = problem()
    model = LatentSemanticImputation(min_degree=4, solver=solver, tol=1e-9)
    expected, states = clone(model).fit(X, Y), KeptStates()
    store, allowed = states.store, []

    def store_allowed(name, array, **about):
        if len(states.stored) == len(allowed):
            raise KeyboardInterrupt
        return store(name, array, **about)

    monkeypatch.setattr(states, "store", store_allowed)
    found = None
    with keeping(states):
        while found is None:
            allowed.append(1)  # one more state than the run before
            with suppress(KeyboardInterrupt):
                found = clone(model).fit(X, Y)
    assert found.vectors_.tobytes() == expected.vectors_.tobytes()
    assert found.n_iter_ == expected.n_iter_
    np.testing.assert_array_equal(found.history_, expected.history_)
    made = [name.rpartition("/")[2] for name in states.stored]
    assert len(set(states.stored)) == len(made)
    assert {"weights", "solved" if solver == "krylov" else "sweeps-00001"} <= set(made)
    assert sum("sweeps" in name for name in states.arrays) == (solver == "power")


# --------------------------------------------------------------------------- degenerate and bad input


@pytest.mark.parametrize("weights", ["simplex", "normalise_after"])
def test_rows_that_are_all_equal_become_the_mean_of_walks(weights):
    Y = np.full((10, 2), np.nan)
    Y[0], Y[1] = 1.0, 3.0
    vectors = LatentSemanticImputation(min_degree=3, weights=weights).fit(np.ones((10, 4)), Y).vectors_
    assert ((vectors >= 1) & (vectors <= 3)).all()


def test_all_rows_known_come_back():
    X, _ = problem()
    Y = np.arange(120.0).reshape(60, 2)
    for solver in ("krylov", "power"):
        model = LatentSemanticImputation(solver=solver).fit(X, Y)
        assert model.vectors_.tobytes() == Y.tobytes()
        assert (model.n_iter_, model.residual_, model.converged_) == (0, 0.0, True)


def test_non_convergence_is_told_once():
    X, Y = problem()
    for solver in ("krylov", "power"):
        with pytest.warns(ConvergenceWarning, match="raise max_iter") as told:
            model = LatentSemanticImputation(min_degree=4, solver=solver, tol=1e-12, max_iter=2).fit(X, Y)
        assert len(told) == 1
        assert not model.converged_
        assert model.n_iter_ == 2
        assert model.residual_ > 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatentSemanticImputation(min_degree=4).fit(X, Y)


def test_a_users_graph_is_taken():
    X, Y = problem(n=6, n_known=1, s=2)
    known = int(np.nonzero(~np.isnan(Y[:, 0]))[0][0])
    whole = sp.csr_array((np.ones(6), (np.arange(6), [1, 2, 3, 4, 5, 0])), shape=(6, 6))
    vectors = LatentSemanticImputation(tol=1e-12).fit(X, Y, graph=whole).vectors_
    np.testing.assert_allclose(vectors, np.tile(Y[known], (6, 1)), atol=1e-9)


def test_cosine_measures_directions():
    X, Y = problem()
    lengths = np.random.default_rng(1).uniform(0.1, 10, (60, 1))
    a = LatentSemanticImputation(min_degree=4, metric="cosine", tol=1e-12).fit(X, Y)
    b = LatentSemanticImputation(min_degree=4, metric="cosine", tol=1e-12).fit(X * lengths, Y)
    np.testing.assert_allclose(a.vectors_, b.vectors_, atol=1e-6)
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    c = LatentSemanticImputation(min_degree=4, tol=1e-12).fit(unit, Y)
    np.testing.assert_allclose(a.vectors_, c.vectors_, atol=1e-6)


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_vectors_that_are_right_from_the_start_have_converged(solver):
    """Nothing moves where all known vectors are zero: no share of nothing has to be undercut."""
    X, Y = np.random.default_rng(0).standard_normal((30, 3)), np.zeros((30, 2))
    Y[::3] = np.nan
    model = LatentSemanticImputation(min_degree=4, solver=solver).fit(X, Y)
    assert model.converged_
    assert not model.vectors_.any()


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**600])
@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_the_unit_of_the_vectors_changes_nothing(solver, scale):
    """The squares of such vectors are zero or infinite."""
    X, Y = np.random.default_rng(0).standard_normal((2, 30, 3))
    Y[::3] = np.nan
    model = LatentSemanticImputation(min_degree=4, solver=solver)
    expected = model.fit(X, Y).vectors_
    np.testing.assert_array_equal(model.fit(X, scale * Y).vectors_, scale * expected)


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_each_task_writes_what_it_made(solver, monkeypatch):
    """A row block is what a task writes: blocks of columns would wait for each other, and one task write them all."""
    monkeypatch.setattr(imputation_systems, "ROW_BLOCKS", 4)
    X, Y = problem(s=3 * LEAST_COLUMNS)
    states = KeptStates()
    with keeping(states):
        LatentSemanticImputation(min_degree=4, solver=solver).fit(X, Y)
    n_blocks = {name.rpartition("/")[2]: array.numblocks for name, array in states.arrays.items()}
    assert n_blocks["weights"] == (4, 1)
    assert {n for name, n in n_blocks.items() if name == "solved" or "sweeps" in name} == {(3, 1)}
