"""Block functions of CSR matrices."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from distembed.linalg.chunks import cut_rows, evenly_spaced
from distembed.linalg.csr import canonical_csr, row_lengths, row_range, rows_of, unit_rows


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


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_a_matrix_of_any_kind_becomes_a_csr_array(kind):
    values = np.array([[0.0, 2.0], [3.0, 0.0]])
    clean = canonical_csr(kind(values))
    assert isinstance(clean, sp.csr_array)
    np.testing.assert_array_equal(clean.toarray(), values)


def test_ranges_share_values_and_lengths_count_them():
    block = sp.csr_array(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]]))
    assert np.shares_memory(row_range(block, 1, 3).data, block.data)
    np.testing.assert_array_equal(row_range(block, 1, 3).toarray(), block.toarray()[1:])
    np.testing.assert_array_equal(rows_of(block), [0, 0, 2])
    np.testing.assert_array_equal(row_lengths(block), [5, 0, 2])


# --- grids of blocks keep what they promise of rows and values ----------------------------------------------


@pytest.mark.parametrize("values", [1, 60, 1000, 10**9])
def test_rows_are_balanced_by_their_values(values):
    sizes = np.array([500, 200, 90, 0, 0, 10, 5, 1, 1, 1])
    chunks = cut_rows(sizes, values)
    assert sum(chunks) == len(sizes)
    assert min(chunks) > 0
    bounds = np.cumsum((0, *chunks))
    largest = max(sizes[i:j].sum() for i, j in pairwise(bounds))
    assert largest <= max(sizes.max(), 2 * values)


@pytest.mark.parametrize("sizes", [[1], [5, 5, 5, 5, 5], [100, 1, 1, 1, 1, 1, 1], [0, 0, 0]])
def test_row_blocks_keep_both_limits(sizes):
    sizes = np.array(sizes)
    bounds = np.cumsum([0, *cut_rows(sizes, 10, rows_per_block=2)])
    assert bounds[-1] == len(sizes)
    for first, stop in pairwise(bounds):
        assert 1 <= stop - first <= 2
        assert sizes[first + 1 : stop].sum() <= 10


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [([0] * 5, (100,), (5,)), ([], (100,), ()), ([3, 3], (0, 0), (1, 1)), ([3, 3], (1, 1), (1, 1))],
)
def test_rows_without_values_and_limits_below_one(sizes, limits, expected):
    """A block memory of a few bytes divided by zero."""
    assert cut_rows(np.array(sizes, int), *limits) == expected


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_has_no_direction(sparse, value):
    X = np.array([[3.0, 4.0], [value, 1.0], [0.0, 2.0]], np.float32)
    found = unit_rows(sp.csr_array(X) if sparse else X, dtype=np.float32)
    assert found.dtype == np.float32
    expected = np.array([[0.6, 0.8], [0, 0], [0, 1]], np.float32)
    np.testing.assert_array_equal(found.toarray() if sparse else found, expected)


@pytest.mark.parametrize(
    ("n", "limit", "chosen"), [(0, 3, []), (3, 5, [0, 1, 2]), (10, 4, [0, 3, 6, 9]), (5, 1, [0])]
)
def test_numbers_are_evenly_spaced_from_the_first_to_the_last(n, limit, chosen):
    assert evenly_spaced(n, limit).tolist() == chosen
