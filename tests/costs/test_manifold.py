"""What the costs of the manifold estimators say, against the arrays that their runs make."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import distembed as de
from distembed.costs import Cost
from distembed.linalg.operators import row_blocks
from distembed.manifold import (
    alignment_costs,
    eigenmaps,
    imputation_costs,
    projection_costs,
    propagation,
)
from distembed.manifold.projection import neighborhood_graph
from distembed.manifold.propagation import propagate_correspondences
from distembed.manifold.regressions import LinearRidge
from distembed.neighbors.costs import RowSizes, most_edges, search_cost
from distembed.neighbors.graphs import joint_rows, neighbor_affinity
from distembed.neighbors.graphs import row_sizes as neighbor_sizes
from tests.costs.test_costs import Recorder, Sizes

GENERATOR = np.random.default_rng(0)
TABLE = GENERATOR.standard_normal((120, 7)).astype(np.float32)
VECTORS = (TABLE @ GENERATOR.standard_normal((7, 5))).astype(np.float32)
VECTORS[GENERATOR.permutation(120)[:50]] = np.nan
ROWS = np.maximum(GENERATOR.standard_normal((150, 40)) - 0.3, 0)
FIRST = GENERATOR.standard_normal((90, 8)).astype(np.float32)
SECOND = (FIRST[:70] @ np.linalg.qr(GENERATOR.standard_normal((8, 8)))[0]).astype(np.float32)
SETS = RowSizes(90, 8, itemsize=4), RowSizes(70, 8, itemsize=4)
PAIRS = np.column_stack([np.arange(0, 70, 2), np.arange(0, 70, 2)])
FEATURES = FIRST[:, :4]

Step = tuple[Sizes, Cost]
"""The sizes of the arrays of a step, and its cost."""


def recorded(run: Callable[[Recorder], Any]) -> Any:
    """Return what a run returns, which is given a checkpoint that records; graphs of 20 vertices are large in it."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(eigenmaps, "DENSE_ROWS", 20)
        return run(Recorder(patch))


def kept_arrays(sizes: Sizes) -> Sizes:
    """Return the sizes of the arrays that a checkpoint was asked to keep."""
    return {name: size for name, size in sizes.items() if not name.startswith("task ")}


def largest_task(sizes: Sizes) -> int:
    """Return the bytes that the largest task was given and returned."""
    return max((size for name, size in sizes.items() if name.startswith("task ")), default=0)


def n_rounds(sizes: Sizes) -> int:
    """Return the rounds of the search for eigenvectors that were kept."""
    return sum("basis-" in name for name in sizes)


# --- latent semantic imputation --------------------------------------------------------------------------------

LSI_BASES: dict[str, dict[str, Any]] = {
    "graph": {"min_degree": 4},
    "power": {"min_degree": 4, "solver": "power", "tol": 1e-4},
    "residuals": {"min_degree": 4, "regressor": LinearRidge()},
}
LSI_OPTIONS: dict[str, Any] = {
    "min_degree": 6,
    "solver": "power",
    "tol": 1e-2,
    "max_iter": 3,
    "weights": "normalise_after",
    "metric": "cosine",
    "floor": 0.5,
    "block_memory": 6000,
    "regressor": LinearRidge(),
}


@cache
def imputation_steps(base: str, changed: str = "") -> list[Step]:
    """Return the steps of an imputation in which an option of a base is another."""
    options = LSI_BASES[base] | ({changed: LSI_OPTIONS[changed]} if changed else {})
    table, vectors = RowSizes(120, 7, itemsize=4), RowSizes(120, 5, itemsize=4)
    model = de.LatentSemanticImputation(**options)

    def step(do: Callable[[], Any]) -> Sizes:
        def run(recorder: Recorder) -> Sizes:
            model.set_params(checkpoint=recorder)
            do()
            return recorder.sizes

        found: Sizes = recorded(run)
        return found

    made = [
        step(lambda: model.fit_graph(TABLE)),
        step(lambda: model.fit_weights(TABLE)),
        step(lambda: model.fit_vectors(VECTORS, TABLE)),
    ]
    known: dict[str, Any] = {"n_edges": model.graph_.nnz, "n_unknown": 50, "n_sweeps": model.n_iter_}
    costs = [
        imputation_costs.graph_cost(model, table),
        imputation_costs.weights_cost(model, table, n_edges=model.graph_.nnz),
        imputation_costs.vectors_cost(model, table, vectors, **known),
    ]
    assert model.graph_.nnz <= imputation_costs.most_entries(model, 120)
    return list(zip(made, costs, strict=True))


