"""The stages of a word spaces job: a corpus to counts, each recipe's space, and its scores.

Which stages there are depends on the recipes: a table of counts is counted if a recipe starts from it, and spaces
whose graphs are equal share the search for neighbors and the graph's eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distembed.costs import PAIR_BYTES, SCRATCH_FACTOR, Cost
from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import score_known
from distembed.evaluation.wordsets import AnalogySet, AntonymSet, find_word_sets, look_for_word_sets, words_of
from distembed.job.model import JobError
from distembed.job.outputs import declared_in
from distembed.job.stage import (
    Context,
    Counted,
    StageSpec,
    System,
    kept_as,
    nothing_to_check,
    read_as,
    sections,
)
from distembed.manifold.eigenmaps import DENSE_ROWS, laplacian_eigenmaps
from distembed.manifold.projection import MAX_EDGES
from distembed.manifold.ridge import DIRECT_SIDE
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import (
    TOKENS,
    VOCABULARY,
    count_values,
    merged_runs,
    plan_document_terms,
    plan_merging,
    plan_runs,
    run_document_terms,
    run_vocabulary,
    store_runs,
    vocabulary_of,
)
from distembed.stages.corpus_sections import CountingSection
from distembed.stages.corpus_sizes import (
    CorpusSizes,
    RunSizes,
    about,
    corpus_sizes,
    n_filled,
    pair_model,
    run_sizes,
    with_source,
    word_counts,
)
from distembed.stages.words import in_memory, set_lines, space_facts, store_nearest, store_scores
from distembed.systems.wordspaces import outputs
from distembed.systems.wordspaces.job import (
    COUNTED,
    GraphRecipe,
    LPPRecipe,
    RecipeSection,
    ReducedRecipe,
    WordSpacesJob,
)
from distembed.systems.wordspaces.methods import (
    METHODS,
    TABLES,
    eigenmaps_output,
    graph_outputs,
    neighbor_graph,
)

COUNTING = {"contexts": "contexts", "bigrams": "bigrams", "hal_following": "hal", "hal_preceding": "hal"}
"""The section of the job that says how a table of pairs is counted."""

# --- how large it is -------------------------------------------------------------------------------------------

LIST_BYTES = 16
"""Bytes of one neighbor: its distance and its row."""

MATRIX_COPIES = 3
"""Copies of a space of documents that one process may hold while it is turned: its pieces, and blocks of both."""

BASIS_PASSES = 8
"""Products that the basis of a truncated decomposition keeps: collections of text take 6 to 8."""

SPAN_COPIES = 4
"""Copies of the rows within their singular vectors: themselves, weighted, and as the graph sums them up."""

DENSE_COPIES = 6
"""Matrices of the size of a symmetric one that its eigenvectors need: itself, its copies, LAPACK's, the result."""

TESTED_SHARE = 1.0
"""Values of a sparse space in the rows that are read: those of tested words hold 0.9, antonyms ask for all."""


class SpaceSizes(NamedTuple):
    """Sizes of a corpus, its documents, the stored values of each table of counts, and the runs added up to it.

    `exact` says whether all tables that the job counts are counted, and `edges` holds those of the graphs that are
    made, by the name of their stage.
    """

    corpus: CorpusSizes
    n_documents: int
    values: dict[str, int]
    runs: dict[str, RunSizes]
    exact: bool
    edges: dict[str, int]

    @property
    def n_words(self) -> int:
        """Words of the vocabulary."""
        return self.corpus.n_words

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        corpus, shown = self.corpus, "{:,}".format if self.exact else about
        tables = ", ".join(f"{name} {shown(n)}" for name, n in self.values.items())
        return with_source(f"{corpus.sentence}, {corpus.n_documents:,} documents; values: {tables}", corpus)


def space_sizes(job: WordSpacesJob, counted: Counted | None) -> SpaceSizes:
    """Return the sizes of a job; what committed stages have counted is not estimated."""
    corpus = corpus_sizes(job, counted)
    facts = {} if counted is None else {name: manifest.facts for name, manifest in counted.stages.items()}
    values, runs = {"document_terms": corpus.n_terms}, dict[str, RunSizes]()
    counts, n_partitions = word_counts(job, corpus, counted), n_filled(corpus, counted)
    for table in COUNTING:
        section = counting_section(job, table)
        model = pair_model(job, section, corpus, counted)
        values[table] = int(facts.get(table, {}).get("n_nonzero", model.n_pairs()))
        runs[table] = run_sizes(model, counts, n_partitions, section, job.resources.block_memory)
    # the values of document_terms are an estimate even when it is counted
    exact = set(_tables_of(job)) <= corpus.counted - {"document_terms"}
    n_documents = int(facts.get("document_terms", {}).get("n_documents", corpus.n_documents))
    edges = {name: int(fact["n_edges"]) for name, fact in facts.items() if "n_edges" in fact}
    return SpaceSizes(corpus, n_documents, values, runs, exact, edges)


