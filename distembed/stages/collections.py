"""Collections of documents: their tokens and terms, and which documents of the first are those of another.

A job has a first collection, a second, and further ones by name. The stages of the first two are one of each
kind, those of a further collection are its own: a run that adds it, or finds it changed, computes them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.partitions import Tokens, tokenize_partition
from distembed.corpus.readers import Corpus, documents_of
from distembed.corpus.stop_words import stop_words_of
from distembed.corpus.streams import Partition
from distembed.corpus.tokenizer import Tokenizer
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary, choose_words, words_in_memory
from distembed.counting.documents import count_document_terms
from distembed.formats.parquet import whole_table
from distembed.formats.tables import TableError, read_columns
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted, sections
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn
from distembed.stages.corpus import (
    document_tables,
    grouped_documents,
    local_scratch,
    plan_document_terms,
    plan_text,
    plan_vocabulary,
)
from distembed.stages.corpus_sections import corpus_of
from distembed.stages.dimensions import described, text_dimensions
from distembed.stages.outputs import DOCUMENTS, TOKENS, VOCABULARY
from distembed.storage.workspace import Workspace
from distembed.urls import opened
from distembed.vectors import WordVectors
from distembed.weighting.documents import tf_idf

SIDES = ("first", "second")

SIDE_TOKENS = replace(TOKENS, name="{side}_tokens")
SIDE_DOCUMENTS = replace(
    DOCUMENTS, name="{side}_documents", columns=("id", "title", "label", "n_tokens", "excerpt")
)
SIDE_VOCABULARY = replace(VOCABULARY, name="{side}_vocabulary")
SIDE_TERMS = ArrayOutput(
    "{side}_terms",
    "tf-idf of each word (column) in each document (row), rows of unit length.",
    dims=("document", "word"),
)
SIDE_OUTPUTS = (SIDE_TOKENS, SIDE_DOCUMENTS, SIDE_VOCABULARY, SIDE_TERMS)


def sides_of(job: Any) -> tuple[str, ...]:
    """Return the collections that a job has: the first, the second, and the further ones."""
    return (*SIDES, *job.others)


def groups_of(job: Any) -> list[tuple[str, ...]]:
    """Return the collections whose stages are one: the first two, and each further one by itself."""
    return [SIDES, *((side,) for side in job.others)]


def stage_of(kind: str, side: str) -> str:
    """Return the name of the stage of a kind that makes the outputs of a collection."""
    return kind if side in SIDES else f"{side}_{kind}"


def section_name(side: str) -> str:
    """Return the section of a job file that describes a collection."""
    return side if side in SIDES else f"others.{side}"


def side_section(job: Any, side: str) -> Any:
    """Return what a job says of a collection."""
    return getattr(job, side) if side in SIDES else job.others[side]


EXCERPT_CHARACTERS = 200
"""Characters of a document's beginning that are kept, to show what was matched."""


# ---- how large they are -----------------------------------------------------------------------------------


def collection_dimensions(job: Any, counted: Counted | None) -> Dimensions:
    """Return the dimensions of the collections of a job, the names of each with its own before them, and of all."""
    done = {} if counted is None else counted.stages
    dimensions: dict[str, Dimension] = {}
    for side in sides_of(job):
        tokens, terms = done.get(stage_of("tokens", side)), done.get(stage_of("terms", side))
        text = text_dimensions(
            None if tokens is not None else collection_of(job, side),
            tokens,
            block_memory=job.resources.block_memory,
            output=SIDE_TOKENS.of(side=side).name,
            prefix=f"{side}_",
        ).dimensions
        n_words = text["entry"].size if terms is None else int(terms.facts[f"{side}_n_words"])
        n_terms = min(text["token"].size, n_words * text["document"].size)
        found = text | {
            "candidate": Dimension(text["entry"].size, text["entry"].size, tokens is not None),
            "word": Dimension(n_words, n_words, terms is not None),
            "term": Dimension(n_terms, min(n_terms, text["token"].block), terms is not None),
        }
        dimensions |= {f"{side}_{name}": dimension for name, dimension in found.items()}
    for name in ("text", "partition", "document", "token", "word", "term"):
        parts = [dimensions[f"{side}_{name}"] for side in sides_of(job)]
        sizes, blocks, known = zip(*parts, strict=True)
        dimensions[name] = Dimension(sum(sizes), max(blocks), all(known))
    return described(dimensions)


