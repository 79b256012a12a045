"""Lifted functions: the same bits for arrays in memory and in any blocks, by few tasks whose names tell their steps."""

from __future__ import annotations

import operator
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

from distembed import LSA, NMF, PSDVec
from distembed.execution import compute, whole
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
    at_once = lift(_scaled, "wc,w->wc", ROWS, weights, by=2.0)
    found = lift(_scaled, "wc,w->wc", lazy, weights, by=2.0)
    assert found.chunks == (cut, (6,))
    assert np.array_equal(compute(found), at_once)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("sparse", [False, True])
def test_an_axis_that_the_result_lacks_is_given_whole_or_as_a_list(cut, sparse):
    left = sp.random_array((40, 103), density=0.2, format="csr", dtype=np.float32, rng=1)
    lazy, given = (
        da.from_array(ROWS, chunks=(cut, -1)),
        row_blocks(left, values_per_block=300) if sparse else left,
    )

    def times_list(block: Any, rows: Any) -> Any:
        return block @ np.concatenate(rows)

    assert np.array_equal(compute(lift(operator.matmul, "vw,wc->vc", given, lazy)), left @ ROWS)
    for blocks, rows in ((given, lazy), (left, ROWS)):
        assert np.array_equal(compute(lift(times_list, "vw,Wc->vc", blocks, rows)), left @ ROWS)


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
    largest = Sum(partial(np.max, axis=0), partial(np.max, axis=0), partial(np.max, keepdims=True))
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
    at_once = lift(_step, "wc,cr->wr", ROWS, small)
    assert np.allclose(sums, at_once.sums)
    made = part(step, "rows", lazy, columns=4)
    assert made.chunks == (lazy.chunks[0], (4,))
    assert np.allclose(compute(made), at_once.rows)
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


def test_where_arrays_are_cut_differently_the_first_decides_and_options_may_have_names_of_dask_s():
    rows = da.from_array(ROWS, chunks=(50, -1))
    named = lift(lambda block, name, token: block * name + token, "wc->wc", rows, name=2, token=1)
    np.testing.assert_array_equal(compute(named), 2 * ROWS + 1)
    made = lift(lambda block, first: block + first, "wc,w->wc", rows, first_rows(rows))
    assert made.chunks == rows.chunks
    np.testing.assert_array_equal(compute(made), ROWS + np.repeat([0, 50, 100], [50, 50, 3])[:, None])


def test_arrays_that_are_cut_differently_are_refused():
    one, other = (da.from_array(ROWS, chunks=(size, -1)) for size in (10, 20))
    with pytest.raises(
        ValueError, match="cut differently along the axis w: into 6 blocks of 20 and more, and into 11"
    ):
        lift(np.add, "wc,wc->wc", one, other)


# --- the names of tasks, which Dask's dashboard shows ---------------------------------------------------------------

FITS = {
    "LSA": lambda rows: LSA(12).fit_transform(rows),
    "PSDVec": lambda rows: (
        PSDVec(12, n_core=150, n_iter=1, first_passes=3).fit(rows, np.full(200, 401.0)).vectors_
    ),
    "NMF": lambda rows: NMF(12, max_iter=4, tol=0).fit(rows).word_factors_,
}


ANONYMOUS = {"call", "partial", "BlockFunction", "from-value", "lambda", "read", "number", "write_chunk"}
"""Names that say nothing of a step. Dask's own steps keep its names: "getitem", "concatenate", "rechunk-merge"."""


@pytest.mark.parametrize("kind", FITS)
def test_tasks_of_a_fit_are_named_after_their_steps(kind):
    counts = np.random.default_rng(1).poisson(2.0, (200, 200)).astype(np.float32)
    rows = da.from_array(counts, chunks=(40, -1)).map_blocks(
        sp.csr_array, meta=sp.csr_array((0, 0), dtype="f4")
    )
    with counted_tasks() as seen:
        compute(FITS[kind](rows))
    assert len(seen) > 5
    assert not {name for name in seen if name.startswith("_") or ANONYMOUS & {name}}


def _plus(block: Any, *, by: float) -> Any:
    return block + by


NAMED = {
    "lift": lambda x, by: lift(partial(_plus, by=by), "wc->wc", x),
    "option of lift": lambda x, by: lift(_plus, "wc->wc", x, by=by),
    "fold": lambda x, by: fold(total(_plus), "wc", x, shape=(2, 4), by=by),
    "whole": lambda _, by: whole(np.full(3, by)),
}


@pytest.mark.parametrize("kind", NAMED)
def test_equal_tasks_have_one_key_and_others_have_others(kind):
    make, x = NAMED[kind], da.ones((6, 4), chunks=(2, -1))
    one, same, other = make(x, 1.0), make(x, 1.0), make(x, 2.0)
    assert one.name == same.name
    assert one.name != other.name
    assert key_split(one.name) in ("plus", "plus-sum", "shared")
    found, wanted = dask.compute(one, other)
    assert np.array_equal(found, make(x, 1.0).compute())
    assert not np.array_equal(found, wanted)
