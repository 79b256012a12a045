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
from distembed.execution import Checkpoint, map_blocks
from distembed.factorization.lsa import LSA, with_contexts
from distembed.factorization.psdvec import PSDVec
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, read_as
from distembed.linalg.chunks import balanced_rows
from distembed.linalg.csr import unit_rows
from distembed.linalg.operators import transpose_row_blocks
from distembed.manifold.projection import LocalityPreservingProjection, neighborhood_graph, random_projection
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import vocabulary_of
from distembed.systems.wordspaces import outputs
from distembed.systems.wordspaces.job import (
    COUNTED,
    ColumnsRecipe,
    EigenmapsRecipe,
    FirstComponentsRecipe,
    GraphRecipe,
    LPPRecipe,
    LSARecipe,
    PPMIRecipe,
    PSDVecRecipe,
    RandomProjectionRecipe,
    RecipeSection,
)
from distembed.weighting.documents import log_entropy, tf_idf
from distembed.weighting.pmi import ppmi
from distembed.weighting.spaces import chosen_columns, hal_space

TABLES = {
    "documents": ("document_terms",),
    "contexts": ("contexts",),
    "bigrams": ("bigrams",),
    "hal": ("hal_following", "hal_preceding"),
}
"""The stored tables of each kind of counts."""


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
    chunks = balanced_rows(sizes, ctx.job.resources.block_memory // 4)
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


def _lsa(ctx: Context, recipe: LSARecipe) -> da.Array:
    model = LSA(
        recipe.n_components + recipe.n_dropped,
        exponent=recipe.exponent,
        random_state=recipe.random_state,
        checkpoint=ctx.stage.checkpoint,
    )
    made: da.Array = model.fit_transform(source_of(ctx, recipe))
    if recipe.add_contexts:
        made = with_contexts(model, made)
    return made[:, recipe.n_dropped :]


def _random_projection(ctx: Context, recipe: RandomProjectionRecipe) -> da.Array:
    source = source_of(ctx, recipe)
    made: da.Array = random_projection(source, recipe.n_components, random_state=recipe.random_state)
    return made


def _psdvec(ctx: Context, recipe: PSDVecRecipe) -> da.Array:
    model = PSDVec(
        recipe.n_components,
        smoothing=recipe.smoothing,
        n_iter=recipe.n_iter,
        random_state=recipe.random_state,
        checkpoint=ctx.stage.checkpoint,
    )
    model.fit(source_of(ctx, recipe), vocabulary_of(ctx.workspace).counts)
    return da.asarray(model.vectors_)


def _first_components(ctx: Context, recipe: FirstComponentsRecipe) -> da.Array:
    source = source_of(ctx, recipe)
    if source.shape[1] < recipe.n_components:
        raise ValueError(
            f"n_components is {recipe.n_components} but {recipe.of} has {source.shape[1]} components: choose fewer"
        )
    return source[:, : recipe.n_components]


def neighbor_graph(ctx: Context, recipe: GraphRecipe, checkpoint: Checkpoint) -> sp.csr_array:
    """Return the graph of nearest words that a recipe asks for; `checkpoint` keeps or finds the lists."""
    return neighborhood_graph(
        outputs.SPACE.read(ctx.workspace, recipe=recipe.graph_source),
        n_neighbors=recipe.n_neighbors,
        threshold=recipe.threshold,
        affinity=recipe.affinity,
        symmetry=recipe.symmetry,
        block_memory=ctx.job.resources.block_memory,
        checkpoint=checkpoint,
    )


def graph_outputs(recipe: GraphRecipe) -> dict[str, ArrayOutput]:
    """Return the output that keeps the graph of a recipe, under the name that its search has for it."""
    parts = {"graph": recipe.neighbors_name, "source": recipe.graph_source}
    if recipe.threshold is None:
        return {"neighbors": outputs.NEIGHBOR_LISTS.of(**parts)}
    return {"threshold-graph": outputs.THRESHOLD_GRAPH.of(**parts, threshold=str(recipe.threshold))}


def eigenmaps_output(recipe: GraphRecipe) -> ArrayOutput:
    """Return the output that keeps the eigenvectors of the graph of a recipe."""
    return outputs.EIGENMAPS.of(graph=recipe.eigenmaps_name)


def _shared(ctx: Context, recipe: GraphRecipe) -> Checkpoint:
    return read_as(ctx, {**graph_outputs(recipe), "eigenmaps": eigenmaps_output(recipe)})


def _eigenmaps(ctx: Context, recipe: EigenmapsRecipe) -> da.Array:
    kept = eigenmaps_output(recipe).read(ctx.workspace)
    space = outputs.SPACE.read(ctx.workspace, recipe=recipe.of)
    return kept[:-1].rechunk((space.chunks[0], -1))


def _lpp(ctx: Context, recipe: LPPRecipe) -> da.Array:
    rows = source_of(ctx, recipe)
    if recipe.unit_rows:
        rows = map_blocks(unit_rows, rows, dtype=np.float64, meta=rows._meta.astype(np.float64))
    shared = _shared(ctx, recipe)
    model = LocalityPreservingProjection(
        recipe.n_components,
        n_neighbors=recipe.n_neighbors,
        affinity=recipe.affinity,
        symmetry=recipe.symmetry,
        solver=recipe.solver,
        svd_components=recipe.svd_components,
        alpha=recipe.alpha,
        constant_column=recipe.constant_column,
        random_state=recipe.random_state,
        block_memory=ctx.job.resources.block_memory,
        checkpoint=shared,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*rows of X are zero", category=UserWarning
        )  # facts name them
        made: da.Array = model.fit(rows, graph=neighbor_graph(ctx, recipe, shared)).transform(rows)
    return made


METHODS: dict[str, Callable[[Context, Any], da.Array]] = {
    "counts": _counts,
    "ppmi": _ppmi,
    "tf_idf": _tf_idf,
    "log_entropy": _log_entropy,
    "lsa": _lsa,
    "lpp": _lpp,
    "eigenmaps": _eigenmaps,
    "random_projection": _random_projection,
    "psdvec": _psdvec,
    "first_components": _first_components,
}
