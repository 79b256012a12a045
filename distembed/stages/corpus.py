"""The stages that a corpus goes through in every system: token ids, vocabulary, co-occurrence counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.blocks import MAX_TOKEN_BYTES
from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.partitions import (
    TOKENS_VERSION,
    DocumentColumns,
    Tokens,
    open_partition,
    read_metadata,
    read_partition,
    tokenize_bundle,
    tokenize_partition,
)
from distembed.corpus.readers import Corpus
from distembed.corpus.records import NAMED_RECORDS, CorpusError
from distembed.corpus.scanners import names_in_words
from distembed.corpus.stop_words import stop_words_of
from distembed.corpus.tokenizer import Tokenizer, gazetteer_of
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary, join_slices, words_in_memory
from distembed.counting.cooccurrence import (
    CooccurrenceOptions,
    PartialCounts,
    cooccurrence_row_blocks,
    count_bundle,
    merge_partials,
    merge_row_block,
)
from distembed.counting.documents import count_document_block, count_document_terms
from distembed.counting.partition_rows import n_bundles, token_bundles
from distembed.display import plural
from distembed.dtypes import Int32s
from distembed.execution import compute
from distembed.job.inputs import code_file, file_sizes, versions_at
from distembed.job.outputs import ArrayOutput, FilesOutput, TableOutput
from distembed.job.stage import Context, StageSpec, sections
from distembed.options import options_of
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages import outputs
from distembed.stages.corpus_sections import CorpusJob, corpus_of, counting_options
from distembed.stages.dimensions import PAIR_BYTES
from distembed.stages.ranges import count_bundle_of
from distembed.states import block_memory
from distembed.storage.records import digest_of_json
from distembed.storage.stage import FileItem
from distembed.storage.workspace import Workspace

MANY_PARTITIONS, GROUP_DOCUMENTS = 1_000, 2**16
"""More partitions than this share the row groups of the table of documents, each of at least so many documents."""

WORD_BYTES = 28
"""Bytes of a word in a table of words with their counts."""

LOOKED_UP_BYTES = 400
"""Bytes of a word of the vocabulary where token ids are looked up: the words, their hashes, and row ends of runs."""

DOCUMENT_BYTES = 200
"""Bytes of a document in the table of the documents of its partition."""

PHRASE_BYTES = 110
"""Bytes that the names which a tokenizer joins take in a process, per byte of their file."""

METADATA_COPIES = 12
"""Copies of a table of metadata in memory while it is read: its text, its cells and their names."""

EXCERPT_CHARACTERS = 200
"""Characters of a document's beginning that are kept of a collection, to show what was matched."""


# --- a corpus, or one of several collections -------------------------------------------------------------------

NamedOutput = TypeVar("NamedOutput", ArrayOutput, FilesOutput, TableOutput)


def of_side(output: NamedOutput, side: str) -> NamedOutput:
    """Return an output of the corpus, or that of a collection, whose name goes before its own."""
    return replace(output, name=f"{side}_{output.name}") if side else output


def stage_of(kind: str, side: str) -> str:
    """Return the name of a stage of the corpus, or that of a collection."""
    return f"{side}_{kind}" if side else kind


def section_of_side(job: Any, side: str) -> Any:
    """Return what a job says of its corpus, or of a collection."""
    return job.collections[side] if side else job.corpus


def corpus_of_side(job: Any, side: str) -> Corpus:
    """Return the corpus of a job, or a collection, read lazily."""
    return corpus_of(section_of_side(job, side))


def of_collection(spec: StageSpec, side: str) -> StageSpec:
    """Return a stage of the corpus as that of a collection: the same functions, with a name before it."""

    def plan(job: Any, dims: Dimensions, *, side: str) -> StagePlan:
        return spec.plan(job, dims.part(f"{side}_"), side=side)

    inputs = tuple(stage_of(name, side) for name in spec.inputs)
    return spec._replace(name=stage_of(spec.name, side), inputs=inputs, plan=plan).of(side=side)


# --- documents -> token ids -> documents with all columns, vocabulary ------------------------------------------
#
# These stages are those of `[corpus]`, or of a collection, of which `side` is the name (`stage_of`).

LATER = {"metadata", "path_fields", "stop_words", "stop_words_file", "pairs", "features"}
"""The keys of a section of texts that do not decide its tokens."""

OF_VOCABULARY = {"min_count", "max_size", "keep", "min_documents", "max_share"}
"""The keys of `[vocabulary]` and `[terms]` that say which words are chosen."""