# --- locality preserving projection ----------------------------------------------------------------------------

LPP_BASES: dict[str, dict[str, Any]] = {
    "sparse": {"n_components": 4, "n_neighbors": 5},
    "dense": {"n_components": 4, "n_neighbors": 5},
    "threshold": {"n_components": 4, "threshold": 0.3},
    "eigen": {"n_components": 4, "n_neighbors": 5, "solver": "eigen", "svd_components": 20},
}
LPP_OPTIONS: dict[str, Any] = {
    "n_components": 3,
    "n_neighbors": 8,
    "affinity": "binary",
    "threshold": 0.5,
    "symmetry": "mutual",
    "degree": 3,
    "solver": "eigen",
    "alpha": 1.0,
    "constant_column": True,
    "svd_components": 25,
    "tol": 1e-2,
    "max_iter": 20,
    "random_state": 1,
    "block_memory": 40_000,
}


@cache
def projection_steps(base: str, changed: str = "") -> list[Step]:
    options = LPP_BASES[base] | ({changed: LPP_OPTIONS[changed]} if changed else {})
    rows: Any = sp.csr_array(ROWS) if base in ("sparse", "eigen") else ROWS
    size = RowSizes(150, 40, np.count_nonzero(ROWS) if sp.issparse(rows) else None)
    model = de.LocalityPreservingProjection(**options)

    def graph_of(recorder: Recorder) -> tuple[Any, Sizes]:
        names = ("n_neighbors", "threshold", "affinity", "symmetry", "degree", "block_memory")
        graph = neighborhood_graph(
            rows, checkpoint=recorder, **{name: getattr(model, name) for name in names}
        )
        return graph, recorder.sizes

    graph, searched = recorded(graph_of)

    def fit(recorder: Recorder) -> tuple[Sizes, Cost]:
        model.set_params(checkpoint=recorder).fit(rows, graph=graph)
        rounds = n_rounds(recorder.sizes)
        cost = projection_costs.projection_cost(model, size, n_edges=graph.nnz, n_rounds=rounds)
        return recorder.sizes, cost

    assert graph.nnz <= projection_costs.graph_edges(model, 150)
    return [(searched, projection_costs.neighborhood_cost(model, size, n_edges=graph.nnz)), recorded(fit)]


@pytest.mark.parametrize("base", ["sparse", "threshold"])
def test_what_a_checkpoint_has_costs_less(base: str) -> None:
    rows: Any = sp.csr_array(ROWS) if base == "sparse" else ROWS
    size = RowSizes(150, 40, np.count_nonzero(ROWS) if base == "sparse" else None)
    model = de.LocalityPreservingProjection(**LPP_BASES[base])
    kept: dict[str, da.Array] = {}

    def fit(recorder: Recorder) -> Sizes:
        def checkpoint(name: str, make: Callable[[], da.Array]) -> da.Array:
            kept[name] = kept[name] if name in kept else recorder(name, make)
            return kept[name]

        model.set_params(checkpoint=checkpoint).fit(rows)
        return recorder.sizes

    assert kept_arrays(recorded(fit))
    found, n_edges = recorded(fit), model.graph_.nnz
    assert not kept_arrays(found)
    before = projection_costs.neighborhood_cost(model, size, n_edges=n_edges)
    graph = projection_costs.kept_neighborhood_cost(model, size, n_edges=n_edges)
    maps = [projection_costs.projection_cost(model, size, n_edges=n_edges, has_maps=b) for b in (True, False)]
    assert largest_task(found) <= max(graph.peak_bytes(1), maps[0].peak_bytes(1))
    assert (
        graph.written_bytes == maps[0].written_bytes == 0 < min(before.written_bytes, maps[1].written_bytes)
    )
    assert graph.peak_bytes(1) <= before.peak_bytes(1)
    assert maps[0].tasks < maps[1].tasks + before.tasks


# --- embeddings of one or two sets -----------------------------------------------------------------------------

