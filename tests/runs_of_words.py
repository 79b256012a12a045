"""Runs of the linear algebra and of the factorizations of words, whose block functions are measured by them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
from scipy.sparse import csr_array, random_array

import distembed as de
from distembed.factorization.joined_vectors import centered_directions, principal_axes, view_mean
from distembed.factorization.psdvec_core import objective_of, pairs_between
from distembed.lift import lift
from distembed.linalg import operators
from distembed.linalg.blocks import without_directions
from distembed.linalg.eigen import filtered_eigenpairs
from distembed.linalg.operators import (
    SymmetricMatrix,
    count_values,
    row_blocks,
    sparse_times,
    transpose_row_blocks,
)
from distembed.linalg.singular import largest_singular_triplets
from distembed.vectors.subwords import add_spelling

N_WORDS, N_CORE, N_NAMES = 2_400, 1_600, 3_300


@cache
def counts_of_words() -> tuple[csr_array, np.ndarray]:
    """Return counts of pairs of words, frequent words first, and how often each occurs."""
    generator = np.random.default_rng(0)
    share = 1 / np.arange(10, N_WORDS + 10)
    rates = 1e6 * np.outer(share, share) / share.sum() ** 2
    counts = csr_array(generator.poisson(rates * generator.gamma(0.5, 2, rates.shape)).astype(np.int32))
    return counts, np.maximum(counts.sum(axis=0), counts.sum(axis=1)) + 1.0


@cache
def words() -> list[str]:
    generator = np.random.default_rng(1)
    return [f"{''.join(generator.choice(list('abcdefgh'), 7))}{number}" for number in range(N_NAMES)]


def psdvec() -> None:
    """Fit in core and noncore mode, and judge given vectors."""
    counts, totals = counts_of_words()
    rows = row_blocks(counts, values_per_block=counts.nnz // 2)
    model = de.PSDVec(100, n_core=N_CORE, n_iter=2, first_passes=3).fit(rows, totals)
    core = row_blocks(counts[:N_CORE, :N_CORE], values_per_block=counts.nnz // 2)
    objective_of(core, totals[:N_CORE], totals[:N_CORE], da.asarray(model.core_vectors_), model)
    pairs_between(rows, np.arange(0, N_WORDS, 2), np.arange(0, N_WORDS, 2)).compute()


def contexts() -> None:
    """Take the singular vectors of a matrix that has fewer columns than rows, and of its transpose."""
    counts, _ = counts_of_words()
    weighted = de.ppmi(row_blocks(counts, values_per_block=counts.nnz // 2), context_smoothing=0.75)
    largest_singular_triplets(weighted, 40, n_passes=4, tol=None)
    wide = row_blocks(counts[:800].astype(np.float64), values_per_block=counts.nnz // 4)
    de.LSA(20, n_passes=7, dtype=np.float64).fit_transform(wide).compute()
    de.LSA(2, n_passes=1, tol=None).fit(da.from_array(wide[:, :500].compute().toarray(), chunks=(400, -1)))
    assert count_values(transpose_row_blocks(wide)) > 0
    with mock.patch.object(operators, "client_in_force", return_value="a cluster"):
        assert count_values(transpose_row_blocks(wide)) > 0


def eigenpairs() -> None:
    """Filter a block of vectors."""
    half = random_array((3_000, 3_000), density=0.02, rng=np.random.default_rng(0))
    matrix = row_blocks(csr_array(half + half.T), values_per_block=90_000)
    symmetric = SymmetricMatrix(lambda vectors: sparse_times(matrix, vectors), matrix.chunks[0])
    filtered_eigenpairs(symmetric, 20, lower=-9, upper=65, n_rounds=2)


def subwords() -> None:
    """Learn vectors of n-grams, compose some of many components, and add their directions."""
    vectors = np.random.default_rng(0).random((N_NAMES, 300)).astype(np.float32)
    de.SubwordMap(min_words=1, max_iter=5).fit(words(), da.from_array(vectors[:, :16], chunks=(400, -1)))
    model = de.SubwordMap(max_iter=1).fit(words()[:200], da.from_array(vectors[:200]))
    composed = model.transform(da.from_array(np.array(words(), object), chunks=1_650))
    lift(add_spelling, "wc,wc->wc", composed, composed, center=model.mean_, weight=0.5).compute()


def joins() -> None:
    """Join two views on their principal axes."""
    generator = np.random.default_rng(0)
    views = [de.WordVectors(words(), generator.random((N_NAMES, d), np.float32)) for d in (100, 80)]
    de.join_vectors(views, n_components=10)
    view = da.from_array(views[0].vectors, chunks=(1_650, -1))
    mean = view_mean(view).compute()
    lift(centered_directions, "wc,c->wc", view, mean).compute()
    lift(without_directions, "wc,c,ck->wc", view, mean, principal_axes(view, 2, mean)).compute()


RUNS: list[Callable[[], Any]] = [psdvec, contexts, eigenpairs, subwords, joins]


def run_all() -> None:
    """Run each, however far from converged it stays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in RUNS:
            run()
