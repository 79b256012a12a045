"""Graphs of neighbors: from rows to an affinity, several affinities to one, an affinity to its Laplacian.

A graph of n rows with k neighbors each has at most 2 n k edges of 12 bytes. It is made as a Dask array of CSR row
blocks; what follows holds it whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import dask.array as da
import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from distembed.dtypes import Float64s, Int32s, Int64s, Mask
from distembed.execution import compute
from distembed.lift import first_rows, lift
from distembed.linalg import csr
from distembed.linalg.csr import rows_with_values
from distembed.linalg.operators import transpose_row_blocks, whole_csr
from distembed.neighbors import graph_blocks
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.search import kept_lists
from distembed.typing import refuse_collection

Affinity = Literal["binary", "cosine", "gaussian", "local"]
Symmetry = Literal["union", "mutual"]
Normalization = Literal["symmetric", "none"]

_CSR: dict[str, Any] = {"dtype": np.float64, "sparse": True}

LOCAL_NEIGHBOR = 7
"""The neighbor whose distance is a row's own scale (Zelnik-Manor & Perona 2004)."""


def neighbor_affinity(X: Any, n_neighbors: int, **options: Any) -> sp.csr_array:
    """Return the result of `affinity_rows` in memory."""
    return whole_csr(affinity_rows(X, n_neighbors, **options))


def affinity_rows(
    X: Any,
    n_neighbors: int,
    *,
    affinity: Affinity | Literal["polynomial"] = "local",
    symmetry: Symmetry = "union",
    metric: Metric = "cosine",
    degree: int = 1,
) -> da.Array:
    """Return the symmetric affinity of the n rows of X over their nearest neighbors, lazily.

    The graph is made of the edges that the neighbor lists name, and of its transpose.

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

    Returns
    -------
    Dask array of CSR row blocks, those of the search, (n × n) float64, zero diagonal

    Raises
    ------
    ValueError
        If an option is unknown, "cosine" or "polynomial" is asked of another metric, or `nearest_neighbors` refuses X.

    References
    ----------
    Zelnik-Manor & Perona 2004, Self-tuning spectral clustering (local scaling).
    """
    for name, value, known in (
        ("affinity", affinity, ("binary", "cosine", "polynomial", "gaussian", "local")),
        ("symmetry", symmetry, ("union", "mutual")),
    ):
        if value not in known:
            raise ValueError(f"{name} is {value!r}: choose one of {', '.join(known)}")
    if affinity in {"cosine", "polynomial"} and metric != "cosine":
        raise ValueError(f"affinity {affinity!r} is measured with metric 'cosine', not {metric!r}")
    used = row_is_used(X, metric)
    places = np.flatnonzero(used)
    lists = kept_lists(domain_rows(X if used.all() else X[places], metric=metric), n_neighbors, metric=metric)
    scales, width = np.zeros(0), 1.0
    if affinity in {"gaussian", "local"}:
        options: dict[str, Any] = {"metric": metric, "neighbor": LOCAL_NEIGHBOR, "dtype": np.float64}
        scales, squares = compute(
            lift(graph_blocks.neighborhoods, "wpk->wl", lists, sizes={"l": 2}, **options)
        ).T
        width = float(squares.sum()) / (lists.shape[0] * lists.shape[2])

    def listed(only: int | None) -> da.Array:
        firsts = [0, *places[np.cumsum(lists.chunks[0])[:-1]].tolist(), used.size]
        return lift(
            graph_blocks.listed_edges,
            "wpk,w->wn",
            lists,
            first_rows(lists),
            sizes={"w": tuple(np.diff(firsts).tolist()), "n": used.size},
            affinity=affinity,
            metric=metric,
            width=width,
            degree=degree,
            scales=scales,
            places=places,
            n_rows=used.size,
            only=only,
            **_CSR,
        )

    one_way = [listed(None)] if symmetry == "union" else [listed(None), listed(graph_blocks.MUTUAL_FLOOR)]
    edges = [side for graph in one_way for side in (graph, transpose_row_blocks(graph))]
    return lift(graph_blocks.join_edges, f"{','.join(['wn'] * len(edges))}->wn", *edges, **_CSR)


