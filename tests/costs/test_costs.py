"""What costs say, against the arrays that runs make: no option changes these and leaves the cost as it was."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import distembed as de
from distembed import execution
from distembed.costs import Cost, add_costs
from distembed.factorization.document_costs import consensus_cost, kmeans_cost, lda_cost, nmf_cost
from distembed.linalg.operators import row_blocks
from tests.processes import Process

Sizes = dict[str, int]

BLOCK_MEMORY = 2**20


def counts_of(n: int, n_pairs: int) -> sp.csr_array:
    generator = np.random.default_rng(0)
    rows, columns = generator.integers(0, n, (2, n_pairs))
    return sp.csr_array((generator.integers(1, 50, n_pairs).astype(np.float32), (rows, columns)), (n, n))


def bytes_of(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, list | tuple):
        return sum(map(bytes_of, value))
    return (
        0 if not hasattr(value, "indptr") else sum(map(bytes_of, (value.data, value.indices, value.indptr)))
    )


class Recorder:
    """Keeps the bytes of each array that a run asks a checkpoint to keep, and of the largest task of each kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: Sizes = {}
        called = execution.BlockFunction.__call__

        def call(function: Any, /, *arguments: Any, **options: Any) -> Any:
            made = called(function, *arguments, **options)
            taken = bytes_of([*arguments, made])
            task = f"task {function.__name__}"
            self.sizes[task] = max(taken, self.sizes.get(task, 0))
            return made

        monkeypatch.setattr(execution.BlockFunction, "__call__", call)

    def __call__(self, name: str, make: Callable[[], da.Array]) -> da.Array:
        array = execution.persist(name, make)
        self.sizes[name] = sum(
            bytes_of(block) for block in execution.compute(array.to_delayed().ravel().tolist())
        )
        return array


# --- documents -------------------------------------------------------------------------------------------------

N_DOCUMENTS, N_TERMS, TERMS_OF_DOCUMENT = 80, 50, 8


def terms_of(
    n_documents: int = N_DOCUMENTS, n_terms: int = N_TERMS, n_held: int = TERMS_OF_DOCUMENT
) -> sp.csr_array:
    """Return documents x words of as many words each, so that any choice of documents takes as many bytes."""
    generator = np.random.default_rng(0)
    first = generator.integers(0, n_terms, (n_documents, 1))
    columns = ((first + np.arange(n_held) ** 2) % n_terms).ravel()
    values = generator.random(columns.size, np.float32) + 0.5
    starts = np.arange(0, columns.size + 1, n_held)
    return sp.csr_array((values, columns, starts), (n_documents, n_terms))


def associations(n_terms: int = N_TERMS) -> sp.csr_array:
    """Return a symmetric matrix of words of which no shift in this file removes a value."""
    found = abs(sp.random_array((n_terms, n_terms), density=0.1, rng=0, format="csr"))
    return sp.csr_array((found + found.T + 2 * sp.eye_array(n_terms)).astype(np.float32))