FPE_BASES: dict[str, dict[str, Any]] = {
    "given": {"n_components": 6, "n_neighbors": 5, "max_iter": 4},
    "found": {"n_components": 6, "n_neighbors": 5, "max_iter": 4, "propagate": True},
    "random": {"n_components": 6, "n_neighbors": 5, "max_iter": 4, "init": "random"},
}
GRAPH_OPTIONS: dict[str, Any] = {
    "n_components": 9,
    "n_neighbors": 8,
    "affinity": "gaussian",
    "symmetry": "union",
    "metric": "euclidean",
    "correspondence_weight": 2.0,
    "propagate": True,
    "random_state": 1,
    "block_memory": 9000,
}
FPE_OPTIONS: dict[str, Any] = GRAPH_OPTIONS | {
    "regularization": 10.0,
    "normalization": "symmetric",
    "smoothness": 2,
    "missing": "imputed",
    "init": "random",
    "center": False,
    "max_iter": 2,
    "tol": 0.5,
    "solver_tol": 1e-2,
    "solver_max_iter": 20,
}


@cache
def embedding_steps(base: str, changed: str = "") -> list[Step]:
    """Return the graphs and links of a feature-preserving embedding, and its rounds."""
    model = de.FeaturePreservingEmbedding(**FPE_BASES[base] | _changed(FPE_OPTIONS, changed))
    steps, graph = _joint_steps(model)

    def fit(recorder: Recorder) -> Step:
        values = np.concatenate([FEATURES, np.full((70, 4), np.nan)])
        fitted = model.set_params(checkpoint=recorder).fit_graph(graph, values)
        options: dict[str, Any] = {"n_edges": graph.nnz, "n_rounds": fitted.n_iter_}
        return recorder.sizes, alignment_costs.embedding_cost(fitted, 160, 4, **options)

    return [*steps, recorded(fit)]


def _changed(options: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: options[name]} if name else {}


def _joint_steps(model: Any) -> tuple[list[Step], sp.csr_array]:
    """Return the links and the graphs of two sets, and the joint graph."""

    def links_of(recorder: Recorder) -> tuple[Any, Sizes]:
        return model.set_params(checkpoint=recorder)._links_for(FIRST, SECOND, PAIRS), recorder.sizes

    links, found = recorded(links_of)

    def graph_of(recorder: Recorder) -> tuple[Any, Sizes]:
        return model.set_params(checkpoint=recorder)._joint_graph((FIRST, SECOND), links), recorder.sizes

    graph, searched = recorded(graph_of)
    costs = alignment_costs.graph_costs(model, SETS)
    both = max(costs, key=lambda cost: cost.peak_bytes(1))
    both = both._replace(written_bytes=sum(cost.written_bytes for cost in costs))
    assert links.nnz <= alignment_costs.most_links(model, 70, len(PAIRS))
    assert graph.nnz <= alignment_costs.joint_edges(model, SETS, links.nnz)
    pairs = alignment_costs.links_cost(model, *SETS, n_pairs=len(PAIRS))
    return [(found, pairs), (searched, both)], graph


# --- every option of every estimator ---------------------------------------------------------------------------

ESTIMATORS: dict[str, tuple[Any, dict[str, dict[str, Any]], dict[str, Any], Callable[..., list[Step]]]] = {
    "imputation": (de.LatentSemanticImputation, LSI_BASES, LSI_OPTIONS, imputation_steps),
    "projection": (de.LocalityPreservingProjection, LPP_BASES, LPP_OPTIONS, projection_steps),
    "embedding": (de.FeaturePreservingEmbedding, FPE_BASES, FPE_OPTIONS, embedding_steps),
}
LEFT_OUT = {
    ("projection", "eigen", "constant_column"): "refused",
    ("imputation", "residuals", "regressor"): "it has one",
}
CASES = [
    pytest.param(name, base, option, marks=[] if number % len(bases) == place else [pytest.mark.slow])
    for name, (_, bases, options, _) in ESTIMATORS.items()
    for place, base in enumerate(bases)
    for number, option in enumerate(options)
    if (name, base, option) not in LEFT_OUT
]
"""Each option of each base; one base of each option, in turn, is fast."""


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_option_is_left_out(name: str) -> None:
    estimator, _, options, _ = ESTIMATORS[name]
    assert {*options, "checkpoint"} == {*inspect.signature(estimator).parameters}


