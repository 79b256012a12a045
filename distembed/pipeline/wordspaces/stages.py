"""The stages of a word spaces job: a corpus to counts, each recipe's space, and its scores.

Which stages there are depends on the recipes: a table of counts is counted if a recipe starts from it, and spaces
whose graphs are equal share the search for neighbours and the graph's eigenvectors.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.counting.cooccurrence import (
    CooccurrenceOptions,
    PartialCounts,
    cooccurrence_row_blocks,
    merge_partials,
)
from distembed.counting.documents import count_document_terms
from distembed.evaluation.scoring import Score
from distembed.evaluation.sparse_space import SparseSpace, nearest_words
from distembed.evaluation.words import evaluate_sets, score_records
from distembed.evaluation.wordsets import find_word_sets, words_of
from distembed.execution import Checkpoint, compute, map_blocks
from distembed.factorization.lsa import LSA
from distembed.factorization.psdvec import PSDVec
from distembed.linalg.chunks import balanced_rows
from distembed.linalg.csr import unit_rows
from distembed.linalg.operators import transpose_row_blocks
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.manifold.projection import (
    LocalityPreservingProjection,
    neighborhood_graph,
    random_projection,
)
from distembed.neighbors.graphs import row_is_used
from distembed.pipeline.context import Context, StageSpec, sections
from distembed.pipeline.corpus_stages import (
    corpus_files,
    count_numbered_part,
    run_tokens,
    run_vocabulary,
    tokens_of,
    vocabulary_of,
)
from distembed.pipeline.wordspaces.config import (
    COUNTED,
    GRAPH_METHODS,
    SPARSE_METHODS,
    RecipeSection,
    WordSpacesJob,
)
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.weighting.documents import log_entropy, tf_idf
from distembed.weighting.pmi import ppmi
from distembed.weighting.spaces import STOP_WORDS, chosen_columns, hal_space

TABLES = {
    "documents": ("document_terms",),
    "contexts": ("contexts",),
    "bigrams": ("bigrams",),
    "hal": ("hal_following", "hal_preceding"),
}
"""The stored tables of each kind of counts."""

COUNTING = {"contexts": "contexts", "bigrams": "bigrams", "hal_following": "hal", "hal_preceding": "hal"}
"""The section of the job that says how a table of pairs is counted."""

LISTED_ZERO_WORDS = 20
"""Words without a value in a space that are named."""


# --- which stages ----------------------------------------------------------------------------------------------


def stages_of(job: WordSpacesJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job, each after those it reads."""
    needed = job.needed()
    counted = [kind for kind in COUNTED if any(job.recipes[name].of == kind for name in needed)]
    specs = [
        StageSpec("tokens", (), sections("corpus"), run_tokens, corpus_files),
        StageSpec("vocabulary", ("tokens",), sections("vocabulary"), run_test_vocabulary, kept_sets),
        *(spec for kind in counted for table in TABLES[kind] for spec in _count_stages(table)),
    ]
    for name in needed:
        specs += [spec for spec in _space_stages(job, name) if spec.name not in {done.name for done in specs}]
        specs += [_score_stage(name)] if name in job.spaces else []
    return (*specs, *_vectors_stages(job))


def _count_stages(table: str) -> list[StageSpec]:
    if table == "document_terms":
        return [StageSpec(table, ("tokens", "vocabulary"), _block_parameters, run_document_terms)]
    parameters = partial(counting_parameters, table=table)
    inputs = ("tokens", "vocabulary")
    return [
        StageSpec(f"{table}_parts", inputs, parameters, partial(run_parts, table=table)),
        StageSpec(table, (f"{table}_parts",), parameters, partial(run_table, table=table)),
    ]


