"""Reads the partitions of files as bytes, whatever their compression, in pieces of bounded size.

A `Partition` is what one task reads. Uncompressed files are divided by byte range and bz2 files by compressed
stream; a `gz`, `xz` or `zst` file is one partition. `records` says which documents of a file a partition holds.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import IO, Any

from distembed.corpus.errors import BadRecord, CorpusError, RecordError
from distembed.files import Unpacked
from distembed.formats.encodings import is_utf8
from distembed.formats.streams import unpacking
from distembed.urls import opened

BZ2_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
BZ2_STREAM_BYTES = 10
"""How a stream of bz2 begins: with its magic number and that of its first block, 80 bits together."""

# Text moves in pieces of this size: large enough that a call costs nothing beside its work, small beside a
# worker.
PIECE_BYTES = 1 << 20
# Bad records that are named, of a partition and of a corpus, and characters of the reason of each. All are counted.
NAMED_RECORDS = 20
NAMED_CHARACTERS = 500


@dataclass(frozen=True)
class Partition:
    """A file of a corpus, or a range of one, that is read independently of the others.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> [partition] = docs.partitions
    >>> partition.format, partition.start, partition.stop, partition.compression
    ('text', 0, None, '')
    """

    url: str
    """The file."""
    format: str
    """The format of the file: "mediawiki", "text", "jsonl", "csv", "tsv" or "parquet"."""
    start: int = 0
    stop: int | None = None
    """The range in which the documents begin, in bytes (row groups for Parquet); None means the end of the file."""
    compression: str = ""
    """"", "bz2", "gzip", "xz" or "zstd"."""
    encoding: str = "utf-8"
    errors: str = "strict"
    """The text's encoding, and what happens to bytes that do not decode: "strict" or "replace"."""
    layout: str = "line"
    """For plain text: one document per "line", "blocks" between blank lines with the title first, or one per "file"."""
    fields: tuple[tuple[str, ...], str | None, str | None, str | None] = (("text",), None, None, None)
    """The names of the text fields (one or several), the id, the title and the label field of JSON lines, CSV, TSV and
    Parquet; None for a field that is not read.
    """
    carried: tuple[str, ...] = ()
    """Further fields of JSON lines, CSV, TSV and Parquet that documents keep as text."""
    constants: tuple[tuple[str, str], ...] = ()
    """Columns that all documents of the file have, each with its value: parts of its path."""
    namespaces: tuple[int, ...] | None = (0,)
    """The MediaWiki namespaces whose pages are documents; None means all."""
    redirects: bool = False
    """Whether MediaWiki redirects are documents."""
    namespace_names: tuple[tuple[int, str], ...] = ()
    """The key and the name of each namespace of the export."""
    piece_words: int | None = None
    """The words of the pieces into which longer documents are cut; None for whole documents."""
    bad_records: str = "error"
    """"error", or "skip" to leave out the JSON lines, rows and pages that cannot be read."""
    delimiter: str = ","
    quotes: str = "double"
    """The character between the fields of CSV and TSV, and whether "double" quotes enclose fields or "none" do."""
    section: str = ""
    """The section of the job file that the options come from, for errors; "" in the library."""
    piece_bytes: int = PIECE_BYTES
    n_bytes: int = field(default=0, repr=False)
    """The bytes of the file, as it is stored, that the range takes."""
    path: str = ""
    """The path of the file below the folder that names it, or its name."""
    folder: str = ""
    """What the ids of documents have before the name of the file, as "a/", where several files of a corpus have the
    same name.
    """

    @property
    def name(self) -> str:
        """The name of the file, with which the ids of its documents begin."""
        inner = self.path.rpartition("/") if self.is_one_document else ("", "", "")
        return (self.folder or inner[0] + inner[1]) + self.url.rsplit("/", 1)[-1]

    @property
    def source(self) -> str:
        """The file, as its documents know it: by its path below the folder that names it, different for each file."""
        inner = self.folder + self.url.rsplit("/", 1)[-1]
        return self.path if self.path.endswith(inner) else inner

    @property
    def is_one_document(self) -> bool:
        """Whether the file is one document."""
        return self.format == "text" and self.layout == "file"

    @property
    def is_utf8(self) -> bool:
        """Whether its text is read as it is."""
        return is_utf8(self.encoding)

    @property
    def reading(self) -> list[Any]:
        """The name of the file and how it is read: with the file's content, all that its documents depend on."""
        others = {"url", "folder", "section", "n_bytes", "constants"}
        return [
            self.name,
            *(getattr(self, one.name) for one in fields(self) if one.name not in others),
        ]

    def option(self, name: str, value: str = "") -> str:
        """Return how an option is written: as an argument of the library, or as a key of its section in a job file."""
        if self.section:
            return f'{self.section}.{name} = "{value}"' if value else f"{self.section}.{name}"
        return f'{name}="{value}"' if value else f"{name}="