def token_parameters(job: Any, *, side: str = "") -> dict[str, Any]:
    """Return what decides the tokens of a corpus."""
    return {"corpus": section_of_side(job, side).model_dump(mode="json", exclude=LATER)}


def check_corpus(job: Any, *, side: str = "") -> list[str]:
    """Read the beginning of each file of a corpus, and return what the files are taken for."""
    lines = inspect_corpus(corpus_of_side(job, side))
    return [f"{side} {line}" for line in lines] if side else lines


def plan_tokens(job: Any, dims: Dimensions, *, side: str = "") -> StagePlan:
    """Return the plan of tokenizing: a task reads a partition, and holds its dictionary."""
    section = section_of_side(job, side)
    names = [] if section.phrases_file is None else [section.phrases_file]
    tables = 2 if names else 1  # a dictionary of names beside that of words
    dictionary = task(tokenize_partition, output=dims.block("entry", tables, itemsize=WORD_BYTES))
    return stage_plan(
        dictionary + dims.block("text", 2, itemsize=1),
        whole=[PHRASE_BYTES * size for size in file_sizes(names).values()],
        stored=dims.whole("token", itemsize=2)
        + dims.whole("entry", itemsize=16)
        + dims.whole("document", itemsize=32),
        n_tasks=dims["partition"].size,
    )


def run_tokens(ctx: Context, *, side: str = "") -> dict[str, Any]:
    """Tokenize each partition of a corpus, each with a dictionary of its own."""
    corpus = corpus_of_side(ctx.job, side)
    stage = stage_of("tokens", side)
    if path := corpus.tokenizer.phrases_file:
        ctx.reporter.note(f"{stage}: {names_in_words(gazetteer_of(corpus.tokenizer), path=path)}")
    section, n_excerpt = section_of_side(ctx.job, side), EXCERPT_CHARACTERS if side else 0
    # What the tokens of a bundle are made from: all but the place of its files.
    versions = _versions(section.paths)
    options = section.model_dump(mode="json", include={*options_of(Tokenizer)} - {"phrases_file"})
    files = [*code_file(section.pattern), *([section.phrases_file] if section.phrases_file else [])]
    tokenizer = [TOKENS_VERSION, n_excerpt, options, [list(versions_at(file).values()) for file in files]]
    keys = [
        digest_of_json([tokenizer, [[part.reading, versions[part.url]] for part in bundle]])
        for bundle in corpus.bundles
    ]
    make = partial(tokenize_bundle, bundles=corpus.bundles, tokenizer=corpus.tokenizer, n_excerpt=n_excerpt)
    partitions = ctx.store_files(of_side(outputs.TOKENS, side), len(keys), make, keys=keys)
    now = _versions(section.paths)
    if changed := [url for url in versions if versions[url] != now.get(url)]:
        ctx.stage.forget(of_side(outputs.TOKENS, side).name)  # which has new content under the old key
        raise CorpusError(f"{changed[0]} changed while it was read: run again when it is whole")
    totals: Counter[str] = Counter()
    for partition in partitions:
        totals.update({name: n for name, n in partition.summary.items() if isinstance(n, int)})
    facts: dict[str, Any] = dict(totals)
    if corpus.refused:
        facts["n_files_left_out"] = len(corpus.refused)
    bad = [*map(list, corpus.refused)]
    bad += [record for partition in partitions for record in partition.summary.get("bad_records", ())]
    if bad:
        facts["bad_records"] = bad[:NAMED_RECORDS]
    if omitted := left_out(facts):
        ctx.reporter.note(f"{stage}: left out {omitted}")
    return facts


def _versions(paths: Sequence[str]) -> dict[str, str]:
    """Return the version of each file of a corpus by its URL."""
    return {url: version for path in paths for url, version in versions_at(path).items()}


def left_out(tokens: Mapping[str, Any]) -> str:
    """Return what of a corpus was not read, or could not be, from the facts of the tokens stage; "" where all could."""
    kinds = {
        "n_files_left_out": "files that cannot be read",
        "n_bad_records": "bad records",
        "n_long_tokens": f"tokens of over {MAX_TOKEN_BYTES:,} bytes",
        "n_short_segments": "documents, lines or sentences of fewer tokens than corpus.min_border_tokens",
    }
    return ", ".join(f"{tokens[name]:,} {what}" for name, what in kinds.items() if tokens.get(name))


def omissions(tokens: Mapping[str, Any]) -> dict[str, str]:
    """Return what a report shows of a corpus that could not be read whole: how much was left out, and the first."""
    omitted = left_out(tokens)
    named = "; ".join(", ".join(filter(None, record)) for record in tokens.get("bad_records", ()))
    return {"left out": omitted, **({"first of them": named} if named else {})} if omitted else {}


