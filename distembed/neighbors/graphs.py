"""Graphs of neighbors: from rows to an affinity, several affinities to one, an affinity to its Laplacian.

A graph of n rows with k neighbors each has at most 2 n k edges of 12 bytes. It is a CSR array in memory, or a Dask
array of CSR row blocks, which is read by passes; the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import dask.array as da
import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from distembed.dtypes import Float64s, Int32s, Int64s, Mask
from distembed.execution import (
    Checkpoint,
    blockwise,
    compute,
    delayed_blocks,
    held_by_cluster,
    map_blocks,
    persist,
    readers,
    whole,
)
from distembed.linalg import csr
from distembed.linalg.chunks import BLOCK_MEMORY, balanced_chunks
from distembed.linalg.operators import empty_csr, of_each_row, transpose_row_blocks
from distembed.neighbors import graph_blocks
from distembed.neighbors.distances import Metric
from distembed.neighbors.search import nearest_neighbors

Affinity = Literal["binary", "cosine", "gaussian", "local"]
Symmetry = Literal["union", "mutual"]
Normalization = Literal["symmetric", "none"]

_CSR: dict[str, Any] = {"dtype": np.float64, "meta": empty_csr(np.float64)}

LOCAL_NEIGHBOR = 7
"""The neighbor whose distance is a row's own scale (Zelnik-Manor & Perona 2004)."""


def neighbor_affinity(
    X: Any,
    n_neighbors: int,
    *,
    affinity: Affinity | Literal["polynomial"] = "local",
    symmetry: Symmetry = "union",
    metric: Metric = "cosine",
    degree: int = 1,
    block_memory: int = BLOCK_MEMORY,
    checkpoint: Checkpoint = persist,
) -> sp.csr_array:
    """Return the symmetric affinity of the n rows of X over their nearest neighbors.

    - "binary": 1;
    - "cosine": the cosine, at least `LEAST_AFFINITY` (metric "cosine" only);
    - "polynomial": ((1 + c) / 2)^degree of the cosine c, at least `LEAST_AFFINITY` (metric "cosine" only);
    - "gaussian": exp(-d²/h), h the mean squared distance to the neighbors;
    - "local": exp(-d²/(h_i h_j)), h_i the distance of row i to its `LOCAL_NEIGHBOR`-th neighbor.

    An edge exists where either row ("union") or each ("mutual", beyond the first `MUTUAL_FLOOR`) is among the
    other's neighbors. Rows of zeros have no cosine and get no edge.

    Parameters
    ----------
    X : array, (n × d): NumPy, SciPy sparse or Dask
    n_neighbors : at most n - 1, less the rows of zeros
    affinity : str
        The weight of an edge, one of the names above.
    symmetry : {"union", "mutual"}
        Whether one of two rows must be among the nearest of the other, or both.
    metric : str
        The distance between rows.
    degree : int
        Of the polynomial affinity.
    block_memory : int
        The memory of one task in bytes.
    checkpoint : keeps the search under "neighbors"

    Returns
    -------
    CSR array, (n × n) float64, zero diagonal

    Raises
    ------
    ValueError
        If an option is unknown, "cosine" or "polynomial" is asked of another metric, or `nearest_neighbors` refuses X.

    References
    ----------
    Zelnik-Manor & Perona 2004, Self-tuning spectral clustering (local scaling).
    """
    options: dict[str, Any] = {"affinity": affinity, "symmetry": symmetry, "metric": metric, "degree": degree}
    rows = affinity_rows(X, n_neighbors, **options, block_memory=block_memory, checkpoint=checkpoint)
    graph = sp.csr_array(sp.vstack(compute(delayed_blocks(rows).ravel().tolist()), format="csr"))
    graph.sort_indices()
    return graph