@dataclass
class Progress:
    """What a task has read, left out and written so far."""

    n_documents: int = 0
    n_tokens: int = 0
    n_words: int = 0
    """What was written; words are rows of the dictionary."""
    n_bytes_read: int = 0
    """Bytes of the file as it is stored."""
    n_bytes_text: int = 0
    """Bytes of UTF-8 text."""
    n_skipped_namespace: int = 0
    n_skipped_redirect: int = 0
    """Pages left out: those of other namespaces, and redirects."""
    n_short_segments: int = 0
    """Documents, lines or sentences below the minimum length."""
    n_long_tokens: int = 0
    """Tokens above the maximum length, which are left out."""
    n_replaced: int = 0
    """Bytes that were not valid UTF-8 and were replaced."""
    n_bad_records: int = 0
    """Records that could not be read."""
    bad_records: list[BadRecord] = field(default_factory=list)
    """The first records that could not be read."""
    most_bad: float = field(default=math.inf, repr=False)
    """At most so many bad records are skipped."""

    def pass_over(self, partition: Partition, error: RecordError) -> None:
        """Count and note a bad record, or raise its error where the partition does not skip any."""
        if partition.bad_records != "skip":
            raise error
        self.n_bad_records += 1
        if len(self.bad_records) < NAMED_RECORDS:
            file, *texts = error.record
            self.bad_records.append(BadRecord(file, *(text[:NAMED_CHARACTERS] for text in texts)))
        if self.n_bad_records >= self.most_bad:
            raise RecordError(self.bad_records[0])


Piece = tuple[bytes, bool]
"""Consecutive bytes, and whether a document that begins in them belongs to the partition."""


def pieces_of(partition: Partition, progress: Progress) -> Iterator[Piece]:
    """Yield the bytes of a partition, decompressed, and those after it for as long as the caller asks.

    Text in an encoding other than UTF-8 is recoded.
    """
    if partition.is_utf8:
        yield from stored_pieces(partition, progress)
        return
    decoder = codecs.getincrementaldecoder(partition.encoding)(partition.errors)
    n_before = 0
    try:
        for data, owned in stored_pieces(partition, progress):
            yield decoder.decode(data).encode(), owned
            n_before += len(data)
        yield decoder.decode(b"", True).encode(), True
    except UnicodeDecodeError as error:
        raise not_decoded(partition, error, n_before) from error


def stored_pieces(partition: Partition, progress: Progress) -> Iterator[Piece]:
    """Yield the bytes of a file, unpacked, from the start of a partition or the first stream of bz2 after it."""
    stop, n_before = math.inf if partition.stop is None else partition.stop, progress.n_bytes_read
    with unpacking(partition.url, CorpusError), opened(partition.url) as raw:
        if partition.compression:
            begin = find_bz2_stream(raw, partition.start, stop) if partition.start else 0
            if begin is None:
                return
            raw.seek(begin)
            file = Unpacked(raw, partition.compression, partition.url)
            while data := file.read(partition.piece_bytes):
                progress.n_bytes_read = n_before + file.n_stored
                yield data, begin + file.begin < stop
            progress.n_bytes_read = n_before + file.n_stored
            return
        position = partition.start
        raw.seek(position)
        while data := raw.read(
            int(min(partition.piece_bytes, stop - position if position < stop else math.inf))
        ):
            progress.n_bytes_read += len(data)
            yield data, position < stop
            position += len(data)


def find_bz2_stream(raw: IO[bytes], place: int, stop: float) -> int | None:
    """Return where the first stream of bz2 begins from a byte of a file on, None where none begins before another."""
    tail = b""
    raw.seek(place)
    while place < stop + BZ2_STREAM_BYTES - 1 and (data := raw.read(1 << 18)):
        if found := BZ2_STREAM.search(tail + data):
            begin = place - len(tail) + found.start()
            return begin if begin < stop else None
        tail, place = (tail + data)[1 - BZ2_STREAM_BYTES :], place + len(data)
    return None


def not_decoded(partition: Partition, error: UnicodeDecodeError, n_before: int = 0) -> CorpusError:
    """Return the error for text that is not in its encoding, after so many bytes that were."""
    return CorpusError(
        f"{partition.url} is not {partition.encoding}: {error.reason} near byte {n_before + error.start}; "
        f"give its {partition.option('encoding')}, or "
        f"{partition.option('errors', 'replace')}."
    )
