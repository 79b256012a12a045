"""The cosine of two words as a sum over contexts: exact, symmetric, free of rotation, and the same for every kind."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import distembed as de
from distembed.evaluation.contexts import similarity_terms
from distembed.vectors import UnknownWordError

RNG = np.random.default_rng(5)
CONTEXTS = RNG.normal(size=(60, 7)).astype(np.float32)
FIRST, SECOND = RNG.normal(size=(2, 4, 7)).astype(np.float32)


@pytest.mark.parametrize("n_spanned", [7, 5])
def test_terms_and_what_the_contexts_do_not_span_sum_to_the_cosine(n_spanned):
    found = similarity_terms(FIRST, SECOND, CONTEXTS * (np.arange(7) < n_spanned))
    lengths = np.linalg.norm(FIRST, axis=1) * np.linalg.norm(SECOND, axis=1)
    products = FIRST * SECOND
    np.testing.assert_allclose(found.cosines, products.sum(axis=1) / lengths, rtol=1e-6)
    terms = found.terms.sum(axis=1)
    np.testing.assert_allclose(terms, products[:, :n_spanned].sum(axis=1) / lengths, atol=1e-6)
    np.testing.assert_allclose(terms + found.rest, found.cosines, atol=1e-6)


def test_terms_are_products_of_the_root_of_the_fitted_association():
    """For words among the contexts: cells of the square root of V Vᵀ, by NumPy's own eigenvectors."""
    vectors = CONTEXTS.astype(np.float64)
    values, directions = np.linalg.eigh(vectors @ vectors.T)
    root = (directions * np.sqrt(np.maximum(values, 0))) @ directions.T
    lengths = np.linalg.norm(vectors, axis=1)
    found = similarity_terms(CONTEXTS[[3]], CONTEXTS[[8]], CONTEXTS)
    np.testing.assert_allclose(found.terms[0], root[3] * root[8] / lengths[3] / lengths[8], atol=1e-7)


def test_no_rotation_no_exchange_and_no_blocks_change_a_term():
    turn = np.linalg.qr(RNG.normal(size=(7, 7)))[0]
    expected = similarity_terms(FIRST, SECOND, CONTEXTS).terms
    for given in (
        (FIRST @ turn, SECOND @ turn, CONTEXTS @ turn),
        (SECOND, FIRST, CONTEXTS),
        *((FIRST, SECOND, da.from_array(CONTEXTS, (rows, -1))) for rows in (60, 11, 1)),
    ):
        np.testing.assert_allclose(similarity_terms(*given).terms, expected, atol=1e-6)


def test_planted_contexts_come_first():
    """Two words that share one context and differ in another: the first raises their cosine, the second lowers it."""
    words = ["shared", "disputed", *(f"other{i}" for i in range(5)), "a", "b"]
    rows = np.vstack([np.eye(7), [[2, 1, 0.3, 0, 0, 0, 0], [2, -1, 0, 0.3, 0, 0, 0]]])
    vectors, contexts = de.WordVectors(words, rows), de.WordVectors(words[:7], rows[:7])
    found = de.explain_similarity(vectors, "a", "b", contexts=contexts, n=1, n_lowering=1)
    (raising,), (lowering,) = found.raising, found.lowering
    assert (raising.word, lowering.word) == ("shared", "disputed")
    parts = raising.term + lowering.term + found.other_raising + found.other_lowering + found.rest
    assert parts == pytest.approx(found.cosine)
    assert (found.n_contexts, found.n_half) == (7, 1)


def test_half_of_the_cosine_is_reached_by_the_fewest_largest_terms():
    """0.1 + 0.2 + 0.3 + 0.4 = 1: the two largest reach the half, all four the whole."""
    roots = np.sqrt([0.1, 0.2, 0.3, 0.4])
    vectors = de.WordVectors(["a", "b"], np.array([roots, roots * (1 + 1e-3)]))
    axes = de.WordVectors(["w", "x", "y", "z"], np.eye(4))
    found = de.explain_similarity(vectors, "a", "b", contexts=axes)
    assert [term.word for term in found.raising] == ["z", "y", "x", "w"]
    assert found.n_half == 2


@pytest.mark.parametrize(
    ("words", "options", "error", "message"),
    [
        ("aa", {}, ValueError, "both words are 'a'"),
        ("az", {}, ValueError, "the vector of 'z' is zero"),
        ("ax", {}, UnknownWordError, "'x' has no vector"),
        ("ab", {"n_lowering": -1}, ValueError, "and n_lowering is -1; give 1 or more, and 0 or more"),
        ("ab", {"n": 0}, ValueError, "n is 0 and n_lowering is 3; give 1 or more, and 0 or more"),
    ],
)
def test_words_without_an_explanation(words, options, error, message):
    vectors = de.WordVectors(["a", "b", "z"], [[1, 0], [1, 1], [0, 0]])
    with pytest.raises(error, match=message):
        de.explain_similarity(vectors, *words, **options)


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match="with the components of the contexts"):
        similarity_terms(FIRST, SECOND, CONTEXTS[:, :3])
