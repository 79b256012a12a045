"""What a word spaces job will take, before anything runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from dask.utils import format_bytes

from distembed.pipeline.plan import (
    PART_DICTIONARY_BYTES,
    REPETITION,
    SCRATCH_FACTOR,
    Plan,
    StagePlan,
    corpus_input,
    estimated_words,
    expected_pairs,
    zipf_counts,
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

    input_bytes: int
    n_splits: int
    n_tokens: int
    n_words: int
    n_documents: int
    values: dict[str, int]


def wordspaces_plan(job: WordSpacesJob, workspace: Workspace | None = None) -> Plan:
    """Return the plan of a job; what committed stages of `workspace` have counted is not estimated."""
    sizes = _sizes(job, workspace)
    tables = ", ".join(f"{name} {n:,}" for name, n in sizes.values.items())
    text = (
        f"{format_bytes(sizes.input_bytes)} of input in {sizes.n_splits} splits; {sizes.n_tokens:,} tokens, "
        f"{sizes.n_words:,} words, {sizes.n_documents:,} documents; values: {tables}"
    )
    return Plan(job, text, tuple(_stage(job, sizes, spec.name) for spec in stages_of(job)))


def _sizes(job: WordSpacesJob, workspace: Workspace | None) -> Sizes:
    done = workspace.stages() if workspace is not None else {}
    facts = {name: manifest.facts for name, manifest in done.items()}
    n_bytes, n_splits, n_tokens = corpus_input(job, done)  # type: ignore[arg-type]
    n_documents = n_tokens // TOKENS_PER_DOCUMENT + 1
    n_documents = int(facts.get("tokens", {}).get("n_documents", n_documents))
    if workspace is not None and "vocabulary" in done:
        counts = workspace.table("vocabulary")["count"].to_numpy().astype(float)
    else:
        counts = zipf_counts(estimated_words(job, n_tokens), n_tokens)
    values = {"document_terms": int(WORD_SHARE * n_tokens)}
    for table in COUNTING:
        values[table] = _pairs(job, table, counts)
        values[table] = int(facts.get(table, {}).get("n_nonzero", values[table]))
    return Sizes(n_bytes, n_splits, n_tokens, len(counts), n_documents, values)


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
    token_bytes = int(2.2 * sizes.n_tokens)
    split = min(job.corpus.split_bytes, sizes.input_bytes)
    terms = VALUE_BYTES * sizes.values["document_terms"]
    block = job.resources.block_memory
    if name == "tokens":
        task = 2 * split + PART_DICTIONARY_BYTES
        return StagePlan(name, sizes.n_splits, sizes.input_bytes, token_bytes, task)
    if name == "vocabulary":
        return StagePlan(name, 1, token_bytes // 8, 40 * sizes.n_words, PART_DICTIONARY_BYTES)
    return StagePlan(name, max(sizes.n_splits, 32 * sizes.n_tokens // block), token_bytes, terms, block)


def _counting(job: WordSpacesJob, sizes: Sizes, name: str) -> StagePlan:
    block = job.resources.block_memory
    pairs = VALUE_BYTES * sizes.values[name.removesuffix("_parts")]
    if name.endswith("_parts"):
        return StagePlan(name, sizes.n_splits, int(2.2 * sizes.n_tokens), int(1.5 * pairs), block)
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
