"""The stages of a word spaces job: a corpus to counts, each recipe's space, and its scores.

Which stages there are depends on the recipes: a table of counts is counted if a recipe starts from it, and spaces
whose graphs are equal share the search for neighbors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from distembed.corpus.partitions import document_lengths
from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import SET_COPIES, SETS_BYTES, EvaluationSet, find_sets
from distembed.job.inputs import stamps_at
from distembed.job.model import JobError
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, Counted, StageSpec, System, nothing_to_check, sections
from distembed.linalg.operators import count_values, row_blocks
from distembed.manifold.projection import GRAPH_OPTIONS, MAX_EDGES, n_parts, neighborhood_graph
from distembed.neighbors.search import check_n_neighbors
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan
from distembed.stages import corpus
from distembed.stages import outputs as corpus_outputs
from distembed.stages.core import blocks_of_rows
from distembed.stages.dimensions import PAIR_BYTES, corpus_dimensions, described, pair_dimension
from distembed.stages.graphs import plan_of_affinity, plan_of_search
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
from distembed.systems.wordspaces.job import PRESETS, WordSpacesJob
from distembed.systems.wordspaces.recipes import (
    COUNT_BLOCKS,
    COUNTED,
    DOCUMENT_BLOCKS,
    TABLES,
    GraphRecipe,
    RecipeSection,
    ReducedRecipe,
)
from distembed.vectors import WordVectors


def kinds_of(job: WordSpacesJob) -> list[str]:
    """Return the kinds of counts that the recipes of a job start from."""
    kinds = {job.recipes[name].of for name in job.needed()}
    return [kind for kind in COUNTED if kind in kinds]


def space_dimensions(job: WordSpacesJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, of each table of counts and each kind of them, and of its graphs.

    A sparse space has no more stored values than the counts that it comes from.
    """
    texts, facts = corpus_dimensions(job, counted), {}
    if counted is not None:
        facts = {name: manifest.facts for name, manifest in counted.stages.items()}
    word, document, term = (texts.dimensions[name] for name in ("word", "document", "term"))
    recipes = [job.recipes[name] for name in job.needed()]
    n_documents = int(facts.get("document_terms", {}).get("n_documents", document.size))
    found: dict[str, Dimension] = {}
    for kind in kinds_of(job):
        of_documents, sides = kind == "documents", 2 if kind == "hal" else 1
        pairs = term
        if not of_documents:
            pairs = pair_dimension(texts, getattr(job, kind).counting_options(), counted, kind)
        values = (
            job.resources.block_memory // (DOCUMENT_BLOCKS if of_documents else COUNT_BLOCKS) // PAIR_BYTES
        )
        n_values, n_columns = sides * pairs.size, n_documents if of_documents else sides * word.size
        found |= {
            f"{kind}_pair": pairs,
            kind: Dimension(n_values, min(n_values, sides * values), pairs.counted),
            f"{kind}_row": blocks_of_rows(word.size, n_values, values, pairs.counted),
            f"{kind}_column": blocks_of_rows(n_columns, n_values, values, pairs.counted),
        }
    for recipe in recipes:
        if isinstance(recipe, GraphRecipe):
            stage, most = recipe.graph_name, 2 * recipe.n_neighbors
            if word.counted and recipe.threshold is None:
                check_n_neighbors(recipe.n_neighbors, word.size)
            n_edges = word.size * (most if recipe.threshold is None else MAX_EDGES)
            n_edges = int(facts.get(stage, {}).get("n_edges", n_edges))
            found[f"{stage}_edge"] = Dimension(n_edges, n_edges, stage in facts)
    n_bytes = sum(
        int(stamp[0]) for path in job.evaluation.sets for stamp in stamps_at(path, read=False).values()
    )
    return described(texts.dimensions | found | {"set": Dimension(n_bytes, n_bytes)})


# --- documents -> counts ---------------------------------------------------------------------------------------


def vocabulary_parameters(job: WordSpacesJob) -> dict[str, Any]:
    """Return the section of the vocabulary, and the evaluation sets whose words it keeps."""
    kept = job.evaluation.sets if job.evaluation.keep_words else ()
    return {**corpus.VOCABULARY.parameters(job), "keep_words_of": list(kept)}


