"""The peaks of searching stay below what their costs say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.costs import Cost
from distembed.linalg.chunks import batches, row_chunk
from distembed.neighbors import search
from distembed.neighbors.costs import RowSizes, search_cost
from distembed.neighbors.distances import domain_rows

Options = dict[str, Any]

PEAK = """
import sys
from concurrent.futures import ThreadPoolExecutor
import dask
from tests.costs import test_peaks

def resident(field):
    return 1024 * int(dict(line.split(":", 1) for line in open("/proc/self/status"))[field].split()[0])

prepare = getattr(test_peaks, sys.argv[1])
with dask.config.set(scheduler="threads", pool=ThreadPoolExecutor(2)):
    prepare(1)()
    run = prepare(int(sys.argv[2]))
    before = resident("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    run()
    print(resident("VmHWM") - before)
"""

PEAK_COLUMNS, PEAK_MEMORY = 100, 2**22


def prepared_search(n_thousands: int) -> Callable[[], Any]:
    """Return what searches the rows of a file by the cosine, as a job does."""
    n, made = 1000 * n_thousands, np.random.default_rng(0)
    chunk = row_chunk(n, 4 * PEAK_COLUMNS, PEAK_MEMORY)
    Path("rows").write_bytes(made.random((n, PEAK_COLUMNS), np.float32).tobytes())

    def read(block_info: Any = None) -> Any:
        (first, last), _ = block_info[None]["array-location"]
        width = 4 * PEAK_COLUMNS
        found = np.fromfile("rows", np.float32, (last - first) * PEAK_COLUMNS, offset=first * width)
        return found.reshape(-1, PEAK_COLUMNS)

    chunks = (batches(n, chunk), (PEAK_COLUMNS,))
    stored = de.execution.map_blocks(read, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    rows = domain_rows(stored, metric="cosine", block_memory=PEAK_MEMORY)
    options: Options = {"metric": "cosine", "block_memory": PEAK_MEMORY, "reread": True, "single": True}
    return lambda: search.nearest_rows(rows, 5, **options)


@pytest.mark.slow  # two megabytes of the allocator decide it where other tests run beside it
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
@pytest.mark.parametrize(
    ("prepare", "n_thousands", "cost"),
    [
        (
            "prepared_search",
            10,
            search_cost(
                RowSizes(10_000, PEAK_COLUMNS, itemsize=4),
                5,
                metric="cosine",
                block_memory=PEAK_MEMORY,
                reread=True,
            ),
        ),
    ],
    ids=["search"],
)
def test_a_run_takes_what_its_cost_says(tmp_path: Path, prepare: str, n_thousands: int, cost: Cost) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, prepare, str(n_thousands)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    peak = json.loads(done.stdout)
    assert peak <= cost.peak_bytes(2)
    assert cost.peak_bytes(2) < 12 * peak
