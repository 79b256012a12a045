"""What a word spaces job will take, before anything runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from dask.utils import format_bytes

from distembed.pipeline.plan import (
    REPETITION,
    SCRATCH_FACTOR,
    CorpusSizes,
    Plan,
    StagePlan,
    corpus_plans,
    corpus_sizes,
    counting_plan,
    expected_pairs,
    word_counts,
)
from distembed.pipeline.wordspaces.config import COUNTED, SPARSE_METHODS, RecipeSection, WordSpacesJob
from distembed.pipeline.wordspaces.stages import COUNTING, counting_options, stages_of
from distembed.storage.workspace import Workspace

WORD_SHARE = 0.45
"""Distinct words of a document over its tokens, of Wikipedia articles of some hundred words."""

TOKENS_PER_DOCUMENT = 600
"""Of a Wikipedia article; only the width of a space of documents hangs on it."""

VALUE_BYTES = 8
"""Bytes of a stored value: float32 or int32, and its column."""

LIST_BYTES = 16
"""Bytes of one neighbour: its distance and its row."""

MATRIX_COPIES = 3
"""Copies of a space of documents that one process may hold while it is turned: its pieces, and blocks of both."""

BASIS_PASSES = 6
"""Products that the basis of a truncated decomposition keeps."""

TESTED_SHARE = 0.9
"""Values of a sparse space that are in the rows of tested words, frequent words most of them."""


class Sizes(NamedTuple):
    """What the plan is made from; values are stored values of each table of counts."""

    corpus: CorpusSizes
    n_documents: int
    values: dict[str, int]

    @property
    def n_words(self) -> int:
        """Words of the vocabulary."""
        return self.corpus.n_words


def wordspaces_plan(job: WordSpacesJob, workspace: Workspace | None = None) -> Plan:
    """Return the plan of a job; what committed stages of `workspace` have counted is not estimated."""
    sizes = _sizes(job, workspace)
    tables = ", ".join(f"{name} {n:,}" for name, n in sizes.values.items())
    text = (
        f"{format_bytes(sizes.corpus.input_bytes)} of input in {sizes.corpus.n_splits} splits; "
        f"{sizes.corpus.n_tokens:,} tokens, "
        f"{sizes.n_words:,} words, {sizes.n_documents:,} documents; values: {tables}"
    )
    return Plan(job, text, tuple(_planned(job, sizes, spec.name) for spec in stages_of(job)))


def _planned(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    """Return the plan of a stage; what is made of tables that are not counted yet is estimated."""
    plan, stages = _stage(job, sizes, name), {spec.name for spec in stages_of(job)}
    if name in ("tokens", "vocabulary", "document_terms") or name.removesuffix("_parts") in COUNTING:
        return plan
    # the values of document_terms are an estimate even when it is done
    return plan._replace(exact=stages & {*COUNTING, "document_terms"} <= sizes.corpus.counted & {*COUNTING})


def _sizes(job: WordSpacesJob, workspace: Workspace | None) -> Sizes:
    corpus = corpus_sizes(job, workspace)
    facts = {name: manifest.facts for name, manifest in workspace.stages().items()} if workspace else {}
    n_documents = corpus.n_tokens // TOKENS_PER_DOCUMENT + 1
    n_documents = corpus.n_documents if "tokens" in corpus.counted else n_documents
    counts = word_counts(corpus, workspace)
    values = {"document_terms": int(WORD_SHARE * corpus.n_tokens)}
    for table in COUNTING:
        values[table] = _pairs(job, table, counts)
        values[table] = int(facts.get(table, {}).get("n_nonzero", values[table]))
    return Sizes(corpus, n_documents, values)


def _pairs(job: WordSpacesJob, table: str, counts: np.ndarray) -> int:
    options = counting_options(job, table)
    sides = 2 if options.direction == "symmetric" else 1
    return int(REPETITION * expected_pairs(counts, options.window * sides))


def _stage(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    kind, _, rest = name.partition("_")
    if name in ("tokens", "vocabulary", "document_terms"):
        return _reading(job, sizes, name)
    if name.removesuffix("_parts") in COUNTING:
        return _counting(job, sizes, name)
    if kind == "space":
        return _space(job, sizes, rest)
    if kind == "scores":
        return _scores(job, sizes, rest)
    if kind == "vectors":
        dense = 4 * sizes.n_words * job.recipes[str(job.wordspaces.vectors)].n_components
        return StagePlan(name, 1, dense, dense, dense)
    return _graph(job, sizes, name)


def _reading(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    if name != "document_terms":
        return corpus_plans(job, sizes.corpus)[name]
    block, corpus = job.resources.block_memory, sizes.corpus
    n_tasks = max(corpus.n_splits, 32 * corpus.n_tokens // block)
    terms = VALUE_BYTES * sizes.values["document_terms"]
    return counting_plan(name, corpus, n_tasks, written_bytes=terms, block_memory=block)


def _counting(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    block, corpus = job.resources.block_memory, sizes.corpus
    pairs = VALUE_BYTES * sizes.values[name.removesuffix("_parts")]
    if name.endswith("_parts"):
        written = int(1.5 * pairs)
        return counting_plan(name, corpus, corpus.n_splits, written_bytes=written, block_memory=block)
    return StagePlan(name, _blocks(pairs, block), int(1.5 * pairs), pairs, block)


def _blocks(n_bytes: int, block_memory: int) -> int:
    return max(1, -(-n_bytes // (block_memory // 8)))


def _values(job: WordSpacesJob, sizes: Sizes, name: str) -> int:
    """Return the stored values of a space."""
    recipe = job.recipes[name]
    if recipe.method not in SPARSE_METHODS:
        return sizes.n_words * recipe.n_components
    if recipe.of == "documents":
        return sizes.values["document_terms"]
    return sum(sizes.values[table] for table in _tables(recipe))


def _tables(recipe: RecipeSection) -> tuple[str, ...]:
    return ("hal_following", "hal_preceding") if recipe.of == "hal" else (recipe.of,)


def _space_bytes(job: WordSpacesJob, sizes: Sizes, name: str) -> int:
    each = VALUE_BYTES if job.recipes[name].method in SPARSE_METHODS else 4
    return each * _values(job, sizes, name)


def _read_bytes(job: WordSpacesJob, sizes: Sizes, recipe: RecipeSection) -> int:
    if recipe.of in COUNTED:
        tables = ("document_terms",) if recipe.of == "documents" else _tables(recipe)
        return VALUE_BYTES * sum(sizes.values[table] for table in tables)
    return _space_bytes(job, sizes, recipe.of)


def _space(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    recipe, block = job.recipes[name], job.resources.block_memory
    read, written = _read_bytes(job, sizes, recipe), _space_bytes(job, sizes, name)
    n_blocks = _blocks(read, block)
    task = int(SCRATCH_FACTOR * min(block // 8 * 2, read))
    if recipe.method in SPARSE_METHODS:
        turned = MATRIX_COPIES * read // max(job.resources.workers or 1, 1) if recipe.of == "documents" else 0
        pieces = n_blocks**2 if recipe.of == "documents" else n_blocks
        return StagePlan(f"space_{name}", pieces, 3 * read, written, task + turned)
    width = max(_width(sizes, recipe, job), sizes.n_words)
    dense = 4 * recipe.n_components * width
    if recipe.method == "lpp":
        dense = 6 * dense + 2 * read  # both ways round in memory, and the solver's vectors in float64
    passes = BASIS_PASSES if recipe.method in ("lsa", "psdvec", "lpp") else 1
    return StagePlan(f"space_{name}", 4 * passes * n_blocks, 2 * passes * read, written, task + 2 * dense)


def _width(sizes: Sizes, recipe: RecipeSection, job: WordSpacesJob) -> int:
    """Return the columns of the space a recipe starts from."""
    if recipe.of == "documents":
        return sizes.n_documents
    if recipe.of in COUNTED:
        return sizes.n_words * len(_tables(recipe))
    before = job.recipes[recipe.of]
    return _width(sizes, before, job) if before.method in SPARSE_METHODS else before.n_components


def _graph(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    """Return the plan of a search for neighbours or of a graph's eigenvectors."""
    recipe = next(
        job.recipes[other] for other in job.needed() if f"_{job.recipes[other].graph_source}_" in f"{name}_"
    )
    block, source = job.resources.block_memory, recipe.graph_source
    read = _space_bytes(job, sizes, source)
    lists = LIST_BYTES * sizes.n_words * recipe.n_neighbors
    grid = max(16, _blocks(read, block))
    if name.startswith("neighbors_"):
        return StagePlan(name, grid * grid, 2 * grid * read, lists, 2 * block + 3 * lists)
    maps = 8 * sizes.n_words * recipe.n_components
    return StagePlan(name, 1, read + lists, maps, 3 * maps + 3 * lists)


def _scores(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    size = _space_bytes(job, sizes, name)
    return StagePlan(f"scores_{name}", 1, 2 * size, 2**16, int(2 * TESTED_SHARE * size) + 2**26)