def tokens_of(workspace: Workspace, output: FilesOutput = outputs.TOKENS) -> Tokens:
    """Return the token partitions of a workspace, whose documents have the columns that their own source gives."""
    return Tokens(tuple(_prefix(item) for item in output.read(workspace)))


def _prefix(item: FileItem) -> str:
    """Return what the names of a partition's files share, without the dot."""
    return item.paths[0].removesuffix(".documents.parquet")


def column_parameters(job: Any, *, side: str = "") -> dict[str, Any]:
    """Return what is joined to the documents: a table, and parts of the paths of the files."""
    section = section_of_side(job, side)
    joined = section.model_dump(mode="json", include={"metadata", "path_fields"})
    return {"corpus": {**joined, **({"paths": list(section.paths)} if joined.get("path_fields") else {})}}


def columns_of(job: Any) -> DocumentColumns:
    """Return what a job joins to the documents of its corpus."""
    section = job.corpus
    if section.path_fields:
        return corpus_of(section).columns
    return DocumentColumns(metadata=None if section.metadata is None else read_metadata(section.metadata))


def check_columns(job: Any, *, side: str = "") -> list[str]:
    """Read the table of metadata of a corpus, where there is one, and return how many rows it has."""
    path = None if side else job.corpus.metadata
    return [] if path is None else [f"{plural(read_metadata(path).num_rows, 'row')} of metadata in {path}"]


def plan_documents(job: Any, dims: Dimensions, *, side: str = "") -> StagePlan:
    """Return the plan of joining columns to the documents, a partition at a time."""
    documents = dims["documents_of_partition"].block
    if dims["partition"].size > MANY_PARTITIONS:
        documents += GROUP_DOCUMENTS
    metadata = [] if side or job.corpus.metadata is None else [job.corpus.metadata]
    excerpts = dims.whole(documents, EXCERPT_CHARACTERS, itemsize=1) if side else 0
    return stage_plan(
        whole=[
            dims.whole(documents, itemsize=DOCUMENT_BYTES),
            excerpts,
            *(METADATA_COPIES * size for size in file_sizes(metadata).values()),
        ],
        stored=dims.whole("document", itemsize=32),
    )


def run_documents(ctx: Context, *, side: str = "", tokens: FilesOutput = outputs.TOKENS) -> dict[str, Any]:
    """Store the documents as one table, with what is known of them beside their text.

    Raises
    ------
    CorpusError
        If no document has a row in the table of metadata.
    """
    partitions = tokens_of(ctx.workspace, of_side(tokens, side)).partitions
    columns = DocumentColumns() if side else columns_of(ctx.job)
    n_documents = sum(open_partition(one, "documents").metadata.num_rows for one in partitions)
    tables: Iterator[pa.Table] = (read_partition(partition, "documents") for partition in partitions)
    if len(partitions) > MANY_PARTITIONS:
        # A row group takes nearly a kilobyte at the end of the file, which each reader holds in memory whole.
        tables = join_slices(tables, GROUP_DOCUMENTS)
    n_missing, ids = list[int](), list[str]()

    def joined() -> Iterator[pa.Table]:
        for table in tables:
            documents, n = columns.join(table)
            n_missing.append(n)
            ids.extend(table["id"][:1].to_pylist())
            yield documents

    every = joined()
    first = next(every)
    name = of_side(outputs.DOCUMENTS, side).name
    ctx.stage.store_batches(name, first.schema, chain([first], every), n_rows=n_documents)
    if (table := columns.metadata) is not None:
        path, n_found = ctx.job.corpus.metadata, n_documents - sum(n_missing)
        if n_documents and not n_found:
            ctx.stage.forget(name)  # or the next run would find it stored
            row = next(iter(table.column(0).to_pylist()), "nothing")
            raise CorpusError(
                f'no document has a row in {path}: its column "{table.column_names[0]}" begins with {row!r}, and the '
                f"first document has the id {ids[0]!r}; give ids, or names of files."
            )
        rows = plural(n_documents, "document")
        ctx.reporter.note(f"documents: {n_found:,} of {rows} have a row in {path}")
    return {"n_documents": n_documents}


def vocabulary_parameters(job: Any, *, side: str = "") -> dict[str, Any]:
    """Return which words are chosen."""
    if not side:
        return sections("vocabulary")(job)
    section = section_of_side(job, side)
    files = {} if section.stop_words_file is None else {"stop_words_file": section.stop_words_file}
    terms = job.terms.model_dump(mode="json", include=OF_VOCABULARY)
    return {"terms": terms, "stop_words": section.stop_words, **files}


