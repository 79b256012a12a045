"""The report of a neighbor graph, and the last lines that its run prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from distembed.display import plural
from distembed.execution import compute
from distembed.formats.parquet import whole_table
from distembed.job.stage import whole_sparse
from distembed.job.tables import MakeTable, Piece, Table, words_table
from distembed.job.terminal import neighbor_line, shown
from distembed.linalg.chunks import evenly_spaced
from distembed.neighbors.search import edge_values
from distembed.storage.workspace import Workspace
from distembed.systems.neighbors.job import NeighborsJob
from distembed.systems.neighbors.stages import stages
from distembed.urls import opened
from distembed.views import report

LISTED = 10
"""Rows whose neighbors the report lists where the job names none, evenly from first to last."""

DRAWN_BLOCKS = 16
"""Blocks of rows, at most, whose distances the histograms show: the first ones."""


def page(job: NeighborsJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    summary = f"{_graph_text(job, workspace)} Content digest {workspace.digest()}."
    return report.render_report(
        job.job.title,
        summary,
        _sections(job, workspace),
        facts=_facts(job, workspace),
        invitation="" if sp.issparse(workspace.array("vectors")._meta) else report.invitation(workspace),
    )


def closing_text(job: NeighborsJob, workspace: Workspace, where: str) -> str:
    """Return what the graph is, the neighbors of a few rows, where the edges are, and what to type next."""
    near = "\n".join(neighbor_line(name, found) for name, found in _examples(job, workspace, 5).items())
    url = shown(workspace.url)
    ways = (
        f"{report.ways_on(workspace, where, table='edges', suffix='parquet')}\n"
        f'Python     distembed.read_neighbors("{url}"), or distembed.Workspace.open("{url}").array("neighbors")'
    )
    return "\n\n".join((_graph_text(job, workspace), near, ways))


def _graph_text(job: NeighborsJob, workspace: Workspace) -> str:
    """Return size, exactness, components and hubs of the graph in words."""
    rows, search, graph = (workspace.stages()[name].facts for name in ("rows", "search", "graph"))
    exact = "exact"
    if job.neighbors.search == "approximate":
        exact = f"recall {search['recall']:.2%} on {plural(search['n_sampled'], 'row')}"
    return (
        f"{plural(rows['n_rows'], 'row')} x {plural(rows['n_columns'], 'number')}, "
        f"{plural(job.neighbors.n_neighbors, 'neighbor')} each by {job.neighbors.metric} ({exact}): "
        f"{plural(graph['n_edges'], 'edge')}, {plural(graph['n_components'], 'component')}, the largest of "
        f"{plural(graph['largest_component'], 'row')}. Hubness {graph['hubness']:.2f}: the most chosen row is a "
        f"neighbor of {graph['most_chosen']:,}, and {graph['never_chosen']:,} "
        f"{'is' if graph['never_chosen'] == 1 else 'are'} a neighbor of none.{_advice_on_hubs(job, graph['hubness'])}"
    )


HUBS = 1.4
"""Hubness from which a few rows are neighbors of very many (Feldbauer and Flexer 2019)."""


def _advice_on_hubs(job: NeighborsJob, hubness: float) -> str:
    """Return what to do where a few rows are neighbors of very many, "" where they are not."""
    if hubness <= HUBS:
        return ""
    metric = "" if job.neighbors.metric == "cosine" else 'set neighbors.metric = "cosine", '
    return (
        f" A few rows are neighbors of very many: {metric}take the mean off each column, reduce the columns to a "
        "few dozen components, or keep only edges that both rows have."
    )


def _facts(job: NeighborsJob, workspace: Workspace) -> dict[str, Any]:
    rows, search, graph = (workspace.stages()[name].facts for name in ("rows", "search", "graph"))
    return {
        "rows": rows["n_rows"],
        "neighbors of each": job.neighbors.n_neighbors,
        "recall": search["recall"],
        "components": graph["n_components"],
        "hubness": graph["hubness"],
    }


def _sections(job: NeighborsJob, workspace: Workspace) -> list[report.Section]:
    graph, value = whole_sparse(workspace.array("neighbors")), job.neighbors.value
    lists = workspace.array("neighbor_lists").blocks[:DRAWN_BLOCKS]
    values = edge_values(compute(lists[:, 0]), job.neighbors.metric)
    is_distance = value == "distance"
    return [
        report.neighbor_table(
            _examples(job, workspace, LISTED),
            title="Nearest neighbors of some rows",
            measure=value,
        ),
        report.histogram(
            values[:, 0], f"{value.capitalize()} to the nearest neighbor", xlabel=value, ylabel="rows"
        ),
        report.histogram(
            values[:, -1],
            f"{value.capitalize()} to the last neighbor",
            xlabel=value,
            ylabel="rows",
            caption="" if is_distance else "Inner products fall from the first neighbor to the last.",
        ),
        report.histogram(
            np.bincount(graph.indices, minlength=graph.shape[0]),
            "Rows that have a row among their neighbors",
            xlabel="rows that chose it",
            ylabel="rows",
            y_scale="log",
            caption="Hubness is the skewness of this distribution (Radovanović et al. 2010).",
        ),
        *_tree(job, workspace),
        report.stage_table(report.stage_rows(stages(job), workspace)),
        report.parameter_table(job.model_dump(mode="json")),
        report.source_table(workspace),
    ]


def _tree(job: NeighborsJob, workspace: Workspace) -> list[report.Section]:
    if not job.neighbors.spanning_tree:
        return []
    lengths = workspace.table("spanning_tree")["distance"].to_numpy()
    return [report.histogram(lengths, "Edges of the spanning tree", xlabel="distance", ylabel="edges")]


def _examples(job: NeighborsJob, workspace: Workspace, n: int) -> dict[str, list[tuple[str, float]]]:
    """Return the nearest neighbors of the rows that the job names, or of a few from first to last."""
    names = workspace.table("vocabulary")["word"].to_pylist()
    place = {name: row for row, name in enumerate(names)}
    rows = [place[word] for word in dict.fromkeys(job.report.words) if word in place]
    rows = rows or evenly_spaced(len(names), n).tolist()
    lists = compute(workspace.array("neighbor_lists")[rows])
    values = edge_values(lists[:, 0], job.neighbors.metric)
    return {
        names[row]: [
            (names[int(other)], float(value))
            for other, value in zip(lists[i, 1], values[i], strict=True)
            if other >= 0
        ][: job.report.n_neighbors]
        for i, row in enumerate(rows[:n])
    }


def edges_table(job: NeighborsJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every edge: both ends, and their distance or similarity, by source and nearest first."""
    paths = [path for item in workspace.files("edges") for path in item.paths]
    with opened(paths[0], "rb") as file:
        schema = pq.read_schema(file)
    n_edges = workspace.stages()["graph"].facts["n_edges"]
    return Table(schema, None, n_edges, _pieces(paths), plural(n_edges, "edge"))


def _pieces(paths: list[str]) -> Iterator[Piece]:
    for path in paths:
        with opened(path, "rb") as file:
            table: pa.Table = whole_table(file)
        for batch in table.to_batches():
            yield Piece(batch, None)


TABLES: dict[str, MakeTable] = {"edges": edges_table, "words": words_table}
"""What a neighbor graph exports, by the name that `--what` takes."""