def affinity_rows(
    X: Any,
    n_neighbors: int,
    *,
    affinity: Affinity | Literal["polynomial"] = "local",
    symmetry: Symmetry = "union",
    metric: Metric = "cosine",
    degree: int = 1,
    block_memory: int = BLOCK_MEMORY,
    checkpoint: Checkpoint = persist,
    reread: bool = False,
) -> da.Array:
    """Return the result of `neighbor_affinity` as a lazy Dask array of CSR row blocks, in those of the search.

    The neighbor lists are kept by the checkpoint. Each block of the graph reads all of them, one block after the
    other, for the rows that list its own; of lists in the memory of a cluster its task is given all at once.

    Parameters
    ----------
    X, n_neighbors, affinity, symmetry, metric, degree, block_memory, checkpoint : those of `neighbor_affinity`
    reread : each task of the search reads its blocks of dense rows again, so that memory never holds all rows
    """
    for name, value, known in (
        ("affinity", affinity, ("binary", "cosine", "polynomial", "gaussian", "local")),
        ("symmetry", symmetry, ("union", "mutual")),
    ):
        if value not in known:
            raise ValueError(f"{name} is {value!r}: choose one of {', '.join(known)}")
    if affinity in {"cosine", "polynomial"} and metric != "cosine":
        raise ValueError(f"affinity {affinity!r} is measured with metric 'cosine', not {metric!r}")
    rows, kept = _without_zeros(X, metric)
    near = nearest_neighbors(
        rows, n_neighbors, metric=metric, block_memory=block_memory, checkpoint=checkpoint, reread=reread
    )
    scales, total = [np.zeros(0)], 0.0
    for part in delayed_blocks(near.lists).ravel() if affinity in {"gaussian", "local"} else []:
        squares = graph_blocks.edge_squares(compute(part), metric)
        scales.append(np.sqrt(squares[:, min(LOCAL_NEIGHBOR, squares.shape[1]) - 1]))
        total += float(squares.sum())
    width = total / (near.lists.shape[0] * near.lists.shape[2])
    how = graph_blocks.Weighing(affinity, metric, np.concatenate(scales), width)._replace(degree=degree)
    bounds = list(pairwise(np.cumsum([0, *near.lists.chunks[0]]).tolist()))
    ends = _spread_bounds(bounds, kept)
    options = how, symmetry == "mutual", np.flatnonzero(kept), kept.size
    step = partial(_symmetric_block, bounds, ends, *options)
    numbers = da.from_array(np.arange(len(bounds))[:, None], chunks=1)
    shape = {"i": tuple(stop - first for first, stop in ends), "j": kept.size}
    form: dict[str, Any] = {"adjust_chunks": shape, **_CSR}
    if held_by_cluster(near.lists):
        return blockwise(step, "ij", numbers, "ij", near.lists, "klm", concatenate=False, **form)
    return blockwise(partial(step, lists=readers(near.lists)), "ij", numbers, "ij", **form)


def _spread_bounds(bounds: list[tuple[int, int]], kept: Mask) -> list[tuple[int, int]]:
    """Return the rows of all that each block of the rows kept stands for: from its first to before the next one's."""
    starts = [0, *np.flatnonzero(kept)[[first for first, _ in bounds[1:]]].tolist(), kept.size]
    return list(pairwise(starts))


def _symmetric_block(
    bounds: Sequence[tuple[int, int]],
    ends: Sequence[tuple[int, int]],
    how: graph_blocks.Weighing,
    mutual: bool,
    places: Int64s,
    n_rows: int,
    number: Any,
    lists: Sequence[Any],
) -> sp.csr_array:
    """Return a row block of the graph; `lists` has what reads each block of the neighbor lists, or [[the block]]."""
    at = int(number[0, 0])

    def edges(block: int) -> graph_blocks.Edges:
        part = lists[block]() if callable(lists[block]) else lists[block][0][0]
        return graph_blocks.listed_edges(part, bounds[block][0], how, len(places))

    others = (edges(block) for block in range(len(lists)))
    graph = graph_blocks.symmetric_rows(edges(at), others, bounds[at], mutual=mutual)
    if len(places) == n_rows:
        return graph
    return graph_blocks.spread_rows(graph, places, bounds[at][0], ends[at], n_rows)


def _without_zeros(X: Any, metric: str) -> tuple[Any, Mask]:
    """Return the rows that have a direction, and their row numbers."""
    kept = row_is_used(X, metric)
    return (X, kept) if kept.all() else (X[np.flatnonzero(kept)], kept)


