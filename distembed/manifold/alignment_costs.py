"""What embeddings of one or two sets take in memory and on disk: their graphs, further pairs, and the rounds."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.base import clone

from distembed.costs import Cost, add_costs
from distembed.linalg.chunks import STORED_BYTES, VALUES_PER_BLOCK
from distembed.manifold.alignment_rounds import SYSTEM_COPIES, group_width
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.inference import AS_PRINTED
from distembed.manifold.projection_costs import eigenmaps_cost
from distembed.manifold.propagation import CANDIDATES, N_ROUNDS, ROWS_AT_ONCE, folds_of
from distembed.neighbors.costs import (
    EDGE_BYTES,
    LIST_BYTES,
    MERGED_AT_ONCE,
    RowSizes,
    affinity_cost,
    dense_tile,
    most_edges,
)
from distembed.states import block_memory

CANDIDATE_BYTES = 128
"""Bytes of a candidate while the pairs of one search are compared: its list, and by the rows of both sets."""
LINK_BYTES = 48
"""Bytes of a link while the links are stored: held, with those that are added, and cut into blocks."""
MAPPED_COPIES = 4
"""Copies in float64 of rows that are searched in memory: as given, of unit length, mapped, and centered."""
ROUNDS = 6
"""Rounds of the alternation that a fit takes, about."""
VALUE_COPIES = 4
"""Copies of the values of the features, of what is fitted to them, and of the embedding that a round holds."""
CONTROL_COPIES = 6
"""Copies of the rows of both sets, in float64, that the methods hold with which an embedding is compared."""


def graph_costs(
    model: FeaturePreservingEmbedding, sets: Sequence[RowSizes], *, reread: bool = False
) -> list[Cost]:
    """Return what the graph of the neighbors within each set takes; `reread` is that of `search_cost`."""
    return [
        affinity_cost(
            rows,
            model.n_neighbors,
            metric=model.metric,
            symmetry=model.symmetry,
            block_memory=block_memory(),
            reread=reread,
        )
        for rows in sets
    ]


def joint_edges(model: FeaturePreservingEmbedding, sets: Sequence[RowSizes], n_links: int = 0) -> int:
    """Return the most edges of the joint graph, each counted from both ends."""
    within = sum(most_edges(rows.n_rows, model.n_neighbors, model.symmetry) for rows in sets)
    return within + 2 * n_links


def most_links(model: FeaturePreservingEmbedding, n_second: int, n_pairs: int) -> int:
    """Return the most correspondences: the known pairs, and the candidates of all other rows of the second set."""
    return n_pairs + (CANDIDATES * n_second if model.propagate else 0)


def links_cost(
    model: FeaturePreservingEmbedding,
    first: RowSizes,
    second: RowSizes,
    *,
    n_pairs: int,
    n_rounds: int = N_ROUNDS,
) -> Cost:
    """Return what the correspondences of two sets take: the known pairs, and the search for further ones.

    Parameters
    ----------
    model : its options
    first, second : the rows of both sets
    n_pairs : known correspondences
    n_rounds : rounds of `propagate_correspondences`
    """
    n_links = most_links(model, second.n_rows, n_pairs)
    n_candidates = CANDIDATES * second.n_rows if model.propagate else n_pairs
    shared = CANDIDATE_BYTES * n_candidates + LINK_BYTES * n_links
    if not model.propagate:
        return Cost(1, 20 * n_pairs, EDGE_BYTES * n_links, 0, shared)
    n_searches = (1 + folds_of(n_pairs)[1]) * (n_rounds + 1)
    both = [rows._replace(itemsize=8) for rows in (first, second)]  # as they are compared
    read = n_searches * sum(rows.n_bytes for rows in (first, second))
    if max(first.n_rows, second.n_rows) <= ROWS_AT_ONCE:
        n_copies = MAPPED_COPIES + (model.metric == "euclidean")  # rows less their mean
        shared += n_copies * sum(rows.n_bytes for rows in both)
        return Cost(2, read, EDGE_BYTES * n_links, dense_tile_of(both, block_memory()), shared)
    grids = [rows.n_blocks(block_memory()) for rows in both]
    tasks = 2 * grids[0] * grids[1] + sum(-(-grid // MERGED_AT_ONCE) for grid in grids)
    lists = n_searches * LIST_BYTES * CANDIDATES * (first.n_rows + second.n_rows)
    written = EDGE_BYTES * n_links + lists
    task = dense_tile_of(both, block_memory())
    return Cost(n_searches * tasks, read * grids[0] + lists, written, task, shared, 2 * n_searches)


def dense_tile_of(sets: Sequence[RowSizes], block_memory: int) -> int:
    """Return the bytes of a task that compares a block of each set; the next ones are read beside it."""
    return max(dense_tile(rows, CANDIDATES, "cosine", block_memory) for rows in sets) + block_memory


def embedding_cost(
    model: FeaturePreservingEmbedding,
    n_rows: int,
    n_features: int,
    *,
    n_edges: int,
    graph_memory: int | None = None,
    n_rounds: int = ROUNDS,
) -> Cost:
    """Return what the rounds of a feature-preserving embedding take, after its graph: systems, some in each task.

    Parameters
    ----------
    model : its options
    n_rows : of all sets
    n_features : columns of V
    n_edges : of the joint graph, at most
    graph_memory : bytes up to which the graph is in memory, by default any; row blocks of a larger one are read for
        each product
    n_rounds : rounds of the alternation
    """
    k, edges = model.n_components, EDGE_BYTES * (n_edges + n_rows)
    held_edges = n_edges if graph_memory is None else min(n_edges, graph_memory // EDGE_BYTES)
    in_memory = EDGE_BYTES * (held_edges + n_rows)  # it may have fewer edges, and then be held
    block = STORED_BYTES * VALUES_PER_BLOCK if held_edges < n_edges else 0
    width = group_width(n_rows, k, block_memory())
    n_rounds = min(n_rounds, model.max_iter)
    n_tasks, vectors = n_rounds * -(-k // width), 8 * n_rows * k
    task = 8 * SYSTEM_COPIES * n_rows * width + 2 * vectors + block
    held = VALUE_COPIES * (vectors + 8 * n_rows * n_features) + 3 * in_memory
    if model.missing == "imputed":
        held += 2 * 8 * n_rows * n_features  # what is filled in, in each round
    start = eigenmaps_cost(n_rows, held_edges, k).shared_bytes if model.init == "alignment" else vectors
    return Cost(
        n_tasks,
        edges if held_edges == n_edges else edges * n_rounds,
        (n_rounds + 1) * vectors,
        task,
        max(held, start) + in_memory,
        graphs=2 * n_rounds,
    )


def methods_cost(
    model: FeaturePreservingEmbedding,
    sets: Sequence[RowSizes],
    n_features: int,
    *,
    n_edges: int,
    n_pairs: int = 0,
    n_draws: int = 1,
    printed_rounds: int = 0,
    alignment_components: int = 50,
) -> Cost:
    """Return what the methods of `inference` take for so many draws: an embedding and the controls, all in memory.

    They are those of `infer_by_each_method`. The rows are held without a draw, too.
    """
    n_rows = sum(rows.n_rows for rows in sets)
    fits = [embedding_cost(model, n_rows, n_features, n_edges=n_edges)] * (1 + model.propagate)
    fits.append(eigenmaps_cost(n_rows, n_edges, alignment_components))
    found = links_cost(model, *sets, n_pairs=n_pairs)
    if printed_rounds:
        printed = clone(model).set_params(**AS_PRINTED, max_iter=printed_rounds)
        fits.append(embedding_cost(printed, n_rows, n_features, n_edges=n_edges, n_rounds=printed_rounds))
    every = add_costs([*fits, found._replace(shared_bytes=0)])  # its links are held meanwhile
    rows = sum(size.n_bytes for size in sets)
    controls = CONTROL_COPIES * 8 * sum(size.n_stored for size in sets)
    return Cost(
        n_draws * every.tasks,
        rows + EDGE_BYTES * n_edges,
        0,
        every.task_bytes,
        rows + (every.shared_bytes + found.shared_bytes + controls if n_draws else 0),
    )
