"""Runs of estimators on arrays of some hundred kilobytes, which reach the block functions that are measured."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
from scipy.sparse import csr_array, diags_array, random_array
from sklearn.linear_model import Ridge

import distembed as de
from distembed.execution import compute
from distembed.factorization.joined_vectors import centered_directions, principal_axes, view_mean
from distembed.factorization.psdvec_core import objective_of, pairs_between
from distembed.lift import first_rows, fold, lift, total
from distembed.linalg import operators
from distembed.linalg.blocks import without_directions
from distembed.linalg.columns import solve_shifted
from distembed.linalg.eigen import filtered_eigenpairs
from distembed.linalg.operators import (
    SymmetricMatrix,
    count_values,
    row_blocks,
    sparse_times,
    transpose_row_blocks,
)
from distembed.linalg.singular import largest_singular_triplets
from distembed.manifold import imputation_systems, propagation
from distembed.manifold.eigenmaps import deflated_product
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.projection import _threshold_graph
from distembed.manifold.regressions import predictions, ridge_regression, with_known
from distembed.neighbors import distances, graphs
from distembed.vectors.subwords import add_spelling

N_WORDS, N_CORE, N_NAMES = 2_400, 1_600, 3_300


def rows_of(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


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


def search() -> None:
    """Measure distances, search neighbors, and make graphs and trees of them."""
    rows = da.from_array(rows_of(1500, 60).astype(np.float32), chunks=(500, -1))
    counts = csr_array(random_array((1200, 1200), density=0.05, rng=1))
    counts.data = np.ceil(9 * counts.data).astype(np.int32)
    sparse = row_blocks(counts, values_per_block=counts.nnz // 3)
    for metric in ("euclidean", "cosine"):
        compute([de.pairwise_distances(rows, metric=metric), de.nearest_neighbors(rows, 5, metric=metric)])
    compute(
        [de.pairwise_distances(sparse, metric="cosine"), de.nearest_neighbors(sparse, 5, metric="cosine")]
    )
    with dask.config.set({"distembed.block_memory": 2**20}):  # in several blocks, whose lists are merged
        compute(de.nearest_neighbors(rows.compute(), 60))
    de.spanning_tree(rows)
    compute(distances.distance_rows(rows))
    for symmetry in ("union", "mutual"):
        for affinity in ("local", "binary", "polynomial"):
            compute(graphs.affinity_rows(rows, 15, symmetry=symmetry, affinity=affinity))


def psdvec() -> None:
    """Fit in core and noncore mode, and judge given vectors."""
    counts, totals = counts_of_words()
    rows = row_blocks(counts, values_per_block=counts.nnz // 2)
    model = de.PSDVec(100, n_core=N_CORE, n_iter=2, first_passes=3).fit(rows, totals)
    new, old = np.s_[N_CORE:], np.s_[:N_CORE]
    model.transform(counts[new, old], counts[old, new], totals[new])
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


WIDE: dict[str, Any] = {"dtype": np.float64}


def imputation() -> None:
    """Weights from a graph, both solvers for vectors of many columns, and what is made of them."""
    n, q, n_columns = 8000, 6000, 160
    rows, numbers = rows_of(n, 120), np.arange(n)
    neighbors = (numbers[:, None] + np.arange(1, 9)) % n
    graph = csr_array((np.ones(8 * n), neighbors.ravel(), 8 * np.arange(n + 1)), shape=(n, n))
    few = np.arange(2)
    imputation_systems.rebuild_rows(rows[:2], few[:1], few, few[1:], 0.1, True)  # it is loaded once
    imputation_systems.reconstruction_weights(
        da.from_array(rows, chunks=(1000, -1)), graph, simplex=True, floor=0.1
    )
    Y, known = da.from_array(rows_of(n, n_columns).astype(np.float32), chunks=(-1, 20)), numbers >= q
    draws = ((q, q), (q, n - q))
    inside, carried = (
        csr_array(0.1 * random_array(shape, density=4 / q, format="csr", rng=1)) for shape in draws
    )
    system = {"inside": inside, "carried": carried, "known": known}
    limits = {"tol": 1e-6, "max_iter": 20}
    lift(imputation_systems.krylov, "nc->cr", Y, sizes={"r": q + 258}, **WIDE, **limits, **system).compute()
    state, sizes = da.zeros((n_columns, q + 1), chunks=(20, -1)), {"r": q + 17}
    swept = lift(
        imputation_systems.power_sweeps, "nc,cs->cr", Y, state, sizes=sizes, **WIDE, last=8, **system
    ).persist()
    lift(imputation_systems.fill, "nc,cq->nc", Y, swept[:, :q], known=known).compute()
    found = predictions(Ridge().fit(rows, rows_of(n, n_columns)), rows, n_columns)
    with_known(Y, found, known).compute()


def projection() -> None:
    """Graphs of a threshold, products of a graph with vectors, and regressions."""
    dense = rows_of(3000, 80)
    dense *= dense > 0.8
    dense[:, 0] += 0.1
    sparse = csr_array(dense)
    with dask.config.set({"distembed.block_memory": 2**24}):
        for rows in (dense, sparse):
            _threshold_graph(rows, 0.5)
    graph = row_blocks(csr_array(random_array((6000, 6000), density=2e-3, format="csr", rng=0)))
    parts = row_blocks(csr_array(np.ones((6000, 1))))
    vectors, constants = (da.from_array(rows_of(n, 40), chunks=-1) for n in (6000, 1))
    lift(
        deflated_product, "wn,wt,nc,tc->wc", graph, parts.rechunk((graph.chunks[0], -1)),
        vectors, constants, **WIDE, bound=2.0,
    ).compute()  # fmt: skip
    for rows in (dense, sparse):
        graphs.row_is_used(rows, "cosine")
        ridge_regression(rows, rows_of(3000, 20), alpha=0.1, tol=1e-4, max_iter=10, constant=True)


def embedding() -> None:
    """The systems of a round, maps between large sets, and new rows among those of a set."""
    n = 4000
    half = random_array((n, n), density=2 / n, format="csr", rng=1)
    graph = csr_array(half + half.T)
    smoother = csr_array(diags_array(np.asarray(graph.sum(axis=0)).ravel()) - graph)
    columns = da.from_array(rows_of(n, 40), chunks=(-1, 20))
    lift(
        solve_shifted, "k,nk,nk->nk", da.from_array(np.ones(40), chunks=20), columns, columns, **WIDE,
        laplacian=smoother, confidence=np.ones(n), order=1, tol=1e-4, max_iter=10,
    ).compute()  # fmt: skip
    rows, weights = da.from_array(rows_of(8000, 100), chunks=(4000, -1)), rows_of(100, 100)
    for is_unit in (True, False):
        lift(propagation.mapped, "wc,cr->wr", rows, weights, **WIDE, is_unit=is_unit).compute()
    links = diags_array(np.arange(8000) % 40 > 0, dtype=np.float64, format="csr")  # nearly all rows have one
    links.eliminate_zeros()
    sides = rows, first_rows(rows), rows
    fold(total(propagation.linked_product), "wc,w,Nd", *sides, shape=(100, 100), links=links).compute()
    model, fitted = FeaturePreservingEmbedding(4, max_iter=1, n_neighbors=5), rows_of(1000, 200)
    with mock.patch("warnings.warn"):
        model.fit(fitted, rows_of(1000, 2))
        model.transform(da.from_array(csr_array(fitted), chunks=(500, -1))).compute()


RUNS = (search, psdvec, contexts, eigenpairs, subwords, joins, imputation, projection, embedding)
"""What `tests/test_temporaries.py` measures."""