def row_is_used(X: Any, metric: str) -> Mask:
    """Return which rows can be measured, (n,): all rows, except rows of zeros for the cosine."""
    if metric != "cosine":
        return np.ones(X.shape[0], bool)
    if isinstance(X, da.Array):
        return compute(map_blocks(_row_has_value_column, X, chunks=(X.chunks[0], 1), dtype=bool))[:, 0]
    return _row_has_value(X)


def _row_has_value(X: Any) -> Mask:
    return (
        np.asarray(abs(X).sum(axis=1)).ravel() != 0 if sp.issparse(X) else np.any(np.asarray(X) != 0, axis=1)
    )


def _row_has_value_column(block: Any) -> Mask:
    return _row_has_value(block)[:, None]


def joint_adjacency(
    adjacencies: Sequence[sp.csr_array], links: Mapping[tuple[int, int], Any], *, weight: float = 1.0
) -> sp.csr_array:
    """Return the affinity of several sets of rows one below the other: [[W1, μC], [μCᵀ, W2]] for two.

    Parameters
    ----------
    adjacencies : symmetric (n_a × n_a) arrays
    links : (a, b) with a < b -> sparse (n_a × n_b), non-negative
    weight : μ, of the links against the affinities

    Raises
    ------
    ValueError
        If links do not fit the sets, or are negative.

    References
    ----------
    Ham, Lee & Saul 2005, Semisupervised alignment of manifolds, section 3.
    """
    sizes = [graph.shape[0] for graph in adjacencies]
    tiles: list[list[Any]] = [
        [graph if a == b else sp.csr_array((sizes[a], sizes[b])) for b in range(len(sizes))]
        for a, graph in enumerate(adjacencies)
    ]
    for (a, b), link in links.items():
        _check_link(a, b, link, sizes)
        tiles[a][b], tiles[b][a] = weight * sp.csr_array(link), weight * sp.csr_array(link).T
    joint = sp.csr_array(sp.block_array(tiles, format="csr"))
    joint.eliminate_zeros()
    joint.sort_indices()
    return joint


def _check_link(a: int, b: int, link: Any, sizes: list[int]) -> None:
    if not 0 <= a < b < len(sizes):
        raise ValueError(f"links of the sets {(a, b)}: give them as (a, b) with 0 <= a < b < {len(sizes)}")
    if link.shape != (sizes[a], sizes[b]):
        raise ValueError(
            f"links of the sets {(a, b)} have shape {link.shape}, the sets {sizes[a], sizes[b]} rows"
        )
    if link.nnz and link.data.min() < 0:
        raise ValueError(
            f"links of the sets {(a, b)} have the weight {link.data.min():g}: weights are at least 0"
        )


def laplacian(adjacency: Any, *, normalization: Normalization = "symmetric") -> Any:
    """Return the Laplacian of a symmetric affinity, its diagonal of order one either way.

    - "symmetric": I - D^-½ W D^-½, zero rows for vertices without an edge;
    - "none": (D - W) / mean degree.

    tr(ZᵀLZ) is ½ Σ w_ij ‖z_i/√d_i - z_j/√d_j‖² or ½ Σ w_ij ‖z_i - z_j‖² / mean degree: the first makes
    what it smooths grow with the root of a row's degree. scipy.sparse.csgraph.laplacian is the equivalent. Row
    blocks stay row blocks.

    Raises
    ------
    ValueError
        If the normalization is unknown.
    """
    if normalization not in {"symmetric", "none"}:
        raise ValueError(f"normalization is {normalization!r}: choose 'symmetric' or 'none'")
    degrees = degrees_of(adjacency)
    if not isinstance(adjacency, da.Array):
        return graph_blocks.laplacian_block(adjacency, degrees, 0, normalization)
    of_all = adjacency, _first_rows(adjacency), whole(degrees[None])
    return map_blocks(_laplacian_rows, *of_all, normalization=normalization, chunks=adjacency.chunks, **_CSR)


def degrees_of(adjacency: Any) -> Float64s:
    """Return the sum of each row of a graph, (n,)."""
    if isinstance(adjacency, da.Array):
        return compute(of_each_row(csr.row_sums, adjacency))
    return csr.row_sums(adjacency)


