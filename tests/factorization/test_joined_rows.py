"""Joined rows are the weighted directions of their views, for any row blocks and workers, and so are their cosines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.factorization import joined_vectors
from distembed.factorization.joined_vectors import principal_axes, view_mean
from distembed.linalg.operators import times_matrix
from tests.references import joining as reference

WIDTHS = (5, 3, 4)


def views_of(n=40, seed=0, widths=WIDTHS, missing=True):
    """Return views that agree in part, of which each lacks other rows."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(n, 4))
    views = [
        (hidden @ random.normal(size=(4, d)) + random.normal(size=(n, d)) + 3).astype(np.float32)
        for d in widths
    ]
    if missing:
        for number, view in enumerate(views):
            view[number :: 7 + number] = 0
    return views


def joined_rows(views, weights, means=None):
    whole = [view.rechunk({1: -1}) if isinstance(view, da.Array) else view for view in views]
    return joined_vectors.joined_rows(views, weights, means or [view_mean(view) for view in whole])


def in_blocks(views, rows):
    return [da.from_array(view, chunks=(rows, -1)) for view in views]


def plain(views, weights):
    """Return the joined rows by the reference."""
    named = [dict(enumerate(view)) for view in views]
    return np.array([*reference.join(named, weights, range(len(views[0]))).values()])


SIZES: Any = st.integers(2, 12)
WEIGHTS: Any = st.floats(0.01, 100)


@given(data=st.data(), n=SIZES, rows=SIZES, n_views=st.integers(2, 4))
@settings(deadline=None, max_examples=60)
def test_the_rows_are_those_of_the_reference(data, n, rows, n_views):
    """Small whole numbers make rows that are zero, equal to the mean, or equal to each other."""
    weights = [data.draw(WEIGHTS) for _ in range(n_views)]
    small = st.integers(-2, 2)
    views = [
        np.array(data.draw(st.lists(st.lists(small, min_size=d, max_size=d), min_size=n, max_size=n)), float)
        for d in range(2, 2 + n_views)
    ]
    joined = joined_rows(in_blocks(views, rows), weights)
    assert joined.dtype == np.float32
    np.testing.assert_allclose(joined.compute(), plain(views, weights), rtol=1e-6, atol=1e-6)


def test_a_view_that_lacks_a_word_leaves_its_part_zero_and_the_mean_of_the_others_as_it_is():
    views = views_of()
    joined = joined_rows(in_blocks(views, 11), (1, 0.5, 2)).compute()
    lacking = ~views[1].any(axis=1)
    assert lacking.any()
    assert not joined[lacking, 5:8].any()
    np.testing.assert_allclose(np.linalg.norm(joined[:, 5:8], axis=1), 0.5 * ~lacking, atol=1e-6)
    mean = view_mean(da.from_array(views[1], chunks=(9, -1))).compute()
    np.testing.assert_allclose(mean, views[1][~lacking].mean(axis=0), rtol=1e-6)


def test_views_in_other_blocks_and_in_memory_are_joined_in_the_blocks_of_the_first():
    views = views_of()
    mixed = [da.from_array(views[0], chunks=(13, 2)), da.from_array(views[1], chunks=(7, -1)), views[2]]
    joined = joined_rows(mixed, (1, 2, 3))
    assert joined.chunks == ((13, 13, 13, 1), (12,))
    np.testing.assert_allclose(joined.compute(), joined_rows(views, (1, 2, 3)).compute(), atol=1e-6)


def test_one_thread_and_threads_and_processes_give_equal_bits(cluster):
    def bits():
        parts = in_blocks(views_of(n=200), 23)
        joined = joined_rows(parts, (1, 0.5, 2))
        axes = principal_axes(joined, 4)
        found = [joined.compute(), axes, times_matrix(joined, axes).compute()]
        return [each.tobytes() for each in found]

    with dask.config.set(scheduler="synchronous"):
        one = bits()
    assert bits() == one
    with Client(cluster):
        assert bits() == one


def test_rows_that_are_all_equal_have_no_direction():
    """The mean of three rows of .1 is no .1: what is left is rounding."""
    equal = np.full((3, 2), 0.1)
    assert equal.mean(axis=0)[0] != 0.1
    other = np.array([[1.0, 2], [3, 4], [5, 7]])
    assert not joined_rows([equal, other], (1, 1)).compute()[:, :2].any()


def test_new_rows_are_joined_by_the_means_of_earlier_ones():
    views = views_of()
    means = [view_mean(part).compute() for part in in_blocks(views, 11)]
    joined = joined_rows([view[:5] for view in views], (1, 2, 3), means=means).compute()
    np.testing.assert_array_equal(joined, joined_rows(in_blocks(views, 11), (1, 2, 3)).compute()[:5])


def test_nothing_is_read_before_it_is_asked_for():
    def read():
        raise AssertionError("a block was read")

    lazy = [da.from_delayed(dask.delayed(read)(), (8, d), np.float32) for d in WIDTHS]
    assert joined_rows(lazy, (1, 1, 1)).shape == (8, 12)


# --- fewer components


def test_all_axes_keep_every_inner_product_and_have_the_sign_of_their_cubes():
    joined = joined_rows(in_blocks(views_of(), 11), (1, 0.5, 2))
    axes = principal_axes(joined, 12)
    assert ((axes**3).sum(axis=0) > 0).all()
    rows, full = times_matrix(joined, axes).compute(), joined.compute()
    np.testing.assert_allclose(rows @ rows.T, full @ full.T, atol=1e-5)


@pytest.mark.parametrize("n_components", [0, 13, -1])
def test_more_components_than_there_are_are_refused(n_components):
    joined = joined_rows(views_of(), (1, 1, 1))
    with pytest.raises(ValueError, match=f"n_components is {n_components}, .* 40 x 12: give 1 to 12"):
        principal_axes(joined, n_components)


# --- costs


LARGER = """
import resource
from concurrent.futures import ThreadPoolExecutor
import dask
import dask.array as da
import numpy as np
from distembed.execution import compute
from distembed.lift import lift
from distembed.factorization.joined_vectors import joined_rows, principal_axes, view_mean
from distembed.linalg.operators import times_matrix

ROWS, BLOCK, WIDTHS, LIMIT = 400_000, 5_000, (48, 24), 48 * 2**20

def read(first, width):
    return np.random.default_rng(first[0] + width).random((BLOCK, width), np.float32)

def views(rows):
    chunks = (BLOCK,) * (rows // BLOCK)
    first = da.from_array(np.arange(0, rows, BLOCK), chunks=1)
    return [lift(read, "w->wc", first, sizes={"w": chunks, "c": width}, width=width) for width in WIDTHS]

def join(rows, name):
    parts = views(rows)
    means = [compute(view_mean(part)) for part in parts]
    joined = joined_rows(parts, (1, 0.5), means)
    projected = times_matrix(joined, principal_axes(joined, 8))
    da.store([projected], [np.memmap(name, np.float32, "w+", shape=projected.shape)], lock=False)

with dask.config.set(scheduler="threads", pool=ThreadPoolExecutor(2)):
    join(2 * BLOCK, "small")
    used = 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1])
    resource.setrlimit(resource.RLIMIT_DATA, (used + LIMIT, -1))
    join(ROWS, "rows")
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the memory in use is read from Linux's /proc"
)
def test_views_larger_than_the_memory_are_joined(tmp_path):
    """A process that may take 48 MiB more joins views of 110 MiB to 12 MiB of principal components, row by row."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", LARGER],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = np.memmap(tmp_path / "rows", np.float32, "r", shape=(400_000, 8))
    assert rows.any(axis=1).all()