def plan_test_vocabulary(job: WordSpacesJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the vocabulary, which reads the evaluation sets if it keeps their words."""
    made = corpus.plan_vocabulary(job, dims)
    sets = dims.whole("set", itemsize=SET_COPIES) if job.evaluation.keep_words else 0
    return made._replace(whole_bytes=sum((made.whole_bytes, sets)))


def run_test_vocabulary(ctx: Context) -> dict[str, Any]:
    """Build the vocabulary, with the words of the evaluation sets however rare they are."""
    job: WordSpacesJob = ctx.job
    keep = set(job.vocabulary.keep)
    if job.evaluation.keep_words and job.evaluation.sets:
        tested = set().union(*(one.words for one in find_sets(job.evaluation.sets).sets))
        keep |= tested | {word.lower() for word in tested}
    section = job.vocabulary.model_copy(update={"keep": tuple(sorted(keep))})
    return corpus.run_vocabulary(ctx._replace(job=job.model_copy(update={"vocabulary": section})))


def run_terms(ctx: Context) -> dict[str, Any]:
    """Count each word in each document that is no shorter than `corpus.min_border_tokens`."""
    job: WordSpacesJob = ctx.job
    if job.corpus.border != "document" or job.corpus.min_border_tokens <= 1:
        return corpus.run_document_terms(ctx)
    tokens = corpus.tokens_of(ctx.workspace)
    lengths = np.concatenate([document_lengths(one) for one in tokens.partitions])
    return corpus.run_document_terms(ctx, kept=np.flatnonzero(lengths))


def counting_parameters(job: WordSpacesJob, *, kind: str) -> dict[str, Any]:
    """Return how pairs are counted, and the memory of a block, which lays the grid."""
    return {"counting": getattr(job, kind).model_dump(mode="json"), **sections(grid=True)(job)}


def run_table(ctx: Context, *, kind: str) -> dict[str, Any]:
    """Count the pairs of words of a table, row block by row block."""
    counts = corpus.count_pairs(ctx, kind, getattr(ctx.job, kind).counting_options())
    stored = ctx.store(outputs.TABLE.of(table=kind), counts)
    return {"n_nonzero": count_values(stored)}


# --- counts -> graphs -> spaces --------------------------------------------------------------------------------


def _graph_parameters(job: WordSpacesJob, *, name: str, options: set[str]) -> dict[str, Any]:
    recipe: Any = job.recipes[name]
    chosen = recipe.model_dump(mode="json", include=options)
    return {"graph_of": recipe.graph_source, **chosen, **sections(grid=True)(job)}


def plan_graph(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of comparing all words of a space, and of joining those near each other."""
    recipe: Any = job.recipes[name]
    k, memory = recipe.n_neighbors, job.resources.block_memory
    width, values = job.recipes[recipe.graph_source].columns(job, dims)
    search = plan_of_search(dims, "word", k, width=width, values=values, memory=memory)
    if recipe.threshold is None:
        return in_turn(search, plan_of_affinity(dims, "word", k, memory=memory, stored=True))
    edges = dims.whole(6, f"{recipe.graph_name}_edge", itemsize=PAIR_BYTES)
    return in_turn(search, stage_plan(whole=[edges]))


def run_graph(ctx: Context, *, name: str) -> dict[str, Any]:
    """Join each word with those near it in a space."""
    recipe: GraphRecipe = ctx.job.recipes[name]
    space = outputs.SPACE.read(ctx.workspace, recipe=recipe.graph_source)
    graph = neighborhood_graph(space, **recipe.model_dump(include=set(GRAPH_OPTIONS)))
    output = outputs.GRAPH.of(graph=recipe.graph_name, source=recipe.graph_source)
    ctx.store(output, row_blocks(graph))
    return {"n_edges": int(graph.nnz), "n_graph_components": n_parts(graph)}


def _recipe_parameters(job: WordSpacesJob, *, name: str) -> dict[str, Any]:
    options = job.recipes[name].model_dump(mode="json", exclude={"title"})
    return {"recipe": options, **sections(grid=True)(job)}


def plan_space(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of making the space of a recipe."""
    return job.recipes[name].plan(job, dims)


def run_space(ctx: Context, *, name: str) -> dict[str, Any]:
    """Make the space of one recipe and store it: row i is word i of the vocabulary."""
    recipe: RecipeSection = ctx.job.recipes[name]
    parts = {"title": ctx.job.title_of(name), "method": recipe.method, "source": recipe.of}
    stored = ctx.store(outputs.SPACE.of(recipe=name, **parts), recipe.make(ctx).astype(np.float32))
    return {"n_columns": stored.shape[1], **space_facts(ctx.workspace, stored)}


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
    check_figures_of_scores(job, [job.title_of(name) for name in job.recipes], with_linear(found.sets))
    return set_lines(found) if job.evaluation.sets else []


def with_linear(sets: list[EvaluationSet]) -> list[EvaluationSet]:
    """Return the sets, and after them those of similarity again, for Pearson's correlation beside Spearman's."""
    return [*sets, *(one._replace(task="linear similarity") for one in sets if one.task == "similarity")]


def plan_scores(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of scoring a space, which is held as it is and of unit length."""
    space = job.recipes[name].n_bytes(job, dims)
    return stage_plan(whole=[space, space, dims.whole("set", itemsize=SET_COPIES), SETS_BYTES])


def run_scores(ctx: Context, *, name: str) -> dict[str, Any]:
    """Score a space and its first components on every set, and list neighbors of the report's words."""
    job: WordSpacesJob = ctx.job
    sets = find_sets(job.evaluation.sets).sets if job.evaluation.sets else []
    tested = set().union(*(one.words for one in sets))
    is_whole = isinstance(job.recipes[name], ReducedRecipe) or any(one.task == "antonyms" for one in sets)
    stored = outputs.SPACE.read(ctx.workspace, recipe=name)
    words = corpus.vocabulary_of(ctx.workspace).words
    space = in_memory(words, stored, None if is_whole else tested)
    policy = Policy(job.evaluation.case).for_words(words)
    for scored, k in job.scored(name).items():
        judged = space
        if scored != name:
            assert isinstance(space, WordVectors)
            judged = WordVectors(words, np.ascontiguousarray(space.vectors[:, :k]))
        scores = evaluate_sets(judged, with_linear(sets), policy, vocabulary=words, needs_known=True)
        store_scores(ctx, outputs.SCORES.of(recipe=scored), scores)
    store_nearest(ctx, outputs.NEAREST.of(recipe=name), stored)
    return {"n_sets": len(sets)}


def plan_vectors(job: WordSpacesJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of copying a space."""
    recipe = job.recipes[name]
    block = dims.block(f"{recipe.root(job)}_row", recipe.columns(job, dims)[0])
    return stage_plan(block, block, stored=recipe.n_bytes(job, dims))


def run_vectors(ctx: Context, *, name: str) -> dict[str, Any]:
    """Store the space that other commands read as the vectors of the workspace."""
    ctx.store(outputs.VECTORS.of(recipe=name), outputs.SPACE.read(ctx.workspace, recipe=name))
    return {}


KEPT_DISTANCES = KeptRows(
    outputs.VECTORS,
    "vectors",
    "two words",
    metric_of_words,
    "word",
    lambda job, dims: job.recipes[job.wordspaces.vectors].columns(job, dims)[0],
)


# --- which stages ----------------------------------------------------------------------------------------------


def stages(job: WordSpacesJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job, each after those it reads; recipes of equal graphs share their stage."""
    vocabulary = corpus.VOCABULARY._replace(
        parameters=vocabulary_parameters, run=run_test_vocabulary, plan=plan_test_vocabulary
    )
    specs = {spec.name: spec for spec in (corpus.TOKENS, vocabulary, corpus.DOCUMENTS)}
    counted = ("tokens", "vocabulary")
    scored = sections(evaluation={"sets", "case", "dimensions"}, report={"words", "n_neighbors"})
    for kind in kinds_of(job):
        table = TABLES[kind]
        if kind == "documents":
            plan = corpus.plan_document_terms
            specs[table] = StageSpec(table, counted, sections(grid=True), run_terms, plan)
        else:
            counting, run = partial(counting_parameters, kind=kind), partial(run_table, kind=kind)
            specs[table] = StageSpec(
                table, counted, counting, run, partial(corpus.plan_counts, pair=f"{kind}_pair")
            )
    for name in job.needed():
        recipe = job.recipes[name]
        reads = [TABLES[recipe.of] if recipe.of in COUNTED else f"space_{recipe.of}", "vocabulary"]
        made = []
        if isinstance(recipe, GraphRecipe):
            options = {*GRAPH_OPTIONS} - {"threshold" if recipe.threshold is None else "n_neighbors"}
            graph, source = recipe.graph_name, f"space_{recipe.graph_source}"
            joined = partial(_graph_parameters, options=options)
            made.append(StageSpec(graph, (source,), joined, run_graph, plan_graph))
            reads.append(graph)
        own, unique = f"space_{name}", tuple(dict.fromkeys(reads))
        made.append(StageSpec(own, unique, _recipe_parameters, run_space, plan_space))
        if name in job.spaces:
            # all read the same sets
            check = check_answerable_sets if name == job.spaces[0] else nothing_to_check
            judged = (own, "vocabulary")
            made.append(StageSpec(f"scores_{name}", judged, scored, run_scores, plan_scores, check))
        for spec in made:
            specs.setdefault(spec.name, spec.of(name=name))
    chosen = job.wordspaces.vectors
    if chosen is None:
        return tuple(specs.values())
    inputs = (f"space_{chosen}",)
    vectors = StageSpec("vectors", inputs, lambda _, name: {"vectors": name}, run_vectors, plan_vectors)
    return (*specs.values(), vectors.of(name=chosen), *kept_stages(job, KEPT_DISTANCES.stage_spec))


SYSTEM = System(
    WordSpacesJob,
    stages,
    space_dimensions,
    "distembed.systems.wordspaces.views",
    outputs=(
        *corpus_outputs.OF_TOKENS,
        corpus_outputs.DOCUMENT_TERMS,
        corpus_outputs.RUNS,
        *declared_in(outputs),
        KEPT_DISTANCES.output,
    ),
    presets=PRESETS,
)
