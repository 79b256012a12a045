"""The exact neighbor graph of a large matrix, killed and finished: time, memory, digest, and scikit-learn beside it.

``python -m tests.benchmarks.neighbor_graph FOLDER --rows 250000 --kill-after 60`` makes a matrix of 1,000 clusters
(float32, an npy file), runs its job in a process of its own, kills it with SIGKILL once it has run so long, runs it
again to its end, and compares a sample of the rows with brute force in float64. With ``--whole`` the job also runs
without a kill in a second workspace, and the digests of both must be equal. ``--compare N`` times N rows here and by
scikit-learn, on as many threads.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

N_COMPONENTS, N_CLUSTERS, N_NEIGHBORS = 100, 1000, 15
N_CHECKED = 50
JOB = """
[job]
system = "neighbors"
title = "{n_rows:,} rows x {n_components}"
workspace = "{workspace}"
[input]
path = "rows.npy"
[neighbors]
n_neighbors = {n_neighbors}
[resources]
workers = {workers}
memory_limit = "4GiB"
"""


def clustered(n_rows: int, seed: int = 0) -> np.ndarray:
    """Return rows about the centers of clusters, float32."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((N_CLUSTERS, N_COMPONENTS), dtype=np.float32)
    rows = rng.standard_normal((n_rows, N_COMPONENTS), dtype=np.float32)
    rows += centers[rng.integers(0, N_CLUSTERS, n_rows)]
    return rows


def distembed(*words: str, kill_after: float | None = None) -> str:
    """Run a command, or kill it once it has run so many seconds; print its time, processor time and peak memory."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "distembed.cli.main", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        output, _ = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{words[0]}: exit {process.returncode}, {time.perf_counter() - start:.0f} s, processor {processor:.0f} s, "
        f"largest process so far {after.ru_maxrss / 2**10:.0f} MiB",
        flush=True,
    )
    print(output, flush=True)
    return output


def check(rows: np.ndarray, workspace: Path) -> None:
    """Compare a sample of rows with brute force in float64, ties by row number."""
    import distembed as de

    graph = de.read_neighbors(workspace)
    sample = np.random.default_rng(1).choice(len(rows), N_CHECKED, replace=False)
    for row in sample:
        squares = _squares(rows, row)
        squares[row] = np.inf
        order = np.argsort(squares, kind="stable")[:N_NEIGHBORS]
        assert (graph.indices[row] == order).all(), row
        np.testing.assert_allclose(graph.values[row], np.sqrt(squares[order]), rtol=1e-12)
    print(f"{N_CHECKED} rows equal brute force in float64", flush=True)


def _squares(rows: np.ndarray, row: int) -> np.ndarray:
    parts = np.array_split(rows, 1 + len(rows) // 50_000)
    return np.concatenate([((part.astype(np.float64) - rows[row]) ** 2).sum(axis=1) for part in parts])


def compare(n_rows: int, workers: int) -> None:
    """Time a search here and by scikit-learn, and compare their neighbors."""
    import dask
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import threadpool_limits

    from distembed.neighbors.search import nearest_neighbors

    rows = clustered(n_rows)
    nearest_neighbors(rows[:3000], N_NEIGHBORS).lists.compute()  # compiles
    with timed(f"distembed, {n_rows:,} rows"), dask.config.set(scheduler="threads", num_workers=workers):
        found = nearest_neighbors(rows, N_NEIGHBORS).indices.compute()
    with timed(f"scikit-learn, {n_rows:,} rows"), threadpool_limits(workers):
        search = NearestNeighbors(n_neighbors=N_NEIGHBORS, algorithm="brute").fit(rows)
        order = search.kneighbors(return_distance=False)
    print(f"rows with the same neighbors in the same order: {(order == found).all(axis=1).mean():.4%}")


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Print the wall and processor time of what runs inside."""
    start, processor = time.perf_counter(), time.process_time()
    yield
    print(f"{name}: {time.perf_counter() - start:.1f} s, processor {time.process_time() - processor:.1f} s")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-after", type=float)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--compare", type=int)
    options = parser.parse_args()
    if options.compare:
        compare(options.compare, options.workers)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = clustered(options.rows)
    np.save(options.folder / "rows.npy", rows)
    names = ["killed", "whole"] if options.whole else ["killed"]
    digests = []
    for name in names:
        job = options.folder / f"{name}.toml"
        values = {"n_rows": options.rows, "workspace": name, "workers": options.workers}
        job.write_text(JOB.format(**values, n_components=N_COMPONENTS, n_neighbors=N_NEIGHBORS))
        if name == "killed" and options.kill_after:
            distembed("run", str(job), kill_after=options.kill_after)
        distembed("run", str(job))
        digests.append(distembed("verify", str(job)).splitlines()[-1])
    assert len(set(digests)) == 1, digests
    check(rows, options.folder / "killed")


if __name__ == "__main__":
    main()
