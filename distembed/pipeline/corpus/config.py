"""The sections of a job file that say what a corpus is, which words it has and what is counted."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal, Self

from dask.utils import parse_bytes
from pydantic import Field, model_validator

from distembed.corpus import Corpus, Tokenizer, read_corpus
from distembed.counting.cooccurrence import CooccurrenceOptions, Direction, count_cooccurrences
from distembed.pipeline.sections import (
    KEPT_BY_THE_JOB,
    OPTION,
    Bytes,
    InputPath,
    Job,
    Section,
    TokenPattern,
    section_of,
)

TOKENIZER_OPTIONS = frozenset(option.name for option in fields(Tokenizer))


class CorpusSection(Section):
    """`[corpus]`: the documents and how they become tokens."""

    paths: tuple[InputPath, ...] = Field(min_length=1)
    format: Literal["auto", "mediawiki", "text", "jsonl", "parquet"] = "auto"
    layout: Literal["line", "blocks"] = "line"
    encoding: str = "utf-8"
    errors: Literal["strict", "replace"] = "strict"
    bad_records: Literal["error", "skip"] = "error"
    namespaces: tuple[int, ...] = (0,)
    redirects: bool = False
    text_field: str | tuple[str, ...] = "text"
    pattern: TokenPattern = "unicode"
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"
    lowercase: bool = True
    numbers: bool = False
    apostrophes: bool = False
    border: Literal["document", "line", "sentence"] = "document"
    min_border_tokens: int = Field(default=1, ge=1)
    partition_bytes: Bytes = parse_bytes("32MiB")


class ParallelSection(Section):
    """One of two collections of documents; its texts may be one field of records that hold those of both."""

    paths: tuple[InputPath, ...] = Field(min_length=1)
    format: Literal["auto", "mediawiki", "text", "jsonl", "parquet", "tsv"] = "auto"
    layout: Literal["line", "blocks"] = "line"
    encoding: str = "utf-8"
    text_field: str = "text"
    id_field: str | None = "id"
    title_field: str | None = None
    label_field: str | None = None
    pattern: TokenPattern = "unicode"
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"
    lowercase: bool = True
    numbers: bool = False
    apostrophes: bool = False
    partition_bytes: Bytes = parse_bytes("32MiB")


class VocabularySection(Section):
    """`[vocabulary]`: which words get a vector."""

    min_count: int = Field(default=5, ge=1)
    max_size: int | None = Field(default=None, ge=1)
    keep: tuple[str, ...] = ()


NOT_COUNTED_BY = {
    "block_memory": KEPT_BY_THE_JOB["block_memory"],
    "scratch": "the sorted runs lie in the workspace",
}
"""Options of counting that no section has, each with the reason."""


@section_of(count_cooccurrences, exclude=NOT_COUNTED_BY)
class CountingSection(Section):
    """A section on which pairs of words are counted, with the defaults of `distembed.count_cooccurrences`."""

    window: int = OPTION
    direction: Direction = OPTION

    @model_validator(mode="after")
    def _options_fit_together(self) -> Self:
        CooccurrenceOptions(**self.model_dump())
        return self


@section_of(count_cooccurrences, exclude=NOT_COUNTED_BY, defaults={"window": 3, "direction": "left"})
class LeftCountingSection(CountingSection):
    """A section on which pairs are counted, by default as in PSDVec's paper: the three words before a word."""


class CorpusJob(Job):
    """What every job on a corpus has: the documents, and which words they are told apart by."""

    corpus: CorpusSection
    vocabulary: VocabularySection = VocabularySection()


class CountingJob(CorpusJob):
    """A job that counts the pairs of words of a corpus once."""

    counting: CountingSection = LeftCountingSection()


def corpus_of(section: CorpusSection) -> Corpus:
    """Return the corpus that a section names, read lazily."""
    tokenizer = Tokenizer(**section.model_dump(include=set(TOKENIZER_OPTIONS)))
    options = section.model_dump(exclude={"paths", *TOKENIZER_OPTIONS})
    return read_corpus(section.paths, tokenizer=tokenizer, **options)