def components(adjacency: Any) -> Int32s:
    """Return the connected component of each vertex, (n,), numbered from 0 by their smallest vertices."""
    if not isinstance(adjacency, da.Array):
        return csgraph.connected_components(adjacency, directed=False)[1]
    parents = np.arange(adjacency.shape[0])
    firsts = np.cumsum((0, *adjacency.chunks[0]))
    for first, part in zip(firsts, delayed_blocks(adjacency).ravel(), strict=False):
        block = compute(part)
        index = block.indptr.astype(np.int64), block.indices.astype(np.int64)
        graph_blocks.join_parts(parents, *index, int(first))
    return graph_blocks.numbered_parts(parents)


# --- graphs in row blocks ----------------------------------------------------------------------------------


def joint_rows(graphs: Sequence[da.Array], links: Sequence[da.Array], *, weight: float = 1.0) -> da.Array:
    """Return `joint_adjacency` of a graph and of others that are linked to it, in row blocks of about equal size.

    Parameters
    ----------
    graphs : Dask arrays of CSR row blocks, (n × n), (m × m), …
    links : Dask arrays of CSR row blocks, (n × m), …: those of each other graph with the first
    weight : μ, of the links against the affinities
    """
    first, *others = graphs
    starts = np.cumsum([0, *(graph.shape[0] for graph in graphs)]).tolist()
    rows = [link.rechunk((first.chunks[0], -1)) for link in links]
    parts = [_beside([first, *rows], (1.0, *(weight for _ in rows)), starts[:-1], starts[-1])]
    for graph, link, start in zip(others, links, starts[1:-1], strict=True):
        back = transpose_row_blocks(link, row_chunks=graph.chunks[0])
        parts.append(_beside([back, graph], (weight, 1.0), (0, start), starts[-1]))
    joint = da.concatenate(parts)
    return joint.rechunk((balanced_chunks(row_sizes(joint)), -1))


def _beside(
    blocks: Sequence[da.Array], scales: tuple[float, ...], starts: Sequence[int], width: int
) -> da.Array:
    places: dict[str, Any] = {"scales": scales, "starts": starts, "width": width}
    return map_blocks(graph_blocks.beside, *blocks, **places, chunks=(blocks[0].chunks[0], (width,)), **_CSR)


def row_sizes(graph: da.Array) -> Int64s:
    """Return the number of edges of each vertex, (n,)."""
    return compute(of_each_row(csr.row_sizes, graph, np.int64))


def _laplacian_rows(block: sp.csr_array, first: Any, shared: Float64s, *, normalization: str) -> sp.csr_array:
    return graph_blocks.laplacian_block(block, shared[0], int(first[0, 0]), normalization)


def flip_rows(laplacian: da.Array, bound: float) -> da.Array:
    """Return b I - L in the row blocks of L."""
    places = _first_rows(laplacian)
    return map_blocks(_flip_rows, laplacian, places, bound=bound, chunks=laplacian.chunks, **_CSR)


def _flip_rows(block: sp.csr_array, first: Any, *, bound: float) -> sp.csr_array:
    return graph_blocks.flip_block(block, bound, int(first[0, 0]))


def _first_rows(graph: da.Array) -> da.Array:
    return da.from_array(np.cumsum((0, *graph.chunks[0]))[:-1, None], chunks=1)


@dataclass(frozen=True)
class RowBlocks:
    """A sparse matrix whose row blocks are read again, one at a time, for each product with vectors in memory."""

    shape: tuple[int, ...]
    readers: tuple[Callable[[], Any], ...]

    @classmethod
    def of(cls, rows: da.Array) -> RowBlocks:
        """Return the row blocks of a Dask array with CSR chunks."""
        return cls(rows.shape, tuple(readers(rows)))

    def __matmul__(self, vectors: Float64s) -> Float64s:
        """Return the product with vectors (m × b), (n × b)."""
        out = np.empty((self.shape[0], vectors.shape[1]))
        for first, block in self._blocks():
            out[first : first + block.shape[0]] = block @ vectors
        return out

    def diagonal(self) -> Float64s:
        """Return the cells (i, i), (n,)."""
        found = np.zeros(self.shape[0])
        for first, block in self._blocks():
            found[first : first + block.shape[0]] = block.diagonal(k=first)
        return found

    def _blocks(self) -> Iterator[tuple[int, sp.csr_array]]:
        first = 0
        for read in self.readers:
            block = read()
            yield first, block
            first += block.shape[0]
