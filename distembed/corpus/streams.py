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
from typing import IO, Any, NamedTuple

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


class CorpusError(ValueError):
    """An error in a file of the corpus, which cannot be read in the format that was given or guessed."""


class BadRecord(NamedTuple):
    """A record that could not be read: its file, its place in the file, and the reason."""

    file: str
    place: str
    reason: str


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
    text_fields: tuple[str, ...] = ("text",)
    id_field: str | None = None
    title_field: str | None = None
    label_field: str | None = None
    carry_fields: tuple[str, ...] = ()
    """The fields of JSON lines, CSV, TSV and Parquet that are read: those of the text, which are joined, those that are
    None for none, and further ones that documents keep as text.
    """
    namespaces: tuple[int, ...] | None = (0,)
    """The MediaWiki namespaces whose pages are documents; None means all."""
    namespace_names: tuple[tuple[int, str], ...] = ()
    """The key and the name of each namespace of the export."""
    piece_words: int | None = None
    """The words of the pieces into which longer documents are cut; None for whole documents."""
    bad_records: str = "error"
    """"error", or "skip" to leave out the JSON lines, rows and pages that cannot be read."""
    delimiter: str = ","
    """The character between the fields of CSV and TSV."""
    piece_bytes: int = PIECE_BYTES
    n_bytes: int = field(default=0, repr=False)
    """The bytes of the file, as it is stored, that the range takes."""
    name: str = ""
    """The file as its documents know it: its path below the folder that names it, different for each file."""

    @property
    def is_one_document(self) -> bool:
        """Whether the file is one document."""
        return self.format == "text" and self.layout == "file"

    @property
    def is_plain(self) -> bool:
        """Whether its text is read as it is: what may not be UTF-8 is recoded, and so is what it replaces."""
        return is_utf8(self.encoding) and self.errors == "strict"

    @property
    def reading(self) -> list[Any]:
        """The name of the file and how it is read: with the file's content, all that its documents depend on."""
        return [getattr(self, one.name) for one in fields(self) if one.name not in ("url", "n_bytes")]


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
    n_skipped_pages: int = 0
    """Pages left out: those of other namespaces, and redirects."""
    n_short_segments: int = 0
    """Documents, lines or sentences below the minimum length."""
    n_long_tokens: int = 0
    """Tokens above the maximum length, which are left out."""
    n_bad_records: int = 0
    """Records that could not be read."""
    bad_records: list[BadRecord] = field(default_factory=list)
    """The first records that could not be read."""
    most_bad: float = field(default=math.inf, repr=False)
    """At most so many bad records are skipped."""

    def pass_over(self, partition: Partition, place: str, reason: str) -> None:
        """Count and note a bad record, or raise an error where the partition does not skip any."""
        record = BadRecord(partition.url, place, reason)
        if partition.bad_records == "skip":
            self.n_bad_records += 1
            if len(self.bad_records) < NAMED_RECORDS:
                self.bad_records.append(record._replace(reason=reason[:NAMED_CHARACTERS]))
            if self.n_bad_records < self.most_bad:
                return
            record = self.bad_records[0]
        raise CorpusError(f"{record.file}, {record.place}, {record.reason}.")


Piece = tuple[bytes, bool]
"""Consecutive bytes, and whether a document that begins in them belongs to the partition."""


def pieces_of(partition: Partition, progress: Progress) -> Iterator[Piece]:
    """Yield the bytes of a partition, decompressed, and those after it for as long as the caller asks.

    Text in an encoding other than UTF-8 is recoded, and text in which what is not UTF-8 is replaced.
    """
    if partition.is_plain:
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
        'give its encoding=, or errors="replace".'
    )
