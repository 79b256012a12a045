"""Vectors after the counts changed: rounds from given vectors, and new words beside old ones that stay."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import objective_of, pairs_between
from distembed.factorization.psdvec_update import KnownVectors, completed_vectors
from distembed.linalg.operators import row_blocks

N, K = 60, 5
OPTIONS = {"n_components": K, "solver": "dense", "smoothing": 0.1}


def counts_of(seed: int, scale: float = 20.0) -> csr_array:
    """Return counts with a structure of rank K, rows and columns in falling order of frequency."""
    draw = np.random.default_rng(0)
    places, weights = draw.standard_normal((N, K)), 1 / np.arange(1, N + 1)
    expected = scale * np.exp(places @ places.T / 3) * np.sqrt(np.outer(weights, weights))
    return csr_array(np.random.default_rng(seed).poisson(expected))


def blocks_of(counts: csr_array) -> da.Array:
    return row_blocks(counts, values_per_block=400)


def totals_of(counts: csr_array) -> tuple[np.ndarray, np.ndarray]:
    rows = np.asarray(counts.sum(axis=1), float)
    return rows + 1, rows


def test_rounds_from_given_vectors_lower_the_objective_and_stop() -> None:
    before, after = counts_of(1), counts_of(1) + counts_of(2, scale=2.0)
    word_counts, totals = totals_of(after)
    first = PSDVec(**OPTIONS).fit_core(before, *totals_of(before))
    start = np.asarray(first.core_vectors_)
    warm = PSDVec(**OPTIONS, n_iter=30).fit_core(after, word_counts, totals, start=start)
    fresh = PSDVec(**OPTIONS).fit_core(after, word_counts, totals)
    falls = -np.diff(warm.objective_)
    assert (falls > 0).all()
    assert falls[-1] <= 1e-4 * warm.objective_[-1] or len(warm.objective_) == 31
    assert (falls[:-1] > 1e-4 * warm.objective_[1:-1]).all()
    assert warm.objective_[-1] <= fresh.objective_[-1] * (1 + 1e-4)
    assert len(warm.objective_) > 2


def test_the_objective_of_given_vectors_is_that_of_the_fit() -> None:
    counts = counts_of(3)
    word_counts, totals = totals_of(counts)
    model = PSDVec(**OPTIONS).fit_core(counts, word_counts, totals)
    vectors = da.asarray(model.core_vectors_)
    found, weighting = objective_of(blocks_of(counts), word_counts, totals, vectors, PSDVec(**OPTIONS))
    assert found == pytest.approx(model.objective_[-1], rel=1e-5)
    assert weighting.scale == model.weight_scale_


def test_a_start_of_another_shape_is_refused() -> None:
    counts = counts_of(3)
    with pytest.raises(ValueError, match="one row of 5 numbers for each of the 60 words"):
        PSDVec(**OPTIONS).fit_core(counts, *totals_of(counts), start=np.zeros((N, K + 1), np.float32))


def known_but(new: list[int], vectors: np.ndarray) -> KnownVectors:
    is_known = np.ones(N, bool)
    is_known[new] = False
    return KnownVectors(np.where(is_known[:, None], vectors, 0).astype(np.float32), is_known, is_known)


@pytest.mark.parametrize("new", [[50, 57], [0, 31, 59]])
def test_new_words_anywhere_are_solved_as_transform_solves_them(new: list[int]) -> None:
    counts = counts_of(4)
    word_counts, totals = totals_of(counts)
    vectors = np.random.default_rng(5).standard_normal((N, K))
    learned = {"noncore_cutoff": np.inf, "noncore_scale": 3.0}
    known = known_but(new, vectors)
    found = completed_vectors(
        PSDVec(**OPTIONS), blocks_of(counts), word_counts, totals, known, learned=learned
    )
    old = np.flatnonzero(known.is_known)
    np.testing.assert_array_equal(found[old], known.vectors[old])
    model = PSDVec(**OPTIONS).set_core(
        known.vectors[old], word_counts[old], totals[old], **learned, total_count=word_counts.sum()
    )
    dense = counts.toarray()
    expected = model.transform(
        dense[np.ix_(new, old)], dense[np.ix_(old, new)], word_counts[new], new_row_totals=totals[new]
    )
    np.testing.assert_allclose(found[new], expected, atol=1e-5)


def test_a_new_word_has_the_same_vector_alone_and_among_others() -> None:
    counts = counts_of(6)
    word_counts, totals = totals_of(counts)
    vectors = np.random.default_rng(7).standard_normal((N, K)).astype(np.float32)
    core = np.arange(40)
    model = PSDVec(**OPTIONS).set_core(
        vectors[core], word_counts[core], totals[core],
        noncore_cutoff=np.inf, noncore_scale=4.0, total_count=word_counts.sum(),
    )  # fmt: skip
    dense = counts.toarray()

    def solved(words: list[int]) -> np.ndarray:
        pairs = dense[np.ix_(words, core)], dense[np.ix_(core, words)]
        return np.asarray(model.transform(*pairs, word_counts[words], new_row_totals=totals[words]))

    together = solved(list(range(40, N)))
    alone = np.concatenate([solved([word]) for word in range(40, N)])
    np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)


def test_no_known_word_is_refused() -> None:
    counts = counts_of(3)
    known = KnownVectors(np.zeros((N, K), np.float32), np.zeros(N, bool), np.zeros(N, bool))
    with pytest.raises(ValueError, match="solve them from scratch"):
        completed_vectors(PSDVec(**OPTIONS), blocks_of(counts), *totals_of(counts), known)


def test_pairs_between_are_rows_and_columns() -> None:
    counts = counts_of(8)
    rows, columns = np.array([1, 2, 30, 59]), np.array([0, 7, 58])
    found = pairs_between(blocks_of(counts), rows, columns).compute()
    np.testing.assert_array_equal(found.toarray(), counts.toarray()[np.ix_(rows, columns)])