def _values(job: WordSpacesJob, sizes: SpaceSizes, name: str) -> int:
    """Return the stored values of a space."""
    recipe = job.recipes[name]
    if isinstance(recipe, ReducedRecipe):
        return sizes.n_words * recipe.n_components
    return sum(sizes.values[table] for table in TABLES[recipe.of])


def _space_bytes(job: WordSpacesJob, sizes: SpaceSizes, name: str) -> int:
    each = 4 if isinstance(job.recipes[name], ReducedRecipe) else PAIR_BYTES
    return each * _values(job, sizes, name)


def _read_bytes(job: WordSpacesJob, sizes: SpaceSizes, recipe: RecipeSection) -> int:
    if recipe.of in COUNTED:
        return PAIR_BYTES * sum(sizes.values[table] for table in TABLES[recipe.of])
    return _space_bytes(job, sizes, recipe.of)


def _width(sizes: SpaceSizes, recipe: RecipeSection, job: WordSpacesJob) -> int:
    """Return the columns of the space a recipe starts from."""
    if recipe.of == "documents":
        return sizes.n_documents
    if recipe.of in COUNTED:
        return sizes.n_words * len(TABLES[recipe.of])
    before = job.recipes[recipe.of]
    return before.n_components if isinstance(before, ReducedRecipe) else _width(sizes, before, job)


# --- parameters ------------------------------------------------------------------------------------------------


def vocabulary_parameters(job: WordSpacesJob) -> dict[str, Any]:
    """Return the section of the vocabulary, and the evaluation sets whose words it keeps."""
    kept = job.evaluation.sets if job.evaluation.keep_words else ()
    return {**sections("vocabulary")(job), "keep_words_of": list(kept)}


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


def score_parameters(job: WordSpacesJob) -> dict[str, Any]:
    """Return the sets in their order, and the words whose neighbors are listed."""
    report = job.report.model_dump(mode="json", include={"words", "n_neighbors"})
    return {"report": report, "sets": list(job.evaluation.sets), "case": job.evaluation.case}


# --- documents -> counts ---------------------------------------------------------------------------------------


def run_test_vocabulary(ctx: Context) -> dict[str, Any]:
    """Build the vocabulary, with the words of the evaluation sets however rare they are."""
    job: WordSpacesJob = ctx.job
    keep = set(job.vocabulary.keep)
    if job.evaluation.keep_words and job.evaluation.sets:
        tested = {word for word_set in find_word_sets(job.evaluation.sets) for word in words_of(word_set)}
        keep |= tested | {word.lower() for word in tested}
    section = job.vocabulary.model_copy(update={"keep": tuple(sorted(keep))})
    return run_vocabulary(ctx._replace(job=job.model_copy(update={"vocabulary": section})))


def plan_terms(job: WordSpacesJob, sizes: SpaceSizes) -> Cost:
    """Return the plan of counting the words of documents."""
    return plan_document_terms(sizes.corpus, sizes.values["document_terms"], job.resources.block_memory)


def run_terms(ctx: Context) -> dict[str, Any]:
    """Count each word in each document that is no shorter than `corpus.min_border_tokens`."""
    job: WordSpacesJob = ctx.job
    if job.corpus.border != "document" or job.corpus.min_border_tokens <= 1:
        return run_document_terms(ctx)
    batches = ctx.workspace.batches("documents", columns=["n_tokens"])
    lengths = np.concatenate([np.empty(0, np.int64), *(batch["n_tokens"].to_numpy() for batch in batches)])
    return run_document_terms(ctx, kept=np.flatnonzero(lengths))


def plan_parts(job: WordSpacesJob, sizes: SpaceSizes, *, table: str) -> Cost:
    """Return the plan of counting the parts of the corpus."""
    return plan_runs(sizes.corpus, sizes.runs[table], job.resources.block_memory)


def run_parts(ctx: Context, *, table: str) -> dict[str, Any]:
    """Count each part of the corpus into sorted runs, cut by row block."""
    return store_runs(ctx, outputs.TABLE_PARTS.of(table=table), counting_options(ctx.job, table))


