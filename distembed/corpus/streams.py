"""Reads the partitions of files as bytes, whatever their compression, in pieces of bounded size.

A `Partition` is what one task reads. Uncompressed files are divided by byte range and bz2 files by compressed
stream; a `gz`, `xz` or `zst` file is one partition. Every reader of a partition follows one rule: it owns the
documents that *begin* inside it, and reads past its end to finish the last of them.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.files import is_store_failure
from distembed.urls import check_regular, url_to_fs

# Text moves in pieces of this size: large enough that a call costs nothing beside its work, small beside a
# worker.
PIECE_BYTES = 1 << 20
READ_BYTES = 1 << 18
BZ2_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
BZ2_STREAM_BYTES = 10
XZ_HEADER_BYTES = XZ_FOOTER_BYTES = 12
XZ_LEAST_BYTES = 32
"""Bytes of a stream of an .xz file without a byte of text."""


class CorpusError(ValueError):
    """An error in a file of the corpus, which cannot be read in the format that was given or guessed."""


class BadRecord(NamedTuple):
    """A record that could not be read: its file, its place in the file, and the reason."""

    file: str
    place: str
    reason: str


class RecordError(CorpusError):
    """An error in one record of a file whose other records can be read."""

    def __init__(self, record: BadRecord):
        super().__init__(f"{record.file}, {record.place}, {record.reason}.")
        self.record = record

    def __reduce__(self) -> tuple[type[RecordError], tuple[BadRecord]]:
        return RecordError, (self.record,)


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
    """"", "bz2", "gz", "xz" or "zst"."""
    encoding: str = "utf-8"
    errors: str = "strict"
    """The text's encoding, and what happens to bytes that do not decode: "strict" or "replace"."""
    layout: str = "line"
    """For plain text: one document per "line", or "blocks" between blank lines with the title first."""
    fields: tuple[tuple[str, ...], str | None, str | None, str | None] = (("text",), None, None, None)
    """The names of the text fields (one or several), the id, the title and the label field of JSON lines, CSV, TSV and
    Parquet; None for a field that is not read.
    """
    namespaces: tuple[int, ...] | None = (0,)
    """The MediaWiki namespaces whose pages are documents; None means all."""
    redirects: bool = False
    """Whether MediaWiki redirects are documents."""
    namespace_names: tuple[tuple[int, str], ...] = ()
    """The key and the name of each namespace of the export."""
    storage_options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    """The options of fsspec, as sorted items."""
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
    folder: str = ""
    """What the ids of documents have before the name of the file, as "a/", where several files of a corpus have the
    same name.
    """

    @property
    def name(self) -> str:
        """The name of the file, with which the ids of its documents begin."""
        return self.folder + self.url.rsplit("/", 1)[-1]


class Batch(NamedTuple):
    """The text of some documents, at most a few MiB."""

    data: NDArray[np.uint8]
    """UTF-8 text. Uint8 array."""
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    """The spans of the text. The first span continues the document that the previous batch left open. Int64 array
    (n,).
    """
    n_closed: int
    """The number of spans that end their document: n, or n - 1. A span that is left open never cuts a code point."""
    ids: pa.Array
    titles: pa.Array
    labels: pa.Array
    """One entry per document that begins here."""
    offset: int = 0
    """The place of ``data[0]`` in the decompressed file, or of the first byte of the batch where the text was
    rebuilt.
    """


def option_text(section: str, option: str, value: str = "") -> str:
    """Return how an option is written: as an argument of the library, or as a key of its section in a job file."""
    if section:
        return f'{section}.{option} = "{value}"' if value else f"{section}.{option}"
    return f'{option}="{value}"' if value else f"{option}="


def not_utf8(url: str, offset: int, byte: int, section: str = "", *, line: int | None = None) -> CorpusError:
    """Return the error for text that is not UTF-8, with the line of the byte where that is known."""
    where = "" if line is None else f"line {line}, "
    return CorpusError(
        f"{url} is not UTF-8: {where}byte 0x{byte:02x} at offset {offset} of the text; give "
        f"{option_text(section, 'encoding', 'latin-1')} (or what it is), or "
        f"{option_text(section, 'errors', 'replace')}."
    )


class Progress:
    """The counts of a task while it reads: bytes, those unpacked, and the records left out for each reason.

    `note` is called with each bad record that is skipped.
    """

    def __init__(self, note: Callable[[BadRecord], None] | None = None) -> None:
        self.n_bytes_read = 0
        self.n_bytes_unpacked = 0
        self.n_skipped_namespace = 0
        self.n_skipped_redirect = 0
        self.n_bad_records = 0
        self.note = note

    def pass_over(self, partition: Partition, error: RecordError) -> None:
        """Count and note a bad record, or raise its error where the partition does not skip any."""
        if partition.bad_records != "skip":
            raise error
        self.n_bad_records += 1
        if self.note is not None:
            self.note(error.record)


class Piece(NamedTuple):
    """Consecutive bytes, and whether a document that begins in them belongs to the partition."""

    data: bytes
    owned: bool