@pytest.mark.parametrize(("name", "base", "option"), CASES)
def test_what_is_recorded_stays_below_a_cost_that_changes_with_it(name: str, base: str, option: str) -> None:
    before, after = (ESTIMATORS[name][-1](base, changed) for changed in ("", option))
    for (sizes, cost), (other_sizes, other_cost) in zip(before, after, strict=True):
        assert sizes == other_sizes or cost != other_cost
        assert largest_task(other_sizes) <= other_cost.peak_bytes(1)
        assert sum(kept_arrays(other_sizes).values()) <= other_cost.written_bytes


@pytest.mark.parametrize(
    ("name", "base", "sized"),
    [
        ("imputation", "graph", {"min_degree", "solver", "metric", "block_memory", "regressor"}),
        ("imputation", "power", {"tol", "max_iter"}),
        (
            "projection",
            "sparse",
            {"n_components", "n_neighbors", "threshold", "symmetry", "solver", "block_memory"},
        ),
        ("projection", "sparse", {"constant_column"}),
        ("projection", "eigen", {"svd_components"}),
        (
            "embedding",
            "given",
            {"n_components", "n_neighbors", "symmetry", "init", "max_iter", "block_memory"},
        ),
    ],
)
def test_the_options_that_change_the_arrays_are_seen(name: str, base: str, sized: set[str]) -> None:
    """Else the first test would pass whatever the costs are."""
    steps = ESTIMATORS[name][-1]
    before = [sizes for sizes, _ in steps(base)]
    assert [option for option in sized if [sizes for sizes, _ in steps(base, option)] == before] == []


# --- steps that no option of an estimator leads to -------------------------------------------------------------


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_pairs_of_large_sets_take_what_their_cost_says(
    n_rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (propagation, alignment_costs):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 30)
    model = de.FeaturePreservingEmbedding(propagate=True, block_memory=30_000)
    links = sp.csr_array((np.ones(len(PAIRS)), PAIRS.T), shape=(90, 70))

    def run(recorder: Recorder) -> Sizes:
        propagate_correspondences(
            FIRST, SECOND, links, n_rounds=n_rounds, block_memory=30_000, checkpoint=recorder
        )
        return recorder.sizes

    sizes = recorded(run)
    cost = alignment_costs.links_cost(model, *SETS, n_pairs=len(PAIRS), n_rounds=n_rounds)
    lists = list(kept_arrays(sizes).values())
    n_searches = (1 + propagation.folds_of(len(PAIRS))[1]) * (n_rounds + 1)
    assert len(lists) == 2 * n_searches == cost.graphs
    assert cost.written_bytes / 3 < sum(lists) <= cost.written_bytes
    assert largest_task(sizes) <= cost.peak_bytes(1)


@pytest.mark.parametrize("n_known", [1, 2, 9, 10, 49, 50, 51, 200, 251])
def test_folds_are_judged_until_enough_pairs_are(n_known: int) -> None:
    n_folds, n_used = propagation.folds_of(n_known)
    sizes = np.bincount(np.random.default_rng(0).permutation(n_known) % n_folds)
    assert n_used == (0 if n_known < 2 else sum(np.cumsum(sizes) - sizes < propagation.JUDGED_PAIRS))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block_memory", [40_000, 2**26])
@pytest.mark.parametrize("k", [3, 9])
def test_a_search_takes_what_its_cost_says(sparse: bool, block_memory: int, k: int) -> None:
    rows: Any = sp.csr_array(ROWS) if sparse else ROWS
    size = RowSizes(150, 40, np.count_nonzero(ROWS) if sparse else None)

    def run(recorder: Recorder) -> tuple[Any, Sizes]:
        options: dict[str, Any] = {"block_memory": block_memory, "checkpoint": recorder}
        return neighbor_affinity(rows, k, **options), recorder.sizes

    graph, sizes = recorded(run)
    cost = search_cost(size, k, metric="cosine", block_memory=block_memory)
    assert graph.nnz <= most_edges(150, k)
    assert sizes["neighbors"] <= cost.written_bytes
    assert largest_task(sizes) <= cost.peak_bytes(1)


