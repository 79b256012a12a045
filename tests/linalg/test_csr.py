"""Block functions of CSR matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from distembed.linalg.blocks import directions
from distembed.linalg.csr import canonical_csr, row_lengths, row_range, rows_of, unit_rows


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-560, 2.0**-360, 2.0**600, 2.0**1000])
def test_rows_whose_squares_underflow_or_overflow_have_a_direction(scale):
    X = np.array([[3.0, 4.0], [0, 0], [1, -7]])
    mixed, expected = X * np.array([[scale], [1], [1]]), unit_rows(X)
    np.testing.assert_allclose(unit_rows(mixed), expected, rtol=1e-15)
    np.testing.assert_allclose(unit_rows(sp.csr_array(mixed)).toarray(), expected, rtol=1e-15)
    np.testing.assert_allclose(directions(mixed), expected, rtol=1e-15)
    assert mixed[0, 0] == 3 * scale


def test_unit_rows_leave_their_argument_alone():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(unit_rows(X), [[0.6, 0.8], [0, 0]])
    np.testing.assert_allclose(unit_rows(sp.csr_array(X)).toarray(), [[0.6, 0.8], [0, 0]])
    assert X[0, 0] == 3.0


def test_unsorted_duplicated_and_zero_cells_are_made_canonical_without_touching_the_input():
    block = sp.csr_array(
        (np.array([1.0, 2, 0, 3]), np.array([2, 2, 0, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    clean = canonical_csr(block)
    np.testing.assert_array_equal(clean.toarray(), [[0, 0, 3], [0, 3, 0]])
    assert (clean.nnz, block.nnz) == (2, 4)


def test_canonical_blocks_have_the_dtype_asked_for():
    block = sp.csr_array(np.eye(3))
    assert canonical_csr(block) is block
    assert canonical_csr(block, np.float32).dtype == np.float32


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