def plan_side_tokens(job: Any, dims: Dimensions, *, sides: Sequence[str]) -> StagePlan:
    """Return the plan of tokenizing some collections, and of keeping the beginnings of their documents."""
    excerpts = [
        dims.block(f"{side}_documents_of_partition", EXCERPT_CHARACTERS, itemsize=1) for side in sides
    ]
    plans = [
        plan_text(side_section(job, side), dims.part(f"{side}_"))._replace(whole_bytes=held)
        for side, held in zip(sides, excerpts, strict=True)
    ]
    return in_turn(*plans)


def plan_side_terms(job: Any, dims: Dimensions, *, sides: Sequence[str]) -> StagePlan:
    """Return the plan of choosing the words of some collections, and of counting and weighing their documents."""
    parts = [dims.part(f"{side}_") for side in sides]
    plans = [made(job, part) for part in parts for made in (plan_vocabulary, plan_document_terms)]
    excerpts = [part.block("documents_of_partition", EXCERPT_CHARACTERS, itemsize=1) for part in parts]
    return in_turn(*plans)._replace(whole_bytes=max(plan.whole_bytes for plan in plans) + max(excerpts))


# ---- documents --------------------------------------------------------------------------------------------


def collection_of(job: Any, side: str) -> Corpus:
    """Return a collection of a job, read lazily.

    Raises
    ------
    FileNotFoundError
        If a path matches no file.
    """
    return corpus_of(side_section(job, side), section_name(side))


def _tokenize_partition(
    index: int, prefix: str, *, bundles: Sequence[Sequence[Partition]], tokenizer: Tokenizer
) -> dict[str, Any]:
    """Write the tokens of a bundle and the beginnings of its documents; return how much there was of each."""
    summary = tokenize_partition(bundles[index], tokenizer, prefix)._asdict()
    excerpts = [
        _excerpt(document.text) for partition in bundles[index] for document in documents_of(partition)
    ]
    with opened(f"{prefix}.excerpts.parquet", "wb") as file:
        pq.write_table(pa.table({"excerpt": pa.array(excerpts, pa.string())}), file, write_page_checksum=True)
    return {name: value for name, value in summary.items() if isinstance(value, int)}


def _excerpt(text: str) -> str:
    """Return the beginning of a text with its white space closed up."""
    words = " ".join(islice(text[: 4 * EXCERPT_CHARACTERS].split(), EXCERPT_CHARACTERS))
    return words if len(words) <= EXCERPT_CHARACTERS else words[: EXCERPT_CHARACTERS - 1] + "…"


def check_collections(job: Any, *, sides: Sequence[str]) -> list[str]:
    """Read the beginning of each file of some collections, and return what the files are taken for."""
    return [f"{side} {line}" for side in sides for line in inspect_corpus(collection_of(job, side))]


def documents_with_excerpts(tokens: Tokens) -> Iterator[pa.Table]:
    """Yield id, title, label, n_tokens and excerpt of each document, a partition at a time."""
    for prefix, documents in zip(tokens.partitions, document_tables(tokens), strict=True):
        with opened(f"{prefix}.excerpts.parquet", "rb") as file:
            yield documents.append_column("excerpt", whole_table(file)["excerpt"])


# ---- the stages --------------------------------------------------------------------------------------------


def side_parameters(job: Any, *, sides: Sequence[str]) -> dict[str, Any]:
    """Return some collections; not what only later stages ask of them."""
    later = {"stop_words", "stop_words_file", "vectors", "pairs"}
    return {side: side_section(job, side).model_dump(mode="json", exclude=later) for side in sides}


def run_side_tokens(ctx: Context, *, sides: Sequence[str]) -> dict[str, Any]:
    """Tokenize each partition of some collections."""
    facts: dict[str, Any] = {}
    for side in sides:
        corpus = collection_of(ctx.job, side)
        make = partial(_tokenize_partition, bundles=corpus.bundles, tokenizer=corpus.tokenizer)
        items = ctx.store_files(SIDE_TOKENS.of(side=side), len(corpus.bundles), make)
        for what in ("n_documents", "n_tokens", "n_words"):
            facts[f"{side}_{what}"] = sum(int(item.summary[what]) for item in items)
    return facts


