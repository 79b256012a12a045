"""Block functions get aligned arrays from every scheduler, one BLAS thread each, and equal bits follow."""

from __future__ import annotations

import gc
import operator
import os
import signal
import sys
import threading
import warnings
from collections import namedtuple
from importlib import import_module

import dask
import dask.array as da
import numpy as np
import pytest
from dask.utils import key_split
from distributed import Client, LocalCluster, wait
from scipy.sparse import csr_array, random_array
from threadpoolctl import threadpool_info, threadpool_limits

from distembed import execution
from distembed.corpus.readers import read_corpus
from distembed.corpus.tokenizer import Tokenizer
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.documents import count_document_terms
from distembed.execution import (
    aligned,
    compute,
    counted_from,
    delayed,
    heard_by,
    one_blas_thread,
    sent,
    tell,
    whole,
)
from distembed.lift import Sum, fold, lift
from distembed.linalg.operators import row_blocks, sparse_times, times_matrix, transpose_row_blocks
from distembed.manifold import propagation
from distembed.neighbors.graphs import affinity_rows
from distembed.weighting.documents import select_pairs
from distembed.weighting.pmi import ppmi
from tests.conftest import forked_workers

Pair = namedtuple("Pair", ["left", "right"])


def unaligned(array):
    """A copy that begins three bytes behind an aligned address, as arrays from another process do."""
    room = np.empty(array.nbytes + 3, np.uint8)[3:]
    copied = np.ndarray(array.shape, array.dtype, buffer=room.data, strides=array.strides)
    copied[...] = array
    assert not copied.flags.aligned
    return copied


def is_fine(value):
    """Whether all arrays within a value are aligned and C-contiguous."""
    if isinstance(value, list | tuple):
        return all(map(is_fine, value))
    parts = [value.data, value.indices, value.indptr] if hasattr(value, "indptr") else [value]
    return all(part.flags.aligned and part.flags.c_contiguous for part in parts)


