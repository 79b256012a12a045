"""Weights in row blocks: the bits of those that are held whole, a block of them in memory, and the same errors."""

from __future__ import annotations

import weakref
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.execution import compute, delayed, from_delayed, one_blas_thread
from distembed.linalg.chunks import batches
from distembed.manifold import imputation_rows
from distembed.manifold.imputation import LatentSemanticImputation, UnreachedRowsError
from distembed.manifold.imputation_rows import UnknownRows, edge_chunk, sparse_rows, unreached_rows
from tests.checkpoints import Kept
from tests.conftest import forked_workers
from tests.references import imputation as oracle

N, N_KNOWN = 24, 8
GRIDS = {
    "one": (24,),
    "even": (8, 8, 8),
    "ragged": (3, 12, 1, 8),
    "single rows": (1,) * 24,
    "without an unknown row": (8, 16),
}
BITS = ("data", "indices", "indptr")


def problem():
    """Return rows, a smooth map of them of which the first are known, and weights for them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 6))
    Y = np.tanh(X @ rng.standard_normal((6, 9)))
    Y[N_KNOWN:] = np.nan
    return X, Y, LatentSemanticImputation(min_degree=4).fit_graph(X).fit_weights(X)


def lazy(matrix, chunks):
    """Return a sparse matrix as a Dask array of CSR row blocks of these numbers of rows."""
    bounds = np.cumsum([0, *chunks]).tolist()
    meta = sp.csr_array((0, 0), dtype=matrix.dtype)
    return da.concatenate(
        [from_delayed(delayed(matrix[a:b]), (b - a, matrix.shape[1]), meta=meta) for a, b in pairwise(bounds)]
    )


def never_whole(monkeypatch):
    monkeypatch.setattr(imputation_rows, "held_whole", lambda n_edges, block_memory: False)


@pytest.fixture
def little_held(monkeypatch):
    """Let a process hold no more of a matrix than the memory of a task, however little that is."""
    monkeypatch.setattr(imputation_rows, "LEAST_HELD", 0)


def fitted(weights, Y, X=None, **options):
    options = {"tol": 1e-3, **options}
    return LatentSemanticImputation(min_degree=4, **options).set_weights(weights).fit_vectors(Y, X)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_products_have_the_bits_of_the_whole(grid):
    _, Y, model = problem()
    known, W = ~np.isnan(Y[:, 0]), model.weights_
    rows, vectors = UnknownRows(lazy(W, grid), known), np.random.default_rng(1).standard_normal((16, 9))
    assert (rows @ vectors).tobytes() == (W[~known][:, ~known] @ vectors).tobytes()
    assert rows.carried(Y).tobytes() == (W[~known][:, known] @ Y[known]).tobytes()
    single = Y.astype(np.float32)
    assert rows.carried(single).tobytes() == (W[~known][:, known] @ single[known].astype(float)).tobytes()


@pytest.mark.parametrize("solver", ["krylov", "power"])
@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_vectors_have_the_bits_of_the_whole(grid, solver, monkeypatch):
    never_whole(monkeypatch)
    _, Y, model = problem()
    whole = fitted(model.weights_, Y, solver=solver)
    rows = fitted(lazy(model.weights_, grid), Y, solver=solver)
    assert isinstance(rows.weights_, da.Array)
    assert rows.vectors_.tobytes() == whole.vectors_.tobytes()
    assert rows.history_.tobytes() == whole.history_.tobytes()
    assert (rows.n_iter_, rows.residual_) == (whole.n_iter_, whole.residual_)
    np.testing.assert_allclose(rows.vectors_, oracle.limit(model.weights_.toarray(), Y), atol=0.02)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_weights_of_a_graph_in_row_blocks_are_those_of_the_whole(grid, monkeypatch):
    never_whole(monkeypatch)
    X, Y, whole = problem()
    checkpoint = Kept()
    model = LatentSemanticImputation(min_degree=4, checkpoint=checkpoint).set_graph(lazy(whole.graph_, grid))
    model.fit_weights(X)
    weights = sp.vstack(compute(model.weights_.to_delayed().ravel().tolist()), format="csr")
    for part in BITS:
        assert getattr(weights, part).tobytes() == getattr(whole.weights_, part).tobytes()
    assert model.certificate_.tobytes() == whole.certificate_.tobytes()
    assert [name for name in checkpoint if "weights" in name] == [
        f"weights_by_column_{number}" for number in range(len(grid))
    ]
    assert model.fit_vectors(Y).vectors_.tobytes() == whole.fit_vectors(Y).vectors_.tobytes()


def test_a_map_is_combined_with_weights_in_row_blocks(monkeypatch):
    never_whole(monkeypatch)
    X, Y, model = problem()
    options = {"method": "combined", "ridge": 0.1}
    whole = fitted(model.weights_, Y, X, **options)
    rows = fitted(lazy(model.weights_, GRIDS["ragged"]), Y, X, **options)
    assert rows.vectors_.tobytes() == whole.vectors_.tobytes()


@pytest.mark.usefixtures("little_held")
def test_what_fits_the_memory_of_a_task_is_held_and_what_does_not_is_not():
    _, _, model = problem()
    W, n_bytes = model.weights_, 12 * model.weights_.nnz
    blocks = lazy(W, GRIDS["even"])
    held = sparse_rows(blocks, n_bytes)
    for part in BITS:
        assert getattr(held, part).tobytes() == getattr(W, part).tobytes()
    assert isinstance(sparse_rows(blocks, n_bytes - 1), da.Array)
    assert sparse_rows(W, 1).nnz == W.nnz  # what is in memory stays there


@pytest.mark.usefixtures("little_held")
@pytest.mark.parametrize(("n_rows", "n_edges", "memory"), [(60, 300, 2048), (7, 7, 1), (10**6, 10**7, 2**26)])
def test_a_block_takes_its_share_of_the_memory_of_a_task(n_rows, n_edges, memory):
    chunk = edge_chunk(n_rows, n_edges, memory)
    assert 1 <= chunk <= n_rows
    assert chunk == 1 or 4 * 12 * n_edges * chunk <= memory * n_rows
    assert 4 * 12 * n_edges * (chunk + 1) > memory * n_rows or chunk == n_rows


class Watched:
    """Counts the row blocks of weights that are in memory."""

    def __init__(self):
        self.alive, self.most, self.n_read = 0, 0, 0

    def _end(self):
        self.alive -= 1

    def seen(self, block):
        block = block.copy()  # what is read from a store is not held elsewhere
        self.alive, self.n_read = self.alive + 1, self.n_read + 1
        self.most = max(self.most, self.alive)
        weakref.finalize(block, self._end)
        return block


@pytest.mark.usefixtures("little_held")
@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_weights_larger_than_the_memory_are_never_held(solver, monkeypatch):
    """A task has one block at a time, and the next one while it takes the place of the one before."""
    _, Y, model = problem()
    watched, memory = Watched(), 400
    chunk = edge_chunk(N, model.weights_.nnz, memory)
    W = lazy(model.weights_, batches(N, chunk))
    assert 12 * model.weights_.nnz > 2 * memory
    plain = imputation_rows.readers
    monkeypatch.setattr(
        imputation_rows,
        "readers",
        lambda rows: [lambda read=read: watched.seen(read()) for read in plain(rows)],
    )
    with dask.config.set(scheduler="synchronous"):
        rows = fitted(W, Y, solver=solver, block_memory=memory, tol=0.1)
        whole = fitted(model.weights_, Y, solver=solver, block_memory=memory, tol=0.1)
    assert watched.n_read > 3 * W.numblocks[0]
    assert watched.most <= 2 < W.numblocks[0]
    assert rows.vectors_.tobytes() == whole.vectors_.tobytes()


def test_threads_processes_and_a_cluster_give_the_same_bits(process_pool, monkeypatch):
    never_whole(monkeypatch)
    _, Y, model = problem()

    def vectors():
        return fitted(lazy(model.weights_, GRIDS["ragged"]), da.from_array(Y)).vectors_.compute()

    with one_blas_thread():
        found = [fitted(model.weights_, Y).vectors_, vectors()]
        with dask.config.set(scheduler="processes", pool=process_pool):
            found.append(vectors())
        with (
            forked_workers(),
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
            ) as cluster,
            Client(cluster),
        ):
            found.append(vectors())
    assert {one.tobytes() for one in found} == {found[0].tobytes()}


def test_weights_that_a_cluster_holds_are_held_whole(monkeypatch):
    never_whole(monkeypatch)
    _, Y, model = problem()
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster):
        held = lazy(model.weights_, GRIDS["even"]).persist()
        rows = fitted(held, Y)
    assert isinstance(rows.weights_, sp.csr_array)
    assert rows.vectors_.tobytes() == fitted(model.weights_, Y).vectors_.tobytes()


# --- rows that no known one reaches ------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 30), st.floats(0.5, 2.5), st.integers(1, 8))
@settings(max_examples=12, deadline=None)
def test_rows_that_no_path_reaches_are_those_of_the_whole(seed, n, degree, chunk):
    rng = np.random.default_rng(seed)
    W = sp.csr_array(rng.random((n, n)) * (rng.random((n, n)) < degree / n))
    known = rng.random(n) < 0.2
    with dask.config.set(scheduler="synchronous"):
        found = unreached_rows(lazy(W, batches(n, chunk)), known)
    reached = known.copy()
    for _ in range(n):
        reached |= (W.toarray() > 0) @ reached
    np.testing.assert_array_equal(found, np.flatnonzero(~reached))
    np.testing.assert_array_equal(unreached_rows(W, known), found)


def test_a_chain_from_block_to_block_is_followed_to_its_end(monkeypatch):
    """Each row leads to the next, so that a round over the blocks goes one block further."""
    never_whole(monkeypatch)
    chain = sp.csr_array(np.diag(np.ones(9), 1))
    Y = np.full((10, 2), np.nan)
    Y[9] = 3.0, 4.0
    vectors = fitted(lazy(chain, (2,) * 5), Y, tol=1e-12).vectors_
    np.testing.assert_allclose(vectors, np.tile(Y[9], (10, 1)))
    Y[4], Y[9] = Y[9], np.nan
    with pytest.raises(UnreachedRowsError, match="5 rows to impute") as told:
        fitted(lazy(chain, (2,) * 5), Y)
    np.testing.assert_array_equal(told.value.rows, [5, 6, 7, 8, 9])


def test_a_graph_in_row_blocks_may_have_duplicates_but_no_loops(monkeypatch):
    never_whole(monkeypatch)
    X, _, _ = problem()
    columns = ((np.arange(N)[:, None] + [2, 1, 2]) % N).ravel()
    graph = sp.csr_array((np.ones(3 * N), columns, 3 * np.arange(N + 1)), shape=(N, N))
    whole = LatentSemanticImputation().set_graph(graph).fit_weights(X)
    model = LatentSemanticImputation().set_graph(lazy(graph, GRIDS["ragged"])).fit_weights(X)
    found = sp.vstack(compute(model.weights_.to_delayed().ravel().tolist()), format="csr")
    assert found.nnz == 2 * N
    assert found.toarray().tobytes() == whole.weights_.toarray().tobytes()
    loop = graph.tolil()
    loop[22, 22] = 1.0
    with pytest.raises(ValueError, match="rows among their own neighbors"):
        LatentSemanticImputation().set_graph(lazy(sp.csr_array(loop), GRIDS["ragged"])).fit_weights(X)