def open_url(url: str, options: tuple[tuple[str, Any], ...] = ()) -> BinaryIO:
    """Open a local file or an fsspec URL for reading bytes."""
    check_regular(url)
    try:
        filesystem, path = url_to_fs(url, **dict(options))
        return filesystem.open(
            path, "rb", **({} if filesystem.protocol[0] == "file" else {"block_size": 1 << 22})
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{url} does not exist; check the path.") from error


def pieces_of(partition: Partition, progress: Progress, *, lookback: int = 0) -> Iterator[Piece]:
    """Yield the bytes of a partition, decompressed, and those after it for as long as the caller asks.

    An uncompressed partition begins `lookback` bytes early, where the file has them. Text in an encoding
    other than UTF-8 is recoded.
    """
    with closing(open_url(partition.url, partition.storage_options)) as raw:
        if partition.compression == "bz2" and (partition.start or partition.stop):
            pieces = bz2_range(raw, partition, progress)
        elif partition.compression:
            pieces = (Piece(data, owned=True) for data in decompressed(raw, partition, progress))
        else:
            pieces = byte_range(raw, partition, progress, lookback)
        yield from pieces if is_utf8(partition.encoding) else recoded(pieces, partition)


def is_utf8(encoding: str) -> bool:
    """Return whether text of this encoding can be scanned as it is."""
    return codecs.lookup(encoding).name in {"utf-8", "ascii"}


def byte_range(raw: BinaryIO, partition: Partition, progress: Progress, lookback: int) -> Iterator[Piece]:
    """Yield the bytes from the start of a partition on; pieces break at its stop."""
    position = max(0, partition.start - lookback)
    raw.seek(position)
    while True:
        left = partition.piece_bytes if partition.stop is None else partition.stop - position
        owned = left > 0
        data = raw.read(min(partition.piece_bytes, left) if owned else partition.piece_bytes)
        if not data:
            return
        progress.n_bytes_read += len(data)
        position += len(data)
        yield Piece(data, owned)


def recoded(pieces: Iterator[Piece], partition: Partition) -> Iterator[Piece]:
    """Yield pieces of text of another encoding as UTF-8."""
    decoder = codecs.getincrementaldecoder(partition.encoding)(partition.errors)
    n_before = 0
    try:
        for data, owned in pieces:
            yield Piece(decoder.decode(data).encode(), owned)
            n_before += len(data)
        yield Piece(decoder.decode(b"", True).encode(), owned=True)
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{partition.url} is not {partition.encoding}: {error.reason} near byte {n_before + error.start}; "
            f"give its {option_text(partition.section, 'encoding')}, or "
            f"{option_text(partition.section, 'errors', 'replace')}."
        ) from error


def new_decompressor(compression: str) -> Any:
    """Return a decompressor of one stream of the format."""
    if compression == "bz2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor() if compression == "xz" else zlib.decompressobj(wbits=31)


def decompressed(raw: BinaryIO, partition: Partition, progress: Progress) -> Iterator[bytes]:
    """Yield the whole of a compressed file, stream after stream."""
    if partition.compression == "zst":
        yield from zst_pieces(raw, partition, progress)
        return
    for data, _ in stream_pieces(raw, b"", partition, progress):
        progress.n_bytes_unpacked += len(data)
        yield data


def stream_pieces(
    raw: BinaryIO, data: bytes, partition: Partition, progress: Progress
) -> Iterator[tuple[bytes, int]]:
    """Yield decompressed pieces, each with the number of compressed bytes consumed before its stream began.

    Raises
    ------
    CorpusError
        If the data are damaged, or end inside a stream.
    """
    consumed = 0
    data = data or read_more(raw, progress)
    if not data:
        raise CorpusError(
            f"{partition.url} is empty: no {partition.compression} data in it; download it again."
        )
    while data:
        stream, start = new_decompressor(partition.compression), consumed
        while not stream.eof:
            if not data and not (data := read_more(raw, progress)):
                raise CorpusError(
                    f"{partition.url} is truncated: it ends inside a {partition.compression} stream, at "
                    f"compressed byte "
                    f"{raw.tell()}; download it again."
                )
            consumed += len(data)
            yield from ((piece, start) for piece in inflate(stream, data, partition, raw))
            data = stream.unused_data
        consumed -= len(data)
        # Zero bytes after a gzip or xz stream are padding.
        padding = b"\0" if partition.compression in {"gz", "xz"} else b""
        while not data.lstrip(padding) and (more := read_more(raw, progress)):
            consumed += len(data)
            data = more
        stripped = data.lstrip(padding)
        consumed += len(data) - len(stripped)
        data = stripped


def read_more(raw: BinaryIO, progress: Progress) -> bytes:
    """Read the next bytes of a compressed file."""
    data = raw.read(READ_BYTES)
    progress.n_bytes_read += len(data)
    return data


