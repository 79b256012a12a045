"""The stages of a word spaces job: a corpus to counts, each recipe's space, and its scores.

Which stages there are depends on the recipes: a table of counts is counted if a recipe starts from it, and spaces
whose graphs are equal share the search for neighbors and the graph's eigenvectors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import pearson_score, score_known
from distembed.evaluation.wordsets import find_sets
from distembed.job.model import JobError
from distembed.job.outputs import declared_in
from distembed.job.stage import (
    Context,
    StageSpec,
    System,
    nothing_to_check,
)
from distembed.linalg.operators import count_values
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.manifold.projection import search_neighborhood
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import (
    DOCUMENTS,
    TOKENS,
    VOCABULARY,
    count_pairs,
    plan_counts,
    plan_document_terms,
    run_document_terms,
    run_vocabulary,
    tokens_of,
    vocabulary_of,
)
from distembed.stages.kept_matrices import KeptRows, kept_stages, metric_of_words
from distembed.stages.words import (
    check_figures_of_scores,
    in_memory,
    set_lines,
    space_facts,
    store_nearest,
    store_scores,
)
from distembed.systems.wordspaces import outputs
from distembed.systems.wordspaces.job import (
    COUNTED,
    PRESETS,
    GraphRecipe,
    RecipeSection,
    ReducedRecipe,
    WordSpacesJob,
)
from distembed.systems.wordspaces.methods import (
    METHODS,
    eigenmaps_output,
    neighbor_graph,
    neighbors_output,
)
from distembed.systems.wordspaces.plans import (
    plan_eigenmaps,
    plan_neighbors,
    plan_scores,
    plan_space,
    plan_test_vocabulary,
    plan_vectors,
)
from distembed.systems.wordspaces.sizes import (
    COUNTING,
    TABLES,
    counting_options,
    space_dimensions,
    tables_of,
    width_of,
)
from distembed.vectors import WordVectors

# --- parameters ------------------------------------------------------------------------------------------------


def vocabulary_parameters(job: WordSpacesJob) -> dict[str, Any]:
    """Return the section of the vocabulary, and the evaluation sets whose words it keeps."""
    kept = job.evaluation.sets if job.evaluation.keep_words else ()
    return {**VOCABULARY.parameters(job), "keep_words_of": list(kept)}


def counting_parameters(job: WordSpacesJob, *, table: str) -> dict[str, Any]:
    """Return how a table of pairs is counted, and the memory of a block, which lays the grid."""
    options = getattr(job, COUNTING[table]).model_dump(mode="json")
    return {"counting": options, "table": table, **_block_parameters(job)}


def _block_parameters(job: WordSpacesJob) -> dict[str, Any]:
    return {"block_memory": job.resources.block_memory}


def _recipe_parameters(job: WordSpacesJob, *, name: str) -> dict[str, Any]:
    return {"recipe": job.recipes[name].options(), **_block_parameters(job)}


def _graph_parameters(job: WordSpacesJob, *, name: str, options: tuple[str, ...]) -> dict[str, Any]:
    recipe = job.recipe(name, GraphRecipe)
    chosen = recipe.model_dump(mode="json", include=set(options))
    return {"graph_of": recipe.graph_source, **chosen, **_block_parameters(job)}


def score_parameters(job: WordSpacesJob, *, name: str) -> dict[str, Any]:  # noqa: ARG001 - all are judged alike
    """Return the sets in their order, the dimensions, and the words whose neighbors are listed."""
    report = job.report.model_dump(mode="json", include={"words", "n_neighbors"})
    judged = job.evaluation
    return {
        "report": report,
        "sets": list(judged.sets),
        "case": judged.case,
        "dimensions": list(judged.dimensions),
    }


# --- documents -> counts ---------------------------------------------------------------------------------------


def run_test_vocabulary(ctx: Context) -> dict[str, Any]:
    """Build the vocabulary, with the words of the evaluation sets however rare they are."""
    job: WordSpacesJob = ctx.job
    keep = set(job.vocabulary.keep)
    if job.evaluation.keep_words and job.evaluation.sets:
        tested = set().union(*(one.words for one in find_sets(job.evaluation.sets).sets))
        keep |= tested | {word.lower() for word in tested}
    section = job.vocabulary.model_copy(update={"keep": tuple(sorted(keep))})
    return run_vocabulary(ctx._replace(job=job.model_copy(update={"vocabulary": section})))


def run_terms(ctx: Context) -> dict[str, Any]:
    """Count each word in each document that is no shorter than `corpus.min_border_tokens`."""
    job: WordSpacesJob = ctx.job
    if job.corpus.border != "document" or job.corpus.min_border_tokens <= 1:
        return run_document_terms(ctx)
    tokens = tokens_of(ctx.workspace)
    lengths = [tokens.documents(one)["n_tokens"].to_numpy() for one in tokens.partitions]
    return run_document_terms(ctx, kept=np.flatnonzero(np.concatenate(lengths)))


def run_table(ctx: Context, *, table: str) -> dict[str, Any]:
    """Count the pairs of words of a table, row block by row block."""
    counts = count_pairs(ctx, table, counting_options(ctx.job, table))
    stored = ctx.store(outputs.TABLE.of(table=table, section=COUNTING[table]), counts)
    return {"n_nonzero": count_values(stored)}


# --- counts -> spaces ------------------------------------------------------------------------------------------


def run_space(ctx: Context, *, name: str) -> dict[str, Any]:
    """Make the space of one recipe and store it: row i is word i of the vocabulary."""
    recipe: RecipeSection = ctx.job.recipes[name]
    made = METHODS[recipe.method](ctx, recipe)
    output = outputs.SPACE.of(
        recipe=name, title=ctx.job.title_of(name), method=recipe.method, source=recipe.of
    )
    stored = ctx.store(output, made.astype(np.float32))
    return {"n_columns": stored.shape[1], **space_facts(ctx.workspace, stored)}


# --- graphs ----------------------------------------------------------------------------------------------------


def run_neighbors(ctx: Context, *, name: str) -> dict[str, Any]:
    """Find each word's nearest words in a space."""
    recipe: GraphRecipe = ctx.job.recipe(name, GraphRecipe)
    space = outputs.SPACE.read(ctx.workspace, recipe=recipe.graph_source)
    found = search_neighborhood(space, n_neighbors=recipe.n_neighbors, threshold=recipe.threshold)
    graph = neighbor_graph(ctx, recipe, ctx.store(neighbors_output(recipe), found))
    return {"n_edges": int(graph.nnz)}


