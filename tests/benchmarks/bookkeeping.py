"""Measure what the bookkeeping of very many partitions and row blocks costs, with next to no counts in them.

``python -m tests.benchmarks.bookkeeping [N_PARTITIONS...]`` writes so many files of runs for 7,500 row blocks (2 TB
of text have 64,000 of them), and prints for each number: processor seconds to store the items of a stage and to
commit it, seconds and bytes of the graph of the merge, time per file to merge groups of 256 files, and the time to
add one row block of the merged files. Linear bookkeeping doubles from one row to the next.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import dask
import numpy as np

from distembed.counting.blocks import Run
from distembed.counting.cooccurrence import PartialCounts, merge_files, merge_partials, merge_row_block
from distembed.counting.runs import RunWriter
from distembed.storage.workspace import Workspace

N_BLOCKS, FAN_IN, N_MERGED = 7_500, 256, 512


def write_runs(index: int, prefix: str, *, n_blocks: int) -> dict[str, int]:
    """Write a file of runs with one pair in every hundredth row block."""
    run = Run(np.array([0, 1], np.int64), np.array([index % n_blocks], np.int32), np.array([1], np.int32))
    with RunWriter(f"{prefix}.counts", n_blocks) as writer:
        for block in range(index % 100, n_blocks, 100):
            writer.append(block, run)
    return {"denominator": 1, "largest_cell": 1, "n_tokens": 1, "n_runs": 1}


def clocked(function):
    """Return the result of a function and the processor seconds it took."""
    start = time.process_time()
    return function(), time.process_time() - start


def measure(n_partitions: int, folder: Path) -> None:
    """Print one row of the table."""
    row_blocks = tuple(range(N_BLOCKS + 1))
    with Workspace.create(folder / "w", owner="bench") as workspace, dask.config.set(scheduler="sync"):
        stage = workspace.stage("partial_counts", parameters={}, inputs={})
        make = partial(write_runs, n_blocks=N_BLOCKS)
        items, stored = clocked(
            lambda: stage.store_files("partial_counts", n_partitions, make, temporary=True)
        )
        _, committed = clocked(stage.commit)
    partials = [PartialCounts(item.paths[0], **item.summary) for item in items]
    graph, made = clocked(lambda: merge_partials(partials, row_blocks).__dask_graph__().to_dict())
    n_bytes = len(pickle.dumps(list(graph.values())))
    starts = range(0, min(n_partitions, N_MERGED), FAN_IN)
    merged, merging = clocked(
        lambda: [
            merge_files(partials[start : start + FAN_IN], row_blocks, f"{folder}/merged-{start}")
            for start in starts
        ]
    )
    _, added = clocked(lambda: merge_row_block(merged, row_blocks, 0))
    per_file = 1e3 * merging / min(n_partitions, N_MERGED)
    print(
        f"{n_partitions:>8,}  store {stored:8.2f} s  commit {committed:6.2f} s  graph {made:6.2f} s "
        f"{n_bytes / 1e6:7.1f} MB  merge {per_file:6.2f} ms per file  "
        f"a row block of {len(merged)} files {1e3 * added:6.2f} ms",
        flush=True,
    )


def main(*numbers: str) -> None:
    """Print one row per number of partitions."""
    for number in numbers or ("250", "500", "1000", "2000", "4000"):
        with tempfile.TemporaryDirectory() as folder:
            measure(int(number), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