def token_partitions(workspace: Workspace, side: str) -> tuple[str, ...]:
    """Return the token partitions of a collection."""
    suffix = ".documents.parquet"
    return tuple(
        next(path.removesuffix(suffix) for path in item.paths if path.endswith(suffix))
        for item in SIDE_TOKENS.read(workspace, side=side)
    )


def term_parameters(job: Any, *, sides: Sequence[str]) -> dict[str, Any]:
    """Return which words count, and the memory of a block, which lays the grid."""
    found = [side_section(job, side) for side in sides]
    words = [section.stop_words for section in found]
    words += [section.stop_words_file for section in found if section.stop_words_file is not None]
    return {**sections("terms")(job), "stop_words": words, "block_memory": job.resources.block_memory}


def run_terms(ctx: Context, *, sides: Sequence[str]) -> dict[str, Any]:
    """Choose the words of some collections and weigh their documents by them."""
    facts, room = {}, words_in_memory(ctx.job.resources.block_memory)
    for side in sides:
        tokens = Tokens(token_partitions(ctx.workspace, side))
        n_documents = sum(
            int(item.summary["n_documents"]) for item in SIDE_TOKENS.read(ctx.workspace, side=side)
        )
        with local_scratch(ctx.workspace) as scratch:
            every = build_vocabulary(tokens, words_in_memory=room, scratch=scratch)
        chosen = choose_words(
            every.words,
            every.document_counts,
            n_documents=n_documents,
            min_documents=ctx.job.terms.min_documents,
            max_share=ctx.job.terms.max_share,
            stop_words=_stop_words(ctx.job, side),
        )
        vocabulary = every.take(chosen[: ctx.job.terms.max_size])
        tables = grouped_documents(documents_with_excerpts(tokens), len(tokens.partitions))
        first = next(tables)
        ctx.stage.store_batches(
            SIDE_DOCUMENTS.of(side=side).name, first.schema, chain([first], tables), n_rows=n_documents
        )
        ctx.store_table(SIDE_VOCABULARY.of(side=side), _vocabulary_table(vocabulary))
        counts = count_document_terms(tokens, vocabulary)
        weighted = tf_idf(
            counts,
            frequencies=vocabulary.document_counts,
            n_documents=n_documents,
            sublinear=ctx.job.terms.sublinear,
        )
        ctx.store(SIDE_TERMS.of(side=side), weighted)
        facts[f"{side}_n_words"] = len(vocabulary)
    return facts


def _stop_words(job: Any, side: str) -> frozenset[str]:
    section = side_section(job, side)
    return stop_words_of(section.stop_words, file=section.stop_words_file)


def check_stop_words(job: Any, *, sides: Sequence[str]) -> list[str]:
    """Return how many stop words some collections leave out, where they leave out any."""
    found = {side: len(_stop_words(job, side)) for side in sides}
    return [f"{side}: {n} stop words" for side, n in found.items() if n]


def _vocabulary_table(vocabulary: Vocabulary) -> pa.Table:
    return pa.table(
        {"word": vocabulary.words, "count": vocabulary.counts, "document_count": vocabulary.document_counts}
    )


def ids_of(workspace: Workspace, side: str) -> list[str]:
    """Return the ids of the documents of a collection."""
    ids: list[str] = SIDE_DOCUMENTS.read(workspace, side=side)["id"].to_pylist()
    return ids


def side_vocabulary(workspace: Workspace, side: str) -> Vocabulary:
    """Return the chosen words of a collection."""
    return Vocabulary.from_table(SIDE_VOCABULARY.read(workspace, side=side))


def check_vectors(job: Any, *, sides: Sequence[str]) -> list[str]:
    """Open the vectors that are given for the words of some collections."""
    for side in sides:
        url = side_section(job, side).vectors
        if url is not None and Workspace.exists(url):
            Workspace.open(url).describe("vectors")
        elif url is not None:
            WordVectors.load(url, max_words=1)
    return []


