"""NMF, orthogonal NMF and Semantic-NMF: against the formulas, over blocks, on bad input."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import partial
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from dask.utils import key_split
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import normalized_mutual_info_score

from distembed.factorization import consensus, document_factors, nmf_rounds
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.lift import first_rows, fold, total
from distembed.states import keeping
from tests.kept_states import KeptStates
from tests.references import nmf as plain
from tests.references.arrays import lazy

CHUNKS = {"whole": (60,), "even": (20, 20, 20), "ragged": (7, 31, 1, 21), "single": (1,) * 60}
WORD_CHUNKS = {"whole": (40,), "even": (20, 20), "ragged": (9, 30, 1), "single": (1,) * 40}


def planted(n_docs=60, n_words=40, rank=3, seed=0, dtype=np.float64):
    """Documents and word pairs of `rank` topics with little shared between them."""
    random = np.random.default_rng(seed)
    topic_of_doc, topic_of_word = np.arange(n_docs) % rank, np.arange(n_words) % rank
    rate = np.where(topic_of_doc[:, None] == topic_of_word, 2.0, 0.1)
    X = csr_array(random.poisson(rate).astype(dtype))
    pairs = random.poisson(np.where(topic_of_word[:, None] == topic_of_word, 1.5, 0.05))
    return X, csr_array((0.75 * (pairs + pairs.T)).astype(dtype)), topic_of_doc


orthogonal = partial(NMF, solver="orthogonal")


def start_of(model, X, M=None):
    problem = nmf_rounds.Problem(X, 0.0, X.sum() / np.prod(X.shape), M=M)
    seed = (model.random_state, 0)
    first = nmf_rounds.start_of(problem, model.n_components, model.init, "multiplicative", seed)
    return np.array(first.documents), np.array(first.words), np.array(first.core)


# --- one block ---------------------------------------------------------------------------------------------


problems = st.tuples(
    st.integers(1, 12), st.integers(1, 9), st.integers(1, 4), st.floats(0.05, 1.0), st.integers(0, 10**6)
)


@settings(deadline=None, max_examples=60)
@given(problems, st.floats(0.0, 10.0))
def test_updates_of_documents_and_core_never_raise_the_objective(problem, weight):
    n, d, k, density, seed = problem
    random = np.random.default_rng(seed)
    X = csr_array(random.random((n, d)) * (random.random((n, d)) < density))
    half = random.random((d, d)) * (random.random((d, d)) < density)
    M = csr_array(half + half.T)
    Z, W, S = random.random((n, k)), random.random((d, k)), random.random((k, k))
    S = S + S.T

    def loss(Z, S):
        return plain.semantic_loss(X.toarray(), M.toarray(), Z, W, S, weight)

    slack = 1e-9 * (1 + loss(Z, S))
    new_Z = blocks.scale(Z, X @ W, blocks.gram(W))
    assert loss(new_Z, S) <= loss(Z, S) + slack
    new_S = blocks.update_core(S, W, M @ W)
    assert loss(Z, new_S) <= loss(Z, S) + slack
    descended = blocks.descend(Z, X @ W, blocks.gram(W), sweeps=2, tolerance=0.0)
    assert loss(descended, S) <= loss(Z, S) + slack
    assert min(new_Z.min(), new_S.min(), descended.min()) >= 0
    np.testing.assert_array_equal(new_S, new_S.T)


@settings(deadline=None, max_examples=40)
@given(problems)
def test_losses_by_traces_are_the_dense_losses(problem):
    n, d, k, density, seed = problem
    random = np.random.default_rng(seed)
    X = random.random((n, d)) * (random.random((n, d)) < density)
    M = X.T @ X
    Z, W, S = random.random((n, k)), random.random((d, k)), random.random((k, k))
    S = S + S.T
    assert blocks.document_loss((X**2).sum(), X.T @ Z, Z.T @ Z, W) == pytest.approx(plain.nmf_loss(X, Z, W))
    dense = 0.5 * np.linalg.norm(M - W @ S @ W.T) ** 2
    assert blocks.word_loss((M**2).sum(), M @ W, W, S) == pytest.approx(dense)


def test_solved_documents_meet_the_optimality_conditions():
    X, _, _ = planted()
    W = np.random.default_rng(0).random((40, 5))
    Z = blocks.solve_documents(X, W, W.T @ W, sweeps=1000)
    slope = Z @ W.T @ W - X @ W
    assert slope.min() > -1e-5
    assert np.abs(slope[Z > 0]).max() < 1e-5


# --- against the formulas ----------------------------------------------------------------------------------


def test_nmf_equals_the_oracle_after_50_rounds():
    X, _, _ = planted()
    model = NMF(3, solver="multiplicative", max_iter=50, tol=0).fit(X)
    Z, W, _ = start_of(model, X)
    losses = []
    for _ in range(50):
        Z, W = plain.nmf_round(X.toarray(), Z, W)
        losses.append(plain.nmf_loss(X.toarray(), Z, W))
    np.testing.assert_allclose(model.document_factors_, plain.solve_documents(X.toarray(), W), atol=1e-5)
    np.testing.assert_allclose(model.word_factors_, W, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.objective_, losses, rtol=1e-9)


def test_hals_equals_the_oracle_after_10_rounds():
    X, _, _ = planted()
    model = NMF(3, solver="hals", max_iter=10, tol=0).fit(X)
    Z, W, _ = start_of(model, X)
    for _ in range(10):
        Z, W = plain.hals_round(X.toarray(), Z, W, nmf_rounds.HALS_SWEEPS, nmf_rounds.HALS_TOLERANCE)
    np.testing.assert_allclose(model.document_factors_, plain.solve_documents(X.toarray(), W), atol=1e-5)
    np.testing.assert_allclose(model.word_factors_, W, rtol=1e-6, atol=1e-7)


def test_orthogonal_nmf_equals_the_oracle_after_50_rounds():
    X, _, _ = planted()
    model = orthogonal(3, max_iter=50, tol=0).fit(X)
    Z, W, _ = start_of(model, X)
    Z, W = plain.unit_columns(Z, W)
    for _ in range(50):
        Z, W = plain.orthogonal_round(X.toarray(), Z, W)
    np.testing.assert_allclose(model.document_factors_, Z, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.word_factors_, W, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("weight", [1.0, 0.1, 0.0])
@pytest.mark.parametrize("init", ["spherical_kmeans", "random"])
def test_semantic_nmf_equals_the_oracle_after_50_rounds(init, weight):
    X, M, _ = planted()
    model = SemanticNMF(3, shift=1, semantic_weight=weight, init=init, max_iter=50).fit(X, M)
    Z, W, S = start_of(model, X, M)
    losses = []
    for _ in range(50):
        Z, W, S = plain.semantic_round(X.toarray(), M.toarray(), Z, W, S, weight)
        losses.append(plain.semantic_loss(X.toarray(), M.toarray(), Z, W, S, weight))
    np.testing.assert_allclose(model.document_factors_, plain.solve_documents(X.toarray(), W), atol=1e-5)
    np.testing.assert_allclose(model.word_factors_, W, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.core_, S, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.objective_, losses, rtol=1e-9)


def test_a_core_starts_above_zero_everywhere():
    """It is 1 % of the mean where the fit is negative, since a multiplicative update never leaves zero."""
    W = np.random.default_rng(0).random((9, 3))
    S = np.array([[3.0, -1, 0.5], [-1, 2, 1], [0.5, 1, 1]])
    found = blocks.fit_core(W, W @ S @ (W.T @ W))
    positive = np.maximum(S, 0)
    np.testing.assert_allclose(found, np.maximum(positive, 0.01 * positive.mean()), rtol=1e-8)
    assert found[0, 1] > 0


def test_shift_is_taken_from_positive_pmi():
    X, M, _ = planted()
    cut = csr_array(np.maximum(M.toarray() - np.log(2), 0))
    inside = SemanticNMF(3, max_iter=20).fit(X, M)
    outside = SemanticNMF(3, shift=1, max_iter=20).fit(X, cut)
    np.testing.assert_array_equal(inside.word_factors_, outside.word_factors_)


# --- what it finds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["spherical_kmeans", "random"])
@pytest.mark.parametrize("kind", [NMF, orthogonal, SemanticNMF])
def test_planted_topics_are_found(kind, init):
    X, M, topic = planted(seed=3)
    model = kind(3, init=init, max_iter=200, random_state=1)
    (model.fit(X, M) if kind is SemanticNMF else model.fit(X))
    assert normalized_mutual_info_score(topic, model.labels_) > 0.9
    words = [f"{i % 3}-{i}" for i in range(40)]
    for column in model.top_words(8, words):
        assert len({word[0] for word in column}) == 1


def test_top_words_of_semantic_nmf_are_not_the_rarest_unless_they_are_asked_for():
    X, M, _ = planted(seed=3)
    words = [str(row) for row in range(40)]
    joint, alone = SemanticNMF(3, max_iter=20).fit(X, M), NMF(3, max_iter=20, tol=0).fit(X)
    np.testing.assert_allclose(joint.word_shares_, (X.toarray() > 0).mean(axis=0))

    def by_weight(model, power):
        weights = model.word_factors_ * model.word_shares_[:, np.newaxis] ** power
        return [
            [words[row] for row in column] for column in np.argsort(-weights, axis=0, kind="stable")[:9].T
        ]

    assert joint.top_words(9, words) == by_weight(joint, 0.5) != by_weight(joint, 0)
    assert joint.top_words(9, words, frequency_weight=0) == by_weight(joint, 0)
    assert alone.top_words(9, words) == by_weight(alone, 0)
    assert alone.top_words(9, words, frequency_weight=1) == by_weight(alone, 1)


@pytest.mark.parametrize("kind", [NMF, SemanticNMF])
def test_labels_are_the_largest_share_of_columns_of_unit_length(kind):
    """The scale of a topic is shared out between its two factors at will, so that it must not decide."""
    rng = np.random.default_rng(0)
    X, M = rng.random((40, 12)), rng.random((12, 12))
    options = {"init": "random", "max_iter": 50, "tol": 0.0, "random_state": 0}
    model = kind(4, **options).fit(X) if kind is NMF else kind(4, **options).fit(X, M + M.T)
    Z = model.document_factors_ * [1.0, 30.0, 0.1, 5.0]
    shares = model.document_factors_ / np.linalg.norm(model.document_factors_, axis=0)
    np.testing.assert_array_equal(model.labels_, shares.argmax(axis=1))
    norms = np.linalg.norm(Z, axis=0, keepdims=True)
    np.testing.assert_array_equal(blocks.column_shares(Z, norms)[:, 0], model.labels_)
    assert (Z.argmax(axis=1) != model.labels_).any()
    assert (model.document_factors_.argmax(axis=1) != model.labels_).any()


@pytest.mark.parametrize("in_blocks", [False, True])
def test_orthogonal_factors_have_unit_columns_that_overlap_less(in_blocks):
    """Without a unit length a round turns a column of length a into one of 1 / a, and the objective swings."""
    X, _, _ = planted()
    given = lazy(X, CHUNKS["ragged"]) if in_blocks else X
    free = NMF(3, max_iter=100, tol=0, solver="multiplicative").fit(X).document_factors_
    free = free / np.linalg.norm(free, axis=0)
    for n_rounds in (1, 2, 199, 200):
        model = orthogonal(3, max_iter=n_rounds, tol=0).fit(given)
        Z = np.asarray(model.document_factors_)
        np.testing.assert_allclose(np.diag(Z.T @ Z), 1, rtol=1e-12)
    apart = ~np.eye(3, dtype=bool)
    assert (Z.T @ Z)[apart].max() < 0.5 * (free.T @ free)[apart].max()
    assert np.maximum(np.diff(model.objective_), 0).sum() < 1e-3 * model.objective_[-1]


def test_hals_reaches_the_multiplicative_objective_in_fewer_rounds():
    X, _, _ = planted()
    slow = NMF(5, solver="multiplicative", max_iter=100, tol=0).fit(X)
    fast = NMF(5, solver="hals", max_iter=30, tol=0).fit(X)
    assert fast.objective_[-1] <= slow.objective_[-1] * 1.005


def test_transform_of_the_same_documents_lowers_the_loss():
    X, _, _ = planted()
    model = NMF(3, solver="multiplicative", max_iter=20, tol=0).fit(X)
    Z = model.transform(X)
    dense, W = X.toarray(), model.word_factors_
    assert plain.nmf_loss(dense, Z, W) <= plain.nmf_loss(dense, model.document_factors_, W)
    in_blocks = model.transform(lazy(X, CHUNKS["ragged"]))
    assert isinstance(in_blocks, da.Array)
    np.testing.assert_allclose(np.asarray(in_blocks), Z, rtol=1e-8, atol=1e-10)


def test_the_best_of_several_starts_is_kept():
    X, _, _ = planted(rank=5)
    options = {"init": "random", "choose": "objective", "max_iter": 10, "tol": 0, "random_state": 0}
    one, best = (NMF(5, n_init=n, **options).fit(X) for n in (1, 8))
    assert best.objective_[-1] < one.objective_[-1]  # the starts begin with numbers of their own


# --- blocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHUNKS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_do_not_change_the_answer(name, dtype):
    X, M, _ = planted(dtype=dtype)
    whole = SemanticNMF(3, max_iter=4).fit(X, M)
    parts = SemanticNMF(3, max_iter=4).fit(lazy(X, CHUNKS[name]), lazy(M, WORD_CHUNKS[name]))
    assert isinstance(parts.document_factors_, da.Array)
    assert parts.document_factors_.dtype == whole.document_factors_.dtype == dtype
    compare = (
        np.testing.assert_array_equal if name == "whole" else _close(1e-3 if dtype == np.float32 else 1e-9)
    )
    compare(np.asarray(parts.document_factors_), whole.document_factors_)
    compare(parts.word_factors_, whole.word_factors_)
    compare(parts.core_, whole.core_)
    compare(parts.objective_, whole.objective_)
    np.testing.assert_array_equal(parts.labels_, whole.labels_)


def _close(tolerance):
    return lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [NMF, orthogonal])
def test_blocks_do_not_change_the_rivals(kind):
    X, _, _ = planted()
    whole = kind(3, max_iter=10, tol=0).fit(X)
    parts = kind(3, max_iter=10, tol=0).fit(lazy(X, CHUNKS["ragged"]))
    np.testing.assert_allclose(
        np.asarray(parts.document_factors_), whole.document_factors_, rtol=1e-8, atol=1e-10
    )
    np.testing.assert_array_equal(parts.labels_, whole.labels_)


def test_numpy_scipy_and_dask_give_the_same_bits():
    X, M, _ = planted()
    fits = [
        SemanticNMF(3, max_iter=10).fit(X.toarray(), M.toarray()),
        SemanticNMF(3, max_iter=10).fit(X.tocoo(), M.tocsc()),
        SemanticNMF(3, max_iter=10).fit(lazy(X, (60,)), M),
        SemanticNMF(3, max_iter=10).fit(da.from_array(X.toarray(), chunks=(60, 13)), M.toarray()),
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(np.asarray(other.document_factors_), fits[0].document_factors_)
        np.testing.assert_array_equal(other.word_factors_, fits[0].word_factors_)


def test_products_with_the_documents_are_summed_in_float64():
    """In float32 nothing is added to 2**24 by ones."""
    X = csr_array(np.concatenate([[2.0**24], np.ones(1000)]).astype(np.float32)[:, None])
    found = blocks.transposed_times(X, np.ones((1001, 2), np.float32))
    np.testing.assert_array_equal(found, [[2**24 + 1000] * 2])


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 4, 5, 16, 17, 60])
def test_totals_are_exact_for_any_number_of_blocks(n_blocks):
    X, _, _ = planted()
    rows = (1,) * (n_blocks - 1) + (60 - n_blocks + 1,)
    cut, options = lazy(X, rows), {"shape": (1, 45), "fan_in": 4, "called": "X"}
    found = fold(total(blocks.inspect), "wd,w", cut, first_rows(cut), **options)
    np.testing.assert_array_equal(np.asarray(found), blocks.inspect(X, np.zeros(1, int), called="X"))


# --- resuming ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_blocks", "round_of_stop"), [(False, 1), (False, 11), (True, 1), (True, 11), (True, 27), (True, 45)]
)
def test_a_stopped_fit_resumes_with_the_same_bits(in_blocks, round_of_stop, monkeypatch):
    """Starts of 25 rounds are kept after rounds 0, 10, 20 and 25; a stop costs the rounds since the last state."""
    X, M, _ = planted()
    if in_blocks:
        X, M = lazy(X, CHUNKS["even"]), lazy(M, WORD_CHUNKS["even"])
    model = SemanticNMF(3, max_iter=25, n_init=2 if in_blocks else 1)
    expected, one_round, calls = clone(model).fit(X, M), nmf_rounds.one_round, []

    def counted(*arguments):
        if len(calls) == round_of_stop:
            raise KeyboardInterrupt
        calls.append(arguments)
        return one_round(*arguments)

    monkeypatch.setattr(nmf_rounds, "one_round", counted)
    states = KeptStates()
    with keeping(states):
        with pytest.raises(KeyboardInterrupt):
            clone(model).fit(X, M)
        calls.clear()
        monkeypatch.setattr(nmf_rounds, "one_round", lambda *each: (calls.append(each), one_round(*each))[1])
        again = clone(model).fit(X, M)
    done, rest = divmod(round_of_stop, 25)
    assert len(calls) == 25 * model.n_init - 25 * done - rest // 10 * 10
    np.testing.assert_array_equal(again.document_factors_, expected.document_factors_)
    np.testing.assert_array_equal(again.word_factors_, expected.word_factors_)
    np.testing.assert_array_equal(again.objective_, expected.objective_)
    rounds = {name.partition("round-")[2].partition("/")[0] for name in states.announced()} - {""}
    assert rounds == {"00025"}  # the newest of each start alone


def test_starts_in_memory_that_were_finished_are_found_again(monkeypatch):
    X, M, _ = planted()
    model, descend, calls = SemanticNMF(3, max_iter=5, n_init=4), document_factors.descend, []
    expected = clone(model).fit(X, M)

    def counted(*arguments, **options):
        calls.append(arguments[1].args[-1][1])  # the number of the start
        if len(calls) == 4:
            raise OSError("the power is gone")
        return descend(*arguments, **options)

    monkeypatch.setattr(document_factors, "descend", counted)
    monkeypatch.setattr(consensus, "STARTS_AT_ONCE", 2)
    with keeping(KeptStates()), dask.config.set(scheduler="sync"):
        with pytest.raises(OSError, match="the power is gone"):
            clone(model).fit(X, M)
        again = clone(model).fit(X, M)
    assert [sorted(calls[first : first + 2]) for first in (0, 2, 4)] == [[0, 1], [2, 3], [2, 3]]
    np.testing.assert_array_equal(again.document_factors_, expected.document_factors_)
    for one, other in zip(again.starts_, expected.starts_, strict=True):
        np.testing.assert_array_equal(one.words, other.words)


def test_a_consensus_that_was_stopped_keeps_its_document_factors(monkeypatch):
    X, M, _ = planted()
    X, fit_documents, calls = lazy(X, CHUNKS["even"]), nmf_rounds.fit_documents, []
    model = SemanticNMF(3, max_iter=5, n_init=2)
    expected = clone(model).fit(X, M)
    monkeypatch.setattr(nmf_rounds, "fit_documents", lambda *each: (calls.append(1), fit_documents(*each))[1])
    with keeping(KeptStates()):
        with (
            mock.patch.object(SemanticNMF, "_learn", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            clone(model).fit(X, M)
        again = clone(model).fit(X, M)
    assert len(calls) == 1
    np.testing.assert_array_equal(again.document_factors_, expected.document_factors_)
    np.testing.assert_array_equal(again.core_, expected.core_)


def test_a_finished_fit_is_found_and_another_is_not():
    X, _, _ = planted()
    with (
        keeping(KeptStates()),
        mock.patch.object(nmf_rounds, "one_round", wraps=nmf_rounds.one_round) as rounds,
    ):
        for documents in (X, lazy(X, CHUNKS["even"])):
            first = NMF(3, max_iter=5, tol=0).fit(documents)
            again = NMF(3, max_iter=5, tol=0).fit(documents)
            assert rounds.call_count == 5
            np.testing.assert_array_equal(again.document_factors_, first.document_factors_)
            NMF(3, max_iter=5, tol=0, random_state=1).fit(documents)
            NMF(3, max_iter=5, tol=0).fit(documents * 2)
            assert rounds.call_count == 15
            rounds.reset_mock()


def test_a_round_is_one_step_for_each_row_block():
    """Beside it a task leaves the sums of a block behind, so that they do not stay in memory, and a tree adds them."""
    X, _, _ = planted()
    problem = nmf_rounds.Problem(lazy(X, CHUNKS["single"]).persist(), 1.0, 1.0)
    now = nmf_rounds.start_of(problem, 3, "random", "hals", (0, 0))
    now = nmf_rounds.one_round(problem, "hals", now)
    names = []
    with Callback(pretask=lambda key, *_: names.append(key_split(key))):
        nmf_rounds.one_round(problem, "hals", now)
    counts = Counter(names)
    assert (counts["step_documents"], counts["documents"], counts["sums-sum"]) == (60, 60, 15 + 4 + 1 + 1)
    assert counts.total() <= 140 + 5  # word factors and their products, which all blocks read


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_blocks", [False, True])
def test_bad_values_are_refused(in_blocks):
    X, M, _ = planted()
    for bad, message in ((-1.0, "one in row"), (np.nan, "NaN or infinity"), (np.inf, "NaN or infinity")):
        spoilt = X.copy()
        spoilt.data[5] = bad
        spoilt = lazy(spoilt, CHUNKS["ragged"]) if in_blocks else spoilt
        for fit in (NMF(3).fit, orthogonal(3).fit, lambda X: SemanticNMF(3).fit(X, M)):
            with pytest.raises(ValueError, match=f"X holds {message}"):
                fit(spoilt)
        words = M.copy()
        words.data[5] = bad
        with pytest.raises(ValueError, match=f"M holds {message}"):
            SemanticNMF(3).fit(X, words)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_an_empty_document_and_an_unused_word_are_reported_and_kept_out(in_blocks):
    X, M, _ = planted()
    X = X.toarray()
    X[4], X[:, 7] = 0, 0
    X = lazy(csr_array(X), CHUNKS["ragged"]) if in_blocks else X
    for kind in (NMF, orthogonal, SemanticNMF):
        model = kind(3, max_iter=30)
        with pytest.warns(UserWarning, match="1 of 60 documents hold no word"), np.errstate(all="raise"):
            model.fit(X, M) if kind is SemanticNMF else model.fit(X)
        assert (model.n_empty_documents_, model.n_unused_words_) == (1, 1)
        assert model.labels_[4] == -1
        assert (np.delete(model.labels_, 4) >= 0).all()
        assert not np.asarray(model.document_factors_)[4].any()
        assert np.isfinite(model.word_factors_).all()
        assert kind is SemanticNMF or not model.word_factors_[7].any()


def test_a_matrix_of_zeros_is_refused_as_X_and_allowed_as_M():
    X, M, _ = planted()
    with pytest.raises(ValueError, match="None of the 60 documents"):
        NMF(3).fit(csr_array((60, 40)))
    model = SemanticNMF(3, max_iter=30).fit(X, csr_array(M.shape))
    alone = NMF(3, max_iter=30, tol=0, solver="multiplicative").fit(X)
    assert not model.core_.any()
    np.testing.assert_allclose(model.word_factors_, alone.word_factors_, rtol=1e-9)
    np.testing.assert_allclose(model.objective_, alone.objective_, rtol=1e-9)


@pytest.mark.parametrize("rank", [0, 61])
def test_a_rank_out_of_range_is_refused(rank):
    X, M, _ = planted()
    for fit in (NMF(rank).fit, orthogonal(rank).fit, lambda X: SemanticNMF(rank).fit(X, M)):
        with pytest.raises(
            ValueError, match=rf"^{rank} components .* ask for 1 to 60|^n_components is {rank}: give"
        ):
            fit(X)


def test_more_components_than_words_are_allowed():
    X, M, _ = planted(n_words=12)
    assert SemanticNMF(15, max_iter=10).fit(X, M).word_factors_.shape == (12, 15)


def test_M_of_another_vocabulary_is_refused():
    X, M, _ = planted()
    with pytest.raises(ValueError, match=r"M has shape \(39, 39\) and X has 40 words"):
        SemanticNMF(3).fit(X, M[:39][:, :39])
    with pytest.raises(TypeError, match="M is"):
        SemanticNMF(3).fit(X, dask.delayed(M))


@pytest.mark.parametrize("in_blocks", [False, True])
def test_an_asymmetric_M_is_refused(in_blocks):
    X, M, _ = planted()
    M = M.tolil()
    M[3, 5] += 1
    M = lazy(csr_array(M), WORD_CHUNKS["even"]) if in_blocks else csr_array(M)
    with pytest.raises(ValueError, match="M is not symmetric"):
        SemanticNMF(3).fit(X, M)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NMF(3, solver="newton"), "solver is 'newton'"),
        (NMF(3, init="zeros"), "init is 'zeros'"),
        (orthogonal(3, max_iter=0), "max_iter is 0"),
        (SemanticNMF(3, shift=0.5), "shift is 0.5"),
        (SemanticNMF(3, semantic_weight=-1), "semantic_weight is -1"),
    ],
)
def test_bad_options_are_refused(model, message):
    X, M, _ = planted()
    with pytest.raises(ValueError, match=message):
        model.fit(X, M)


def test_an_exact_fit_has_converged():
    """Its objective is rounding error, often below zero, of which no share is left to gain."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        model = NMF(1).fit(np.outer(random.random(20), random.random(15)))
        assert model.converged_
        assert model.n_iter_ == 10


