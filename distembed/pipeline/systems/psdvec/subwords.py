"""The stage of PSDVec that learns vectors of character n-grams from those of all words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dask.array as da

from distembed.costs import Cost
from distembed.execution import Checkpoint
from distembed.factorization.subword_blocks import COLUMNS_TOGETHER
from distembed.factorization.subwords import SubwordMap
from distembed.pipeline.context import Context
from distembed.pipeline.corpus.sizes import PairSizes
from distembed.pipeline.corpus.stages import vocabulary_of
from distembed.pipeline.systems.psdvec.config import PSDVecJob
from distembed.pipeline.words.subwords import (
    NGRAMS,
    SUBWORD_MEAN,
    SUBWORD_VECTORS,
    SUBWORDS,
    ngram_table,
)

NOT_OF_THE_MAP = {"enabled", "weight"}
"""The keys of the section that `SubwordMap` does not take."""
LENGTHS = 4
"""The lengths of n-grams from 3 to 6, for which the numbers below were measured."""
NGRAMS_PER_WORD, ROWS_PER_WORD = 40, 4
"""N-grams of a word, and n-grams of two words or more per word: 22 and 1.9 for the 80,000 most frequent words of the
English Wikipedia, 31 and 3.0 for the 17,800 words of German manual pages and program help."""
NGRAM_BYTES = 24 + 16
"""Of an n-gram of a word while they are found, and in the matrix with its transpose."""
NAME_BYTES = 100
"""Of an n-gram as a string, with its place in the table."""


NONCORE = "noncore"
"""The stage that solves the noncore words of a job before it learns n-grams from them."""
NONCORE_VECTORS = "noncore_vectors"


def solves_noncore_first(job: PSDVecJob) -> bool:
    """Return whether noncore words have a stage of their own, since the map of n-grams learns from them, too."""
    return job.subwords.enabled and job.psdvec.n_core is not None


def solved_vectors(ctx: Context) -> da.Array:
    """Return the vectors of all words as core and regression gave them, lazily, before their spelling is added."""
    core = ctx.workspace.array("core_vectors")
    if not (solves_noncore_first(ctx.job) and ctx.workspace.stages()[NONCORE].facts["n_noncore"]):
        return core
    return da.concatenate([core, ctx.workspace.array(NONCORE_VECTORS)])


def n_table_rows(job: PSDVecJob, n_words: int) -> int:
    """Return how many n-grams or buckets will have a vector, by estimate; 0 where subwords are not learned."""
    options = job.subwords
    if not options.enabled:
        return 0
    rows = ROWS_PER_WORD * n_words * max(1, (options.max_n - options.min_n + 1) / LENGTHS)
    return int(rows if options.buckets is None else min(rows, options.buckets))


def table_bytes(job: PSDVecJob, n_words: int) -> int:
    """Return the bytes of the vectors of n-grams in memory, with their names, by estimate."""
    return n_table_rows(job, n_words) * (4 * job.psdvec.n_components + NAME_BYTES)


def subword_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the stage."""
    return {SUBWORDS: job.subwords.model_dump(mode="json", exclude=NOT_OF_THE_MAP)}


def plan_subwords(job: PSDVecJob, sizes: PairSizes) -> Cost:
    """Return the plan of the subword map: a task solves a few columns, and all share the n-grams of the words."""
    k, n_words = job.psdvec.n_components, sizes.corpus.n_words
    rows, n_blocks = n_table_rows(job, n_words), -(-k // COLUMNS_TOGETHER)
    lengths = (job.subwords.max_n - job.subwords.min_n + 1) / LENGTHS
    found = int(NGRAMS_PER_WORD * lengths * n_words * NGRAM_BYTES) + rows * NAME_BYTES
    vectors = 4 * n_words * k
    task = COLUMNS_TOGETHER * (6 * 4 * rows + 20 * n_words)
    return Cost(4 * n_blocks, 4 * vectors, 4 * rows * k, task, found + 2 * vectors, graphs=4, exact=False)


def run_subwords(ctx: Context) -> dict[str, Any]:
    """Learn the vectors of n-grams from those of all words."""
    vocabulary = vocabulary_of(ctx.workspace)
    model = SubwordMap(**ctx.job.subwords.model_dump(exclude=NOT_OF_THE_MAP), checkpoint=_stored(ctx))
    model.fit(list(vocabulary.words), solved_vectors(ctx), vocabulary.counts)
    ctx.stage.store(
        SUBWORD_MEAN,
        da.from_array(model.mean_, chunks=-1),
        dims=("component",),
        units="",
        meaning="The vector of a word of which no n-gram is known.",
    )
    ctx.stage.store_table(NGRAMS, ngram_table(model.ngrams_, model.buckets_, model.n_words_))
    score = model.validation_score_
    return {
        "n_ngrams": len(model.n_words_),
        "n_collisions": model.n_collisions_,
        "explained": None if math.isnan(score) else score,
        "residual": float(model.residuals_.max()),
    }


def _stored(ctx: Context) -> Checkpoint:
    """Return a checkpoint that stores the vectors of the n-grams as the output of the stage."""

    def checkpoint(name: str, make: Callable[[], da.Array]) -> da.Array:  # noqa: ARG001 - there is one
        if ctx.stage.is_stored(SUBWORD_VECTORS):
            return ctx.stage.array(SUBWORD_VECTORS)
        return ctx.stage.store(
            SUBWORD_VECTORS,
            make(),
            dims=("component", "ngram"),
            units="",
            meaning="Vectors of character n-grams, a component per row; column j is row j of ngrams.parquet.",
            progress=ctx.progress("subword vectors"),
        )

    return checkpoint
