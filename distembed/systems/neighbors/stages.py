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
from distembed.linalg.chunks import LEAST_ROWS, ROW_COPIES, batches, row_chunk
from distembed.neighbors.distances import domain_rows, sparse_bounds
from distembed.neighbors.graphs import components
from distembed.neighbors.search import (
    MERGED_AT_ONCE,
    SEARCHED,
    SEARCHED_SHARE,
    SPARE_CANDIDATES,
    Measure,
    Neighbors,
    approximate_rows,
    edge_values,
    nearest_rows,
    row_metric,
)
from distembed.neighbors.spanning_tree import spanning_tree_of
from distembed.stages.matrices import MatrixSize, open_matrix
from distembed.stages.matrices import matrix_size as size_of_file
from distembed.storage.workspace import Workspace
from distembed.systems.neighbors import outputs
from distembed.systems.neighbors.job import NeighborsJob
from distembed.urls import opened

READ_COPIES = 4
"""Copies of a block in the task that reads it: as it was read, which values are finite, converted, written."""

LIST_BYTES = 16
"""Bytes of one neighbor in a list: a float64 value and a row number."""

EDGE_COPIES = 6
"""Copies of the graph in memory, 12 bytes per edge, while its components are found."""

SPARSE_BYTES = 48
"""Bytes of a stored value of sparse rows while they are searched: read, of unit length, and by columns."""

ROW_BYTES = 200
"""Bytes of a row beside its values: its name, its number, its group, and its limit."""


