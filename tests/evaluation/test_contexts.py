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


def test_terms_sum_to_the_cosine() -> None:
    found = similarity_terms(FIRST, SECOND, CONTEXTS)
    expected = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(FIRST, SECOND, strict=True)]
    np.testing.assert_allclose(found.cosines, expected, rtol=1e-6)
    np.testing.assert_allclose(found.terms.sum(axis=1), expected, atol=1e-6)
    np.testing.assert_allclose(found.rest, 0, atol=1e-6)


def test_terms_are_products_of_the_root_of_the_fitted_association() -> None:
    """For words among the contexts: cells of the square root of V Vᵀ, by NumPy's own eigenvectors."""
    vectors = CONTEXTS.astype(np.float64)
    values, directions = np.linalg.eigh(vectors @ vectors.T)
    root = (directions * np.sqrt(np.maximum(values, 0))) @ directions.T
    lengths = np.linalg.norm(vectors, axis=1)
    found = similarity_terms(CONTEXTS[[3]], CONTEXTS[[8]], CONTEXTS)
    np.testing.assert_allclose(found.terms[0], root[3] * root[8] / lengths[3] / lengths[8], atol=1e-7)


def test_no_rotation_and_no_exchange_changes_a_term() -> None:
    turn = np.linalg.qr(RNG.normal(size=(7, 7)))[0]
    expected = similarity_terms(FIRST, SECOND, CONTEXTS).terms
    turned = similarity_terms(FIRST @ turn, SECOND @ turn, CONTEXTS @ turn).terms
    np.testing.assert_allclose(turned, expected, atol=1e-6)
    np.testing.assert_allclose(similarity_terms(SECOND, FIRST, CONTEXTS).terms, expected, atol=1e-15)


@pytest.mark.parametrize("rows", [60, 11, 1])
def test_dask_and_numpy_agree(rows: int) -> None:
    expected = similarity_terms(FIRST, SECOND, CONTEXTS)
    found = similarity_terms(FIRST, SECOND, da.from_array(CONTEXTS, (rows, -1)))
    np.testing.assert_allclose(found.terms, expected.terms, atol=1e-6)


def test_what_the_contexts_do_not_span_is_the_rest() -> None:
    flat = CONTEXTS * np.array([1, 1, 1, 1, 1, 0, 0], np.float32)
    found = similarity_terms(FIRST, SECOND, flat)
    np.testing.assert_allclose(found.terms.sum(axis=1) + found.rest, found.cosines)
    inside = (FIRST[:, :5] * SECOND[:, :5]).sum(axis=1)
    lengths = np.linalg.norm(FIRST, axis=1) * np.linalg.norm(SECOND, axis=1)
    np.testing.assert_allclose(found.terms.sum(axis=1), inside / lengths, atol=1e-6)


def test_planted_contexts_come_first() -> None:
    """Two words that share one context and differ in another: the first raises their cosine, the second lowers it."""
    words = ["shared", "disputed", *(f"other{i}" for i in range(5)), "a", "b"]
    vectors = np.vstack([np.eye(7), [[2, 1, 0.3, 0, 0, 0, 0], [2, -1, 0, 0.3, 0, 0, 0]]])
    found = de.explain_similarity(
        de.WordVectors(words, vectors),
        "a",
        "b",
        contexts=de.WordVectors(words[:7], vectors[:7]),
        n=1,
        n_lowering=1,
    )
    assert (found.raising[0].word, found.lowering[0].word) == ("shared", "disputed")
    parts = [
        *(t.term for t in found.raising + found.lowering),
        found.other_raising,
        found.other_lowering,
        found.rest,
    ]
    assert sum(parts) == pytest.approx(found.cosine)
    assert (found.n_contexts, found.n_half) == (7, 1)


def test_half_of_the_cosine_is_reached_by_the_fewest_largest_terms() -> None:
    """0.1 + 0.2 + 0.3 + 0.4 = 1: the two largest reach the half, all four the whole."""
    roots = np.sqrt([0.1, 0.2, 0.3, 0.4])
    vectors = de.WordVectors(["a", "b"], np.array([roots, roots * (1 + 1e-3)]))
    axes = de.WordVectors(["w", "x", "y", "z"], np.eye(4))
    found = de.explain_similarity(vectors, "a", "b", contexts=axes)
    assert [term.word for term in found.raising] == ["z", "y", "x", "w"]
    assert found.n_half == 2


@pytest.mark.parametrize(
    ("first", "second", "error", "message"),
    [
        ("a", "a", ValueError, "both words are 'a'"),
        ("a", "z", ValueError, "the vector of 'z' is zero"),
        ("a", "nothing", UnknownWordError, "'nothing' has no vector"),
    ],
)
def test_words_without_an_explanation(first: str, second: str, error: type[Exception], message: str) -> None:
    vectors = de.WordVectors(["a", "b", "z"], [[1, 0], [1, 1], [0, 0]])
    with pytest.raises(error, match=message):
        de.explain_similarity(vectors, first, second)
    with pytest.raises(ValueError, match="n is 0 and n_lowering is 3; give 1 or more, and 0 or more"):
        de.explain_similarity(vectors, "a", "b", n=0)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="with the components of the contexts"):
        similarity_terms(FIRST, SECOND, CONTEXTS[:, :3])
