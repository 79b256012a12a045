"""The stages that a corpus goes through in every system: token ids, vocabulary, co-occurrence counts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs

from distembed.corpus import (
    Corpus,
    Split,
    Tokenizer,
    Tokens,
    Vocabulary,
    build_vocabulary,
    read_corpus,
    tokenize_split,
)
from distembed.corpus.blocks import MAX_TOKEN_BYTES
from distembed.corpus.parts import SKIPPED_SCHEMA, read_part
from distembed.counting.cooccurrence import (
    CooccurrenceOptions,
    PartialCounts,
    cooccurrence_row_blocks,
    count_part,
    merge_partials,
)
from distembed.execution import compute
from distembed.pipeline.context import Context, sections
from distembed.pipeline.inputs import code_file
from distembed.pipeline.psdvec.config import PSDVecJob
from distembed.pipeline.topics.config import TopicsJob
from distembed.storage.stage import FileItem
from distembed.storage.workspace import Workspace

ENTRY_BYTES = 200
"""Bytes an entry of a dictionary takes while the counts of equal words are added, measured."""

LEAST_ENTRIES = 2**18
"""Entries that the vocabulary adds up at a time, however small a block is: fewer would only make more files."""

TOKENIZER_OPTIONS = tuple(option.name for option in fields(Tokenizer))


def corpus_of(job: PSDVecJob | TopicsJob) -> Corpus:
    """Return the corpus a job names, read lazily."""
    section = job.corpus
    tokenizer = Tokenizer(**section.model_dump(include=set(TOKENIZER_OPTIONS)))
    options = section.model_dump(exclude={"paths", *TOKENIZER_OPTIONS})
    return read_corpus(section.paths, tokenizer=tokenizer, **options)


# --- documents -> token ids -> vocabulary ---------------------------------------------------------------------


def corpus_files(job: PSDVecJob | TopicsJob) -> tuple[str, ...]:
    """Return the paths of the corpus, and the source file of a tokenizer that the job brings."""
    return (*job.corpus.paths, *code_file(job.corpus.pattern))


def run_tokens(ctx: Context) -> dict[str, Any]:
    """Tokenise each split of the corpus into a part with a dictionary of its own."""
    corpus = corpus_of(ctx.job)
    make = partial(_tokenize_part, splits=corpus.splits, tokenizer=corpus.tokenizer)
    parts = ctx.stage.store_files("tokens", len(corpus.splits), make, progress=ctx.progress("tokens"))
    if ctx.job.corpus.bad_records == "skip":
        ctx.stage.store_table("bad_records", _bad_records(parts))
    totals = _totals(part.summary for part in parts)
    if omitted := left_out(totals):
        ctx.reporter.note(f"tokens: left out {omitted}")
    return totals


def _bad_records(parts: Sequence[FileItem]) -> pa.Table:
    """Return file, place and reason of each bad record that the parts list."""
    suffix = ".skipped.parquet"
    prefixes = (path.removesuffix(suffix) for part in parts for path in part.paths if path.endswith(suffix))
    return pa.concat_tables([SKIPPED_SCHEMA.empty_table(), *(read_part(p, "skipped") for p in prefixes)])


def left_out(tokens: Mapping[str, Any]) -> str:
    """Return what of a corpus could not be read, from the facts of the tokens stage; "" where all could."""
    kinds = {
        "n_bad_records": "bad records (see the table bad_records)",
        "n_long_tokens": f"tokens of over {MAX_TOKEN_BYTES:,} bytes",
        "n_replaced": "bytes that are not UTF-8",
    }
    return ", ".join(f"{tokens[name]:,} {what}" for name, what in kinds.items() if tokens.get(name))


def _tokenize_part(
    index: int, prefix: str, *, splits: Sequence[Split], tokenizer: Tokenizer
) -> dict[str, Any]:
    summary = tokenize_split(splits[index], tokenizer, prefix)._asdict()
    return {name: value for name, value in summary.items() if isinstance(value, int)}


def _totals(summaries: Any) -> dict[str, Any]:
    """Add up the numbers of all parts."""
    totals: dict[str, Any] = {}
    for summary in summaries:
        for name, value in summary.items():
            if isinstance(value, int | float):
                totals[name] = totals.get(name, 0) + value
    return totals


def omissions(tokens: Mapping[str, Any]) -> dict[str, str]:
    """Return what a report shows of a corpus that could not be read whole: one entry, or none."""
    omitted = left_out(tokens)
    return {"left out": omitted} if omitted else {}


def tokens_of(workspace: Workspace, name: str = "tokens") -> Tokens:
    """Return the token parts of a workspace."""
    return Tokens(tuple(_prefix(item) for item in workspace.files(name)))


def _prefix(item: FileItem) -> str:
    """Return what the names of a part's files share, without the dot."""
    return item.paths[0].removesuffix(".documents.parquet")


