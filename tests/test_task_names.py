"""The names of tasks, which Dask's dashboard shows: those of their steps, and different for different computations."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from dask.utils import key_split
from scipy.sparse import csr_array

from distembed import LSA, NMF, PSDVec
from distembed.execution import compute, whole
from distembed.lift import fold, lift, total
from distembed.storage.workspace import Workspace

FITS = {
    "LSA": lambda rows: LSA(12).fit_transform(rows),
    "PSDVec": lambda rows: (
        PSDVec(12, n_core=150, n_iter=1, first_passes=3).fit(rows, np.full(200, 401.0)).vectors_
    ),
    "NMF": lambda rows: NMF(12, max_iter=4, tol=0).fit(rows).word_factors_,
}


def _plus(block, *, by):
    return block + by


ANONYMOUS = {"call", "partial", "BlockFunction", "from-value", "lambda", "read", "number", "write_chunk"}
"""Names that say nothing of a step. Dask's own steps keep its names: "getitem", "concatenate", "rechunk-merge"."""


@contextmanager
def steps_run():
    """Yield a set that gets the names under which Dask's dashboard would show the tasks that run here."""
    seen = set()
    with Callback(pretask=lambda key, *_: seen.add(key_split(key))), dask.config.set(scheduler="sync"):
        yield seen


@pytest.mark.parametrize("kind", FITS)
def test_tasks_of_a_fit_are_named_after_their_steps(kind):
    counts = np.random.default_rng(1).poisson(2.0, (200, 200)).astype(np.float32)
    rows = da.from_array(counts, chunks=(40, -1)).map_blocks(csr_array, meta=csr_array((0, 0), dtype="f4"))
    with steps_run() as seen:
        compute(FITS[kind](rows))
    assert len(seen) > 5
    assert not {name for name in seen if name.startswith("_") or ANONYMOUS & {name}}


def test_tasks_of_a_stage_are_named_after_what_they_write_and_read(tmp_path):
    with Workspace.create(tmp_path / "w", owner="test") as workspace, steps_run() as seen:
        stage = workspace.stage("numbers", parameters={}, inputs={})
        options = {"dims": ["number"], "units": "1", "meaning": "Numbers."}
        stored = stage.store("squares", da.arange(4, chunks=2), **options)
        stage.store_files(
            "texts", 2, lambda index, prefix: {"n": Path(f"{prefix}.txt").write_text("x" * index)}
        )
        stored.compute()
    assert {"squares-write", "texts-write"} <= seen
    assert any("squares-read" in name for name in seen)
    assert not ANONYMOUS & seen


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
