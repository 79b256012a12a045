"""The subword map of many words, out of core: time, memory against its plan, and SciPy's solver beside it.

``python -m tests.benchmarks.subword_map WORDS --n-words 80000 --n-components 300`` takes the first words of a file
(one a line, what follows a blank is passed over), makes up vectors for them of what the beginnings and the ends of
words share and of noise, and fits them in a process of its own, from Zarr to Zarr, with so many ``--workers``.
``--compare K`` solves K columns by SciPy's conjugate gradients on one core, to the same residual, and times all by
them.
"""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from distembed.costs import WORKER_BYTES
from distembed.factorization.subwords import SubwordMap, find_ngrams
from distembed.systems.psdvec.stages import plan_subwords
from tests.benchmarks.inputs import open_text
from tests.benchmarks.measures import alone, peak_bytes, run_main, spent, tell


def made_up_vectors(words: list[str], n_components: int, folder: Path) -> str:
    """Store vectors of parts of words and noise as Zarr, and return its place."""
    random, place = np.random.default_rng(0), str(folder / "vectors.zarr")
    vectors = random.standard_normal((len(words), n_components), dtype=np.float32)
    for parts in ([word[:4] for word in words], [word[-3:] for word in words]):
        _, rows = np.unique(parts, return_inverse=True)
        vectors += random.standard_normal((rows.max() + 1, n_components), dtype=np.float32)[rows]
    da.from_array(vectors, chunks=(8192, -1)).to_zarr(place)
    return place


def fit(words: list[str], vectors: str, folder: Path, n_workers: int) -> None:
    """Fit the map, and print its time, its processor time and the peak of this process."""

    def stored(name, make):
        make().to_zarr(place := str(folder / name))
        return da.from_zarr(place)

    with dask.config.set(scheduler="threads", num_workers=n_workers):
        small = SubwordMap().fit(["ab", "abc", "abcd"], np.eye(3))  # compiled before the clock starts
        small.transform(["a"])
        found = spent(SubwordMap(checkpoint=stored).fit, words, da.from_zarr(vectors))
    model = found.result
    tell(
        f"fit: {found}, peak {peak_bytes() / 2**20:.0f} MiB, {model.vectors_.shape[0]:,} rows, "
        f"residual {model.residuals_.max():.1e}, held-out share {model.validation_score_:.3f}"
    )
    tell(f"compose all: {spent(model.table_.compose, words)}")


def planned(n_words: int, n_components: int, n_workers: int) -> float:
    """Return the bytes that `distembed plan` has for the stage with so many threads."""
    options = SimpleNamespace(enabled=True, min_n=3, max_n=6)
    job = SimpleNamespace(psdvec=SimpleNamespace(n_components=n_components, n_core=None), subwords=options)
    plan = plan_subwords(job, SimpleNamespace(corpus=SimpleNamespace(n_words=n_words)))
    return WORKER_BYTES + plan.peak_bytes(n_workers)


def solve_plainly(words: list[str], vectors: str, n_columns: int) -> None:
    """Print the time of SciPy's conjugate gradients on some columns, one after the other, float64."""
    found = find_ngrams(words, min_n=3, max_n=6)
    A, some = found.averaging.astype(np.float64), da.from_zarr(vectors)[:, :n_columns].compute()
    model = SubwordMap(validation_fraction=0)
    B, n = A.T.tocsr(), A.shape[1]
    matrix = LinearOperator((n, n), matvec=lambda z: B @ (A @ z) + model.regularization * z)
    taken = 0.0
    for column in (some - some.mean(axis=0)).T:
        _, cpu, (_, status) = spent(cg, matrix, B @ column, rtol=model.tol, atol=0)
        assert status == 0
        taken += cpu / n_columns
    total = da.from_zarr(vectors).shape[1]
    tell(f"SciPy's cg: {taken:.1f} s of processor a column, {taken * total:.0f} s for all {total}")


def main(
    words: Path, *, n_words: int = 80_000, n_components: int = 300, workers: int = 2, compare: int = 0
) -> None:
    with open_text(words) as lines:
        first = [line.split()[0] for line in islice(lines, n_words)]
    with tempfile.TemporaryDirectory() as name:
        vectors = made_up_vectors(first, n_components, Path(name))
        n_bytes = planned(len(first), n_components, workers)
        tell(f"{len(first):,} words x {n_components}: planned peak {n_bytes / 2**20:.0f} MiB")
        alone(fit, first, vectors, Path(name), workers)
        if compare:
            solve_plainly(first, vectors, compare)


if __name__ == "__main__":
    run_main(main)
