"""Block functions of CSR matrices."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from distembed.linalg.chunks import cut_rows, evenly_spaced
from distembed.linalg.csr import canonical_csr, unit_rows


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-560, 2.0**600, 2.0**1000])
def test_rows_whose_squares_underflow_or_overflow_have_a_direction(scale):
    X = np.array([[3.0, 4.0], [0, 0], [1, -7]])
    mixed, expected = X * np.array([[scale], [1], [1]]), unit_rows(X)
    np.testing.assert_allclose(expected[0], [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose(unit_rows(mixed), expected, rtol=1e-15)
    np.testing.assert_allclose(unit_rows(sp.csr_array(mixed)).toarray(), expected, rtol=1e-15)
    assert mixed[0, 0] == 3 * scale


def test_unsorted_duplicated_and_zero_cells_are_made_canonical_without_touching_the_input():
    block = sp.csr_array(
        (np.array([1.0, 2, 0, 3]), np.array([2, 2, 0, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    clean = canonical_csr(block)
    np.testing.assert_array_equal(clean.toarray(), [[0, 0, 3], [0, 3, 0]])
    assert (clean.nnz, block.nnz) == (2, 4)
    assert canonical_csr(clean) is clean
    assert canonical_csr(clean, np.float32).dtype == np.float32


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_has_no_direction(sparse, value):
    X = np.array([[3.0, 4.0], [value, 1.0], [0.0, 2.0]], np.float32)
    found = unit_rows(sp.csr_array(X) if sparse else X, dtype=np.float32)
    assert found.dtype == np.float32
    expected = np.array([[0.6, 0.8], [0, 0], [0, 1]], np.float32)
    np.testing.assert_array_equal(found.toarray() if sparse else found, expected)


# --- grids of blocks keep what they promise of rows and values ----------------------------------------------


@given(
    st.lists(st.integers(0, 30) | st.integers(0, 900), max_size=40),
    st.integers(0, 1000),
    st.none() | st.integers(0, 9),
)
def test_blocks_of_rows_keep_to_their_values_and_their_rows_and_none_is_empty(sizes, values, rows):
    """A row of more values than a block may hold begins one; a block memory of a few bytes divided by zero."""
    sizes, most = np.array(sizes, int), 2 * max(values, 1) if rows is None else max(values, 1)
    bounds = np.cumsum([0, *cut_rows(sizes, values, rows)])
    assert bounds[-1] == len(sizes)
    for first, stop in pairwise(bounds):
        assert 1 <= stop - first <= (max(rows, 1) if rows is not None else len(sizes))
        assert sizes[first + 1 : stop].sum() <= most


def test_rows_without_values_are_one_block_where_none_is_limited():
    assert cut_rows(np.zeros(5, int), 100) == (5,)


@pytest.mark.parametrize(
    ("n", "limit", "chosen"), [(0, 3, []), (3, 5, [0, 1, 2]), (10, 4, [0, 3, 6, 9]), (5, 1, [0])]
)
def test_numbers_are_evenly_spaced_from_the_first_to_the_last(n, limit, chosen):
    assert evenly_spaced(n, limit).tolist() == chosen