def in_blocks(matrix: sp.csr_array) -> da.Array:
    return da.from_array(matrix.toarray(), chunks=(matrix.shape[0] // 4, -1))


def fit_documents(model: Any) -> Any:
    return model.fit(in_blocks(terms_of()))


def fit_both(model: Any) -> Any:
    """Fit to row blocks of documents and of words."""
    return model.fit(in_blocks(terms_of()), associations())


BLOCKS: dict[str, Any] = {"n_blocks": 4, "block_memory": BLOCK_MEMORY}
SHAPE, NNZ = (N_DOCUMENTS, N_TERMS), N_DOCUMENTS * TERMS_OF_DOCUMENT


def cost_of_nmf(model: Any) -> Cost:
    return nmf_cost(model, SHAPE, NNZ, **BLOCKS)


def cost_of_semantic(model: Any) -> Cost:
    return nmf_cost(model, SHAPE, NNZ, n_associated=associations().nnz, **BLOCKS)


def cost_of_kmeans(model: Any) -> Cost:
    return kmeans_cost(model, SHAPE, NNZ, **BLOCKS)


class Planned(NamedTuple):
    """An estimator, what fits it, its cost, another value of each option, and the options that change arrays."""

    options: dict[str, Any]
    fit: Callable[[Any], Any]
    cost: Callable[[Any], Cost]
    others: dict[str, Any]
    sized: tuple[str, ...]


FACTORS = {"n_components": 3, "n_iter": 10, "tol": 0.0}
"""Ten rounds are stored once, so that no tolerance changes how many arrays there are."""

FACTOR_OPTIONS: dict[str, Any] = {
    "n_components": 5,
    "init": "random",
    "n_iter": 20,
    "tol": 0.5,
    "n_init": 2,
    "choose": "objective",
    "random_state": 1,
}
SIZED_FACTORS = ("n_components", "init", "n_iter", "n_init")

PLANNED: dict[str, Planned] = {
    "NMF": Planned(
        FACTORS,
        fit_documents,
        cost_of_nmf,
        FACTOR_OPTIONS | {"solver": "orthogonal", "graph_weight": 0.5},
        SIZED_FACTORS,
    ),
    "SemanticNMF": Planned(
        FACTORS,
        fit_both,
        cost_of_semantic,
        FACTOR_OPTIONS | {"shift": 1.0, "semantic_weight": 0.5, "graph_weight": 0.5},
        (*SIZED_FACTORS, "shift"),
    ),
    "SphericalKMeans": Planned(
        {"n_clusters": 3},
        fit_documents,
        cost_of_kmeans,
        {"n_clusters": 4, "n_iter": 3, "tol": 0.5, "n_init": 2, "random_state": 1, "seeding_sample": 20},
        ("n_clusters", "seeding_sample"),
    ),
}


def sizes_of(monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]) -> Sizes:
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        fit(name, options, recorder)
        return recorder.sizes


def fit(name: str, options: dict[str, Any], checkpoint: Any) -> None:
    """Fit an estimator, however far from converged it stays."""
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")
        PLANNED[name].fit(model_of(name, options, checkpoint))


def model_of(name: str, options: dict[str, Any], checkpoint: Any) -> Any:
    made = getattr(de, name)
    keeps = {"checkpoint": checkpoint} if "checkpoint" in inspect.signature(made).parameters else {}
    return made(**PLANNED[name].options | options, **keeps)


def cost_of(name: str, options: dict[str, Any]) -> Cost:
    """Return the cost of a fit, with all that its checkpoint is given in memory."""
    return PLANNED[name].cost(model_of(name, options, execution.persist))


FITTED: dict[tuple[str, ...], Sizes] = {}
"""The sizes of fits that several tests start from."""

EACH_OPTION = [(name, option) for name, planned in PLANNED.items() for option in planned.others]


@pytest.mark.parametrize("name", PLANNED)
def test_no_option_is_left_out(name: str) -> None:
    parameters = {*inspect.signature(getattr(de, name)).parameters}
    assert {*PLANNED[name].others} == parameters - {"checkpoint"}


@pytest.mark.parametrize(("name", "option"), EACH_OPTION)
def test_where_an_option_changes_the_arrays_of_a_fit_it_changes_its_cost(
    monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    changed = {option: PLANNED[name].others[option]}
    base = {"n_init": 2} if option == "choose" else {}
    key = (name, *base)
    if key not in FITTED:
        FITTED[key] = sizes_of(monkeypatch, name, base)
    before, after = FITTED[key], sizes_of(monkeypatch, name, base | changed)
    if option in PLANNED[name].sized:
        assert before != after
    if before != after:
        assert cost_of(name, base) != cost_of(name, base | changed)
    for options, found in ((base, before), (base | changed, after)):
        tasks = [size for task, size in found.items() if task.startswith("task ")]
        assert max(tasks) <= cost_of(name, options).peak_bytes(1)


@pytest.mark.parametrize("name", ["NMF", "SemanticNMF"])
def test_a_checkpoint_stores_what_the_cost_counts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    recorder = Recorder(monkeypatch)
    fit(name, {}, recorder)
    kept = sum(size for array, size in recorder.sizes.items() if not array.startswith("task "))
    stored = PLANNED[name].cost(model_of(name, {}, recorder)).written_bytes - cost_of(name, {}).written_bytes
    assert kept <= stored <= 1.2 * kept


def test_a_consensus_takes_the_topics_of_all_starts() -> None:
    few, many = (consensus_cost(1000, n, block_memory=BLOCK_MEMORY) for n in (20, 40))
    assert (many.written_bytes, many.shared_bytes) == (2 * few.written_bytes, 4 * few.shared_bytes)
    assert consensus_cost(10**7, 100, block_memory=BLOCK_MEMORY).task_bytes == BLOCK_MEMORY


def test_lda_stores_its_topics_after_each_pass() -> None:
    costs = [lda_cost(SHAPE, NNZ, n_topics=4, n_passes=n, **BLOCKS) for n in (5, 6)]
    assert costs[1].written_bytes - costs[0].written_bytes == 4 * 4 * N_TERMS
    assert lda_cost(SHAPE, NNZ, n_topics=8, n_passes=5, **BLOCKS).shared_bytes == 2 * costs[0].shared_bytes


def test_costs_one_after_the_other_add_up_but_for_their_memory() -> None:
    one = Cost(2, 10, 20, 30, 7)
    other = Cost(3, 1, 2, 40, 5, 2, exact=False)
    both = Cost(5, 11, 22, 40, 7, 3, exact=False, together=3)
    assert add_costs([one, other]) == both


def test_threads_take_no_more_than_the_tasks_that_may_run_at_the_same_time() -> None:
    cost = Cost(12, 0, 0, 100, 7, together=2)
    assert [cost.peak_bytes(n_threads) for n_threads in (1, 2, 4)] == [107, 207, 207]
    assert cost._replace(together=None).peak_bytes(4) == 407


# --- measured --------------------------------------------------------------------------------------------------


def resident(field: str) -> int:
    """Return the bytes of a field of what Linux says of this process."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(dict(line.split(":", 1) for line in status.splitlines())[field].split()[0])


def main() -> None:
    """Print the peak of a fit in this process, and what its cost says of two threads."""
    prepare = MEASURED[sys.argv[1]]
    warnings.simplefilter("ignore")
    with dask.config.set(scheduler="threads", pool=ThreadPoolExecutor(2)):
        prepare(0.05)[0]()
        fit, cost = prepare(1.0)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        fit()
        print(json.dumps([resident("VmHWM") - before, cost.peak_bytes(2)]))


def prepare_documents(model: Any, share: float, *, tied: bool = False) -> tuple[Callable[[], Any], Cost]:
    """Return what fits a collection of some size in 16 blocks, with a graph if its documents are tied, and its cost."""
    documents = terms_of(int(20_000 * share), int(10_000 * share), 30)
    blocks = row_blocks(documents, values_per_block=documents.nnz // 16)
    cost_of_model: Any = kmeans_cost if isinstance(model, de.SphericalKMeans) else nmf_cost
    options: dict[str, Any] = {"n_blocks": 16, "block_memory": 2 * documents.nnz}
    given = {}
    if tied:
        n = documents.shape[0]
        one_way = sp.random_array((n, n), density=min(0.5, 5 / n), rng=0, format="csr")
        given["graph"] = one_way.maximum(one_way.T)
        options["n_edges"] = given["graph"].nnz
    return partial(model.fit, blocks, **given), cost_of_model(
        model, documents.shape, documents.nnz, **options
    )


MEASURED: dict[str, Callable[[float], tuple[Callable[[], Any], Cost]]] = {
    "NMF": partial(prepare_documents, de.NMF(20, n_iter=2, n_init=2, solver="multiplicative")),
    "NMF with a graph": partial(prepare_documents, de.NMF(20, n_iter=2, n_init=2), tied=True),
    "SphericalKMeans": partial(prepare_documents, de.SphericalKMeans(20, n_iter=2)),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name.startswith("NMF") else []) for name in MEASURED],
)
def test_a_fit_takes_what_its_cost_says(name: str) -> None:
    process = Process(name, program=main.__module__)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    peak, planned = json.loads(printed.splitlines()[-1])
    assert peak <= planned < 3 * peak
