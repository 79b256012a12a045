"""The methods of recipes: from counts, or from another space, to a space of words, lazily.

The graphs of neighbors and their eigenvectors are those that stages of their own have stored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.corpus.stop_words import stop_words_of
from distembed.execution import compute
from distembed.factorization.lsa import LSA, with_contexts
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context
from distembed.lift import lift
from distembed.linalg.chunks import STORED_BYTES, cut_rows
from distembed.linalg.csr import unit_rows
from distembed.linalg.operators import transpose_row_blocks
from distembed.manifold.eigenmaps import measured_eigenmaps
from distembed.manifold.projection import LocalityPreservingProjection, neighborhood_graph
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import vocabulary_of
from distembed.systems.wordspaces import outputs
from distembed.systems.wordspaces.job import (
    COUNTED,
    ColumnsRecipe,
    EigenmapsRecipe,
    GraphRecipe,
    LPPRecipe,
    LSARecipe,
    PPMIRecipe,
    RecipeSection,
)
from distembed.systems.wordspaces.sizes import DOCUMENT_BLOCKS, TABLES
from distembed.weighting.documents import log_entropy, tf_idf
from distembed.weighting.pmi import ppmi
from distembed.weighting.spaces import chosen_columns, hal_space


def source_of(ctx: Context, recipe: RecipeSection) -> da.Array:
    """Return the space or table of counts that a recipe starts from."""
    if recipe.of == "documents":
        return corpus_outputs.DOCUMENT_TERMS.read(ctx.workspace)
    if recipe.of == "hal":
        return hal_space(*(outputs.TABLE.read(ctx.workspace, table=table) for table in TABLES["hal"]))
    if recipe.of in COUNTED:
        return outputs.TABLE.read(ctx.workspace, table=recipe.of)
    return outputs.SPACE.read(ctx.workspace, recipe=recipe.of)


def _chosen(ctx: Context, recipe: ColumnsRecipe, matrix: da.Array) -> da.Array:
    words = vocabulary_of(ctx.workspace).words
    without = stop_words_of({"keep": "none", "drop": "english"}.get(recipe.stop_words, recipe.stop_words))
    return chosen_columns(matrix, words, n_columns=recipe.n_columns, without=without)


def _by_word(ctx: Context, documents: da.Array) -> da.Array:
    """Return documents x words as words x documents, in row blocks of about equal bytes."""
    sizes = vocabulary_of(ctx.workspace).document_counts
    # a task holds the pieces of its block, and the block they make
    chunks = cut_rows(sizes, ctx.job.resources.block_memory // (2 * STORED_BYTES * DOCUMENT_BLOCKS))
    return transpose_row_blocks(documents, row_chunks=chunks)


def _counts(ctx: Context, recipe: ColumnsRecipe) -> da.Array:
    source = source_of(ctx, recipe)
    if recipe.of == "documents":
        return _by_word(ctx, source)
    return _chosen(ctx, recipe, source)


def _ppmi(ctx: Context, recipe: PPMIRecipe) -> da.Array:
    source, smoothing = source_of(ctx, recipe), recipe.context_smoothing
    made = ppmi(source, context_smoothing=smoothing, negative_samples=recipe.negative_samples)
    return _chosen(ctx, recipe, made)


def _tf_idf(ctx: Context, recipe: RecipeSection) -> da.Array:
    # documents of unit length: idf alone scales whole rows here, which no cosine of words can see

    return _by_word(ctx, tf_idf(source_of(ctx, recipe)))


def _log_entropy(ctx: Context, recipe: RecipeSection) -> da.Array:
    return _by_word(ctx, log_entropy(source_of(ctx, recipe)))


def _lsa_of(recipe: LSARecipe) -> LSA:
    return LSA(
        recipe.n_components + recipe.n_dropped,
        exponent=recipe.exponent,
        random_state=recipe.random_state,
    )


def _lsa(ctx: Context, recipe: LSARecipe) -> da.Array:
    model = _lsa_of(recipe)
    made: da.Array = model.fit_transform(source_of(ctx, recipe))
    if recipe.add_contexts:
        made = with_contexts(model, made)
    return made[:, recipe.n_dropped :]


def neighbor_graph(ctx: Context, recipe: GraphRecipe, found: da.Array | None = None) -> sp.csr_array:
    """Return the graph of nearest words that a recipe asks for, of what the search found; by default what is stored."""
    return neighborhood_graph(
        outputs.SPACE.read(ctx.workspace, recipe=recipe.graph_source),
        n_neighbors=recipe.n_neighbors,
        threshold=recipe.threshold,
        affinity=recipe.affinity,
        symmetry=recipe.symmetry,
        found=neighbors_output(recipe).read(ctx.workspace) if found is None else found,
    )


def neighbors_output(recipe: GraphRecipe) -> ArrayOutput:
    """Return the output that holds the neighbors that the graph of a recipe joins."""
    parts = {"graph": recipe.neighbors_name, "source": recipe.graph_source}
    if recipe.threshold is None:
        return outputs.NEIGHBOR_LISTS.of(**parts)
    return outputs.THRESHOLD_GRAPH.of(**parts, threshold=str(recipe.threshold))


def eigenmaps_output(recipe: GraphRecipe) -> ArrayOutput:
    """Return the output that keeps the eigenvectors of the graph of a recipe."""
    return outputs.EIGENMAPS.of(graph=recipe.eigenmaps_name)


def _eigenmaps(ctx: Context, recipe: EigenmapsRecipe) -> da.Array:
    kept = eigenmaps_output(recipe).read(ctx.workspace)
    space = outputs.SPACE.read(ctx.workspace, recipe=recipe.of)
    return kept[:-1].rechunk((space.chunks[0], -1))


def _lpp_of(recipe: GraphRecipe) -> LocalityPreservingProjection:
    """Return the projection of a recipe, or what has the graph of one of eigenmaps."""
    made = LocalityPreservingProjection(
        recipe.n_components,
        n_neighbors=recipe.n_neighbors,
        threshold=recipe.threshold,
        affinity=recipe.affinity,
        symmetry=recipe.symmetry,
        random_state=recipe.random_state,
    )
    if not isinstance(recipe, LPPRecipe):
        return made
    return made.set_params(
        solver=recipe.solver,
        svd_components=recipe.svd_components,
        alpha=recipe.alpha,
        constant_column=recipe.constant_column,
    )


def _lpp(ctx: Context, recipe: LPPRecipe) -> da.Array:
    rows = source_of(ctx, recipe)
    if recipe.unit_rows:
        rows = lift(unit_rows, "wc->wc", rows, dtype=np.float64, sparse=sp.issparse(rows._meta))
    graph, maps = neighbor_graph(ctx, recipe), None
    if recipe.solver != "eigen":
        kept = compute(eigenmaps_output(recipe).read(ctx.workspace))
        maps = measured_eigenmaps(graph, kept[:-1], kept[-1])
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*rows of X are zero", category=UserWarning
        )  # facts name them
        made: da.Array = _lpp_of(recipe).fit(rows, graph=graph, eigenmaps=maps).transform(rows)
    return made


METHODS: dict[str, Callable[[Context, Any], da.Array]] = {
    "counts": _counts,
    "ppmi": _ppmi,
    "tf_idf": _tf_idf,
    "log_entropy": _log_entropy,
    "lsa": _lsa,
    "lpp": _lpp,
    "eigenmaps": _eigenmaps,
}