DENSE = np.random.default_rng(0).standard_normal((40, 7))
SPARSE = random_array((40, 30), density=0.2, format="csr", rng=np.random.default_rng(1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("make", [np.asfortranarray, lambda a: a[::2], lambda a: a.T, unaligned])
def test_arrays_that_are_not_fine_are_copied(make, dtype):
    array = DENSE.astype(dtype)
    found = aligned(make(array))
    assert is_fine(found)
    np.testing.assert_array_equal(found, make(array))


@pytest.mark.parametrize(
    "value", [DENSE, SPARSE, np.array(3.0), np.empty((0, 4)), np.array([None, "a"]), "text", None, 7]
)
def test_what_is_fine_already_is_handed_on(value):
    assert aligned(value) is value


def test_sparse_blocks_keep_what_they_know():
    block = csr_of_unaligned(SPARSE)
    block.sort_indices()
    found = aligned(block)
    assert is_fine(found)
    assert not is_fine(block)
    assert found.indices is block.indices
    assert vars(found).keys() == vars(block).keys()
    np.testing.assert_array_equal(found.toarray(), block.toarray())


def test_arrays_are_found_in_lists_tuples_and_dicts():
    wrong = unaligned(DENSE)
    found = aligned([[wrong], Pair(wrong, 3), (wrong, {"key": wrong})])
    assert is_fine([found[0], found[1].left, found[2][0], found[2][1]["key"]])
    assert type(found[1]) is Pair
    assert type(found[2]) is tuple


def fine(*values):
    return np.array([[is_fine(list(values))]], dtype=float)


def fine_sum(values):
    return unaligned(fine(*values) * min(value[0, 0] for value in values))


def lifts_of(dense, sparse):
    """One result of every kind of lift: 1 where every block function got fine arrays."""
    whole = lift(unaligned, "ab->ab", dense.rechunk(-1))
    pieces = sparse.to_delayed().ravel().tolist()
    one, summed = {"w": 1, "c": 1}, Sum(fine, fine_sum, lambda found: found)
    return {
        "lift": lift(fine, "wc,ab,wd->wc", sparse, whole, dense, sizes=one),
        "lift of lists": lift(fine, "wc,Ab->wc", sparse, dense, sizes=one),
        "fold": fold(summed, "wc", dense, shape=(1, 1), fan_in=2),
        "delayed": [delayed(fine)(pieces, piece) for piece in pieces],
    }


def csr_of_unaligned(block):
    block = csr_array(block)
    block.data = unaligned(block.data)
    return block


@pytest.mark.parametrize("make", [unaligned, np.asfortranarray])
def test_block_functions_and_callers_get_aligned_arrays(make):
    dense = da.from_array(DENSE, chunks=(5, -1)).map_blocks(make, dtype=float)
    sparse = da.from_array(SPARSE.toarray(), chunks=(5, -1)).map_blocks(
        csr_of_unaligned, meta=csr_array((0, 0))
    )
    for name, lifted in lifts_of(dense, sparse).items():
        assert np.all(np.asarray(compute(lifted)) == 1), name
    assert is_fine(compute((dense.blocks[0], [sparse.blocks[1]], delayed(make)(DENSE))))


# --- two processes ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes():
    with (
        forked_workers(),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
    ):
        yield cluster


def in_memory(sparse):
    gc.collect()
    return compute(sparse).toarray()


def csr_blocks(rows):
    """Return row blocks that nobody but the result refers to."""
    return rows.map_blocks(csr_array, meta=csr_array((0, 0)))


HELD = {
    "graph": lambda rows: in_memory(affinity_rows(rows, 5)),
    "lists": lambda rows: propagation._search_lists(rows, rows[::-1], 5),
    "transpose": lambda rows: in_memory(transpose_row_blocks(csr_blocks(rows))),
    "product": lambda rows: sparse_times(transpose_row_blocks(csr_blocks(rows)), rows),
    "pairs of words": lambda rows: in_memory(
        select_pairs(csr_blocks(abs(rows[:, :1]) * np.arange(60.0)), np.arange(40))
    ),
}
"""What is made of rows by tasks, or by a loop, that read blocks by themselves."""


@pytest.mark.parametrize("kind", HELD)
def test_what_a_cluster_holds_is_read_like_any_other_array(processes, kind):
    """With the bits of one process, while the tasks hold a reference to it."""
    rows = da.from_array(np.random.default_rng(0).standard_normal((60, 8)), chunks=(20, -1))
    expected = compute(HELD[kind](rows))
    with Client(processes) as client:
        assert np.array_equal(compute(HELD[kind](rows.persist())), expected)
        # No task has asked the cluster for a block: what it reads are its arguments.
        assert set(processes.scheduler.clients) <= {client.id, "fire-and-forget"}


# --- one thread ------------------------------------------------------------------------------------------------


def threads_of(api):
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == api}


@pytest.fixture
def two_threads():
    """Let every BLAS and OpenMP library use two threads, whatever the machine has."""
    for module in ("scipy.linalg", "sklearn.cluster"):
        import_module(module)
    with threadpool_limits(limits=2):
        yield


def test_uses_that_overlap_restore_what_was_there(two_threads):
    """Within each other, and in another thread."""
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other():
        before = threads_of("openmp")
        with one_blas_thread():
            inside.set()
            leave.wait(30)
            seen.append(threads_of("openmp"))
        seen.append(threads_of("openmp") == before)

    thread = threading.Thread(target=other)
    with one_blas_thread():
        with one_blas_thread():
            thread.start()
            inside.wait(30)
        assert threads_of("blas") == threads_of("openmp") == {1}
    assert threads_of("blas") == {1}  # of the other thread's use
    assert threads_of("openmp") == {2}
    leave.set()
    thread.join(30)
    assert seen == [{1}, True]
    assert threads_of("blas") == {2}


def test_libraries_are_looked_for_again_when_a_module_was_imported(two_threads, monkeypatch):
    """A search holds all threads of Python up, so that it is made once for the modules there are."""
    searches = []
    found = execution.ThreadpoolController
    monkeypatch.setattr(execution, "ThreadpoolController", lambda: searches.append(1) or found())
    execution._libraries.cache_clear()
    for _ in range(3):
        with one_blas_thread():
            assert threads_of("blas") == {1}
    assert len(searches) == 1
    monkeypatch.setitem(sys.modules, "a_module_that_brings_a_library", execution)
    with one_blas_thread():
        assert len(searches) == 2


def test_rounds_are_heard_where_somebody_listens_and_nowhere_else():
    heard: list[tuple[str, int, int | None]] = []
    tell("rounds", 1, 9)
    with heard_by(lambda *step: heard.append(step)):
        tell("rounds", 2, 9)
        with counted_from("rounds", 10, 30):
            tell("rounds", 3, 9)
            tell("passes", 4, 9)
        with heard_by(None):
            tell("rounds", 5, 9)
        tell("passes", 6, 9)
    tell("rounds", 7, 9)
    assert heard == [("rounds", 2, 9), ("rounds", 13, 30), ("passes", 6, 9)]


# --- small graphs ----------------------------------------------------------------------------------------------

N_LARGE = 400_000
"""Values of a vector whose bytes, 3 MB, are more than a graph may hold of one."""


def vocabulary_of_many_words() -> Vocabulary:
    ones = np.ones(N_LARGE // 4, np.int64)
    return Vocabulary([f"word{number}" for number in range(len(ones))], ones, ones)


def large_lifts(tmp_path) -> dict[str, tuple[da.Array, object]]:
    """Return lazily what is made from a large value in the memory of the client, and what it is."""
    rng = np.random.default_rng(0)
    rows, matrix = rng.random((40, 500)), rng.random((500, 800))
    blocks = da.from_array(rows, chunks=(10, -1))
    sparse = row_blocks(csr_array(rows), values_per_block=2000)
    vector = rng.random(N_LARGE)
    counts = row_blocks(csr_array((np.ones(20), (np.arange(20) % 4, np.arange(20))), shape=(4, N_LARGE)))
    (tmp_path / "a.txt").write_text("word1 word2 word1\nword7\n")
    docs = read_corpus(tmp_path / "a.txt", tokenizer=Tokenizer(numbers=True))
    terms = np.zeros((2, N_LARGE // 4))
    terms[[0, 0, 1], [1, 2, 7]] = 2, 1, 1
    return {
        "a matrix that vectors are multiplied by": (times_matrix(blocks, matrix), rows @ matrix),
        "a factor that sparse rows are multiplied by": (
            lift(operator.matmul, "wd,dk->wk", sparse, matrix),
            rows @ matrix,
        ),
        "a vector of every word": (ppmi(counts, row_totals=np.ones(4), column_totals=vector), None),
        "a sparse matrix": (
            row_blocks(csr_array(matrix), values_per_block=matrix.size).map_blocks(toarray, dtype=float),
            matrix,
        ),
        "a vocabulary": (
            count_document_terms(docs, vocabulary_of_many_words()).map_blocks(toarray, dtype=int),
            terms,
        ),
    }


def toarray(block):
    return block.toarray()


def test_a_large_value_reaches_a_cluster_outside_the_graph(processes, tmp_path):
    """Dask warned of graphs of 59 MiB: a vocabulary, or a factor of each round, was in them."""
    with Client(processes), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1MB"}):
        with pytest.warns(UserWarning, match="large graph"):
            da.from_array(np.ones(N_LARGE), chunks=-1).sum().compute()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name, (lazy, expected) in large_lifts(tmp_path).items():
                found = compute(lazy)
                assert expected is None or np.allclose(found, expected), name


def test_a_large_value_that_is_sent_again_is_another_one_to_the_cluster(processes):
    """Under one key the release of the first took the second with it: `cancelled for reason: lost dependencies`."""
    vector = np.ones(N_LARGE)
    assert sent(vector) is vector  # without a cluster it stays where it is
    np.testing.assert_array_equal(compute(whole(vector)), vector)
    value = dask.delayed(np.zeros)(3)
    with Client(processes):
        assert sent(value) is value
        keys = [next(iter(sent(vector).__dask_graph__().values())).key for _ in range(2)]
    assert keys[0] != keys[1]
    assert [key_split(key) for key in keys] == ["shared", "shared"]


def test_a_large_value_outlives_the_workers_that_hold_it(processes):
    """What a client scatters is lost with its last holder, and Dask lets one holder keep it."""
    vector = np.arange(N_LARGE)
    with Client(processes) as client:
        shared = whole(vector).persist()
        wait(shared)
        for pid in client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        assert compute(shared.sum()) == vector.sum()