def plan_vocabulary(job: Any, dims: Dimensions, *, side: str = "") -> StagePlan:  # noqa: ARG001
    """Return the plan of merging the dictionaries of all partitions."""
    merged = min(dims["entry"].size, words_in_memory(dims["memory"].size)) + dims["candidate"].size
    return stage_plan(
        task(build_vocabulary, output=dims.whole(merged, itemsize=WORD_BYTES)),
        stored=dims.whole("word", itemsize=16),
    )


def stop_words(job: Any, *, side: str = "") -> frozenset[str]:
    """Return the words that a job leaves out of its corpus or of a collection: those of a language and of a file."""
    section = section_of_side(job, side) if side else job.vocabulary
    return stop_words_of(section.stop_words, file=getattr(section, "stop_words_file", None))


def check_stop_words(job: Any, *, side: str = "") -> list[str]:
    """Return how many stop words are left out, where any are."""
    n = len(stop_words(job, side=side))
    return [f"{side or 'vocabulary'}: {plural(n, 'stop word')}"] if n else []


def run_vocabulary(ctx: Context, *, side: str = "", tokens: FilesOutput = outputs.TOKENS) -> dict[str, Any]:
    """Merge the dictionaries of all partitions, and choose words that are neither rare, nor common, nor stop words."""
    options = ctx.job.terms if side else ctx.job.vocabulary
    with local_scratch(ctx.workspace) as scratch:
        vocabulary = build_vocabulary(
            tokens_of(ctx.workspace, of_side(tokens, side)),
            stop_words=stop_words(ctx.job, side=side),
            words_in_memory=words_in_memory(ctx.job.resources.block_memory),
            scratch=scratch,
            **options.model_dump(include=OF_VOCABULARY),
        )
    table = {
        "word": vocabulary.array,
        "count": np.asarray(vocabulary.counts, np.int64),
        "document_count": np.asarray(vocabulary.document_counts, np.int64),
    }
    ctx.store_table(of_side(outputs.VOCABULARY, side), pa.table(table))
    return {"n_words": len(vocabulary), "n_tokens_known": int(vocabulary.counts.sum())}


@contextmanager
def local_scratch(workspace: Workspace) -> Iterator[str | None]:
    """Yield a folder in a local workspace for temporary files, removed after if empty; None for one at a URL."""
    if "://" in workspace.url:
        yield None
        return
    folder = workspace.path("scratch")
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        with suppress(OSError):  # it holds files of a run that has taken the lock over
            Path(folder).rmdir()


def vocabulary_of(workspace: Workspace, *, side: str = "") -> Vocabulary:
    """Return the vocabulary of a workspace, or of a collection."""
    return Vocabulary.from_table(of_side(outputs.VOCABULARY, side).read(workspace))


def titled_tokens(workspace: Workspace, output: FilesOutput = outputs.TOKENS) -> Tokens:
    """Return the token partitions of a workspace, whose documents have the titles that were joined to them."""
    tokens = tokens_of(workspace, output)
    if not any(workspace.stages()["documents"].parameters["corpus"].values()):
        return tokens
    titles = pa.concat_tables(
        pa.Table.from_batches([batch]) for batch in workspace.batches("documents", columns=["id", "title"])
    )
    return replace(tokens, columns=DocumentColumns(metadata=titles))


# --- token ids -> counts ---------------------------------------------------------------------------------------


def run_document_terms(ctx: Context, *, kept: NDArray[np.int64] | None = None) -> dict[str, Any]:
    """Count each word in each document, or in those that are kept: rising numbers of documents."""
    counts = count_document_terms(tokens_of(ctx.workspace), vocabulary_of(ctx.workspace))
    stored = ctx.store(outputs.DOCUMENT_TERMS, counts if kept is None else counts[kept])
    return {"n_documents": stored.shape[0]}


def _looked_up(dims: Dimensions) -> int:
    """Return the bytes of the words that ids are looked up in, and of what a task knows of all of its partition.

    That is where each document begins and ends, and the row in the vocabulary of each word of the dictionary.
    """
    documents, entries = (dims[f"{name}_of_partition"].block for name in ("documents", "entries"))
    return dims.whole("word", itemsize=LOOKED_UP_BYTES) + 32 * documents + 8 * entries


def plan_document_terms(job: Any, dims: Dimensions, *, side: str = "") -> StagePlan:  # noqa: ARG001
    """Return the plan of counting the words of documents: a task reads tokens, and looks each up."""
    counts = task(count_document_block, dims.block("token"), output=dims.block("term", itemsize=PAIR_BYTES))
    return stage_plan(
        counts + _looked_up(dims),
        stored=dims.whole("term", itemsize=PAIR_BYTES),
        n_tasks=dims.n_blocks("term"),
    )