def test_a_consensus_did_the_rounds_of_its_longest_start():
    X = np.random.default_rng(0).random((20, 6))
    options = {"n_init": 3, "init": "random", "tol": 0, "max_iter": 12}
    assert NMF(2, **options).fit(X).n_iter_ == 12


def test_a_component_is_known_by_its_own_words_alone():
    model = NMF(2).fit(np.kron(np.eye(2), np.ones((5, 4))))
    assert sorted(model.top_words(6, list("abcdefgh"))) == [list("abcd"), list("efgh")]
    with pytest.raises(ValueError, match="2 words were given for 8 rows"):
        model.top_words(3, ["a", "b"])


def test_convergence_is_a_fact_and_a_warning():
    X, _, _ = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = NMF(3, max_iter=500, tol=1e-6).fit(X)
    assert done.converged_
    assert done.n_iter_ < 500
    with pytest.warns(UserWarning, match="raise max_iter"):
        assert not NMF(3, max_iter=5, tol=1e-12).fit(X).converged_


def test_arguments_stay_untouched():
    X, M, _ = planted()
    copies = X.copy(), M.copy()
    model = SemanticNMF(3, max_iter=5)
    parameters = clone(model).get_params()
    model.fit(X, M)
    assert model.get_params() == parameters
    for before, after in zip(copies, (X, M), strict=True):
        np.testing.assert_array_equal(before.data, after.data)
        np.testing.assert_array_equal(before.indices, after.indices)


def test_counts_in_place_of_an_association_are_warned_of():
    X, M, _ = planted()
    counts = M / 0.75
    for association in (counts, lazy(counts, WORD_CHUNKS["even"])):
        with pytest.warns(
            UserWarning, match=r"whole numbers only, as counts do.*fit\(X, de.ppmi\(counts\)\)"
        ):
            SemanticNMF(3, max_iter=1).fit(X, association)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SemanticNMF(3, max_iter=1).fit(X, M)
        SemanticNMF(3, max_iter=1).fit(X, (M > 0).astype(float))  # a graph of ones is an association
