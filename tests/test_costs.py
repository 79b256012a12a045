"""What costs say, against the arrays that runs make: no option changes these and leaves the cost as it was."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import distembed as de
from distembed import execution
from distembed.costs import Cost
from distembed.factorization.psdvec_costs import (
    CoreOptions,
    CoreSizes,
    Kept,
    core_cost,
    noncore_cost,
    rounds_of,
)

Sizes = dict[str, int]

N_WORDS, BLOCK_MEMORY = 60, 2**20


def counts_of(n: int, n_pairs: int) -> sp.csr_array:
    """Return the counts of about so many pairs of n words."""
    generator = np.random.default_rng(0)
    rows, columns = generator.integers(0, n, (2, n_pairs))
    return sp.csr_array((generator.integers(1, 50, n_pairs).astype(np.float32), (rows, columns)), (n, n))


def bytes_of(value: Any) -> int:
    """Return the bytes of all arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, list | tuple):
        return sum(map(bytes_of, value))
    return (
        0 if not hasattr(value, "indptr") else sum(map(bytes_of, (value.data, value.indices, value.indptr)))
    )


class Recorder:
    """Keeps the bytes of each array that a run asks a checkpoint to keep, and of the largest task of each kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: Sizes = {}
        called = execution.BlockFunction.__call__

        def call(function: Any, /, *arguments: Any, **options: Any) -> Any:
            made = called(function, *arguments, **options)
            taken = bytes_of([*arguments, made])
            task = f"task {function.__name__}"
            self.sizes[task] = max(taken, self.sizes.get(task, 0))
            return made

        monkeypatch.setattr(execution.BlockFunction, "__call__", call)

    def __call__(self, name: str, make: Callable[[], da.Array]) -> da.Array:
        """Keep an array in memory, and its size."""
        array = execution.persist(name, make)
        self.sizes[name] = sum(
            bytes_of(block) for block in execution.compute(array.to_delayed().ravel().tolist())
        )
        return array


# --- PSDVec ----------------------------------------------------------------------------------------------------

PSDVEC: dict[str, Any] = {
    "n_components": 6,
    "n_core": 40,
    "n_iter": 3,
    "first_passes": 4,
    "block_size": 4,
    "batch_words": 8,
}
"""An estimator of which every option below changes one."""

PSDVEC_OPTIONS: dict[str, Any] = {
    "n_components": 8,
    "n_core": 30,
    "smoothing": 0.1,
    "n_iter": 2,
    "ridge": 1.0,
    "bands": [5, 10, 10],
    "background_weight": 0.5,
    "uniform_weight": 0.0,
    "weight_cutoff": "none",
    "core_ridge": 0.1,
    "solver": "dense",
    "n_passes": 3,
    "first_passes": 5,
    "block_size": 5,
    "random_state": 1,
    "batch_words": 3,
}


def psdvec_sizes(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> Sizes:
    """Return the sizes of the arrays of a fit."""
    with monkeypatch.context() as patch:
        recorder, counts = Recorder(patch), counts_of(N_WORDS, 900)
        totals = np.asarray(counts.sum(axis=1)).ravel() + 1
        de.PSDVec(**options, checkpoint=recorder).fit(
            da.from_array(counts.toarray(), chunks=(20, -1)), totals
        )
        return recorder.sizes


def psdvec_costs(options: dict[str, Any]) -> list[Cost]:
    """Return the costs of core mode, with all states on disk, and of the noncore words."""
    model, n_pairs = de.PSDVec(**options), counts_of(N_WORDS, 900).nnz
    n_core = model.core_size(N_WORDS)
    sizes = CoreSizes(n_core, n_pairs, n_pairs * n_core**2 // N_WORDS**2, 2 * n_pairs)
    grid: dict[str, Any] = {"block_memory": BLOCK_MEMORY, "stored_pair_bytes": 1.8}
    core = core_cost(CoreOptions.of(model), sizes, Kept.NONE, **grid)
    noncore = noncore_cost(model.n_components, model.batch_words, sizes, N_WORDS, n_blocks=3, **grid)
    return [core, noncore]


def test_no_option_of_psdvec_is_left_out() -> None:
    assert {*PSDVEC_OPTIONS, "checkpoint"} == {*inspect.signature(de.PSDVec).parameters}


@pytest.mark.parametrize("option", PSDVEC_OPTIONS)
def test_where_an_option_changes_the_arrays_it_changes_the_cost(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    changed = PSDVEC | {option: PSDVEC_OPTIONS[option]}
    if option == "bands":
        changed["ridge"] = (1.0, 2.0, 4.0)
    before, after = (psdvec_sizes(monkeypatch, options) for options in (PSDVEC, changed))
    assert before["task words_block"] > 0
    if before != after:
        assert psdvec_costs(PSDVEC) != psdvec_costs(changed)


def test_the_options_that_change_the_arrays_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would pass whatever the costs are."""
    sized = (
        "n_components",
        "n_core",
        "n_iter",
        "solver",
        "n_passes",
        "first_passes",
        "block_size",
        "batch_words",
    )
    before = psdvec_sizes(monkeypatch, PSDVEC)
    unseen = [
        name for name in sized if psdvec_sizes(monkeypatch, PSDVEC | {name: PSDVEC_OPTIONS[name]}) == before
    ]
    assert unseen == []


def test_a_round_keeps_the_bases_that_its_cost_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = psdvec_sizes(monkeypatch, PSDVEC)
    bases = [size for name, size in found.items() if "round-1/basis" in name or "round-1/product" in name]
    options = CoreOptions.of(de.PSDVec(**PSDVEC))
    assert sum(bases) == rounds_of(options, 40)[0].basis(40).kept_bytes()


PEAK = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import dask, numpy as np
import distembed as de
from distembed.linalg.operators import row_blocks
from tests.test_costs import counts_of

def resident(field):
    return 1024 * int(dict(line.split(":", 1) for line in open("/proc/self/status"))[field].split()[0])

def fit(n, n_pairs):
    counts = row_blocks(counts_of(n, n_pairs), values_per_block=3000)
    model = de.PSDVec(20, solver="dense", n_iter=2, checkpoint=de.execution.persist)
    return lambda: model.fit_core(counts, np.full(n, 100.0))

with dask.config.set(scheduler="threads", pool=ThreadPoolExecutor(2)):
    fit(100, 500)()
    large = fit(int(sys.argv[1]), int(sys.argv[2]))
    before = resident("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    large()
    print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
def test_the_dense_solver_takes_what_its_cost_says() -> None:
    n, n_pairs = 1500, 20_000
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(n), str(n_pairs)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    peak = json.loads(done.stdout)
    options = CoreOptions.of(de.PSDVec(20, solver="dense", n_iter=2))
    sizes = CoreSizes(n, n_pairs, n_pairs, 2 * n_pairs)
    cost = core_cost(options, sizes, Kept.ALL, block_memory=64 * 2**20, stored_pair_bytes=1.8)
    assert 5 * 8 * n**2 < peak <= cost.peak_bytes(2)
    assert cost._replace(tasks=1).peak_bytes(1) < 2 * peak


def test_the_cost_of_the_dense_solver_grows_with_the_square_of_the_words() -> None:
    """At 20,000 words one matrix alone has 3.2 GB, which no plan had a term for."""
    options = CoreOptions.of(de.PSDVec(100, solver="dense"))
    cost = core_cost(
        options, CoreSizes(20_000, 10**6, 10**6, 10**6), Kept.NONE, block_memory=2**26, stored_pair_bytes=1.8
    )
    assert cost.peak_bytes(1) > 6 * 3.2e9
