"""How large the tables of counts are, the spaces that are made of them, and their graphs."""

from __future__ import annotations

from typing import NamedTuple

from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.costs import RunSizes
from distembed.job.inputs import sizes_at
from distembed.job.stage import Counted
from distembed.neighbors.costs import RowSizes
from distembed.plan import Dimension, Dimensions
from distembed.stages.corpus_sections import CountingSection
from distembed.stages.corpus_sizes import (
    CorpusSizes,
    about,
    corpus_sizes,
    estimated_pairs,
    with_source,
)
from distembed.stages.dimensions import corpus_dimensions, described, pair_dimension
from distembed.systems.wordspaces.job import (
    COUNTED,
    ColumnsRecipe,
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
    """Return what counts as a co-occurrence in a table, and the memory of a block."""
    return counting_section(job, table).counting_options(job.resources.block_memory)


def counting_section(job: WordSpacesJob, table: str) -> CountingSection:
    """Return what counts as a co-occurrence in a table; HAL's second half is counted to the right."""
    section: CountingSection = getattr(job, COUNTING[table])
    return section.model_copy(update={"direction": "right"}) if table == "hal_preceding" else section


def tables_of(job: WordSpacesJob) -> list[str]:
    """Return the tables of counts that the recipes of a job start from."""
    kinds = {job.recipes[name].of for name in job.needed()}
    return [table for kind in COUNTED if kind in kinds for table in TABLES[kind]]


class SpaceSizes(NamedTuple):
    """Sizes of a corpus, its documents, the stored values of each table of counts, and the runs added up to it.

    `exact` says whether all tables that the job counts are counted, and `edges` holds those of the graphs that are
    made, by the name of their stage. `sets_bytes` are those of the files of the evaluation sets.
    """

    corpus: CorpusSizes
    n_documents: int
    values: dict[str, int]
    runs: dict[str, RunSizes]
    exact: bool
    edges: dict[str, int]
    sets_bytes: int

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
    facts = {} if counted is None else {name: manifest.facts for name, manifest in counted.stages.items()}
    corpus = corpus_sizes(job, counted)
    values, runs = {"document_terms": corpus.n_terms}, dict[str, RunSizes]()
    for table in COUNTING:
        model, runs[table] = estimated_pairs(job, counting_options(job, table), corpus, counted)
        values[table] = int(facts.get(table, {}).get("n_nonzero", model.n_pairs()))
    # the values of document_terms are an estimate even when it is counted
    exact = set(tables_of(job)) <= corpus.counted - {"document_terms"}
    n_documents = int(facts.get("document_terms", {}).get("n_documents", corpus.n_documents))
    edges = {name: int(fact["n_edges"]) for name, fact in facts.items() if "n_edges" in fact}
    files = [stamp for path in job.evaluation.sets for stamp in sizes_at(path).values()]
    sets_bytes = sum(int(stamp[0]) for stamp in files)
    return SpaceSizes(corpus, n_documents, values, runs, exact, edges, sets_bytes)


def space_dimensions(job: WordSpacesJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, and the stored values of each table of counts."""
    corpus = corpus_dimensions(job, counted)
    tables = {
        name: pair_dimension(corpus, counting_options(job, name), counted, name)
        for name in tables_of(job)
        if name in COUNTING
    }
    n_bytes = sum(int(stamp[0]) for path in job.evaluation.sets for stamp in sizes_at(path).values())
    return described(corpus.dimensions | tables | {"set": Dimension(n_bytes, n_bytes)})


class SourceSize(NamedTuple):
    """The size of what a recipe starts from, and of its graph of neighbors."""

    rows: RowSizes
    """A row for each word."""
    compared: RowSizes
    """The space whose neighbors are sought, for a recipe of a graph."""
    n_edges: int | None
    """The edges of the graph, where they are counted."""
    block_memory: int
    block_bytes: int
    """The bytes of a row block."""

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns."""
        return self.rows.n_rows, self.rows.n_columns

    @property
    def n_blocks(self) -> int:
        """The row blocks."""
        return max(1, -(-self.rows.n_bytes // self.block_bytes))


def source_size(job: WordSpacesJob, sizes: SpaceSizes, recipe: RecipeSection) -> SourceSize:
    """Return the size of what a recipe starts from."""
    rows = compared = _source_rows(job, sizes, recipe)
    n_edges = None
    if isinstance(recipe, GraphRecipe):
        compared, n_edges = (
            space_size(job, sizes, recipe.graph_source),
            sizes.edges.get(recipe.neighbors_name),
        )
    memory = job.resources.block_memory
    share = DOCUMENT_BLOCKS if _counts_of(job, recipe) == "documents" else COUNT_BLOCKS
    return SourceSize(rows, compared, n_edges, memory, memory // share)


def space_size(job: WordSpacesJob, sizes: SpaceSizes, name: str) -> RowSizes:
    """Return the size of a space as it is stored: float32, and sparse where it is as wide as counts."""
    recipe = job.recipes[name]
    if isinstance(recipe, ReducedRecipe):
        return RowSizes(sizes.n_words, recipe.n_components, itemsize=4)
    rows = _source_rows(job, sizes, recipe)
    n_columns = recipe.n_columns if isinstance(recipe, ColumnsRecipe) else None
    return rows._replace(n_columns=n_columns or rows.n_columns)


def _source_rows(job: WordSpacesJob, sizes: SpaceSizes, recipe: RecipeSection) -> RowSizes:
    if recipe.of not in COUNTED:
        return space_size(job, sizes, recipe.of)
    tables = TABLES[recipe.of]
    width = sizes.n_documents if recipe.of == "documents" else sizes.n_words * len(tables)
    return RowSizes(sizes.n_words, width, sum(sizes.values[table] for table in tables), itemsize=4)


def _counts_of(job: WordSpacesJob, recipe: RecipeSection) -> str:
    """Return the kind of counts that a recipe comes from."""
    return recipe.of if recipe.of in COUNTED else _counts_of(job, job.recipes[recipe.of])
