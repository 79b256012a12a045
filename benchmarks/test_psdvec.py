"""PSDVec's core and noncore beside the authors' program: seconds, CPU seconds, objective, peak memory.

Small by default. At full size (10,000 × 200, and 10,000 words against 5,000 × 100, on 19.0 M tokens):
`pytest benchmarks/test_psdvec.py -m slow -s`, the core in a process of its own, so that its peak is its own. The
program on two cores: core 277.8 s wall, 526 s CPU, 6.4 GB, error 1,074,296; noncore 31.1 s, 44.2 s CPU.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.inputs import articles_of
from benchmarks.measures import alone, peak_bytes, spent, tell
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_words import solve_words
from distembed.linalg.operators import row_blocks

CSR = ("data", "indices", "indptr")


def measured(label, theirs, work, *arguments):
    """Print what a piece of work took beside the authors' wall and CPU seconds, and return its result."""
    found = spent(work, *arguments)
    ratio = (
        f", {theirs[0] / found.wall:.1f} times less wall, {theirs[1] / found.cpu:.1f} CPU" if theirs else ""
    )
    tell(f"\n{label}: {found}, process peak {peak_bytes() / 1e6:.0f} MB{ratio}")
    return found.result


def fit_core(counts_file, n, n_components, theirs):
    """Fit in this process, which has done nothing else, and return the objective."""
    with np.load(counts_file) as file:
        counts, columns, rows = (csr_array(tuple(file[part] for part in CSR)), file["columns"], file["rows"])
    work, core = PSDVec(n_components).fit, csr_array(counts[:n, :n])
    model = measured(f"core {n:,} × {n_components}, 4 rounds", theirs, work, core, columns[:n], rows[:n])
    return float(model.objective_[-1])


def test_core_of_the_reference_case(benchmark, shared):
    with np.load(shared / "reference" / "psdvec_small.npz") as file:
        parts = tuple(file[f"core_counts_{part}"] for part in CSR)
        unigram = file["unigram_probability"]
    counts = csr_array(parts, shape=(1200, 1200))
    fit = lambda: PSDVec(40).fit(counts, unigram)  # noqa: E731
    model = benchmark.pedantic(measured, args=("core 1,200 × 40", None, fit), rounds=1)
    assert np.all(np.diff(model.objective_) < 0)


@pytest.fixture(scope="module")
def wikipedia(shared):
    """Counts, word totals and row totals of 20,303 words: window 3, row = left word."""
    articles = [*articles_of(*(shared / f"data/english/enwiki2018-{part}.txt.xz" for part in (0, 1)))]
    frequency = Counter(word for article in articles for word in article)
    words = sorted(word for word, count in frequency.items() if count >= 50)
    words.sort(key=frequency.get, reverse=True)
    place = {word: i for i, word in enumerate(words)}
    ids = np.concatenate([[*(place.get(word, -1) for word in article), -1, -1, -1] for article in articles])
    pairs = np.concatenate([[ids[:-shift], ids[shift:]] for shift in (1, 2, 3)], axis=1)
    keys, counts = np.unique_counts(np.dot([len(words), 1], pairs[:, (pairs >= 0).all(axis=0)]))
    cells = (keys // len(words)).astype(np.int32), (keys % len(words)).astype(np.int32)
    matrix = csr_array((counts.astype(np.float32), cells), shape=(len(words), len(words)))
    return matrix, np.asarray(matrix.sum(axis=0)).ravel(), np.asarray(matrix.sum(axis=1)).ravel()


@pytest.mark.slow
def test_core_10000_x_200(wikipedia, tmp_path):
    counts, columns, rows = wikipedia
    file = tmp_path / "counts.npz"
    np.savez(file, columns=columns, rows=rows, **{part: getattr(counts, part) for part in CSR})
    objective = alone(fit_core, file, 10_000, 200, (277.8, 526))
    print(f"weighted squared error {objective:,.0f}, theirs 1,074,296")
    assert objective < 1.001 * 1_074_296


@pytest.mark.slow
def test_noncore_10000_against_5000_x_100(wikipedia):
    counts, columns, rows = wikipedia
    c, n = 5_000, 15_000
    model = PSDVec(100).fit(csr_array(counts[:c, :c]), columns[:c], rows[:c])
    print(f"\nweighted squared error {model.objective_[-1]:,.0f}, theirs 382,538")
    every, words = row_blocks(csr_array(counts[:n, :n])), (columns[:n], rows[:n])
    solved, _ = solve_words(every, *words, slice(c, n), slice(c), model.core_vectors_, model)
    measured("noncore 10,000 words against 5,000 × 100", (31.1, 44.2), solved.compute)
