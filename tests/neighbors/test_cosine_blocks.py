"""Block functions of the sparse neighbor search against plain products."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.linalg.csr import unit_rows
from distembed.neighbors import cosine_blocks


def counts(n=40, m=60, seed=0, density=0.3, dtype=np.float32):
    """Return counts whose columns empty out as those of words do; no row of zeros."""
    rng = np.random.default_rng(seed)
    share = density / (1 + np.arange(m) / 8)
    values = rng.poisson(4, (n, m)) * (rng.random((n, m)) < share)
    values[np.arange(n), rng.integers(0, m, n)] += 1
    return sp.csr_array(values.astype(dtype))


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 30),
    m=st.integers(1, 700),
    seed=st.integers(0, 1000),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    dense_values=st.sampled_from([0, 20, 300, 10_000, 100_000]),
)
def test_approximate_cosines_stay_within_their_error(n, m, seed, density, dense_values):
    X = unit_rows(counts(n, m, seed, density))
    Z = unit_rows(counts(17, m, seed + 1, density))
    scores = cosine_blocks.approximate_cosines(X, Z, dense_values=dense_values)
    assert scores.dtype == np.float32
    error = np.abs(scores - X.toarray() @ Z.toarray().T).max()
    assert error <= cosine_blocks.cosine_error(m)


def test_columns_are_split_by_what_they_cost():
    X = counts(400, 300)
    place, n_dense, n_light = cosine_blocks.split_columns(X, X, 10**6)
    met = np.bincount(X.indices, minlength=300).astype(float) ** 2
    assert 0 < n_dense < 300
    assert met[place >= 0].min() > cosine_blocks.DENSE_SHARE * 400**2 >= met[place < 0].max()
    assert sorted(place[place >= 0]) == list(range(n_dense))
    assert sorted(-1 - place[place < 0]) == list(range(n_light))
    place, n_dense, _ = cosine_blocks.split_columns(X, X, 9 * 800)
    assert 0 < n_dense <= 9
    assert met[place >= 0].min() > met[place < 0].max()


def test_distances_have_the_same_bits_both_ways():
    X = unit_rows(counts(60, 200, density=0.9))
    D = cosine_blocks.all_distances(X, X)
    np.testing.assert_array_equal(D, D.T)
    rows = X.toarray()
    np.testing.assert_allclose(D, 1 - rows @ rows.T, atol=1e-14)
