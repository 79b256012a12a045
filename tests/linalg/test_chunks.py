"""Grids of blocks keep what they promise of rows and values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from distembed.linalg.chunks import balanced_rows, batches, evenly_spaced, row_bounds


@pytest.mark.parametrize("block_bytes", [1, 60, 1000, 10**9])
def test_rows_are_balanced_by_their_values(block_bytes):
    sizes = np.array([500, 200, 90, 0, 0, 10, 5, 1, 1, 1])
    chunks = balanced_rows(sizes, block_bytes)
    assert sum(chunks) == len(sizes)
    assert min(chunks) > 0
    bounds = np.cumsum((0, *chunks))
    largest = max(sizes[i:j].sum() for i, j in pairwise(bounds))
    assert largest <= max(sizes.max(), block_bytes)


def test_rows_without_any_value_are_one_block():
    assert balanced_rows(np.zeros(5, int), 100) == (5,)


@pytest.mark.parametrize("sizes", [[1], [5, 5, 5, 5, 5], [100, 1, 1, 1, 1, 1, 1], [0, 0, 0]])
def test_row_blocks_keep_both_limits(sizes):
    sizes = np.array(sizes)
    bounds = row_bounds(sizes, 2, 10)
    assert bounds[0] == 0
    assert bounds[-1] == len(sizes)
    for first, stop in pairwise(bounds):
        assert 1 <= stop - first <= 2
        assert sizes[first + 1 : stop].sum() <= 10


def test_a_limit_below_one_is_one():
    """A block memory of a few bytes divided by zero."""
    assert row_bounds(np.array([3, 3]), 0, 0) == row_bounds(np.array([3, 3]), 1, 1) == [0, 1, 2]


@pytest.mark.parametrize(
    ("n", "size", "expected"), [(0, 4, ()), (3, 4, (3,)), (8, 4, (4, 4)), (9, 4, (4, 4, 1))]
)
def test_batches_hold_every_row_once(n, size, expected):
    assert batches(n, size) == expected


@pytest.mark.parametrize(
    ("n", "limit", "chosen"), [(0, 3, []), (3, 5, [0, 1, 2]), (10, 4, [0, 3, 6, 9]), (5, 1, [0])]
)
def test_numbers_are_evenly_spaced_from_the_first_to_the_last(n, limit, chosen):
    assert evenly_spaced(n, limit).tolist() == chosen
