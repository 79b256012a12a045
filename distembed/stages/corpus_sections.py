"""The sections of a job file that say what a corpus is, which words it has and what is counted."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from distembed.corpus.readers import BadRecords, Corpus, read_corpus
from distembed.corpus.stop_words import Language
from distembed.corpus.tokenizer import Border, Tokenizer
from distembed.corpus.vocabulary import build_vocabulary
from distembed.counting.cooccurrence import CooccurrenceOptions, Direction, count_cooccurrences
from distembed.job.model import (
    OPTION,
    Bytes,
    InputPath,
    Job,
    Section,
    TokenPattern,
    section_of,
)
from distembed.options import options_of

NOT_READ_BY = {
    "tokenizer": "its options are keys of the same section",
    "scratch": "the token ids lie in the workspace",
}
"""Options of reading that no section has, each with the reason."""

TOKENIZER_OPTIONS = frozenset(options_of(Tokenizer))
READER_OPTIONS = frozenset(options_of(read_corpus))
PartitionBytes = Annotated[Bytes, Field(ge=1024)]
"""A smaller task takes longer to begin than to read its text."""
PARTITION_BYTES = options_of(read_corpus)["partition_bytes"].default


@section_of(read_corpus, Tokenizer, exclude=NOT_READ_BY)
class CorpusSection(Section):
    """`[corpus]`: the documents and how they become tokens."""

    paths: tuple[InputPath, ...] = Field(min_length=1)
    """Files, globs, folders or URLs of the text: plain text, JSON lines, Parquet or MediaWiki exports, also compressed
    (.bz2 .gz .xz .zst).
    """
    text_field: str | tuple[str, ...] = OPTION
    title_field: str | None = OPTION
    label_field: str | None = OPTION
    piece_words: int | None = OPTION
    bad_records: BadRecords = OPTION
    carry_fields: tuple[str, ...] = ()
    path_fields: tuple[str, ...] = ()
    metadata: InputPath | None = None
    pattern: TokenPattern = "unicode"
    phrases_file: InputPath | None = None
    border: Border = OPTION
    min_border_tokens: int = OPTION
    partition_bytes: PartitionBytes = PARTITION_BYTES
    """The size of one task's input, in bytes of the file as it is stored."""


NOT_OF_PARALLEL_TEXTS = {
    "namespaces": "the texts of one collection are one kind of document",
    "errors": "a text with characters replaced is no parallel text",
    "bad_records": "a record that is left out has a counterpart that is not",
    **dict.fromkeys(("border", "piece_words"), "documents are compared whole"),
    "min_border_tokens": "documents are compared whole",
    **dict.fromkeys(
        ("carry_fields", "path_fields", "metadata"), "texts of several collections are paired by their ids"
    ),
}


@section_of(read_corpus, Tokenizer, exclude=NOT_READ_BY | NOT_OF_PARALLEL_TEXTS)
class ParallelSection(Section):
    """One of several collections of documents; its texts may be one field of records that hold those of all."""

    paths: tuple[InputPath, ...] = Field(min_length=1)
    """Files, globs, folders or URLs of the texts."""
    text_field: str = "text"
    """The field of a record that holds the text of this collection."""
    id_field: str | None = "id"
    """The field of a record that holds its id: texts of one id are a pair."""
    title_field: str | None = OPTION
    label_field: str | None = OPTION
    pattern: TokenPattern = "unicode"
    phrases_file: InputPath | None = None
    partition_bytes: PartitionBytes = PARTITION_BYTES
    """The size of one task's input, in bytes of the file as it is stored."""


# The library keeps every word by default; a vector of a word that was seen less often says little of it.
NOT_OF_WORD_VECTORS = {
    **dict.fromkeys(("min_documents", "max_share"), "a word gets its vector whatever documents it is in"),
    "stop_words": "the section has the name of a list",
}


@section_of(
    build_vocabulary,
    exclude={
        "words_in_memory": "it follows from resources.block_memory",
        "scratch": "temporary files lie in the workspace",
        **NOT_OF_WORD_VECTORS,
    },
    defaults={"min_count": 5},
)
class VocabularySection(Section):
    """`[vocabulary]`: which words get a vector."""

    min_count: int = OPTION
    max_size: int | None = OPTION
    keep: tuple[str, ...] = OPTION
    stop_words: Language = "none"
    """The language whose function words get no vector: "none", "english", or another of the package stop-words."""


NOT_COUNTED_BY = {
    "scratch": "the sorted runs lie in the workspace",
}
"""Options of counting that no section has, each with the reason."""

COUNTING_OPTIONS = frozenset(options_of(CooccurrenceOptions))


@section_of(count_cooccurrences, exclude=NOT_COUNTED_BY)
class CountingSection(Section):
    """Which pairs of words are counted, with the defaults of `distembed.count_cooccurrences`."""

    window: int = OPTION
    direction: Direction = OPTION
    subsample: float | None = OPTION

    def counting_options(self) -> CooccurrenceOptions:
        """Return what counts as a co-occurrence."""
        return CooccurrenceOptions(**self.model_dump(include=set(COUNTING_OPTIONS)))

    @model_validator(mode="after")
    def _options_fit_together(self) -> Self:
        self.counting_options()
        return self


@section_of(count_cooccurrences, exclude=NOT_COUNTED_BY, defaults={"window": 3, "direction": "left"})
class LeftCountingSection(CountingSection):
    """Which pairs are counted, by default as in PSDVec's paper: the three words before a word."""


class PlanSection(Section):
    """`[plan]`: how large a corpus will be of which only a part is there; `distembed plan` alone reads it.

    The files of `corpus.paths` are then a sample of the text. A key that is left out follows from the other by the
    sample's own bytes per token. A finished stage knows better.
    """

    bytes: Bytes | None = None
    """The size of all files as they are stored."""
    tokens: int | None = Field(default=None, ge=1)
    """The tokens of the whole text."""


class CorpusJob(Job):
    """What every job on a corpus has: the documents, and which words they are told apart by."""

    corpus: CorpusSection
    vocabulary: VocabularySection = VocabularySection()
    plan: PlanSection = Field(default=PlanSection(), exclude=True)


class CountingJob(CorpusJob):
    """A job that counts the pairs of words of a corpus once."""

    counting: CountingSection = CountingSection()


def counting_options(job: Any) -> CooccurrenceOptions:
    """Return what counts as a co-occurrence in a job with one section of counting."""
    options: CooccurrenceOptions = job.counting.counting_options()
    return options


def corpus_of(section: CorpusSection | ParallelSection) -> Corpus:
    """Return the corpus that a section describes, read lazily; files that are left out are in its notes alone."""
    tokenizer = Tokenizer(**section.model_dump(include=set(TOKENIZER_OPTIONS)))
    options = section.model_dump(include=set(READER_OPTIONS))
    with warnings.catch_warnings(action="ignore"):
        return read_corpus(section.paths, tokenizer=tokenizer, **options)