def run_eigenmaps(ctx: Context, *, name: str) -> dict[str, Any]:
    """Find the eigenvectors of a graph of neighbors."""
    recipe: GraphRecipe = ctx.job.recipe(name, GraphRecipe)
    graph = neighbor_graph(ctx, recipe)
    found = laplacian_eigenmaps(graph, recipe.n_components, random_state=recipe.random_state)
    # the eigenvalues are its last row
    ctx.store(
        eigenmaps_output(recipe),
        da.from_array(np.concatenate([found.vectors, found.eigenvalues[None]]), chunks=-1),
    )
    return {"n_graph_components": found.n_graph_components, "n_edges": int(graph.nnz)}


# --- spaces -> numbers -----------------------------------------------------------------------------------------


def check_answerable_sets(job: WordSpacesJob, *, name: str) -> list[str]:  # noqa: ARG001 - of all spaces
    """Read the evaluation sets of a job; a sparse space answers no analogies.

    Raises
    ------
    JobError
        If a space is sparse and a set asks for analogies, or a paper's figure would stand beside no score.
    """
    found = find_sets(job.evaluation.sets)
    sparse = [name for name in job.spaces if not isinstance(job.recipes[name], ReducedRecipe)]
    asking = [one.name for one in found.sets if one.task == "analogy"]
    if sparse and asking:
        raise JobError(
            f"evaluation.sets: {asking[0]} asks for analogies, which the sparse space "
            f"{sparse[0]} does not give; leave the set out, or name dense spaces only in wordspaces.spaces"
        )
    check_figures_of_scores(job, [job.title_of(name) for name in job.recipes], found.sets, "pearson")
    return set_lines(found) if job.evaluation.sets else []


def run_scores(ctx: Context, *, name: str) -> dict[str, Any]:
    """Score a space and its first components on every set, and list neighbors of the report's words."""
    job: WordSpacesJob = ctx.job
    sets = find_sets(job.evaluation.sets).sets if job.evaluation.sets else []
    tested = set().union(*(one.words for one in sets))
    is_whole = isinstance(job.recipes[name], ReducedRecipe) or any(one.task == "antonyms" for one in sets)
    stored = outputs.SPACE.read(ctx.workspace, recipe=name)
    words = vocabulary_of(ctx.workspace).words
    space = in_memory(words, stored, None if is_whole else tested)
    policy = Policy(job.evaluation.case).for_words(words)
    for k, scored in zip((*job.dimensions_of(name), None), job.scored(name), strict=True):
        judged = space
        if k is not None:
            assert isinstance(space, WordVectors)
            judged = WordVectors(words, np.ascontiguousarray(space.vectors[:, :k]))
        scores = score_known(judged, sets, policy, vocabulary=words)
        scores += [pearson_score(judged, one, policy) for one in sets if one.task == "similarity"]
        store_scores(ctx, outputs.SCORES.of(recipe=scored), scores)
    store_nearest(ctx, outputs.NEAREST.of(recipe=name), stored)
    return {"n_sets": len(sets)}