def counting_options(job: WordSpacesJob, table: str) -> CooccurrenceOptions:
    """Return what counts as a co-occurrence in a table, and the memory of a block."""
    section = counting_section(job, table)
    return CooccurrenceOptions(**section.model_dump(), block_memory=job.resources.block_memory)


def counting_section(job: WordSpacesJob, table: str) -> CountingSection:
    """Return what counts as a co-occurrence in a table; HAL's second half is counted to the right."""
    section: CountingSection = getattr(job, COUNTING[table])
    return section.model_copy(update={"direction": "right"}) if table == "hal_preceding" else section


def plan_table(job: WordSpacesJob, sizes: SpaceSizes, *, table: str) -> Cost:
    """Return the plan of adding up the runs of all parts."""
    return plan_merging(sizes.corpus, sizes.values[table], sizes.runs[table], counting_options(job, table))


def run_table(ctx: Context, *, table: str) -> dict[str, Any]:
    """Add the runs of all parts, row block by row block."""
    counts = merged_runs(ctx, outputs.TABLE_PARTS.of(table=table))
    stored = ctx.store(outputs.TABLE.of(table=table, section=COUNTING[table]), counts)
    return {"n_nonzero": count_values(stored)}


OVERSAMPLING = 10
"""Dense columns that `LSA` takes beside its components while it looks for them: its option of this name."""


# --- counts -> spaces ------------------------------------------------------------------------------------------