def _space_stages(job: WordSpacesJob, name: str) -> list[StageSpec]:
    recipe = job.recipes[name]
    parameters = partial(_recipe_parameters, name=name)
    sources = TABLES[recipe.of] if recipe.of in COUNTED else (f"space_{recipe.of}",)
    graph_stages = _graph_stages(name, recipe) if recipe.method in GRAPH_METHODS else []
    graph_inputs = [name for spec in graph_stages for name in (*spec.inputs, spec.name)]
    inputs = tuple(dict.fromkeys([*sources, "vocabulary", *graph_inputs]))
    return [*graph_stages, StageSpec(f"space_{name}", inputs, parameters, partial(run_space, name=name))]


def _graph_stages(name: str, recipe: RecipeSection) -> list[StageSpec]:
    """Return the search for neighbours and the eigenvectors; recipes of equal graphs name equal stages."""
    searched = partial(_graph_parameters, name=name, options=("n_neighbors",))
    mapped = partial(
        _graph_parameters,
        name=name,
        options=("n_neighbors", "affinity", "symmetry", "n_components", "random_state"),
    )
    lists, maps = neighbors_name(recipe), eigenmaps_name(recipe)
    source = f"space_{recipe.graph_source}"
    return [
        StageSpec(lists, (source,), searched, partial(run_neighbors, name=name)),
        StageSpec(maps, (source, lists), mapped, partial(run_eigenmaps, name=name)),
    ]


def neighbors_name(recipe: RecipeSection) -> str:
    """Return the name of the neighbours that a recipe's graph joins."""
    return f"neighbors_{recipe.graph_source}_{recipe.n_neighbors}"


def eigenmaps_name(recipe: RecipeSection) -> str:
    """Return the name of the eigenvectors of a recipe's graph."""
    parts = (recipe.graph_source, recipe.n_neighbors, recipe.affinity, recipe.symmetry, recipe.n_components)
    return "eigenmaps_" + "_".join(map(str, (*parts, recipe.random_state)))


def _score_stage(name: str) -> StageSpec:
    return StageSpec(
        f"scores_{name}",
        (f"space_{name}", "vocabulary"),
        score_parameters,
        partial(run_scores, name=name),
        lambda job: job.evaluation.sets,
    )


def _vectors_stages(job: WordSpacesJob) -> list[StageSpec]:
    chosen = job.wordspaces.vectors
    if chosen is None:
        return []
    run = partial(run_vectors, name=chosen)
    return [StageSpec("vectors", (f"space_{chosen}",), lambda job: {"vectors": job.wordspaces.vectors}, run)]


# --- parameters ------------------------------------------------------------------------------------------------


def kept_sets(job: WordSpacesJob) -> tuple[str, ...]:
    """Return the evaluation sets whose words the vocabulary keeps."""
    return job.evaluation.sets if job.evaluation.keep_words else ()


def counting_parameters(job: WordSpacesJob, *, table: str) -> dict[str, Any]:
    """Return how a table of pairs is counted, and the memory of a block, which lays the grid."""
    options = getattr(job, COUNTING[table]).model_dump(mode="json")
    return {"counting": options, "table": table, **_block_parameters(job)}


def _block_parameters(job: WordSpacesJob) -> dict[str, Any]:
    return {"block_memory": job.resources.block_memory}


def _recipe_parameters(job: WordSpacesJob, *, name: str) -> dict[str, Any]:
    return {"recipe": job.recipes[name].options(), **_block_parameters(job)}


def _graph_parameters(job: WordSpacesJob, *, name: str, options: tuple[str, ...]) -> dict[str, Any]:
    recipe = job.recipes[name]
    chosen = recipe.model_dump(mode="json", include=set(options))
    return {"graph_of": recipe.graph_source, **chosen, **_block_parameters(job)}


def score_parameters(job: WordSpacesJob) -> dict[str, Any]:
    """Return the sets in their order, and the words whose neighbours are listed."""
    report = job.report.model_dump(mode="json", include={"words", "n_neighbors"})
    return {"report": report, "sets": list(job.evaluation.sets)}


# --- documents -> counts ---------------------------------------------------------------------------------------


