"""What the stages of word spaces take: spaces by their method, graphs, and scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distembed.evaluation.wordsets import SET_COPIES, SETS_BYTES
from distembed.factorization.lsa import LSA
from distembed.linalg.blocks import split_columns, stack_columns
from distembed.manifold.projection import SVD_OVERSAMPLING, SVD_PASSES
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.corpus import plan_vocabulary
from distembed.stages.dimensions import PAIR_BYTES
from distembed.stages.graphs import plan_of_affinity, plan_of_eigenmaps, plan_of_ridge, plan_of_search
from distembed.stages.singular import plan_of_triplets
from distembed.systems.wordspaces.job import (
    ColumnsRecipe,
    EigenmapsRecipe,
    GraphRecipe,
    LPPRecipe,
    LSARecipe,
    RecipeSection,
    WordSpacesJob,
)
from distembed.systems.wordspaces.sizes import root_of, space_bytes, values_of, width_of
from distembed.weighting.blocks import chosen_columns, pmi, weigh_log_entropy, weigh_tf_idf


def plan_test_vocabulary(job: WordSpacesJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the vocabulary, which reads the evaluation sets if it keeps their words."""
    made = plan_vocabulary(job, dims)
    sets = dims.whole("set", itemsize=SET_COPIES) if job.evaluation.keep_words else 0
    return made._replace(whole_bytes=sum((made.whole_bytes, sets)))


# --- counts -> spaces ------------------------------------------------------------------------------------------


def plan_space(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of making a space."""
    recipe = job.recipes[name]
    return PLANS[recipe.method](job, recipe, dims)


def _by_block(kind: str, dims: Dimensions, *functions: Callable[..., Any]) -> StagePlan:
    """Return the plan of functions of a block of counts, which need to know the sums of all words."""
    block, sums = dims.block(kind, itemsize=PAIR_BYTES), dims.whole(f"{kind}_column", 2, itemsize=8)
    return stage_plan(
        *(task(function, block, sums, output=block) for function in functions),
        stored=dims.whole(kind, itemsize=PAIR_BYTES),
        n_tasks=dims.n_blocks(kind),
    )


def _by_word(kind: str, dims: Dimensions, *functions: Callable[..., Any]) -> StagePlan:
    """Return the plan of weighing documents and turning them into words, while all of them are in memory in pieces."""
    pieces = dims.whole(2, kind, itemsize=PAIR_BYTES)
    return _by_block(kind, dims, *functions, split_columns, stack_columns)._replace(whole_bytes=pieces)


def _plan_counts(job: WordSpacesJob, recipe: ColumnsRecipe, dims: Dimensions) -> StagePlan:
    kind = root_of(job, recipe)
    return _by_word(kind, dims) if kind == "documents" else _by_block(kind, dims, chosen_columns)


def _plan_ppmi(job: WordSpacesJob, recipe: ColumnsRecipe, dims: Dimensions) -> StagePlan:
    return _by_block(root_of(job, recipe), dims, pmi, chosen_columns)


def _plan_tf_idf(job: WordSpacesJob, recipe: RecipeSection, dims: Dimensions) -> StagePlan:
    return _by_word(root_of(job, recipe), dims, weigh_tf_idf)


def _plan_log_entropy(job: WordSpacesJob, recipe: RecipeSection, dims: Dimensions) -> StagePlan:
    return _by_word(root_of(job, recipe), dims, weigh_log_entropy)


def _plan_lsa(job: WordSpacesJob, recipe: LSARecipe, dims: Dimensions) -> StagePlan:
    kind, model = root_of(job, recipe), LSA()
    return plan_of_triplets(
        dims,
        sum((recipe.n_components, recipe.n_dropped)),
        rows=f"{kind}_row",
        columns=f"{kind}_column",
        values=kind,
        n_passes=model.n_passes,
        oversampling=model.oversampling,
    )


def _plan_lpp(job: WordSpacesJob, recipe: LPPRecipe, dims: Dimensions) -> StagePlan:
    kind, k = root_of(job, recipe), recipe.n_components
    graph = _plan_graph(job, recipe, dims)
    if recipe.solver == "eigen":
        assert recipe.svd_components is not None
        solved = plan_of_triplets(
            dims,
            recipe.svd_components,
            rows=f"{kind}_row",
            columns=f"{kind}_column",
            values=kind,
            n_passes=SVD_PASSES,
            oversampling=SVD_OVERSAMPLING,
            itemsize=8,
        )
    else:
        solved = plan_of_ridge(
            dims, "word", k, width=width_of(job, dims, recipe.of), values=values_of(job, recipe.of)
        )
    made = in_turn(graph, solved)
    return made._replace(stored_bytes=dims.whole("word", k))


def _plan_maps(_job: WordSpacesJob, recipe: EigenmapsRecipe, dims: Dimensions) -> StagePlan:
    vectors = dims.whole("word", recipe.n_components, itemsize=8)
    return stage_plan(whole=[vectors], stored=dims.whole("word", recipe.n_components))


PLANS: dict[str, Callable[[WordSpacesJob, Any, Dimensions], StagePlan]] = {
    "counts": _plan_counts,
    "ppmi": _plan_ppmi,
    "tf_idf": _plan_tf_idf,
    "log_entropy": _plan_log_entropy,
    "lsa": _plan_lsa,
    "lpp": _plan_lpp,
    "eigenmaps": _plan_maps,
}
"""What each method takes."""


# --- graphs ----------------------------------------------------------------------------------------------------


def _plan_graph(job: WordSpacesJob, recipe: GraphRecipe, dims: Dimensions) -> StagePlan:
    """Return what the graph takes of the neighbors that are stored."""
    if recipe.threshold is not None:
        edges = dims.whole(3, f"{recipe.neighbors_name}_edge", itemsize=PAIR_BYTES)
        return stage_plan(whole=[edges, edges])
    return plan_of_affinity(dims, "word", recipe.n_neighbors, memory=job.resources.block_memory)


def plan_neighbors(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of comparing all words of a space."""
    recipe, memory = job.recipe(name, GraphRecipe), job.resources.block_memory
    source = recipe.graph_source
    search = plan_of_search(
        dims,
        "word",
        recipe.n_neighbors,
        width=width_of(job, dims, source),
        values=values_of(job, source),
        memory=memory,
    )
    return in_turn(search, _plan_graph(job, recipe, dims))


def plan_eigenmaps(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of the eigenvectors of a graph of neighbors."""
    recipe = job.recipe(name, GraphRecipe)
    maps = plan_of_eigenmaps(dims, "word", f"{recipe.neighbors_name}_edge", recipe.n_components)
    return in_turn(_plan_graph(job, recipe, dims), maps)


# --- spaces -> numbers -----------------------------------------------------------------------------------------


def plan_scores(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of scoring a space, which is held as it is and of unit length."""
    space = space_bytes(job, dims, name)
    return stage_plan(whole=[space, space, dims.whole("set", itemsize=SET_COPIES), SETS_BYTES])


def plan_vectors(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of copying a space."""
    block = dims.block(f"{root_of(job, job.recipes[name])}_row", width_of(job, dims, name))
    return stage_plan(block, block, stored=space_bytes(job, dims, name))