def plan_counts(job: CorpusJob, dims: Dimensions, *, pair: str = "pair") -> StagePlan:  # noqa: ARG001
    """Return the plan of counting pairs: a task counts into sorted runs that fill its memory, another adds them up.

    The blocks that are added up are so small that their tasks never take more than those that count, which do not
    depend on the number of pairs: it need not be known before a job is refused.
    """
    runs, pairs = task(count_bundle, output=dims.block("memory", itemsize=1)), dims.bounds
    merged = task(merge_row_block, output=pairs.block(pair, itemsize=PAIR_BYTES))
    return in_turn(
        stage_plan(
            runs + _looked_up(dims),
            stored=pairs.whole(pair),
            n_tasks=n_bundles(dims["token"].size),
        ),
        stage_plan(merged, stored=pairs.whole(pair), n_tasks=pairs.n_blocks(pair)),
    )


def count_pairs(
    ctx: Context, name: str, options: CooccurrenceOptions, *, tokens: FilesOutput = outputs.TOKENS
) -> da.Array:
    """Count each bundle of documents into sorted runs, and return their sum, lazily, row block by row block.

    The runs end with the stage; `name` is that of the output which they are added up to.
    """
    vocabulary = vocabulary_of(ctx.workspace)
    row_blocks = cooccurrence_row_blocks(
        vocabulary.counts, window=options.window, direction=options.direction
    )
    return added_runs(ctx, name, options, row_blocks, tokens=tokens)


def added_runs(
    ctx: Context,
    name: str,
    options: CooccurrenceOptions,
    row_blocks: Sequence[int],
    *,
    tokens: FilesOutput = outputs.TOKENS,
    groups: Mapping[str, Int32s] | None = None,
) -> da.Array:
    """Let a task for each bundle make a file of sorted runs, and return the sum of all, lazily, by row block."""
    # The random numbers of a partition follow from its content, whatever its number in the corpus.
    keys = [int(block.digest[:12], 16) for block in ctx.workspace.describe(tokens.name).blocks]
    items = tokens.read(ctx.workspace)
    bundles = token_bundles([*map(_prefix, items)], [item.summary.get("n_tokens", 0) for item in items])
    count = partial(
        count_bundle_of,
        workspace=ctx.workspace.url,
        vocabulary=ctx.workspace.stages()["vocabulary"].digest,
        bundles=[[span._replace(key=keys[span.key]) for span in bundle] for bundle in bundles],
        options=options,
        row_blocks=tuple(row_blocks),
        block_memory=block_memory(),
        groups=groups,
    )
    runs = ctx.store_files(outputs.RUNS.of(counts=name), len(bundles), count)
    partials = [PartialCounts(**{**item.summary, "url": item.paths[0]}) for item in runs]
    return merge_partials(partials, tuple(row_blocks))


def run_cooccurrence(ctx: Context, *, tokens: FilesOutput = outputs.TOKENS) -> dict[str, Any]:
    """Count the pairs of words that stand near each other, row block by row block."""
    options, output = counting_options(ctx.job), outputs.COOCCURRENCE.of(window=ctx.job.counting.window)
    if options.direction == "left":
        output = replace(output, dims=("left_word", "right_word"))
    return store_counts(ctx, output, count_pairs(ctx, output.name, options, tokens=tokens))


def store_counts(ctx: Context, output: ArrayOutput, counts: da.Array) -> dict[str, Any]:
    """Store the counts of all pairs, and how many values each row has."""
    stored = ctx.store(output, counts)
    row_nonzeros = compute(ctx.stage.row_nonzeros(output.name))
    ctx.store_table(outputs.ROW_NONZEROS, pa.table({"n_nonzero": row_nonzeros}))
    return {"n_nonzero": int(row_nonzeros.sum()), "n_row_blocks": stored.numblocks[0]}


TOKENS = StageSpec("tokens", (), token_parameters, run_tokens, plan_tokens, check_corpus, counts=True)
DOCUMENTS = StageSpec(
    "documents", ("tokens",), column_parameters, run_documents, plan_documents, check_columns, counts=True
)
VOCABULARY = StageSpec(
    "vocabulary",
    ("tokens",),
    vocabulary_parameters,
    run_vocabulary,
    plan_vocabulary,
    check_stop_words,
    counts=True,
)
COOCCURRENCE = StageSpec(
    "cooccurrence", ("tokens", "vocabulary"), sections("counting", grid=True), run_cooccurrence, plan_counts
)