def plan_space(job: WordSpacesJob, sizes: SpaceSizes, *, name: str) -> Cost:
    """Return the plan of making a space: of passes over what it starts from, and of its dense blocks."""
    recipe, block = job.recipes[name], job.resources.block_memory
    read, written = _read_bytes(job, sizes, recipe), _space_bytes(job, sizes, name)
    n_blocks = _blocks(read, block)
    task = int(SCRATCH_FACTOR * min(block // 8 * 2, read))
    if not isinstance(recipe, ReducedRecipe):
        turned = MATRIX_COPIES * read // max(job.resources.workers or 1, 1) if recipe.of == "documents" else 0
        pieces = n_blocks**2 if recipe.of == "documents" else n_blocks
        return Cost(pieces, 3 * read, written, task + turned, exact=sizes.exact)
    n_columns = recipe.n_components + (OVERSAMPLING if recipe.method == "lsa" else 0)
    dense = 4 * n_columns * max(_width(sizes, recipe, job), sizes.n_words)
    if isinstance(recipe, LPPRecipe):
        if not recipe.uses_eigenmaps:
            return _plan_eigenproblem(job, sizes, recipe)
        dense = 6 * dense + 2 * read  # both ways round in memory, and the solver's vectors in float64
        side = min(_width(sizes, recipe, job), sizes.n_words)
        task += 8 * side**2 if side <= DIRECT_SIDE else 0  # the products of all columns, or of all rows
    passes = BASIS_PASSES if recipe.method in ("lsa", "psdvec", "lpp") else 1
    return Cost(4 * passes * n_blocks, 2 * passes * read, written, task + 2 * dense, exact=sizes.exact)


def _plan_eigenproblem(job: WordSpacesJob, sizes: SpaceSizes, recipe: LPPRecipe) -> Cost:
    """Return the plan of the eigenproblem: singular vectors, and products of the rows within them."""
    read, width = _read_bytes(job, sizes, recipe), _width(sizes, recipe, job)
    n_vectors = recipe.svd_components or 0
    basis = BASIS_PASSES * 8 * n_vectors * min(width, sizes.n_words)
    projected = DENSE_COPIES * 8 * (BASIS_PASSES * n_vectors) ** 2
    held = 8 * n_vectors * (SPAN_COPIES * sizes.n_words + 2 * width) + projected
    task = int(SCRATCH_FACTOR * min(job.resources.block_memory // 8 * 2, read))
    written = 4 * sizes.n_words * recipe.n_components
    n_tasks = 4 * BASIS_PASSES * _blocks(read, job.resources.block_memory)
    return Cost(
        n_tasks,
        2 * BASIS_PASSES * read,
        written + 2 * basis,
        task + held + 2 * basis + read,
        exact=sizes.exact,
    )


def _blocks(n_bytes: int, block_memory: int) -> int:
    return max(1, -(-n_bytes // (block_memory // 8)))


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


def _list_bytes(recipe: GraphRecipe, sizes: SpaceSizes) -> int:
    """Return the bytes of the lists of neighbors; of a threshold those of its edges, or of the most there may be."""
    if recipe.threshold is None:
        return LIST_BYTES * sizes.n_words * recipe.n_neighbors

    return LIST_BYTES * sizes.edges.get(recipe.neighbors_name, MAX_EDGES * sizes.n_words)


def plan_neighbors(job: WordSpacesJob, sizes: SpaceSizes, *, name: str) -> Cost:
    """Return the plan of comparing all words of a space, a tile of pairs in each task."""
    recipe, block = job.recipe(name, GraphRecipe), job.resources.block_memory
    read, lists = _space_bytes(job, sizes, recipe.graph_source), _list_bytes(recipe, sizes)
    grid = max(16, _blocks(read, block))
    return Cost(grid * grid, 2 * grid * read, lists, 2 * block + 3 * lists, exact=sizes.exact)


def run_neighbors(ctx: Context, *, name: str) -> dict[str, Any]:
    """Find each word's nearest words in a space."""
    recipe: GraphRecipe = ctx.job.recipe(name, GraphRecipe)
    graph = neighbor_graph(ctx, recipe, kept_as(ctx, graph_outputs(recipe)))
    return {"n_edges": int(graph.nnz)}


def plan_eigenmaps(job: WordSpacesJob, sizes: SpaceSizes, *, name: str) -> Cost:
    """Return the plan of the eigenvectors of a graph of neighbors, found in memory."""
    recipe = job.recipe(name, GraphRecipe)
    read, lists = _space_bytes(job, sizes, recipe.graph_source), _list_bytes(recipe, sizes)
    maps = 8 * sizes.n_words * recipe.n_components
    is_dense = sizes.n_words <= max(DENSE_ROWS, 3 * recipe.n_components)  # as in `laplacian_eigenmaps`
    dense = DENSE_COPIES * 8 * sizes.n_words**2 if is_dense else 0
    return Cost(1, read + lists, maps, 3 * maps + 3 * lists + dense, exact=sizes.exact)


def run_eigenmaps(ctx: Context, *, name: str) -> dict[str, Any]:
    """Find the eigenvectors of a graph of neighbors."""
    recipe: GraphRecipe = ctx.job.recipe(name, GraphRecipe)
    graph = neighbor_graph(ctx, recipe, read_as(ctx, graph_outputs(recipe)))
    found = laplacian_eigenmaps(
        graph,
        recipe.n_components,
        random_state=recipe.random_state,
        checkpoint=kept_as(ctx, {"eigenmaps": eigenmaps_output(recipe)}),
    )
    return {"n_graph_components": found.n_graph_components, "n_edges": int(graph.nnz)}


# --- spaces -> numbers -----------------------------------------------------------------------------------------


def plan_scores(job: WordSpacesJob, sizes: SpaceSizes, *, name: str) -> Cost:
    """Return the plan of scoring a space."""
    size = _space_bytes(job, sizes, name)
    return Cost(1, 2 * size, 2**16, int(2 * TESTED_SHARE * size) + 2**26, exact=sizes.exact)


def check_answerable_sets(job: WordSpacesJob) -> list[str]:
    """Read the evaluation sets of a job; a sparse space answers no analogies.

    Raises
    ------
    JobError
        If a space is sparse and a set asks for analogies.
    """
    if not job.evaluation.sets:
        return []
    found = look_for_word_sets(job.evaluation.sets)
    sparse = [name for name in job.spaces if not isinstance(job.recipes[name], ReducedRecipe)]
    asking = [word_set.name for word_set in found.sets if isinstance(word_set, AnalogySet)]
    if sparse and asking:
        raise JobError(
            f"evaluation.sets: {asking[0]} asks for analogies, which the sparse space "
            f"{sparse[0]} does not give; leave the set out, or name dense spaces only in wordspaces.spaces"
        )
    return set_lines(found)


def run_scores(ctx: Context, *, name: str) -> dict[str, Any]:
    """Score a space on every set, and list the neighbors of the report's words in it."""
    job: WordSpacesJob = ctx.job
    sets = find_word_sets(job.evaluation.sets) if job.evaluation.sets else []
    tested = {word for word_set in sets for word in words_of(word_set)}
    is_whole = isinstance(job.recipes[name], ReducedRecipe) or any(isinstance(s, AntonymSet) for s in sets)
    stored = outputs.SPACE.read(ctx.workspace, recipe=name)
    words = vocabulary_of(ctx.workspace).words
    space = in_memory(words, stored, None if is_whole else tested)
    policy = Policy(job.evaluation.case).for_words(words)
    store_scores(ctx, outputs.SCORES.of(recipe=name), score_known(space, sets, policy, vocabulary=words))
    store_nearest(ctx, outputs.NEAREST.of(recipe=name), stored)
    return {"n_sets": len(sets)}


def plan_vectors(job: WordSpacesJob, sizes: SpaceSizes, *, name: str) -> Cost:
    """Return the plan of copying a space."""
    dense = 4 * sizes.n_words * job.recipe(name, ReducedRecipe).n_components
    return Cost(1, dense, dense, dense, exact=sizes.exact)


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
        VOCABULARY._replace(parameters=vocabulary_parameters, run=run_test_vocabulary),
        *(spec for table in _tables_of(job) for spec in _count_stages(table)),
    ]
    for name in needed:
        specs += [spec for spec in _space_stages(job, name) if spec.name not in {done.name for done in specs}]
        specs += [_score_stage(job, name)] if name in job.spaces else []
    return (*specs, *_vectors_stages(job))


def _tables_of(job: WordSpacesJob) -> list[str]:
    """Return the tables of counts that the recipes of a job start from."""
    kinds = {job.recipes[name].of for name in job.needed()}
    return [table for kind in COUNTED if kind in kinds for table in TABLES[kind]]


def _count_stages(table: str) -> list[StageSpec]:
    if table == "document_terms":
        inputs = ("tokens", "vocabulary")
        return [StageSpec(table, inputs, _block_parameters, run_terms, plan_terms)]
    parameters = partial(counting_parameters, table=table)
    inputs = ("tokens", "vocabulary")
    return [
        StageSpec(f"{table}_parts", inputs, parameters, *_of(run_parts, plan_parts, table=table)),
        StageSpec(table, (f"{table}_parts",), parameters, *_of(run_table, plan_table, table=table)),
    ]


def _space_stages(job: WordSpacesJob, name: str) -> list[StageSpec]:
    recipe = job.recipes[name]
    parameters = partial(_recipe_parameters, name=name)
    sources = TABLES[recipe.of] if recipe.of in COUNTED else (f"space_{recipe.of}",)
    graph_stages = _graph_stages(name, recipe) if isinstance(recipe, GraphRecipe) else []
    graph_inputs = [name for spec in graph_stages for name in (*spec.inputs, spec.name)]
    inputs = tuple(dict.fromkeys([*sources, "vocabulary", *graph_inputs]))
    space = StageSpec(f"space_{name}", inputs, parameters, *_of(run_space, plan_space, name=name))
    return [*graph_stages, space]


def _graph_stages(name: str, recipe: GraphRecipe) -> list[StageSpec]:
    """Return the search for neighbors and the eigenvectors; recipes of equal graphs name equal stages."""
    searched = partial(_graph_parameters, name=name, options=_graph_options(recipe))
    mapped = partial(
        _graph_parameters,
        name=name,
        options=(*_graph_options(recipe), "affinity", "symmetry", "n_components", "random_state"),
    )
    lists, maps = recipe.neighbors_name, recipe.eigenmaps_name
    source = f"space_{recipe.graph_source}"
    search = StageSpec(lists, (source,), searched, *_of(run_neighbors, plan_neighbors, name=name))
    if not recipe.uses_eigenmaps:
        return [search]
    return [search, StageSpec(maps, (source, lists), mapped, *_of(run_eigenmaps, plan_eigenmaps, name=name))]


def _graph_options(recipe: GraphRecipe) -> tuple[str, ...]:
    return ("n_neighbors",) if recipe.threshold is None else ("threshold",)


def _score_stage(job: WordSpacesJob, name: str) -> StageSpec:
    check = check_answerable_sets if name == job.spaces[0] else nothing_to_check  # all read the same sets
    return StageSpec(
        f"scores_{name}",
        (f"space_{name}", "vocabulary"),
        score_parameters,
        *_of(run_scores, plan_scores, name=name),
        check,
    )


def _vectors_stages(job: WordSpacesJob) -> list[StageSpec]:
    chosen = job.wordspaces.vectors
    if chosen is None:
        return []
    return [
        StageSpec(
            "vectors",
            (f"space_{chosen}",),
            lambda job: {"vectors": job.wordspaces.vectors},
            *_of(run_vectors, plan_vectors, name=chosen),
        )
    ]


def _of(run: Callable[..., Any], plan: Callable[..., Cost], **which: str) -> tuple[Any, Any]:
    """Return what runs and plans a stage of one table or recipe."""
    return partial(run, **which), partial(plan, **which)


SYSTEM = System(
    WordSpacesJob,
    stages,
    space_sizes,
    "distembed.systems.wordspaces.views",
    outputs=(
        *corpus_outputs.OF_TOKENS,
        corpus_outputs.DOCUMENT_TERMS,
        corpus_outputs.MERGED_COUNTS,
        *declared_in(outputs),
    ),
)
