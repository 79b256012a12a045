"""LSA and online LDA against scikit-learn and NumPy; ranks, residuals and bad input."""

from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning

from distembed.factorization import lda
from distembed.factorization.lda import online_lda
from distembed.factorization.lsa import LSA, with_contexts
from distembed.linalg.operators import row_blocks


def sparse_matrix(n, m, seed=0, density=0.2):
    return sp.random_array((n, m), density=density, rng=np.random.default_rng(seed), format="csr")


def same_up_to_sign(a, b, atol):
    signs = np.sign((a * b).sum(axis=0))
    np.testing.assert_allclose(a * signs, b, atol=atol)


@pytest.mark.parametrize(("shape", "exponent"), [((80, 50), 1.0), ((50, 80), 0.0)])
def test_equals_truncated_svd(shape, exponent):
    X = sparse_matrix(*shape)
    ours = LSA(6, exponent=exponent, dtype=np.float64, n_passes=5)
    vectors = ours.fit_transform(X)
    theirs = TruncatedSVD(6, algorithm="arpack", random_state=0)
    expected = theirs.fit_transform(X)
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_, rtol=1e-10)
    same_up_to_sign(vectors, expected * theirs.singular_values_ ** (exponent - 1), 1e-8)
    same_up_to_sign(ours.components_.T, theirs.components_.T, 1e-8)
    same_up_to_sign(ours.set_params(exponent=0.5).transform(X), vectors, 1e-8)  # 0.5 is for the next fit
    if exponent == 1:  # of others theirs has the variance of other vectors
        np.testing.assert_allclose(
            ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-8
        )
    assert ours.residuals_.max() < 1e-8


def flat(shape=(300, 200)):
    """Return ones at random places, whose singular values are close together, and their values."""
    X = sp.csr_array((np.random.default_rng(0).random(shape) < 0.05).astype(np.float32))
    return X, np.linalg.svd(X.toarray().astype(float))[1]


@pytest.mark.parametrize("transpose", [False, True])
def test_passes_go_on_until_a_flat_spectrum_is_found_whatever_the_chunks(transpose):
    """The start does not depend on the chunks, so that what is far from converged is equally far for each."""
    X, true = flat()
    X = X.T.tocsr() if transpose else X
    model = LSA(5, oversampling=4).fit(X)
    assert model.converged_
    assert 6 < model.n_iter_ < 16
    assert model.residuals_.max() <= 0.01
    np.testing.assert_allclose(model.singular_values_, true[:5], rtol=1e-3)
    one, other = (LSA(5, n_passes=2, tol=None).fit(row_blocks(X, values_per_block=n)) for n in (10**6, 300))
    np.testing.assert_allclose(other.singular_values_, one.singular_values_, rtol=1e-6)
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-4)


def test_passes_that_do_not_suffice_are_told_once():
    X, _ = flat()
    with pytest.warns(ConvergenceWarning, match=r"after 6 passes, above tol 0.01: raise n_passes") as told:
        model = LSA(5, oversampling=0, n_passes=6).fit(X)
    assert len(told) == 1
    assert (model.converged_, model.n_iter_) == (False, 6)
    assert model.residuals_.max() > 0.01
    assert LSA(5, oversampling=0, n_passes=6, tol=None).fit(X).n_iter_ == 6  # so many were asked for


def steep(shape, seed=0):
    """Return a matrix of one large singular value above forty small ones, and its values."""
    rng = np.random.default_rng(seed)
    values = np.concatenate([[1.0], 3e-4 * np.linspace(1, 0.5, 39)])
    left, right = (np.linalg.qr(rng.standard_normal((size, 40)))[0] for size in shape)
    return left * values @ right.T, values


@pytest.mark.parametrize("shape", [(300, 200), (200, 300)])
def test_residuals_own_up_to_what_float32_loses(shape):
    """XᵀX has the squared condition: 3e-4 squared is rounding error of float32 beside one."""
    X, true = steep(shape)
    with pytest.warns(
        RuntimeWarning, match=r"from number 2 on, .* float32 cannot lower: use dtype=np.float64"
    ):
        single = LSA(12).fit(X)
    errors = np.abs(single.singular_values_ / true[:12] - 1)
    assert errors[0] < 1e-5
    assert errors[1:].max() > 0.05
    assert single.residuals_[0] < 1e-5
    assert single.residuals_[1:].max() > errors.max() / 2
    double = LSA(12, dtype=np.float64).fit(X)
    np.testing.assert_allclose(double.singular_values_, true[:12], rtol=1e-8)
    assert double.residuals_.max() < 1e-6