# ---- pairs ------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Documents that are the same.

    Attributes
    ----------
    rows : int64, (p × 2), of the first and the other collection
    confidence : float64, (p,), in (0, 1]
    known : bool, (p,): given to the method; the others only judge it
    """

    rows: NDArray[np.int64]
    confidence: NDArray[np.float64]
    known: NDArray[np.bool_]


def pair_options(job: Any, side: str) -> dict[str, Any]:
    """Return the section of the known pairs of the first collection and another, which may have its own file."""
    options: dict[str, Any] = job.pairs.model_dump(mode="json")
    return options if side in SIDES else options | {"path": job.others[side].pairs}


def _pairs_key(side: str) -> str:
    return "pairs.path" if side in SIDES else f"{section_name(side)}.pairs"


def find_pairs(
    first: Sequence[str],
    other: Sequence[str],
    side: str,
    *,
    path: str | None,
    share: float,
    random_state: int,
) -> Pairs:
    """Return the documents that the first collection and another share, from the ids of both.

    Without a file, documents with one id are a pair, and a share of them, drawn, is known. With a file of the
    columns `first`, the name of the other and perhaps `confidence`, its pairs are known, and documents with one id
    that stand in none of them are pairs to judge by.

    Raises
    ------
    ValueError
        If an id occurs twice in a collection, the file names one that is not there, or there is no pair.
    """
    places = {"first": places_of(first, "first"), side: places_of(other, side)}
    there = places[side]
    same = np.array([(row, there[name]) for name, row in places["first"].items() if name in there])
    same = same.reshape(-1, 2).astype(np.int64)
    if path is not None:
        return _with_file(path, places, same)
    if not len(same):
        raise ValueError(
            f"no document of the first collection (the first is {first[0]!r}) has the id of one of the {side} "
            f"({other[0]!r}): name the fields of the ids, or give {_pairs_key(side)}, a table of pairs"
        )
    n_known = max(1, round(share * len(same)))
    known = np.zeros(len(same), bool)
    known[np.random.default_rng(random_state).permutation(len(same))[:n_known]] = True
    return Pairs(same, np.ones(len(same)), known)


def places_of(ids: Sequence[str], side: str) -> dict[str, int]:
    """Return the row of each id of a collection.

    Raises
    ------
    ValueError
        If an id occurs twice.
    """
    places = {name: row for row, name in enumerate(ids)}
    if len(places) < len(ids):
        twice = next(name for row, name in enumerate(ids) if places[name] != row)
        raise ValueError(f"the id {twice!r} occurs twice in the {side} collection: make ids unique")
    return places


def pair_columns(path: str, side: str) -> Mapping[str, NDArray[Any]]:
    """Return the columns of a table of pairs.

    Raises
    ------
    TableError
        If it has no column of one of the collections.
    """
    columns = read_columns(path)
    for name in ("first", side):
        if name not in columns:
            raise TableError(f"{path} has no column {name!r}; it has {', '.join(map(repr, columns))}")
    return columns


CHECKED_BYTES = 64 << 20
"""Bytes of a collection, at most, that is read for its ids before a job runs."""


def check_pairs(job: Any, *, side: str) -> list[str]:
    """Open the table of pairs of the first collection and another, where there is one, and return how many it has.

    Raises
    ------
    ValueError
        If it names an id that is not there, which is looked up in collections of a moderate size.
    """
    path = pair_options(job, side)["path"]
    if path is None:
        return []
    columns = pair_columns(path, side)
    for name in ("first", side):
        corpus = collection_of(job, name)
        if sum(partition.n_bytes for partition in corpus.partitions) <= CHECKED_BYTES:
            _rows(path, name, columns[name], places_of([one.id for one in corpus.documents()], name))
    return [f"{len(columns[side]):,} pairs in {path}"]


def _with_file(path: str, places: Mapping[str, dict[str, int]], same: NDArray[np.int64]) -> Pairs:
    columns = pair_columns(path, list(places)[1])
    rows = np.column_stack([_rows(path, side, columns[side], place) for side, place in places.items()])
    confidence = np.asarray(columns.get("confidence", np.ones(len(rows))), np.float64)
    free = ~(np.isin(same[:, 0], rows[:, 0]) | np.isin(same[:, 1], rows[:, 1]))
    known = np.concatenate([np.ones(len(rows), bool), np.zeros(free.sum(), bool)])
    return Pairs(np.concatenate([rows, same[free]]), np.concatenate([confidence, np.ones(free.sum())]), known)


def _rows(path: str, side: str, names: NDArray[Any], places: dict[str, int]) -> NDArray[np.int64]:
    wanted = [str(name) for name in names.tolist()]
    absent = next((name for name in wanted if name not in places), None)
    if absent is not None:
        raise ValueError(f"{path} names {absent!r}, which is no id of the {side} collection")
    return np.array([places[name] for name in wanted], np.int64)