def run_vocabulary(ctx: Context) -> dict[str, Any]:
    """Merge the dictionaries of all parts; keep the list of documents beside."""
    options = ctx.job.vocabulary
    tokens = tokens_of(ctx.workspace)
    with local_scratch(ctx.workspace) as scratch:
        vocabulary = build_vocabulary(
            tokens,
            min_count=options.min_count,
            max_size=options.max_size,
            keep=options.keep,
            words_in_memory=words_in_memory(ctx.job.resources.block_memory),
            scratch=scratch,
        )
    table = {
        "word": vocabulary.array,
        "count": np.asarray(vocabulary.counts, np.int64),
        "document_count": np.asarray(vocabulary.document_counts, np.int64),
    }
    ctx.stage.store_table("vocabulary", pa.table(table))
    ctx.stage.store_table("documents", documents_of(tokens))
    return {"n_words": len(vocabulary), "n_tokens_known": int(vocabulary.counts.sum())}


@contextmanager
def local_scratch(workspace: Workspace) -> Iterator[str | None]:
    """Yield a folder in a local workspace for temporary files, removed after; None for one at a URL.

    What a killed run left there is removed first.
    """
    if "://" in workspace.url:
        yield None
        return
    folder = workspace.path("scratch")
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def words_in_memory(block_memory: int) -> int:
    """Return how many entries of dictionaries the vocabulary may add up at a time: what a block takes."""
    return max(LEAST_ENTRIES, block_memory // ENTRY_BYTES)


def documents_of(tokens: Tokens) -> pa.Table:
    """Return id, title, label and tokens of every document."""
    tables = []
    for prefix in tokens.parts:
        fs, path = url_to_fs(f"{prefix}.documents.parquet")
        tables.append(pq.read_table(path, filesystem=fs, page_checksum_verification=True))
    return pa.concat_tables(tables)


def vocabulary_of(workspace: Workspace) -> Vocabulary:
    """Return the vocabulary of a workspace."""
    table = workspace.table("vocabulary")
    return Vocabulary(
        table["word"].combine_chunks(), table["count"].to_numpy(), table["document_count"].to_numpy()
    )


# --- token ids -> counts ---------------------------------------------------------------------------------------


def counting_options(job: PSDVecJob | TopicsJob) -> CooccurrenceOptions:
    """Return what counts as a co-occurrence in a job."""
    return CooccurrenceOptions(**job.counting.model_dump(), block_memory=job.resources.block_memory)


def counting_parameters(job: PSDVecJob | TopicsJob) -> dict[str, Any]:
    """Return the section of counting and the memory of a block, which lays the grid."""
    return {**sections("counting")(job), "block_memory": job.resources.block_memory}


def run_partial_counts(ctx: Context, *, tokens: str = "tokens") -> dict[str, Any]:
    """Count each part of the tokens of a name into sorted runs, cut by row block."""
    options = counting_options(ctx.job)
    blocks = cooccurrence_row_blocks(
        ctx.workspace.table("vocabulary")["count"].to_numpy(),
        window=options.window,
        direction=options.direction,
        block_memory=options.block_memory,
    )
    parts = tokens_of(ctx.workspace, tokens).parts
    make = partial(
        count_numbered_part, workspace=ctx.workspace.url, parts=parts, options=options, row_blocks=blocks
    )
    ctx.stage.store_files(
        "partial_counts", len(parts), make, temporary=True, progress=ctx.progress("partial counts")
    )
    return {"n_row_blocks": len(blocks) - 1}


def count_numbered_part(
    index: int,
    prefix: str,
    *,
    workspace: str,
    parts: Sequence[str],
    options: CooccurrenceOptions,
    row_blocks: Sequence[int],
) -> dict[str, Any]:
    """Count the part of a number into a file of runs; return what `PartialCounts` says of it but the place."""
    vocabulary = vocabulary_of(Workspace.open(workspace))
    partials = count_part(parts[index], vocabulary, options, row_blocks, f"{prefix}.counts", number=index)
    return {**partials._asdict(), "url": "", "row_blocks": list(row_blocks)}


def run_cooccurrence(ctx: Context) -> dict[str, Any]:
    """Add the runs of all parts, row block by row block."""
    items = ctx.workspace.files("partial_counts")
    partials = [PartialCounts(**{**item.summary, "url": item.paths[0]}) for item in items]
    partials = [p._replace(row_blocks=tuple(p.row_blocks)) for p in partials]
    counts = merge_partials(partials, block_memory=ctx.job.resources.block_memory)
    stored = ctx.stage.store(
        "cooccurrence",
        counts,
        dims=("left_word", "right_word")
        if ctx.job.counting.direction == "left"
        else ("word", "context_word"),
        units="occurrences",
        meaning=f"How often two words stand within {ctx.job.counting.window} places; see counting in job.toml.",
        progress=ctx.progress("co-occurrence"),
    )
    row_nonzeros = compute(ctx.stage.row_nonzeros("cooccurrence"))
    ctx.stage.store_table("row_nonzeros", pa.table({"n_nonzero": row_nonzeros}))
    return {"n_nonzero": int(row_nonzeros.sum()), "n_row_blocks": stored.numblocks[0]}
