"""The subword map of many words, out of core: time, memory against its plan, and SciPy's solver beside it.

``python -m tests.benchmarks.subword_map WORDS --n-words 80000 --n-components 300`` takes the first words of a file
(one a line, what follows a blank is passed over), makes up vectors for them of what the beginnings and the ends of
words share and of noise, and fits them in a process of its own, from Zarr to Zarr, with so many ``--workers``.
``--buckets N`` hashes the n-grams. ``--compare K`` solves K columns by SciPy's conjugate gradients on one core, to the
same residual, and times all by them.
"""

from __future__ import annotations

import argparse
import lzma
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from distembed.costs import WORKER_BYTES
from distembed.factorization.subwords import SubwordMap, find_ngrams
from distembed.systems.psdvec.stages import plan_subwords


def read_words(path: Path, n_words: int) -> list[str]:
    """Return the first field of the first lines."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as lines:
        return [line.split()[0] for _, line in zip(range(n_words), lines, strict=False)]


def made_up_vectors(words: list[str], n_components: int, folder: Path) -> str:
    """Store vectors of parts of words and noise as Zarr, and return its place."""
    random, place = np.random.default_rng(0), str(folder / "vectors.zarr")
    vectors = random.standard_normal((len(words), n_components), dtype=np.float32)
    for parts in ([word[:4] for word in words], [word[-3:] for word in words]):
        _, rows = np.unique(parts, return_inverse=True)
        vectors += random.standard_normal((rows.max() + 1, n_components), dtype=np.float32)[rows]
    da.from_array(vectors, chunks=(8192, -1)).to_zarr(place)
    return place


def stored_in(folder: Path):
    """Return a checkpoint that stores arrays as Zarr."""

    def checkpoint(name, make):
        place = str(folder / name)
        make().to_zarr(place)
        return da.from_zarr(place)

    return checkpoint


def fit(words: list[str], vectors: str, folder: Path, n_workers: int, buckets: int | None) -> None:
    """Fit the map, and print its time, its processor time and the peak of this process."""
    with dask.config.set(scheduler="threads", num_workers=n_workers):
        small = SubwordMap().fit(["ab", "abc", "abcd"], np.eye(3))  # compiled before the clock starts
        small.transform(["a"])
        start, before = time.perf_counter(), time.process_time()
        model = SubwordMap(buckets=buckets, checkpoint=stored_in(folder)).fit(words, da.from_zarr(vectors))
        wall, processor = time.perf_counter() - start, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(
        f"fit: {wall:.1f} s, processor {processor:.1f} s, peak {peak:.0f} MiB, {model.vectors_.shape[0]:,} rows, "
        f"{model.n_collisions_:,} collisions, residual {model.residuals_.max():.1e}, held-out share "
        f"{model.validation_score_:.3f}",
        flush=True,
    )
    start, before = time.perf_counter(), time.process_time()
    model.table_.compose(words)
    print(f"compose all: {time.perf_counter() - start:.1f} s, processor {time.process_time() - before:.1f} s")


def planned(n_words: int, n_components: int, n_workers: int, buckets: int | None) -> float:
    """Return the bytes that `distembed plan` has for the stage with so many threads."""
    options = SimpleNamespace(enabled=True, min_n=3, max_n=6, buckets=buckets)
    job = SimpleNamespace(psdvec=SimpleNamespace(n_components=n_components, n_core=None), subwords=options)
    plan = plan_subwords(job, SimpleNamespace(corpus=SimpleNamespace(n_words=n_words)))
    return WORKER_BYTES + plan.peak_bytes(n_workers)


def plain(words: list[str], vectors: str, n_columns: int) -> None:
    """Print the time of SciPy's conjugate gradients on some columns, one after the other, float64."""
    found = find_ngrams(words, min_n=3, max_n=6)
    A, some = found.averaging.astype(np.float64), da.from_zarr(vectors)[:, :n_columns].compute()
    model = SubwordMap(validation_fraction=0)
    B, n = A.T.tocsr(), A.shape[1]
    matrix = LinearOperator((n, n), matvec=lambda z: B @ (A @ z) + model.regularization * z)
    before = time.process_time()
    for column in (some - some.mean(axis=0)).T:
        _, status = cg(matrix, B @ column, rtol=model.tol, atol=0)
        assert status == 0
    taken = (time.process_time() - before) / n_columns
    total = da.from_zarr(vectors).shape[1]
    print(
        f"SciPy's cg: {taken:.1f} s of processor a column, {taken * total:.0f} s for all {total}", flush=True
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", type=Path)
    parser.add_argument("--n-words", type=int, default=80_000)
    parser.add_argument("--n-components", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--buckets", type=int)
    parser.add_argument("--compare", type=int, default=0)
    given = parser.parse_args()
    words = read_words(given.words, given.n_words)
    with tempfile.TemporaryDirectory() as name:
        vectors = made_up_vectors(words, given.n_components, Path(name))
        bytes_planned = planned(len(words), given.n_components, given.workers, given.buckets)
        print(
            f"{len(words):,} words x {given.n_components}: planned peak {bytes_planned / 2**20:.0f} MiB",
            flush=True,
        )
        arguments = (words, vectors, Path(name), given.workers, given.buckets)
        process = multiprocessing.get_context("spawn").Process(target=fit, args=arguments)
        process.start()
        process.join()
        if given.compare:
            plain(words, vectors, given.compare)


if __name__ == "__main__":
    main()