def test_projected_rows_take_what_their_cost_says() -> None:
    model = de.LocalityPreservingProjection(12, n_neighbors=5).fit(ROWS)

    def run(recorder: Recorder) -> Sizes:
        model.transform(da.from_array(ROWS, chunks=(50, -1))).compute()
        return recorder.sizes

    costs = [projection_costs.product_cost(RowSizes(150, 40), k) for k in (12, 13)]
    assert 0 < max(recorded(run).values()) <= costs[0].peak_bytes(1) < costs[1].peak_bytes(1)


def test_a_stored_joint_graph_takes_what_its_cost_says() -> None:
    sets = [sp.random_array((n, n), density=0.2, format="csr", rng=GENERATOR) for n in (90, 70)]
    links = sp.random_array((90, 70), density=0.1, format="csr", rng=GENERATOR)
    blocks = [row_blocks(matrix, values_per_block=400) for matrix in (*sets, links)]

    def run(recorder: Recorder) -> tuple[da.Array, Sizes]:
        return recorder("joint", lambda: joint_rows(blocks[:2], blocks[2:])), recorder.sizes

    joint, sizes = recorded(run)
    cost = alignment_costs.joint_cost(160, int(neighbor_sizes(joint).sum()))
    assert kept_arrays(sizes)["joint"] <= cost.written_bytes < 1.5 * kept_arrays(sizes)["joint"]
    assert 0 < largest_task(sizes) <= cost.peak_bytes(1)


def test_a_large_joint_graph_is_read_in_every_round_and_not_held() -> None:
    model = de.FeaturePreservingEmbedding(5)
    held, read = (
        alignment_costs.embedding_cost(model, 10_000, 3, n_edges=10**7, graph_memory=memory)
        for memory in (None, 2**20)
    )
    assert held.shared_bytes > read.shared_bytes + 3 * 100 * 2**20
    assert read.read_bytes == alignment_costs.ROUNDS * held.read_bytes
    assert read.task_bytes > held.task_bytes
    # It may have fewer edges than planned, and is held then.
    least = alignment_costs.embedding_cost(model, 10_000, 3, n_edges=2**20 // 12)
    assert read.shared_bytes == least.shared_bytes


def test_every_method_that_is_compared_is_counted() -> None:
    model, sets = de.FeaturePreservingEmbedding(5, missing="zero"), [RowSizes(9000, 20)] * 2

    def cost(**options: int) -> Cost:
        return alignment_costs.methods_cost(model, sets, 4, n_edges=10**5, n_pairs=90, **options)

    assert cost(alignment_components=100).peak_bytes(1) > cost().peak_bytes(1)
    assert cost(printed_rounds=9).tasks > cost().tasks


def test_draws_cost_more_where_there_are_more() -> None:
    table, vectors = RowSizes(1000, 20), RowSizes(1000, 30)
    model, sets = de.FeaturePreservingEmbedding(propagate=True), [table, vectors]
    draws = [
        alignment_costs.methods_cost(model, sets, 5, n_edges=20_000, n_pairs=90, n_draws=n) for n in (0, 1, 3)
    ]
    assert draws[0].tasks == 0 < draws[1].tasks < draws[2].tasks
    assert draws[0].peak_bytes(1) < draws[1].peak_bytes(1) == draws[2].peak_bytes(1)


def test_what_the_plans_left_out_has_a_term() -> None:
    """The power iteration keeps every state, cosines are of float64, and a tile of a threshold graph is dense."""
    table, vectors = RowSizes(50_000, 100, itemsize=4), RowSizes(50_000, 300, itemsize=4)
    costs = {
        solver: imputation_costs.vectors_cost(de.LatentSemanticImputation(solver=solver), table, vectors)
        for solver in ("krylov", "power")
    }
    assert costs["power"].written_bytes > 5 * costs["krylov"].written_bytes > 5 * vectors.n_bytes
    weighed = [
        imputation_costs.weights_cost(de.LatentSemanticImputation(metric=metric), table)
        for metric in ("euclidean", "cosine")
    ]
    assert weighed[1].peak_bytes(1) > 1.5 * weighed[0].peak_bytes(1)
    near = de.LocalityPreservingProjection(threshold=0.5)
    tile = projection_costs.neighborhood_cost(near, RowSizes(50_000, 100)).task_bytes
    assert tile > 3 * 8 * 3000**2