class NeighborSizes(NamedTuple):
    """The matrix of a job, and the bytes of its files."""

    matrix: MatrixSize
    input_bytes: int

    @property
    def sentence(self) -> str:
        """The size in words."""
        matrix = self.matrix
        kind = f", {matrix.n_stored:,} values stored" if matrix.is_sparse else ""
        return f"{plural(matrix.n_rows, 'row')} x {plural(matrix.n_columns, 'number')}{kind}"

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the rows in the workspace."""
        width = self.matrix.stored_dtype.itemsize + (4 if self.matrix.is_sparse else 0)
        return width * self.matrix.n_stored


def neighbor_sizes(job: NeighborsJob, counted: Counted | None) -> NeighborSizes:
    """Return the size of a job's matrix; what committed rows have counted is not read again.

    Raises
    ------
    ValueError
        If the matrix has too few rows for the neighbors asked for, or is sparse where sparse rows are not searched.
    """
    if counted is not None and "rows" in counted.stages:
        rows, spec = counted.stages["rows"], counted.workspace.describe("vectors").spec
        n, d = spec.shape
        matrix = MatrixSize(n, d, rows.facts["n_stored"], np.dtype(spec.dtype), spec.kind == "csr", 0)
        n_bytes = recorded_bytes(rows.parameters)
    else:
        matrix = size_of_file(job.input)
        n_bytes = sum(int(stamp[0]) for stamp in sizes_at(job.input.path).values())
        if job.input.dense and matrix.is_sparse:
            n_values = matrix.n_rows * matrix.n_columns
            matrix = matrix._replace(is_sparse=False, n_stored=n_values)
    if matrix.exact:
        _check_search(job, matrix)
    return NeighborSizes(matrix, n_bytes)


def _check_search(job: NeighborsJob, matrix: MatrixSize) -> None:
    """Refuse a search that the matrix cannot have."""
    n, options = matrix.n_rows, job.neighbors
    if options.n_neighbors >= n:
        choose = f"choose n_neighbors between 1 and {n - 1}" if n > 1 else "give a matrix with more rows"
        raise ValueError(
            f"n_neighbors is {options.n_neighbors} but {job.input.path} has {plural(n, 'row')}: {choose}"
        )
    if matrix.is_sparse and (options.metric != "cosine" or options.search != "exact"):
        raise ValueError(
            f"{job.input.path} is sparse, and sparse rows are searched exactly and by the cosine only: "
            'set neighbors.metric = "cosine" and neighbors.search = "exact", or input.dense = true'
        )


# --- the rows ------------------------------------------------------------------------------------------------


def row_parameters(job: NeighborsJob) -> dict[str, Any]:
    """Return the section of the matrix, whether rows of zeros are refused, and the memory of a block."""
    is_cosine = job.neighbors.metric == "cosine"
    return {**sections("input")(job), "need_direction": is_cosine, "block_memory": job.resources.block_memory}


def _n_blocks(job: NeighborsJob, sizes: NeighborSizes) -> int:
    n, block = sizes.matrix.n_rows, job.resources.block_memory
    if sizes.matrix.is_sparse:
        return len(sparse_bounds(np.full(n, sizes.matrix.n_stored // n), block)) - 1
    return -(-n // row_chunk(n, sizes.stored_bytes // n, block))


def plan_rows(job: NeighborsJob, sizes: NeighborSizes) -> Cost:
    """Return the plan of reading the matrix into the workspace."""
    n, written, n_blocks = sizes.matrix.n_rows, sizes.stored_bytes, _n_blocks(job, sizes)
    task, shared = READ_COPIES * written // n_blocks, sizes.matrix.held_bytes + ROW_BYTES * n
    return Cost(n_blocks, sizes.input_bytes, written, task, shared, exact=sizes.matrix.exact)


def run_rows(ctx: Context) -> dict[str, Any]:
    """Store the rows of the matrix, checked, in the blocks of the search, and their names."""
    job: NeighborsJob = ctx.job
    matrix = open_matrix(job.input)
    n, d = matrix.shape
    sparse = matrix.is_sparse and not job.input.dense
    n_stored = int(matrix.row_sizes.sum()) if sparse and matrix.row_sizes is not None else n * d
    size = MatrixSize(n, d, n_stored, matrix.stored_dtype, sparse, 0)
    _check_search(job, size)
    if matrix.note:
        ctx.reporter.note(matrix.note)
    names = matrix.names()
    if names is not None:
        refuse_equal_names(job.input.names or job.input.path, names)
    words = names if names is not None else [str(row) for row in range(n)]
    ctx.store_table(outputs.VOCABULARY, pa.table({"word": pa.array(words, pa.string())}))
    bounds = _bounds(matrix, job.resources.block_memory, sparse=sparse)
    is_cosine = job.neighbors.metric == "cosine"
    rows = row_array(matrix, bounds, dense=job.input.dense, need_direction=is_cosine)
    ctx.store(outputs.VECTORS, rows)
    return {"n_rows": n, "n_columns": d, "n_stored": n_stored, "named": names is not None}


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
    """Return the plan of the search: every pair of row blocks is a task, which reads both blocks."""
    n, k, grid = sizes.matrix.n_rows, job.neighbors.n_neighbors, _n_blocks(job, sizes)
    chunk, stored, exact = -(-n // grid), sizes.stored_bytes, sizes.matrix.exact
    written = LIST_BYTES * n * k
    merged = 2 * (MERGED_AT_ONCE + 1) * LIST_BYTES * chunk * (k + SPARE_CANDIDATES)
    if job.neighbors.search == "approximate":
        n_searched = max(SEARCHED, SEARCHED_SHARE * (k + 1))
        shared = 4 * 8 * n * sizes.matrix.n_columns + 3 * LIST_BYTES * n * n_searched
        return Cost(grid, stored, written, 0, shared + ROW_BYTES * n, exact=exact)
    tasks = 2 * grid * grid + grid * (-(-grid // MERGED_AT_ONCE) + 1)
    task = min(job.resources.block_memory, 2 * ROW_COPIES * stored) + 4 * min(n, LEAST_ROWS) ** 2 + merged
    shared = ROW_BYTES * n
    if sizes.matrix.is_sparse:
        shared += SPARSE_BYTES * sizes.matrix.n_stored + 3 * LIST_BYTES * n * (k + SPARE_CANDIDATES)
    return Cost(tasks, grid * stored, written, task, shared, exact=exact)


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
    n, k, n_blocks = sizes.matrix.n_rows, job.neighbors.n_neighbors, _n_blocks(job, sizes)
    lists, edges = LIST_BYTES * n * k, 12 * n * k
    task = 8 * lists // n_blocks + ROW_BYTES * n
    exact = sizes.matrix.exact
    return Cost(2 * n_blocks, 2 * lists, 2 * edges, task, EDGE_COPIES * edges, exact=exact)


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
    """Return the plan of the spanning tree, which searches again only what the lists leave open."""
    search, n, k = plan_search(job, sizes), sizes.matrix.n_rows, job.neighbors.n_neighbors
    lists = LIST_BYTES * n * k
    shared = search.shared_bytes + sizes.stored_bytes + EDGE_COPIES * lists
    return search._replace(read_bytes=search.read_bytes + lists, written_bytes=24 * n, shared_bytes=shared)


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


def stages(job: NeighborsJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job."""
    specs = (
        StageSpec("rows", (), row_parameters, run_rows, plan_rows),
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
    outputs=declared_in(outputs),
)
