"""The stages of a neighbor graph: a matrix of any format to neighbor lists, a CSR array, edges, a spanning tree."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

from distembed.costs import Cost
from distembed.display import plural
from distembed.execution import compute
from distembed.formats.matrix import Matrix, refuse_equal_names, row_array
from distembed.job.inputs import recorded_bytes, sizes_at
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, Counted, StageSpec, System, kept_as, sections, whole_sparse
from distembed.linalg.chunks import batches, row_chunk
from distembed.neighbors.costs import RowSizes, graph_cost, rows_cost, search_cost, tree_cost
from distembed.neighbors.distances import domain_rows, sparse_bounds
from distembed.neighbors.graphs import components
from distembed.neighbors.search import (
    Measure,
    Neighbors,
    approximate_rows,
    edge_values,
    nearest_rows,
    row_metric,
)
from distembed.neighbors.spanning_tree import spanning_tree_of
from distembed.stages.kept_matrices import KeptRows, kept_stages
from distembed.stages.matrices import MatrixSize, advice_on_counts, matrix_size, open_matrix, row_sizes
from distembed.storage.workspace import Workspace
from distembed.systems.neighbors import outputs
from distembed.systems.neighbors.job import NeighborsJob
from distembed.urls import opened


class NeighborSizes(NamedTuple):
    """The matrix of a job, and the bytes of its files."""

    matrix: MatrixSize
    input_bytes: int

    @property
    def rows(self) -> RowSizes:
        """The rows as they are stored in the workspace."""
        return self.matrix.rows

    @property
    def sentence(self) -> str:
        """The size in words."""
        rows = self.rows
        kind = f", {rows.n_stored:,} values stored" if rows.is_sparse else ""
        return f"{plural(rows.n_rows, 'row')} x {plural(rows.n_columns, 'number')}{kind}"


def neighbor_sizes(job: NeighborsJob, counted: Counted | None) -> NeighborSizes:
    """Return the size of a job's matrix; what committed rows have counted is not read again.

    Raises
    ------
    ValueError
        If the matrix has too few rows for the neighbors asked for, or is sparse where sparse rows are not searched.
    """
    if counted is not None and "rows" in counted.stages:
        rows, spec = counted.stages["rows"], counted.workspace.describe("vectors").spec
        itemsize, is_sparse = np.dtype(spec.dtype).itemsize, spec.kind == "csr"
        n_values = rows.facts["n_stored"] if is_sparse else None
        matrix = MatrixSize(RowSizes(spec.shape[0], spec.shape[1], n_values, itemsize), held_bytes=0)
        n_bytes = recorded_bytes(rows.parameters)
    else:
        matrix = matrix_size(job.input)
        n_bytes = sum(int(stamp[0]) for stamp in sizes_at(job.input.path).values())
    if matrix.exact:
        _check_search(job, matrix.rows)
    return NeighborSizes(matrix, n_bytes)


def _check_search(job: NeighborsJob, rows: RowSizes) -> None:
    """Refuse a search that the matrix cannot have."""
    n, options = rows.n_rows, job.neighbors
    if options.n_neighbors >= n:
        choose = f"choose n_neighbors between 1 and {n - 1}" if n > 1 else "give a matrix with more rows"
        raise ValueError(
            f"n_neighbors is {options.n_neighbors} but {job.input.path} has {plural(n, 'row')}: {choose}"
        )
    if rows.is_sparse and (options.metric != "cosine" or options.search != "exact"):
        raise ValueError(
            f"{job.input.path} is sparse, and sparse rows are searched exactly and by the cosine only: "
            'set neighbors.metric = "cosine" and neighbors.search = "exact", or input.dense = true'
        )
    if rows.is_sparse and job.matrices.keep:
        raise ValueError(
            f"{job.input.path} is sparse, and the distances of dense rows only are kept: leave matrices.keep out, or "
            "set input.dense = true"
        )


# --- the rows ------------------------------------------------------------------------------------------------


def row_parameters(job: NeighborsJob) -> dict[str, Any]:
    """Return the section of the matrix, whether rows of zeros are refused, and the memory of a block."""
    is_cosine = job.neighbors.metric == "cosine"
    return {**sections("input")(job), "need_direction": is_cosine, "block_memory": job.resources.block_memory}


def plan_rows(job: NeighborsJob, sizes: NeighborSizes) -> Cost:
    """Return the plan of reading the matrix into the workspace."""
    cost = rows_cost(
        sizes.rows,
        sizes.input_bytes,
        held_bytes=sizes.matrix.held_bytes,
        block_memory=job.resources.block_memory,
    )
    return cost._replace(exact=sizes.matrix.exact)


def run_rows(ctx: Context) -> dict[str, Any]:
    """Store the rows of the matrix, checked, in the blocks of the search, and their names."""
    job: NeighborsJob = ctx.job
    matrix = open_matrix(job.input)
    rows = row_sizes(matrix, dense=job.input.dense)
    _check_search(job, rows)
    if matrix.note:
        ctx.reporter.note(matrix.note)
    names = matrix.names()
    if names is not None:
        refuse_equal_names(job.input.names or job.input.path, names)
    words = names if names is not None else [str(row) for row in range(rows.n_rows)]
    ctx.store_table(outputs.VOCABULARY, pa.table({"word": pa.array(words, pa.string())}))
    bounds = _bounds(matrix, job.resources.block_memory, sparse=rows.is_sparse)
    is_cosine = job.neighbors.metric == "cosine"
    array = row_array(matrix, bounds, dense=job.input.dense, need_direction=is_cosine)
    ctx.store(outputs.VECTORS, array)
    facts = {"n_rows": rows.n_rows, "n_columns": rows.n_columns, "n_stored": rows.n_stored}
    return {**facts, "named": names is not None}


def _bounds(matrix: Matrix, block_memory: int, *, sparse: bool) -> list[int]:
    """Return where the search cuts the rows, so that it never has to divide them again."""
    n, d = matrix.shape
    if sparse and matrix.row_sizes is not None:
        return sparse_bounds(matrix.row_sizes, block_memory)
    chunk = row_chunk(n, d * matrix.stored_dtype.itemsize, block_memory)
    return np.cumsum([0, *batches(n, chunk)]).tolist()


# --- the search ----------------------------------------------------------------------------------------------


def search_parameters(job: NeighborsJob) -> dict[str, Any]:
    """Return the options of the search; the exact one takes none of the approximate."""
    options = job.neighbors.model_dump(mode="json", exclude={"spanning_tree"})
    if job.neighbors.search == "exact":
        options = {name: options[name] for name in ("n_neighbors", "metric", "search")}
    return {"neighbors": options}


def plan_search(job: NeighborsJob, sizes: NeighborSizes) -> Cost:
    """Return the plan of the search."""
    options = job.neighbors
    cost = search_cost(
        sizes.rows,
        options.n_neighbors,
        metric=options.metric,
        search=options.search,
        n_sampled=options.n_sampled,
        block_memory=job.resources.block_memory,
        reread=True,
    )
    return cost._replace(exact=sizes.matrix.exact)


def run_search(ctx: Context) -> dict[str, Any]:
    """Find the nearest neighbors of every row."""
    job: NeighborsJob = ctx.job
    options, metric = job.neighbors, job.neighbors.metric
    rows = _searched_rows(ctx)
    checkpoint = kept_as(ctx, {"neighbors": outputs.NEIGHBOR_LISTS})
    choices: dict[str, Any]
    if options.search == "approximate":
        choices = {"random_state": options.random_state, "n_sampled": options.n_sampled}
        _, recall = approximate_rows(
            rows, options.n_neighbors, metric=row_metric(metric), checkpoint=checkpoint, **choices
        )
        return {"recall": recall, "n_sampled": min(options.n_sampled, rows.shape[0])}
    block = job.resources.block_memory
    single = outputs.VECTORS.read(ctx.workspace).dtype == np.float32
    choices = {"block_memory": block, "checkpoint": checkpoint, "reread": True, "single": single}
    nearest_rows(rows, options.n_neighbors, metric=metric, **choices)
    return {"recall": 1.0, "n_sampled": 0}


def _searched_rows(ctx: Context) -> da.Array:
    """Return the stored rows as the search takes them."""
    job: NeighborsJob = ctx.job
    metric, block = row_metric(job.neighbors.metric), job.resources.block_memory
    return domain_rows(outputs.VECTORS.read(ctx.workspace), metric=metric, block_memory=block)


# --- the graph -----------------------------------------------------------------------------------------------


def plan_graph(job: NeighborsJob, sizes: NeighborSizes) -> Cost:
    """Return the plan of writing the lists as a CSR array and as edges."""
    cost = graph_cost(sizes.rows, job.neighbors.n_neighbors, block_memory=job.resources.block_memory)
    return cost._replace(exact=sizes.matrix.exact)


def run_graph(ctx: Context) -> dict[str, Any]:
    """Write the neighbor lists as a CSR array and as a Parquet table of edges, and measure the graph."""
    job: NeighborsJob = ctx.job
    near = Neighbors(outputs.NEIGHBOR_LISTS.read(ctx.workspace), job.neighbors.metric)
    value = job.neighbors.value
    stored = ctx.store(outputs.NEIGHBORS.of(value=value, metric=job.neighbors.metric), near.graph)
    named = ctx.workspace.stages()["rows"].facts["named"]
    write = partial(_write_edges, workspace=ctx.workspace.url, named=named, metric=near.metric, value=value)
    ctx.store_files(outputs.EDGES, near.lists.numblocks[0], write)
    return _graph_facts(stored)


def _write_edges(
    index: int, prefix: str, *, workspace: str, named: bool, metric: Measure, value: str
) -> dict[str, Any]:
    """Write the edges of a block of rows, by source and nearest first."""
    place = Workspace.open(workspace)
    lists = outputs.NEIGHBOR_LISTS.read(place)
    first_row = sum(lists.chunks[0][:index])
    block = compute(lists.blocks[index], scheduler="synchronous")
    found = block[:, 1] >= 0
    sources = first_row + np.nonzero(found)[0]
    targets = block[:, 1][found].astype(np.int64)
    ends = _ends(place, sources, targets, named=named)
    table = pa.table({**ends, value: edge_values(block[:, 0][found], metric)})
    with opened(f"{prefix}.parquet", "wb") as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    return {"n_edges": table.num_rows}


def _ends(place: Workspace, sources: Any, targets: Any, *, named: bool) -> dict[str, Any]:
    """Return the columns of both ends of edges: names where the rows have names, else row numbers."""
    if not named:
        return {"source": sources, "target": targets}
    names = outputs.VOCABULARY.read(place)["word"].combine_chunks()
    return {"source": names.take(pa.array(sources)), "target": names.take(pa.array(targets))}


def _graph_facts(stored: da.Array) -> dict[str, Any]:
    """Return the number of edges and components, and how unevenly rows are chosen as neighbors."""
    graph = whole_sparse(stored)
    chosen = np.bincount(graph.indices, minlength=graph.shape[0])
    sizes = np.bincount(components(graph))
    return {
        "n_edges": int(graph.nnz),
        "n_components": len(sizes),
        "largest_component": int(sizes.max()),
        "hubness": float(stats.skew(chosen)) if np.ptp(chosen) else 0.0,
        "most_chosen": int(chosen.max()),
        "never_chosen": int((chosen == 0).sum()),
    }


# --- the spanning tree ---------------------------------------------------------------------------------------


def plan_tree(job: NeighborsJob, sizes: NeighborSizes) -> Cost:
    """Return the plan of the spanning tree."""
    return tree_cost(sizes.rows, job.neighbors.n_neighbors, plan_search(job, sizes))


def run_tree(ctx: Context) -> dict[str, Any]:
    """Find the minimum spanning tree of all rows."""
    job: NeighborsJob = ctx.job
    near = Neighbors(outputs.NEIGHBOR_LISTS.read(ctx.workspace), job.neighbors.metric)
    tree = spanning_tree_of(_searched_rows(ctx), near, checkpoint=ctx.stage.checkpoint)
    named = ctx.workspace.stages()["rows"].facts["named"]
    ends = _ends(ctx.workspace, tree.edges[:, 0], tree.edges[:, 1], named=named)
    # The tree is measured between rows of unit length, whose squared distance is 2 (1 - cosine).
    lengths = tree.lengths**2 / 2 if job.neighbors.metric == "cosine" else tree.lengths
    ctx.store_table(outputs.SPANNING_TREE, pa.table({**ends, "distance": lengths}))
    return {"n_searched": tree.n_searched, "length": float(lengths.sum())}


KEPT_DISTANCES = KeptRows(
    outputs.VECTORS,
    "rows",
    "two rows",
    lambda job: row_metric(job.neighbors.metric),
    lambda _, sizes: (sizes.rows, sizes.matrix.exact),
)


def stages(job: NeighborsJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job."""
    specs = (
        StageSpec("rows", (), row_parameters, run_rows, plan_rows, lambda job: advice_on_counts(job.input)),
        *kept_stages(job, KEPT_DISTANCES.stage_spec),
        StageSpec("search", ("rows",), search_parameters, run_search, plan_search),
        StageSpec("graph", ("rows", "search"), lambda _: {}, run_graph, plan_graph),
    )
    if not job.neighbors.spanning_tree:
        return specs
    return (*specs, StageSpec("tree", ("rows", "search"), lambda _: {}, run_tree, plan_tree))


SYSTEM = System(
    NeighborsJob,
    stages,
    neighbor_sizes,
    "distembed.systems.neighbors.views",
    "distembed.systems.neighbors.views",
    outputs=(*declared_in(outputs), KEPT_DISTANCES.output),
)
