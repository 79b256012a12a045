"""Lifted functions: the same bits for arrays in memory and in any blocks, in one task for each row block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from dask.callbacks import Callback
from dask.utils import key_split

from distembed.execution import compute
from distembed.lift import Sum, block, first_rows, fold, lift, part, temporaries_of, total, total_of_part
from distembed.linalg.operators import row_blocks

ROWS = np.random.default_rng(0).normal(size=(103, 6)).astype(np.float32)
CUTS = [(103,), (52, 51), (50, 1, 52), tuple([6] * 17 + [1])]
"""One block, two, ragged ones with one of a single row, and many."""


@block(temporaries=1)
def _scaled(rows: Any, weights: Any, *, by: float) -> Any:
    return rows * weights[:, None] * by


def _squares(rows: Any) -> Any:
    return np.square(rows.astype(np.float64)).sum(axis=0)


class _Step(NamedTuple):
    rows: Any
    sums: Any


def _step(rows: Any, small: Any) -> _Step:
    made = rows @ small
    return _Step(made, _squares(made))


@contextmanager
def counted_tasks() -> Iterator[Counter[str]]:
    """Yield how many tasks of each name ran in the block."""
    seen: Counter[str] = Counter()
    with Callback(pretask=lambda key, *_: seen.update([key_split(key)])), dask.config.set(scheduler="sync"):
        yield seen


@pytest.mark.parametrize("cut", CUTS)
def test_blocks_give_what_the_whole_gives(cut):
    weights = np.arange(103.0, dtype=np.float32)
    lazy = da.from_array(ROWS, chunks=(cut, -1))
    whole = lift(_scaled, "wc,w->wc", ROWS, weights, by=2.0)
    found = lift(_scaled, "wc,w->wc", lazy, weights, by=2.0)
    assert found.chunks == (cut, (6,))
    assert np.array_equal(compute(found), whole)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("sparse", [False, True])
def test_an_axis_that_the_result_lacks_is_given_whole_or_as_a_list(cut, sparse):
    left = sp.random_array((40, 103), density=0.2, format="csr", dtype=np.float32, rng=1)
    lazy, given = (
        da.from_array(ROWS, chunks=(cut, -1)),
        row_blocks(left, values_per_block=300) if sparse else left,
    )
    joined = lift(lambda block, rows: block @ rows, "vw,wc->vc", given, lazy)
    listed = lift(lambda block, rows: block @ np.concatenate(rows), "vw,Wc->vc", given, lazy)
    expected = left @ ROWS
    assert np.array_equal(compute(joined), expected)
    assert np.array_equal(compute(listed), expected)
    assert np.array_equal(
        lift(lambda block, rows: block @ np.concatenate(rows), "vw,Wc->vc", left, ROWS), expected
    )


@pytest.mark.parametrize("n_blocks", [1, 2, 8, 9, 70])
def test_a_sum_is_that_of_dask_s_tree(n_blocks):
    rows = np.random.default_rng(1).normal(size=(n_blocks * 3, 5)).astype(np.float32)
    lazy = da.from_array(rows, chunks=(3, -1))
    stacked = lazy.map_blocks(
        lambda block: _squares(block)[None], chunks=((1,) * n_blocks, (5,)), dtype=np.float64
    )
    assert np.array_equal(
        compute(fold(total(_squares), "wc", lazy, shape=(5,))),
        compute(da.reduction(stacked, da.chunk.sum, da.chunk.sum, axis=0, split_every=8, dtype=np.float64)),
    )
    assert np.array_equal(fold(total(_squares), "wc", rows, shape=(5,)), _squares(rows))


def test_a_row_of_sums_may_combine_and_finalize_otherwise():
    largest = Sum(
        lambda rows: rows.max(axis=0),
        lambda found: np.max(found, axis=0),
        lambda found: found.max(keepdims=True),
    )
    lazy = da.from_array(ROWS, chunks=(10, -1))
    assert compute(fold(largest, "wc", lazy, shape=(1,), dtype=np.float32))[0] == ROWS.max()
    assert fold(largest, "wc", ROWS, shape=(1,))[0] == ROWS.max()


def test_a_step_of_several_results_is_one_task_for_each_row_block():
    lazy, small = da.from_array(ROWS, chunks=(6, -1)).persist(), np.ones((6, 4), np.float32)
    step = lift(_step, "wc,cr->wr", lazy, small, dtype=object, sizes={"w": 1, "r": 1})
    with counted_tasks() as seen:
        sums = compute(total_of_part(step, "sums", shape=(4,)))
    assert seen["step"] == 18
    assert sum(seen.values()) - seen["sums-sum"] <= 18 + 2  # and the small matrix, and the end of the graph
    whole = lift(_step, "wc,cr->wr", ROWS, small)
    assert np.allclose(sums, whole.sums)
    made = part(step, "rows", lazy, columns=4)
    assert made.chunks == (lazy.chunks[0], (4,))
    assert np.allclose(compute(made), whole.rows)
    following = lift(lambda one: one.rows * 2, "wr->wr", step, sizes={"w": lazy.chunks[0], "r": 4})
    assert np.array_equal(compute(following), compute(made) * 2)


def test_a_chain_is_one_task_for_each_row_block():
    lazy = da.from_array(ROWS, chunks=(6, -1)).persist()
    weights = da.from_array(np.ones(103, np.float32), chunks=6).persist()
    twice = lift(_scaled, "wc,w->wc", lift(_scaled, "wc,w->wc", lazy, weights, by=2.0), weights, by=3.0)
    with counted_tasks() as seen:
        compute(fold(total(_squares), "wc", twice, shape=(6,)))
    assert (
        sum(n for name, n in seen.items() if name not in {"squares-sum", "finalize-hlgfinalizecompute"}) == 18
    )


def test_rows_know_their_numbers():
    def numbers(rows: Any, first: Any) -> Any:
        return rows[:, :1] * 0 + first[0] + np.arange(len(rows))[:, None]

    lazy = da.from_array(ROWS, chunks=(10, -1))
    expected = np.arange(103)[:, None]
    for rows in (lazy, ROWS):
        made = lift(numbers, "wc,w->wr", rows, first_rows(rows), sizes={"r": 1})
        assert np.array_equal(compute(made), expected)


def test_a_result_in_other_order_is_made_contiguous():
    assert lift(np.transpose, "ab->ba", ROWS).flags.c_contiguous


def test_what_a_function_declares_is_found_behind_a_partial():
    assert temporaries_of(partial(partial(_scaled, by=2))) == 1
    with pytest.raises(AttributeError):
        temporaries_of(_squares)


def test_where_arrays_are_cut_differently_the_first_decides():
    rows = da.from_array(ROWS, chunks=(50, -1))
    made = lift(lambda block, first: block + first, "wc,w->wc", rows, first_rows(rows))
    assert made.chunks == rows.chunks
    np.testing.assert_array_equal(compute(made), ROWS + np.repeat([0, 50, 100], [50, 50, 3])[:, None])


def test_options_may_have_the_names_of_those_of_dask():
    rows = da.from_array(ROWS, chunks=(50, -1))
    made = lift(lambda block, name, token: block * name + token, "wc->wc", rows, name=2, token=1)
    np.testing.assert_array_equal(compute(made), 2 * ROWS + 1)


def test_arrays_that_are_cut_differently_are_refused():
    one, other = (da.from_array(ROWS, chunks=(size, -1)) for size in (10, 20))
    with pytest.raises(
        ValueError, match="cut differently along the axis w: into 6 blocks of 20 and more, and into 11"
    ):
        lift(np.add, "wc,wc->wc", one, other)