def run_test_vocabulary(ctx: Context) -> dict[str, Any]:
    """Build the vocabulary, with the words of the evaluation sets however rare they are."""
    job: WordSpacesJob = ctx.job
    keep = set(job.vocabulary.keep)
    if job.evaluation.keep_words and job.evaluation.sets:
        keep |= {word for word_set in find_word_sets(job.evaluation.sets) for word in words_of(word_set)}
    section = job.vocabulary.model_copy(update={"keep": tuple(sorted(keep))})
    return run_vocabulary(ctx._replace(job=job.model_copy(update={"vocabulary": section})))


def run_document_terms(ctx: Context) -> dict[str, Any]:
    """Count each word in each document."""
    counts = count_document_terms(
        tokens_of(ctx.workspace), vocabulary_of(ctx.workspace), block_memory=ctx.job.resources.block_memory
    )
    stored = ctx.stage.store(
        "document_terms",
        counts,
        dims=("document", "word"),
        units="occurrences",
        meaning="How often a word stands in a document.",
        progress=ctx.progress("document terms"),
    )
    return {"n_documents": stored.shape[0]}


def counting_options(job: WordSpacesJob, table: str) -> CooccurrenceOptions:
    """Return what counts as a co-occurrence in a table; HAL's second half is counted to the right."""
    options = getattr(job, COUNTING[table]).model_dump()
    if table == "hal_preceding":
        options["direction"] = "right"
    return CooccurrenceOptions(**options, block_memory=job.resources.block_memory)


def run_parts(ctx: Context, *, table: str) -> dict[str, Any]:
    """Count each part of the corpus into sorted runs, cut by row block."""
    options = counting_options(ctx.job, table)
    row_blocks = cooccurrence_row_blocks(
        vocabulary_of(ctx.workspace).counts,
        window=options.window,
        direction=options.direction,
        block_memory=options.block_memory,
    )
    parts = tokens_of(ctx.workspace).parts
    make = partial(
        count_numbered_part, workspace=ctx.workspace.url, parts=parts, options=options, row_blocks=row_blocks
    )
    task = table.replace("_", " ")
    ctx.stage.store_files(f"{table}_parts", len(parts), make, temporary=True, progress=ctx.progress(task))
    return {"n_row_blocks": len(row_blocks) - 1}


def run_table(ctx: Context, *, table: str) -> dict[str, Any]:
    """Add the runs of all parts, row block by row block."""
    found = [
        PartialCounts(
            **{**item.summary, "url": item.paths[0], "row_blocks": tuple(item.summary["row_blocks"])}
        )
        for item in ctx.workspace.files(f"{table}_parts")
    ]
    stored = ctx.stage.store(
        table,
        merge_partials(found, block_memory=ctx.job.resources.block_memory),
        dims=("word", "context_word"),
        units="occurrences",
        meaning=f"Weighted occurrences of two words near each other; see [{COUNTING[table]}] in job.toml.",
        progress=ctx.progress(table.replace("_", " ")),
    )
    return {"n_nonzero": count_values(stored)}


def count_values(matrix: da.Array) -> int:
    """Return how many values a sparse array stores."""
    sizes = map_blocks(_block_values, matrix, chunks=((1,) * matrix.numblocks[0], (1,)), dtype=np.int64)
    return int(compute(sizes.sum()))