def run_vectors(ctx: Context, *, name: str) -> dict[str, Any]:
    """Store the space that other commands read as the vectors of the workspace."""
    ctx.store(outputs.VECTORS.of(recipe=name), outputs.SPACE.read(ctx.workspace, recipe=name))
    return {}


# --- which stages ----------------------------------------------------------------------------------------------


def stages(job: WordSpacesJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job, each after those it reads."""
    needed = job.needed()
    specs = [
        TOKENS,
        VOCABULARY._replace(
            parameters=vocabulary_parameters, run=run_test_vocabulary, plan=plan_test_vocabulary
        ),
        DOCUMENTS,
        *(spec for table in tables_of(job) for spec in _count_stages(table)),
    ]
    for name in needed:
        specs += [spec for spec in _space_stages(job, name) if spec.name not in {done.name for done in specs}]
        specs += [_score_stage(job, name)] if name in job.spaces else []
    return (*specs, *_vectors_stages(job))


def _count_stages(table: str) -> list[StageSpec]:
    inputs = ("tokens", "vocabulary")
    if table == "document_terms":
        return [StageSpec(table, inputs, _block_parameters, run_terms, plan_document_terms)]
    plan = partial(plan_counts, pair=table)
    return [
        StageSpec(
            table, inputs, partial(counting_parameters, table=table), partial(run_table, table=table), plan
        )
    ]


def _space_stages(job: WordSpacesJob, name: str) -> list[StageSpec]:
    recipe = job.recipes[name]
    sources = TABLES[recipe.of] if recipe.of in COUNTED else (f"space_{recipe.of}",)
    graph_stages = _graph_stages(name, recipe) if isinstance(recipe, GraphRecipe) else []
    graph_inputs = [name for spec in graph_stages for name in (*spec.inputs, spec.name)]
    inputs = tuple(dict.fromkeys([*sources, "vocabulary", *graph_inputs]))
    space = StageSpec(f"space_{name}", inputs, _recipe_parameters, run_space, plan_space)
    return [*graph_stages, space.of(name=name)]


def _graph_stages(name: str, recipe: GraphRecipe) -> list[StageSpec]:
    """Return the search for neighbors and the eigenvectors; recipes of equal graphs name equal stages."""
    options = _graph_options(recipe)
    searched = partial(_graph_parameters, options=options)
    mapped = partial(
        _graph_parameters, options=(*options, "affinity", "symmetry", "n_components", "random_state")
    )
    lists, source = recipe.neighbors_name, f"space_{recipe.graph_source}"
    search = StageSpec(lists, (source,), searched, run_neighbors, plan_neighbors)
    maps = StageSpec(recipe.eigenmaps_name, (source, lists), mapped, run_eigenmaps, plan_eigenmaps)
    return [spec.of(name=name) for spec in (search, *((maps,) if recipe.uses_eigenmaps else ()))]


def _graph_options(recipe: GraphRecipe) -> tuple[str, ...]:
    return ("n_neighbors",) if recipe.threshold is None else ("threshold",)


def _score_stage(job: WordSpacesJob, name: str) -> StageSpec:
    check = check_answerable_sets if name == job.spaces[0] else nothing_to_check  # all read the same sets
    inputs = (f"space_{name}", "vocabulary")
    return StageSpec(f"scores_{name}", inputs, score_parameters, run_scores, plan_scores, check).of(name=name)


def _vectors_stages(job: WordSpacesJob) -> list[StageSpec]:
    chosen = job.wordspaces.vectors
    if chosen is None:
        return []
    vectors = StageSpec("vectors", (f"space_{chosen}",), _vectors_parameters, run_vectors, plan_vectors)
    return [vectors.of(name=chosen), *kept_stages(job, KEPT_DISTANCES.stage_spec)]


def _vectors_parameters(_job: WordSpacesJob, *, name: str) -> dict[str, Any]:
    return {"vectors": name}


KEPT_DISTANCES = KeptRows(
    outputs.VECTORS,
    "vectors",
    "two words",
    metric_of_words,
    "word",
    lambda job, dims: width_of(job, dims, job.wordspaces.vectors),
)


SYSTEM = System(
    WordSpacesJob,
    stages,
    space_dimensions,
    "distembed.systems.wordspaces.views",
    outputs=(
        *corpus_outputs.OF_TOKENS,
        corpus_outputs.DOCUMENT_TERMS,
        corpus_outputs.RUNS,
        corpus_outputs.MERGED_RUNS,
        *declared_in(outputs),
        KEPT_DISTANCES.output,
    ),
    presets=PRESETS,
)
