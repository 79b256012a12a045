"""HAL and entropy of columns against SciPy; bad input."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from distembed.linalg.operators import transpose_row_blocks
from distembed.weighting.documents import select_words
from distembed.weighting.spaces import (
    chosen_columns,
    column_entropies,
    directional_contexts,
    hal_space,
    highest_columns,
)


def blocks_of(dense, chunks):
    meta = sp.csr_array((0, 0), dtype=dense.dtype)
    return da.from_array(dense, chunks=(chunks, -1)).map_blocks(sp.csr_array, meta=meta)


def some_counts(n, m, seed=0):
    return np.random.default_rng(seed).poisson(0.6, size=(n, m)).astype(np.int32)


CHUNKS = [(12,), (6, 6), (5, 7), (1,) * 12]


@pytest.mark.parametrize("chunks", CHUNKS)
def test_halves_are_counts_and_their_transpose(chunks):
    counts = some_counts(12, 12)
    following = blocks_of(counts, chunks)
    space = hal_space(following, transpose_row_blocks(following))
    assert space.shape == (12, 24)
    assert space.dtype == np.int32
    assert np.array_equal(space.compute().toarray(), np.hstack([counts, counts.T]))


@pytest.mark.parametrize("chunks", CHUNKS)
def test_contexts_of_either_side_are_counts_and_their_transpose(chunks):
    counts = some_counts(12, 12)
    expected = np.hstack([counts, counts.T])
    lazy = directional_contexts(blocks_of(counts, chunks))
    assert (lazy.shape, lazy.dtype) == (expected.shape, np.int32)
    assert lazy.chunks == (chunks, (24,))
    for found in (lazy.compute(scheduler="sync"), directional_contexts(sp.coo_matrix(counts))):
        assert isinstance(found, sp.csr_array)
        assert found.has_canonical_format
        assert np.array_equal(found.toarray(), expected)


def test_contexts_are_lazy():
    def fail(block):
        raise AssertionError

    counts = blocks_of(some_counts(12, 12), (6, 6))
    directional_contexts(counts.map_blocks(fail, meta=counts._meta))


@pytest.mark.parametrize("shape", [(12, 24), (12, 0), (0, 0)])
def test_contexts_of_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=rf"{shape[0]} rows and {shape[1]} columns; give counts of words"):
        directional_contexts(sp.csr_array(shape))


@pytest.mark.parametrize("chunks", CHUNKS)
def test_entropies_equal_scipy(chunks):
    counts = some_counts(12, 9)
    counts[:, 3] = 0
    counts[:, 4] = [5] + [0] * 11
    ours = column_entropies(blocks_of(counts, chunks))
    used = counts.sum(axis=0) > 0
    np.testing.assert_allclose(ours[used], scipy.stats.entropy(counts[:, used], axis=0), atol=1e-12)
    assert ours[3] == ours[4] == 0


def test_choice_of_columns():
    counts = some_counts(12, 9)
    chosen = highest_columns(np.array([0.1, 0.5, 0.5, 0.3, 0.5]), 2)
    assert chosen.tolist() == [1, 2]
    lazy = select_words(blocks_of(counts, (5, 7)), chosen)
    assert lazy.shape == (12, 2)
    assert np.array_equal(lazy.compute().toarray(), counts[:, chosen])


def test_bad_input():
    square = blocks_of(some_counts(12, 12), (6, 6))
    with pytest.raises(ValueError, match="give counts and their transpose"):
        hal_space(square, square.rechunk((12, -1)))
    with pytest.raises(ValueError, match="Negative values in data: counts"):
        column_entropies(blocks_of(-some_counts(12, 3).astype(float), (12,)))
    with pytest.raises(ValueError, match="n_columns is 4 of 3 columns"):
        highest_columns(np.zeros(3), 4)


@pytest.mark.parametrize("chunks", CHUNKS)
def test_columns_are_chosen_by_entropy_and_word(chunks):
    counts = some_counts(12, 6)
    words = ["the", "sea", "of", "green", "ship", "sand"]
    lazy = chosen_columns(blocks_of(counts, chunks), words, without=ENGLISH_STOP_WORDS)
    assert np.array_equal(lazy.compute().toarray(), counts[:, [1, 3, 4, 5]])
    kept = np.sort(
        np.array([1, 3, 4, 5])[np.argsort(-column_entropies(blocks_of(counts, chunks))[[1, 3, 4, 5]])[:2]]
    )
    lazy = chosen_columns(blocks_of(counts, chunks), words, n_columns=2, without=ENGLISH_STOP_WORDS)
    assert np.array_equal(lazy.compute().toarray(), counts[:, kept])


def test_both_halves_lose_a_word():
    counts = some_counts(4, 8)
    lazy = chosen_columns(blocks_of(counts, (4,)), ["the", "sea", "of", "green"], without=ENGLISH_STOP_WORDS)
    assert np.array_equal(lazy.compute().toarray(), counts[:, [1, 3, 5, 7]])


def test_a_space_kept_whole_is_the_same_array():
    space = blocks_of(some_counts(4, 3), (4,))
    assert chosen_columns(space, ["a", "b", "c"]) is space