def inflate(stream: Any, data: bytes, partition: Partition, raw: BinaryIO) -> Iterator[bytes]:
    """Yield the decompressed data, never more than one piece at a time."""
    try:
        if partition.compression == "gz":
            while data and not stream.eof:
                yield stream.decompress(data, partition.piece_bytes)
                data = stream.unconsumed_tail
            return
        yield stream.decompress(data, partition.piece_bytes)
        while not stream.needs_input and not stream.eof:
            yield stream.decompress(b"", partition.piece_bytes)
    except (OSError, zlib.error, lzma.LZMAError, EOFError, ValueError) as error:
        raise CorpusError(
            f"{partition.url} is damaged near compressed byte {raw.tell()}: {error}; download it again."
        ) from error


def xz_text_bytes(raw: BinaryIO) -> int | None:
    """Return the bytes of the text of an .xz file by the indexes at the ends of its streams, which are not unpacked.

    A file that is not whole has none to be read: None. (The .xz File Format, 1.2.1, sections 2.1.2, 2.2 and 4.)
    """
    total, end = 0, raw.seek(0, os.SEEK_END)
    while end >= XZ_LEAST_BYTES:
        raw.seek(end - XZ_FOOTER_BYTES)
        footer = raw.read(XZ_FOOTER_BYTES)
        if footer.endswith(bytes(4)):  # padding
            end -= 4
            continue
        index_bytes = 4 * (int.from_bytes(footer[4:8], "little") + 1)
        start = end - XZ_FOOTER_BYTES - index_bytes
        if not footer.endswith(b"YZ") or start < XZ_FOOTER_BYTES:
            return None
        raw.seek(start)
        numbers = list(_varints(raw.read(index_bytes)[1:]))
        last = 2 * numbers[0] if numbers else 0  # after them come their checksum and what fills up four bytes
        stored, unpacked = numbers[1 : last + 1 : 2], numbers[2 : last + 1 : 2]
        total += sum(unpacked)
        end = start - sum(-(-size // 4) * 4 for size in stored) - XZ_HEADER_BYTES
    return total if end == 0 else None


def _varints(data: bytes) -> Iterator[int]:
    """Yield the integers of seven bits a byte, the lowest first; the last byte of each has no highest bit."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def zst_pieces(raw: BinaryIO, partition: Partition, progress: Progress) -> Iterator[bytes]:
    """Yield the whole of a Zstandard file, through Arrow's codec."""
    before = progress.n_bytes_read
    try:
        with pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd") as stream:
            while data := stream.read(partition.piece_bytes):
                progress.n_bytes_read = before + raw.tell()
                yield data
            progress.n_bytes_read = before + raw.tell()
    except OSError as error:
        if is_store_failure(error):
            raise
        raise CorpusError(f"{partition.url} is damaged or truncated: {error}; download it again.") from error


def bz2_range(raw: BinaryIO, partition: Partition, progress: Progress) -> Iterator[Piece]:
    """Yield the streams of a multistream bz2 file that begin in the partition, then those after it.

    A stream is found by its magic number (``BZh1``..``BZh9`` and that of the first block, 80 bits together),
    so the partitions of a file need no index. What is searched for it belongs to the partition before, or is
    read again, and does not count as progress.
    """
    start = 0 if partition.start == 0 else find_stream(raw, partition)
    if start is None:
        return
    raw.seek(start)
    stop = float("inf") if partition.stop is None else partition.stop
    for data, consumed in stream_pieces(raw, b"", partition, progress):
        yield Piece(data, owned=start + consumed < stop)


def find_stream(raw: BinaryIO, partition: Partition) -> int | None:
    """Return where the first bz2 stream of a partition begins."""
    position, tail = partition.start, b""
    raw.seek(position)
    stop = float("inf") if partition.stop is None else partition.stop + BZ2_STREAM_BYTES - 1
    while position < stop and (data := raw.read(READ_BYTES)):
        window = tail + data
        found = BZ2_STREAM.search(window)
        if found:
            start = position - len(tail) + found.start()
            return start if partition.stop is None or start < partition.stop else None
        tail = window[-BZ2_STREAM_BYTES + 1 :]
        position += len(data)
    return None


# --- scanners ----------------------------------------------------------------------------------------------


class Scanned(NamedTuple):
    """The ids of a batch (int32, -1 at borders), and the end of the ids and the tokens of each closed document."""

    ids: NDArray[np.int32]
    id_stops: NDArray[np.int64]
    n_tokens: NDArray[np.int64]


class DictionarySlice(NamedTuple):
    """Consecutive words of a dictionary, in order of first appearance, with int64 counts of tokens and of documents."""

    words: pa.Array
    counts: NDArray[np.int64]
    document_counts: NDArray[np.int64]


class Scanner(Protocol):
    """A scanner turns batches of text into ids and keeps the dictionary of its partition."""

    def begin(self, url: str) -> None:
        """Go on with another file, which errors then name."""
        ...

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        ...

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        ...

    def words(self) -> Iterator[DictionarySlice]:
        """Yield the dictionary in slices of bounded size."""
        ...

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        ...

    def forget(self) -> None:
        """Empty the dictionary, at the end of a document; ids begin at 0 again."""
        ...

    def skipped(self) -> tuple[int, int, int]:
        """Return the numbers of short segments, of overlong tokens, and of invalid bytes left out."""
        ...
