"""The stages of each system: what they read, what they write, and what they tell the report.

A stage is a function of a `Context`. It opens its inputs from the workspace, hands them to the estimators, and lets
the `Stage` of the workspace write every block; everything it does is redone by the block when it is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.tokenizer import Tokenizer, Tokens, tokenize_split
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary
from distembed.counting.cooccurrence import PartialCounts, Window, cooccurrence_row_blocks, count_part, merge_partials
from distembed.evaluation import words as evaluation
from distembed.factorization.psdvec import PSDVec
from distembed.pipeline.config import Job
from distembed.pipeline.progress import Reporter
from distembed.storage.workspace import Stage, Workspace
from distembed.vectors import WordVectors


class Context(NamedTuple):
    """What a stage works with."""

    job: Job
    workspace: Workspace
    stage: Stage
    reporter: Reporter

    def progress(self, task: str) -> Callable[[int, int], None]:
        """Return a callable that tells how many of all blocks are done."""
        return partial(self.reporter.advance, task)


class StageSpec(NamedTuple):
    """A stage by name, the stages it reads, the parameters that decide its content, and the function that runs it."""

    name: str
    inputs: tuple[str, ...]
    parameters: Callable[[Job], dict[str, Any]]
    run: Callable[[Context], dict[str, Any]]


def of(job: Job) -> tuple[StageSpec, ...]:
    """Return the stages of the system a job asks for, in order."""
    return SYSTEMS[job.job.system]


# --- documents -> token ids -----------------------------------------------------------------------------------


def corpus_of(job: Job) -> Corpus:
    """Return the corpus a job names, read lazily."""
    options = job.corpus.model_dump(exclude={"paths", "split_bytes", *Tokenizer.__dataclass_fields__})
    tokenizer = Tokenizer(**job.corpus.model_dump(include=set(Tokenizer.__dataclass_fields__)))
    return read_corpus(job.corpus.paths, tokenizer=tokenizer, split_bytes=job.corpus.split_bytes, **options)


def run_tokens(ctx: Context) -> dict[str, Any]:
    """Tokenise each split of the corpus into a part with a dictionary of its own."""
    corpus = corpus_of(ctx.job)
    make = partial(_tokenize_part, splits=corpus.splits, tokenizer=corpus.tokenizer)
    parts = ctx.stage.store_files("tokens", len(corpus.splits), make, progress=ctx.progress("tokens"))
    return {name: sum(part[name] for part in parts) for name in parts[0] if name.startswith("n_")}


def _tokenize_part(index: int, prefix: str, *, splits: Any, tokenizer: Tokenizer) -> dict[str, Any]:
    return tokenize_split(splits[index], tokenizer, prefix)._asdict()