def _block_values(block: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([[block.nnz]], dtype=np.int64)


# --- counts -> spaces ------------------------------------------------------------------------------------------


def run_space(ctx: Context, *, name: str) -> dict[str, Any]:
    """Make the space of one recipe and store it: row i is word i of the vocabulary."""
    recipe: RecipeSection = ctx.job.recipes[name]
    made = _METHODS[recipe.method](ctx, recipe)
    stored = ctx.stage.store(
        f"spaces/{name}",
        made.astype(np.float32),
        dims=("word", "feature"),
        units="",
        meaning=f"{title_of(ctx.job, name)}: {recipe.method} of {recipe.of}; row i is word i of the vocabulary.",
        progress=ctx.progress(name),
    )
    return {"n_columns": stored.shape[1], **_size(stored), **_zero_words(ctx.workspace, stored)}


def title_of(job: WordSpacesJob, name: str) -> str:
    """Return what a space is called in the tables."""
    return job.recipes[name].title or name


def _size(space: da.Array) -> dict[str, Any]:
    sparse = sp.issparse(space._meta)
    return {"n_values": count_values(space) if sparse else space.shape[0] * space.shape[1]}


def _zero_words(workspace: Workspace, space: da.Array) -> dict[str, Any]:
    """Name the words whose row is zeros: no evaluation can tell anything of them."""
    words = workspace.table("vocabulary")["word"]
    rows = np.flatnonzero(~row_is_used(space, "cosine"))
    first = [words[int(row)].as_py() for row in rows[:LISTED_ZERO_WORDS]]
    return {"n_zero_words": int(rows.size), "zero_words": ", ".join(first)}


def source_of(ctx: Context, recipe: RecipeSection) -> da.Array:
    """Return the space or table of counts that a recipe starts from."""
    if recipe.of == "documents":
        return ctx.workspace.array("document_terms")
    if recipe.of == "hal":
        return hal_space(*(ctx.workspace.array(table) for table in TABLES["hal"]))
    return ctx.workspace.array(recipe.of if recipe.of in COUNTED else f"spaces/{recipe.of}")


def _chosen(ctx: Context, recipe: RecipeSection, matrix: da.Array) -> da.Array:
    words = vocabulary_of(ctx.workspace).words
    without = STOP_WORDS if recipe.stop_words == "drop" else ()
    return chosen_columns(matrix, words, n_columns=recipe.n_columns, without=without)


def _by_word(ctx: Context, documents: da.Array) -> da.Array:
    """Return documents x words as words x documents, in row blocks of about equal bytes."""
    sizes = vocabulary_of(ctx.workspace).document_counts
    # a task holds the pieces of its block, and the block they make
    chunks = balanced_rows(sizes, ctx.job.resources.block_memory // 4)
    return transpose_row_blocks(documents, row_chunks=chunks)


def _counts(ctx: Context, recipe: RecipeSection) -> da.Array:
    source = source_of(ctx, recipe)
    if recipe.of == "documents":
        return _by_word(ctx, source)
    return _chosen(ctx, recipe, source)


def _ppmi(ctx: Context, recipe: RecipeSection) -> da.Array:
    return _chosen(ctx, recipe, ppmi(source_of(ctx, recipe), context_smoothing=recipe.context_smoothing))


def _tf_idf(ctx: Context, recipe: RecipeSection) -> da.Array:
    # documents of unit length: idf alone scales whole rows here, which no cosine of words can see
    return _by_word(ctx, tf_idf(source_of(ctx, recipe)))


def _log_entropy(ctx: Context, recipe: RecipeSection) -> da.Array:
    return _by_word(ctx, log_entropy(source_of(ctx, recipe)))


def _lsa(ctx: Context, recipe: RecipeSection) -> da.Array:
    model = LSA(
        recipe.n_components + recipe.n_dropped,
        exponent=recipe.exponent,
        random_state=recipe.random_state,
        checkpoint=ctx.stage.checkpoint,
    )
    made: da.Array = model.fit_transform(source_of(ctx, recipe))
    return made[:, recipe.n_dropped :]


def _random_projection(ctx: Context, recipe: RecipeSection) -> da.Array:
    source = source_of(ctx, recipe)
    made: da.Array = random_projection(source, recipe.n_components, random_state=recipe.random_state)
    return made


def _psdvec(ctx: Context, recipe: RecipeSection) -> da.Array:
    model = PSDVec(
        recipe.n_components,
        smoothing=recipe.smoothing,
        n_iter=recipe.n_iter,
        random_state=recipe.random_state,
        checkpoint=ctx.stage.checkpoint,
    )
    model.fit(source_of(ctx, recipe), vocabulary_of(ctx.workspace).counts)
    made: da.Array = model.vectors_
    return made


# --- graphs ----------------------------------------------------------------------------------------------------


def kept_as(ctx: Context, names: dict[str, str], *, meaning: str = "") -> Checkpoint:
    """Return a checkpoint that keeps some states as outputs of their own, which other stages read."""

    def checkpoint(name: str, make: Callable[[], da.Array]) -> da.Array:
        if name not in names:
            return ctx.stage.checkpoint(name, make)
        if ctx.stage.is_stored(names[name]):
            return ctx.stage.array(names[name])
        array = make()
        dims = ("word", *(f"axis_{axis}" for axis in range(1, array.ndim)))
        progress = ctx.progress(names[name])
        return ctx.stage.store(names[name], array, dims=dims, units="", meaning=meaning, progress=progress)

    return checkpoint


def read_as(ctx: Context, names: dict[str, str]) -> Checkpoint:
    """Return a checkpoint that takes some states from the outputs of stages before."""

    def checkpoint(name: str, make: Callable[[], da.Array]) -> da.Array:
        return ctx.workspace.array(names[name]) if name in names else ctx.stage.checkpoint(name, make)

    return checkpoint


def _graph(ctx: Context, recipe: RecipeSection, checkpoint: Checkpoint) -> sp.csr_array:
    return neighborhood_graph(
        ctx.workspace.array(f"spaces/{recipe.graph_source}"),
        n_neighbors=recipe.n_neighbors,
        affinity=recipe.affinity,
        symmetry=recipe.symmetry,
        block_memory=ctx.job.resources.block_memory,
        checkpoint=checkpoint,
    )


def run_neighbors(ctx: Context, *, name: str) -> dict[str, Any]:
    """Find each word's nearest words in a space."""
    recipe: RecipeSection = ctx.job.recipes[name]
    meaning = f"Nearest words by cosine in {recipe.graph_source}: squared distances and row numbers."
    keep = kept_as(ctx, {"neighbors": f"neighbors/{neighbors_name(recipe)}"}, meaning=meaning)
    graph = _graph(ctx, recipe, keep)
    return {"n_edges": int(graph.nnz)}


def run_eigenmaps(ctx: Context, *, name: str) -> dict[str, Any]:
    """Find the eigenvectors of a graph of neighbours."""
    recipe: RecipeSection = ctx.job.recipes[name]
    graph = _graph(ctx, recipe, read_as(ctx, {"neighbors": f"neighbors/{neighbors_name(recipe)}"}))
    meaning = "Eigenvectors of the graph, and their eigenvalues in the last row."
    found = laplacian_eigenmaps(
        graph,
        recipe.n_components,
        random_state=recipe.random_state,
        checkpoint=kept_as(ctx, {"eigenmaps": f"eigenmaps/{eigenmaps_name(recipe)}"}, meaning=meaning),
    )
    return {"n_graph_components": found.n_graph_components, "n_edges": int(graph.nnz)}


def _shared(ctx: Context, recipe: RecipeSection) -> Checkpoint:
    names = {
        "neighbors": f"neighbors/{neighbors_name(recipe)}",
        "eigenmaps": f"eigenmaps/{eigenmaps_name(recipe)}",
    }
    return read_as(ctx, names)


def _eigenmaps(ctx: Context, recipe: RecipeSection) -> da.Array:
    kept = ctx.workspace.array(f"eigenmaps/{eigenmaps_name(recipe)}")
    return kept[:-1].rechunk((ctx.workspace.array(f"spaces/{recipe.of}").chunks[0], -1))


def _lpp(ctx: Context, recipe: RecipeSection) -> da.Array:
    rows = source_of(ctx, recipe)
    if recipe.unit_rows:
        rows = map_blocks(unit_rows, rows, dtype=np.float64, meta=rows._meta.astype(np.float64))
    shared = _shared(ctx, recipe)
    model = LocalityPreservingProjection(
        recipe.n_components,
        n_neighbors=recipe.n_neighbors,
        affinity=recipe.affinity,
        symmetry=recipe.symmetry,
        alpha=recipe.alpha,
        random_state=recipe.random_state,
        block_memory=ctx.job.resources.block_memory,
        checkpoint=shared,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*rows of X are zero", category=UserWarning
        )  # facts name them
        made: da.Array = model.fit(rows, graph=_graph(ctx, recipe, shared)).transform(rows)
    return made


_METHODS: dict[str, Callable[[Context, RecipeSection], da.Array]] = {
    "counts": _counts,
    "ppmi": _ppmi,
    "tf_idf": _tf_idf,
    "log_entropy": _log_entropy,
    "lsa": _lsa,
    "lpp": _lpp,
    "eigenmaps": _eigenmaps,
    "random_projection": _random_projection,
    "psdvec": _psdvec,
}


# --- spaces -> numbers -----------------------------------------------------------------------------------------


def run_scores(ctx: Context, *, name: str) -> dict[str, Any]:
    """Score a space on every set, and list the neighbours of the report's words in it."""
    job: WordSpacesJob = ctx.job
    sets = find_word_sets(job.evaluation.sets) if job.evaluation.sets else []
    tested = {word for word_set in sets for word in words_of(word_set)}
    scores = evaluate_sets(read_space(ctx.workspace, job, name, tested), sets) if sets else []
    _store_json(ctx, f"scores_{name}.json", score_records(scores))
    _store_json(ctx, f"nearest_{name}.json", _nearest(ctx, name))
    return {"n_sets": len(sets)}


def _store_json(ctx: Context, name: str, value: Any) -> None:
    ctx.stage.store_bytes(name, json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")


def read_space(
    workspace: Workspace, job: WordSpacesJob, name: str, tested: Iterable[str]
) -> WordVectors | SparseSpace:
    """Return a dense space whole, a sparse one with the rows of the words to be tested alone."""
    words = workspace.table("vocabulary")["word"].to_pylist()
    space = workspace.array(f"spaces/{name}")
    if job.recipes[name].method not in SPARSE_METHODS:
        return WordVectors(words, compute(space))
    wanted = set(tested)
    rows = np.array([row for row, word in enumerate(words) if word in wanted], dtype=np.int64)
    blocks = space[rows].to_delayed().ravel() if rows.size else []
    held = [compute(block) for block in blocks]
    matrix = sp.csr_array(sp.vstack(held, format="csr")) if held else sp.csr_array((0, space.shape[1]))
    return SparseSpace([words[row] for row in rows], matrix)


def _nearest(ctx: Context, name: str) -> dict[str, list[tuple[str, float]]]:
    words = ctx.workspace.table("vocabulary")["word"].to_pylist()
    known = set(words)
    asked = [word for word in dict.fromkeys(ctx.job.report.words) if word in known] or words[:5]
    space = ctx.workspace.array(f"spaces/{name}")
    return nearest_words(space, words, asked, n=ctx.job.report.n_neighbors)


def run_vectors(ctx: Context, *, name: str) -> dict[str, Any]:
    """Store the space that other commands read as the vectors of the workspace."""
    meaning = f"Word vectors: the space {name}; row i is word i of vocabulary.parquet."
    space = ctx.workspace.array(f"spaces/{name}")
    progress = ctx.progress("vectors")
    ctx.stage.store(
        "vectors", space, dims=("word", "component"), units="", meaning=meaning, progress=progress
    )
    return {}


def scores_of(workspace: Workspace, name: str) -> list[Score]:
    """Return the scores of a space of a finished workspace."""
    rows = json.loads(workspace.read_bytes(f"scores_{name}.json"))
    return [
        Score(
            **{
                **row,
                "value": math.nan if row["value"] is None else row["value"],
                "interval": None if row["interval"] is None else tuple(row["interval"]),
            }
        )
        for row in rows
    ]


def nearest_of(workspace: Workspace, name: str) -> dict[str, list[tuple[str, float]]]:
    """Return the neighbours of the report's words in a space of a finished workspace."""
    found: dict[str, list[tuple[str, float]]] = json.loads(workspace.read_bytes(f"nearest_{name}.json"))
    return found
