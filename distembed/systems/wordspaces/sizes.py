"""How large the tables of counts are, the spaces that are made of them, and their graphs."""

from __future__ import annotations

from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.job.inputs import sizes_at
from distembed.job.stage import Counted
from distembed.manifold.projection import MAX_EDGES
from distembed.neighbors.search import check_n_neighbors
from distembed.plan import Dimension, Dimensions
from distembed.stages.core import blocks_of_rows
from distembed.stages.corpus_sections import CountingSection
from distembed.stages.dimensions import PAIR_BYTES, corpus_dimensions, described, pair_dimension
from distembed.systems.wordspaces.job import (
    COUNTED,
    GraphRecipe,
    RecipeSection,
    ReducedRecipe,
    WordSpacesJob,
)

TABLES = {
    "documents": ("document_terms",),
    "contexts": ("contexts",),
    "bigrams": ("bigrams",),
    "hal": ("hal_following", "hal_preceding"),
}
"""The stored tables of each kind of counts."""


COUNTING = {"contexts": "contexts", "bigrams": "bigrams", "hal_following": "hal", "hal_preceding": "hal"}
"""The section of the job that says how a table of pairs is counted."""

DOCUMENT_BLOCKS, COUNT_BLOCKS = 4, 8
"""Shares of the memory of a task that a row block of a space has: of words by documents, and of words by words."""


def counting_options(job: WordSpacesJob, table: str) -> CooccurrenceOptions:
    """Return what counts as a co-occurrence in a table."""
    return counting_section(job, table).counting_options()


def counting_section(job: WordSpacesJob, table: str) -> CountingSection:
    """Return what counts as a co-occurrence in a table; HAL's second half is counted to the right."""
    section: CountingSection = getattr(job, COUNTING[table])
    return section.model_copy(update={"direction": "right"}) if table == "hal_preceding" else section


def tables_of(job: WordSpacesJob) -> list[str]:
    """Return the tables of counts that the recipes of a job start from."""
    kinds = {job.recipes[name].of for name in job.needed()}
    return [table for kind in COUNTED if kind in kinds for table in TABLES[kind]]


def space_dimensions(job: WordSpacesJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, of each table of counts and each kind of them, and of its graphs.

    A sparse space has no more stored values than the counts that it comes from.
    """
    corpus, facts = corpus_dimensions(job, counted), {}
    if counted is not None:
        facts = {name: manifest.facts for name, manifest in counted.stages.items()}
    word, document, term = (corpus.dimensions[name] for name in ("word", "document", "term"))
    for recipe in (job.recipes[name] for name in job.needed() if word.counted):
        if isinstance(recipe, GraphRecipe) and recipe.threshold is None:
            check_n_neighbors(recipe.n_neighbors, word.size)
    found = {
        name: pair_dimension(corpus, counting_options(job, name), counted, name)
        for name in tables_of(job)
        if name in COUNTING
    }
    n_documents = int(facts.get("document_terms", {}).get("n_documents", document.size))
    for kind in sorted({root_of(job, job.recipes[name]) for name in job.needed()}):
        tables = [term] if kind == "documents" else [found[table] for table in TABLES[kind]]
        n_values, is_counted = sum(table.size for table in tables), all(table.counted for table in tables)
        share = DOCUMENT_BLOCKS if kind == "documents" else COUNT_BLOCKS
        values = job.resources.block_memory // share // PAIR_BYTES
        rows = blocks_of_rows(word.size, n_values, values, is_counted)
        n_columns = n_documents if kind == "documents" else word.size * len(tables)
        found |= {
            kind: Dimension(n_values, min(n_values, len(tables) * values), is_counted),
            f"{kind}_row": rows,
            f"{kind}_column": blocks_of_rows(n_columns, n_values, values, is_counted),
        }
    for name in job.needed():
        recipe = job.recipes[name]
        if isinstance(recipe, GraphRecipe):
            stage, most = recipe.neighbors_name, 2 * recipe.n_neighbors
            n_edges = word.size * (most if recipe.threshold is None else MAX_EDGES)
            n_edges = int(facts.get(stage, {}).get("n_edges", n_edges))
            found[f"{stage}_edge"] = Dimension(n_edges, n_edges, stage in facts)
    n_bytes = sum(int(stamp[0]) for path in job.evaluation.sets for stamp in sizes_at(path).values())
    return described(corpus.dimensions | found | {"set": Dimension(n_bytes, n_bytes)})


def root_of(job: WordSpacesJob, recipe: RecipeSection) -> str:
    """Return the kind of counts that a recipe comes from."""
    return recipe.of if recipe.of in COUNTED else root_of(job, job.recipes[recipe.of])


def space_bytes(job: WordSpacesJob, dims: Dimensions, name: str) -> int:
    """Return the bytes of a space: dense, or at most as many values as its counts have."""
    recipe = job.recipes[name]
    if isinstance(recipe, ReducedRecipe):
        return dims.whole("word", recipe.n_components)
    return dims.whole(root_of(job, recipe), itemsize=PAIR_BYTES)


def width_of(job: WordSpacesJob, dims: Dimensions, name: str) -> int:
    """Return the columns of a space, or of a kind of counts."""
    recipe = job.recipes.get(name)
    if isinstance(recipe, ReducedRecipe):
        return recipe.n_components
    return dims.size(f"{name if recipe is None else root_of(job, recipe)}_column")


def values_of(job: WordSpacesJob, name: str) -> str:
    """Return the dimension of the stored values of a sparse space, or of a kind of counts; "" of a dense one."""
    recipe = job.recipes.get(name)
    if isinstance(recipe, ReducedRecipe):
        return ""
    return name if recipe is None else root_of(job, recipe)
