"""Measure what a second core of this machine adds to the kernels that a core round and a noncore word are made of.

``python -m tests.benchmarks.second_core``: each kernel alone in one process, then in two that share nothing; printed is
how many times as many calls a second the two make, the most that two workers can be faster than one.
"""

from __future__ import annotations

import time
from functools import partial
from multiprocessing import Barrier, Process, Queue

import numpy as np
from scipy.sparse import random_array

from distembed.execution import one_blas_thread
from distembed.linalg.blocks import sparse_times_dense
from tests.benchmarks.measures import run_main, tell

SECONDS = 1.0


def kernels():
    """Yield a name and a call for each kernel, on arrays of its own."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    rows = normal(300, 200)
    yield "rowsᵀ rows, 300 x 200, float32", lambda: rows.T @ rows
    square = np.identity(200) + (rows.T @ rows)
    yield "Cholesky, 200 x 200, float64", lambda: np.linalg.cholesky(square)
    matrix = random_array((1000, 10_000), density=0.1, format="csr", rng=rng, dtype=np.float32)
    for width in (100, 200):
        vectors = normal(10_000, width)
        megabytes = vectors.nbytes / 1e6
        product = partial(sparse_times_dense, matrix, vectors)
        yield f"sparse block times {megabytes:.0f} MB of vectors", product
    table, places, out = normal(10_000, 200), rng.integers(0, 10_000, 300), np.empty((300, 200), np.float32)
    yield "300 rows taken from 8 MB of vectors", lambda: np.take(table, places, axis=0, out=out, mode="clip")


def measure(kernels, number, start, results):
    with one_blas_thread():
        *_, call = list(kernels())[number]
        for _ in range(3):
            call()
        start.wait()
        n_calls, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < SECONDS:
            call()
            n_calls += 1
        results.put(n_calls)


def calls_of(kernels, number, n_processes) -> int:
    """Return how many calls of one of some kernels so many processes make together in `SECONDS`."""
    start, results = Barrier(n_processes), Queue()
    processes = [Process(target=measure, args=(kernels, number, start, results)) for _ in range(n_processes)]
    for process in processes:
        process.start()
    total = sum(results.get() for _ in processes)
    for process in processes:
        process.join()
    return total


def main() -> None:
    for number, (name, _) in enumerate(kernels()):
        ratios = [calls_of(kernels, number, 2) / calls_of(kernels, number, 1) for _ in range(3)]
        tell(f"{name:<42}" + "  ".join(f"{ratio:.2f}" for ratio in ratios))


if __name__ == "__main__":
    run_main(main)
