"""The subword map equals a dense ridge regression, for any number of workers, and refuses what it cannot learn from."""

import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from distembed.factorization.subwords import SubwordMap
from tests.references import subwords as reference

STEMS = ["walk", "talk", "lauf", "größ", "日本", "unbe", "42", "a"]
ENDINGS = ["", "s", "ed", "ing", "en", "語", "👍🏽", "ness"]
WORDS = [stem + ending for stem in STEMS for ending in ENDINGS]
EXACT = {"tol": 1e-6, "regularization": 0.1}


def planted(d=5, seed=0, noise=0.1):
    """Return vectors of the words: a part for the stem, a part for the ending, and noise."""
    random = np.random.default_rng(seed)
    stems, endings = random.normal(size=(len(STEMS), d)), random.normal(size=(len(ENDINGS), d))
    rows = (stems[:, None] + endings[None]).reshape(len(WORDS), d)
    return (rows + noise * random.normal(size=rows.shape) + 1).astype(np.float32)


def learned_by_reference(words, vectors, weights, lam, min_n, max_n, min_words):
    """Return (rows, Z, m) of the plain regression on the n-grams of so many words or more."""
    sets = [set(reference.ngrams(word, min_n, max_n)) for word in words]
    rows = {one: None for word in words for one in reference.ngrams(word, min_n, max_n)}
    rows = {
        one: row for row, one in enumerate(one for one in rows if sum(one in s for s in sets) >= min_words)
    }
    A = reference.averaging(words, rows, min_n, max_n)
    return rows, *reference.ridge(A, vectors.astype(np.float64), weights, lam)


@pytest.mark.parametrize(("min_n", "max_n", "min_words"), [(3, 6, 2), (1, 2, 3), (2, 2, 1)])
def test_the_map_is_the_ridge_regression(min_n, max_n, min_words):
    vectors = planted()
    model = SubwordMap(min_n, max_n, min_words=min_words, **EXACT).fit(WORDS, vectors)
    rows, Z, mean = learned_by_reference(WORDS, vectors, np.ones(len(WORDS)), 0.1, min_n, max_n, min_words)
    assert model.ngrams_ == tuple(rows)
    assert model.converged_
    np.testing.assert_allclose(model.mean_, mean, rtol=1e-5)
    np.testing.assert_allclose(model.vectors_, Z, atol=2e-4)
    strings = ["walken", "unseen", "größs", ""]
    A = reference.averaging(strings, rows, min_n, max_n)
    np.testing.assert_allclose(model.transform(strings), mean + A @ Z, atol=2e-4)


def test_equal_bits_for_any_chunks():
    """40 columns are three blocks."""
    vectors = planted(d=40)
    expected = SubwordMap().fit(WORDS, vectors)
    model = SubwordMap().fit(WORDS, da.from_array(vectors, chunks=(9, 7)))
    assert isinstance(model.vectors_, da.Array)
    np.testing.assert_array_equal(model.table_.vectors, expected.vectors_)
    np.testing.assert_array_equal(model.transform(["new"]), expected.transform(["new"]))


def test_a_column_does_not_depend_on_those_beside_it():
    """A column that has reached a coarse tolerance stays as it is while others go on."""
    random, vectors = np.random.default_rng(0), planted(d=16)
    vectors[:, 1:] = random.normal(size=(len(WORDS), 15))
    options = {"tol": 0.03, "regularization": 1e-3}
    together = SubwordMap(**options).fit(WORDS, vectors).vectors_
    alone = SubwordMap(**options).fit(WORDS, vectors[:, :1]).vectors_
    np.testing.assert_allclose(together[:, :1], alone, rtol=1e-5, atol=1e-7)


def test_each_component_may_have_a_regularization_of_its_own():
    """40 columns are three blocks, of which the second has both."""
    vectors, options = planted(d=40), {"tol": 1e-6}
    both = SubwordMap(regularization=[0.02] * 24 + [0.5] * 16, **options).fit(WORDS, vectors)
    loose, stiff = (SubwordMap(regularization=one, **options).fit(WORDS, vectors) for one in (0.02, 0.5))
    np.testing.assert_allclose(both.vectors_[:, :24], loose.vectors_[:, :24], atol=1e-5)
    np.testing.assert_allclose(both.vectors_[:, 24:], stiff.vectors_[:, 24:], atol=1e-5)
    assert both.residuals_.max() <= 1e-6


def test_words_that_share_nothing_have_the_mean():
    model = SubwordMap().fit(["a", "b", "語"], np.eye(3))
    assert model.vectors_.shape == (0, 3)
    np.testing.assert_allclose(
        model.transform(["a", "日本語", "", "👍🏽"]), np.full((4, 3), 1 / 3), rtol=1e-6
    )
    assert model.table_.n_known(["日本語"]).tolist() == [0]


def test_a_long_word_and_equal_vectors():
    words = [*WORDS, "ab" * 5000]
    model = SubwordMap().fit(words, np.ones((len(words), 2)))
    np.testing.assert_array_equal(model.vectors_, 0)
    np.testing.assert_array_equal(model.transform(["b" * 10_000]), [[1, 1]])


def test_a_map_names_its_columns_and_options_that_are_set_after_a_fit_change_no_composed_vector():
    with pytest.raises(NotFittedError):
        SubwordMap().transform(["a"])
    fitted = SubwordMap(2, 5, min_words=3, regularization=0.5).fit(WORDS, planted())
    assert fitted.get_feature_names_out().tolist() == [f"subwordmap{i}" for i in range(5)]
    before = fitted.transform(["walken"])
    fitted.set_params(min_n=1, max_n=4)  # the vectors of some n-grams are none of others
    np.testing.assert_array_equal(fitted.transform(["walken"]), before)


def test_too_few_steps_are_a_fact_and_a_warning():
    with pytest.warns(RuntimeWarning, match="raise max_iter"):
        model = SubwordMap(max_iter=1, tol=1e-9).fit(WORDS, planted())
    assert not model.converged_
    assert model.residuals_.shape == (5,)


@pytest.mark.parametrize(
    ("words", "vectors", "options", "message"),
    [
        (["a", "b", "a"], np.eye(3), {}, "'a' stands at places 0 and 2"),
        (["a", "b"], np.eye(3), {}, "2 words and 3 vectors"),
        (["a", "b", "c"], np.full((3, 3), np.nan), {}, "NaN"),
        (["a", 1], np.eye(2), {}, "holds 1 at place 1"),
        (WORDS, planted(), {"min_n": 4, "max_n": 3}, "min_n is 4 and max_n is 3"),
        (WORDS, planted(), {"regularization": 0.0}, "regularization is 0.0"),
        (WORDS, planted(), {"regularization": [0.1, 0.1, 0.1]}, "regularization has 3 values for vectors of"),
        (WORDS, planted(), {"regularization": [0.1, -1.0]}, "regularization"),
        (WORDS, planted(), {"tol": 0.0}, "tol is 0.0"),
    ],
)
def test_what_cannot_be_learned_is_refused(words, vectors, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SubwordMap(**options).fit(words, vectors)
