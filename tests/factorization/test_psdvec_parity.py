"""The authors' program on 160 English Wikipedia articles, 1,200 × 40, and its noncore words."""

import csv
import lzma

import numpy as np
import pytest
from scipy.sparse import block_array, csr_array

from distembed.execution import one_blas_thread
from distembed.factorization import psdvec_core
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_words import solve_words
from distembed.linalg.operators import row_blocks
from tests.references import psdvec as plain

WINDOW, SHORTEST_LINE = 3, 5


@pytest.fixture(scope="module")
def program(shared):
    with np.load(shared / "reference" / "psdvec_small.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def totals(shared):
    with lzma.open(shared / "reference" / "psdvec_small_row_totals.csv.xz", "rt") as file:
        return {word: float(total) for word, total in csv.reader(file)}


@pytest.fixture(scope="module")
def second_word_counts(shared, totals):
    """The program's unigram "counts": bigrams with the word on the right, as logarithms of 3 decimals."""
    place = {word: i for i, word in enumerate(totals)}
    counts = np.zeros(len(place))
    with lzma.open(shared / "reference" / "psdvec_small_corpus.txt.xz", "rt") as file:
        for words in map(str.split, file):
            ids = np.array([place.get(word, -1) for word in words])
            for step in range(1, WINDOW + 1) if len(words) >= SHORTEST_LINE else ():
                left, right = ids[:-step], ids[step:]
                np.add.at(counts, right[(left >= 0) & (right >= 0)], 1)
    return np.exp(np.round(np.log(counts / counts.sum()), 3))


def sparse(program, name, shape):
    return csr_array(tuple(program[f"{name}_{part}"] for part in ("data", "indices", "indptr")), shape=shape)


@pytest.fixture(scope="module")
def core(program, totals):
    row_totals = np.array([totals[word] for word in program["core_words"]])
    return sparse(program, "core_counts", (1200, 1200)), program["unigram_probability"], row_totals


def test_objective_agrees_and_the_solvers_agree(program, core, monkeypatch):
    krylov = PSDVec(40).fit(*core)
    monkeypatch.setattr(psdvec_core, "largest_eigenpairs", plain.dense_eigenpairs)
    dense = PSDVec(40).fit(*core)
    assert dense.objective_[-1] == pytest.approx(float(program["weighted_l2"]), rel=1e-6)
    assert krylov.objective_[-1] == pytest.approx(float(program["weighted_l2"]), rel=1e-3)
    assert krylov.objective_[-1] == pytest.approx(dense.objective_[-1], rel=5e-4)
    theirs = program["core_vectors"].astype(float)
    np.testing.assert_allclose(
        dense.vectors_.astype(float) @ dense.vectors_.T,
        theirs @ theirs.T,
        atol=2e-3 * np.abs(theirs @ theirs.T).max(),
    )


def test_noncore_vectors_agree(program, totals, second_word_counts, core):
    """The program gives pairs without a count a weight of 0.001, of which the paper says nothing.

    The plain regression has the program's vectors with that weight, and those of PSDVec without it.
    """
    core_vectors, row_totals = program["core_vectors"], core[2]
    rows = sparse(program, "noncore_core_counts", (1000, 1200))
    columns = sparse(program, "core_noncore_counts", (1200, 1000))
    new_totals = np.array([totals[word] for word in program["noncore_words"]])
    core_counts, new_counts = second_word_counts[:1200], second_word_counts[1200:2200]
    total = core_counts.sum() + new_counts.sum()
    sides = (rows.toarray(), columns.toarray(), core_vectors.astype(float), new_totals, row_totals)
    shares = (new_counts / total, core_counts / total)
    theirs = program["noncore_vectors"]
    with one_blas_thread():
        found = plain.noncore(*sides, *shares, ridge=2.0, background=0.001)
        without = plain.noncore(*sides, *shares, ridge=2.0)
    assert np.linalg.norm(found - theirs) <= 1e-3 * np.linalg.norm(theirs)
    np.testing.assert_allclose(found, theirs, atol=1e-3)
    both = row_blocks(block_array([[None, columns], [rows, None]], format="csr"))
    words = np.append(core_counts, new_counts), np.append(row_totals, new_totals)
    parts = slice(1200, 2200), slice(1200)
    ours, _ = solve_words(both, *words, *parts, core_vectors, PSDVec(40, uniform_weight=0.0))
    np.testing.assert_allclose(ours.compute(), without, atol=1e-3)