def test_residuals_follow_their_formula():
    X = sparse_matrix(70, 50)
    ours = LSA(6, dtype=np.float64, n_passes=1, tol=None).fit(X)  # not converged
    V, squares = ours.components_.T, ours.singular_values_**2
    expected = np.linalg.norm(X.T @ (X @ V) - V * squares, axis=0) / squares
    np.testing.assert_allclose(ours.residuals_, expected, rtol=1e-9)
    assert ours.residuals_.min() > 1e-3


def test_fewer_directions_than_components():
    X = sp.csr_array(np.outer(np.arange(1.0, 9), np.ones(7)))
    ours = LSA(3, dtype=np.float64)
    vectors = ours.fit_transform(X)
    assert ours.singular_values_[0] == pytest.approx(np.linalg.norm(X.toarray()))
    assert ours.singular_values_[1:].tolist() == [0, 0]
    assert np.array_equal(vectors[:, 1:], np.zeros((8, 2)))
    assert np.isfinite(LSA(3, exponent=0.0).fit_transform(X)).all()
    assert not LSA(3).fit_transform(sp.csr_array((8, 7))).any()


X = sparse_matrix(8, 5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: LSA(6).fit(X), "n_components is 6 but the matrix is 8 x 5: choose 1 to 5"),
        (
            lambda: with_contexts(LSA(2).fit(X), np.ones((8, 2), np.float32)),
            "8 rows and 5 columns: vectors of contexts are added where both are the same",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


N_DOCUMENTS, N_WORDS, N_TOPICS = 90, 60, 3


@pytest.fixture(scope="module")
def planted():
    """Return counts of documents with a topic each, every topic with a third of the words, and the topics."""
    rng = np.random.default_rng(0)
    topics = rng.integers(N_TOPICS, size=N_DOCUMENTS)
    rates = np.full((N_DOCUMENTS, N_WORDS), 0.02)
    for row, topic in enumerate(topics):
        rates[row, 20 * topic : 20 * topic + 20] = 1.5
    counts = rng.poisson(rates).astype(np.int32)
    counts[7] = 0
    return sp.csr_array(counts), topics


def blocks(counts, *sizes):
    ends = np.cumsum((0, *sizes))
    return da.concatenate([row_blocks(counts[a:b]) for a, b in pairwise(ends)])


def test_planted_topics_are_found(planted):
    counts, topics = planted
    found = online_lda(blocks(counts, 40, 50), N_TOPICS, n_passes=30)
    shares = found.shares.compute()
    assert np.isnan(shares[7]).all()
    known = np.delete(np.arange(N_DOCUMENTS), 7)
    np.testing.assert_allclose(shares[known].sum(axis=1), 1, atol=1e-5)
    assert len({(topics[row], int(shares[row].argmax())) for row in known}) == N_TOPICS
    assert np.all(np.diff(found.likelihood)[:-1] > 0)
    assert len(found.likelihood) < 30


def test_the_topics_are_those_of_scikit_learn(planted):
    counts = planted[0]
    mine = online_lda(blocks(counts.astype(np.float32), 40, 50), N_TOPICS, n_passes=2, tol=0)
    model = lda._model(np.random.RandomState(0).gamma(100.0, 0.01, (N_TOPICS, N_WORDS)), N_DOCUMENTS)
    model.n_batch_iter_ = 1
    for number in range(2):
        model.random_state_ = np.random.RandomState([0, number])
        for part in (counts[:40], counts[40:]):
            model.partial_fit(part)
    np.testing.assert_allclose(mine.word_weights.T, model.components_, rtol=1e-5)
    known = np.delete(np.arange(N_DOCUMENTS), 7)
    np.testing.assert_allclose(mine.shares.compute()[known], model.transform(counts)[known], atol=1e-5)
    assert mine.likelihood[-1] == pytest.approx(-np.log(model.perplexity(counts[:40], sub_sampling=True)))


def test_too_few_documents_are_refused(planted):
    with pytest.raises(ValueError, match="there are 5 documents: choose n_topics of at most 5"):
        online_lda(blocks(planted[0][:5], 5), 6)