def row_is_used(X: Any, metric: str) -> Mask:
    """Return which rows can be measured, (n,): all rows, except rows of zeros for the cosine."""
    if metric != "cosine":
        return np.ones(X.shape[0], bool)
    found: Mask = compute(lift(rows_with_values, "wc->w", X, dtype=bool))
    return found


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
        fits = 0 <= a < b < len(sizes) and link.shape == (sizes[a], sizes[b])
        if not fits or (link.nnz and link.data.min() < 0):
            raise ValueError(
                f"links of the sets {(a, b)} have shape {link.shape}, and the least weight "
                f"{min(link.data, default=0):g}: give those of sets (a, b) with a < b of {sizes} rows, of weights of "
                "0 or more"
            )
        tiles[a][b], tiles[b][a] = weight * sp.csr_array(link), weight * sp.csr_array(link).T
    joint = sp.csr_array(sp.block_array(tiles, format="csr"))
    joint.eliminate_zeros()
    joint.sort_indices()
    return joint


def check_graph(graph: Any, n_rows: int | None = None, *, name: str = "graph") -> sp.csr_array:
    """Return a symmetric affinity that a caller gives, (n × n) float64; n is `n_rows`, by default as many as it has.

    Raises
    ------
    ValueError
        If it has another shape, is not symmetric, or holds a weight that is negative, NaN or infinite.
    TypeError
        If it is a collection of Dask.
    """
    refuse_collection(graph, name)
    graph = sp.csr_array(graph).astype(np.float64)
    n = graph.shape[0] if n_rows is None else n_rows
    if graph.shape != (n, n):
        raise ValueError(f"the {name} has shape {graph.shape}, but joins {n} rows: give one of {n} x {n}")
    csr.check_block(graph, first_rows(graph), called=f"the {name}", nonnegative=True)
    if abs(graph - graph.T).sum() > 1e-9 * graph.sum():
        raise ValueError(f"the {name} is not symmetric: give {name}.maximum({name}.T)")
    return graph


def laplacian(adjacency: sp.csr_array, *, normalization: Normalization = "symmetric") -> sp.csr_array:
    """Return the Laplacian of a symmetric affinity, its diagonal of order one either way.

    - "symmetric": I - D^-½ W D^-½, zero rows for vertices without an edge;
    - "none": (D - W) / mean degree.

    tr(ZᵀLZ) is ½ Σ w_ij ‖z_i/√d_i - z_j/√d_j‖² or ½ Σ w_ij ‖z_i - z_j‖² / mean degree: the first makes
    what it smooths grow with the root of a row's degree. scipy.sparse.csgraph.laplacian is the equivalent.

    Raises
    ------
    ValueError
        If the normalization is unknown.
    """
    if normalization not in {"symmetric", "none"}:
        raise ValueError(f"normalization is {normalization!r}: choose 'symmetric' or 'none'")
    degrees = degrees_of(adjacency)
    if normalization == "none":
        mean = degrees.mean() or 1.0
        return sp.csr_array((sp.diags_array(degrees, format="csr") - adjacency) / mean)
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    values = scale[csr.rows_of(adjacency)] * adjacency.data * scale[adjacency.indices]
    scaled = sp.csr_array((values, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    return sp.csr_array(sp.diags_array((degrees > 0).astype(float), format="csr") - scaled)


def degrees_of(adjacency: sp.csr_array) -> Float64s:
    """Return the sum of each row of a graph, (n,)."""
    return csr.row_sums(adjacency)


def components(adjacency: sp.csr_array) -> Int32s:
    """Return the connected component of each vertex, (n,), numbered from 0 by their smallest vertices."""
    found: Int32s = csgraph.connected_components(adjacency, directed=False)[1]
    return found


def row_sizes(graph: da.Array) -> Int64s:
    """Return the number of edges of each vertex of a graph in row blocks, (n,)."""
    found: Int64s = compute(lift(csr.row_sizes, "wn->w", graph, dtype=np.int64))
    return found
