"""Byte streams of files: opened with decompression, read by line and by chunk, and written as a whole."""

from __future__ import annotations

import codecs
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import infer_compression

from distembed.files import failures_told, refuse_bomb, replacing
from distembed.formats.heads import sniffed
from distembed.urls import ProtocolError, opened, url_to_fs
from distembed.vectors.rows import VectorFileError

READ_BYTES = 8 << 20  # text parsed at a time: large against a line, small against any matrix worth loading
HEAD_BYTES = 1 << 16  # looked at to recognize a format
MAX_LINE_BYTES = 64 << 20  # a longer line or record is none: some 5 million values as text, 16 as binary
_LARGEST_NUMBER_DIGITS = 18  # of a header: more do not fit 64 bits

_DAMAGED: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error, lzma.LZMAError)
with suppress(ImportError):
    import zstandard

    _DAMAGED = (*_DAMAGED, zstandard.ZstdError)


@contextmanager
def reading(name: str) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed by its extension; an error names a file with damaged data."""
    try:
        stream = opened(name, "rb", compression="infer")
    except ProtocolError:
        raise
    except ValueError as error:
        raise VectorFileError(
            f"{name}: {error}; for .zst install distembed[zstd], or decompress it first"
        ) from error
    try:
        with failures_told(name), stream as file:
            yield file
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{name}: there is no such file; check its name") from error
    except (ConnectionError, PermissionError, IsADirectoryError):
        raise
    except _DAMAGED as error:
        raise VectorFileError(
            f"{name} cannot be read to its end ({error}); copy or download it again"
        ) from error


class Stream:
    """The bytes of a file whose beginning has been read already: first `take_line`, then `chunks`.

    `position` is the number of bytes taken so far, after decompression and without a byte-order mark.
    """

    def __init__(self, file: IO[bytes], head: bytes, name: str) -> None:
        self._file = file
        self._name = name
        self._packed_bytes = _packed_bytes(name)
        self.head = head
        self.position = 0

    def take_line(self) -> bytes:
        """Return the first line, without its end."""
        while b"\n" not in self.head and len(self.head) < MAX_LINE_BYTES:
            more = self._file.read(READ_BYTES)
            if not more:
                break
            self.head += more
        line, end, self.head = self.head.partition(b"\n")
        self.position += len(line) + len(end)
        return line

    def chunks(self) -> Iterator[bytes]:
        """Yield the rest of the file, about `READ_BYTES` at a time."""
        chunk, self.head = self.head, b""
        while chunk:
            self.position += len(chunk)
            if self._packed_bytes is not None:
                refuse_bomb(self._name, self._packed_bytes, self.position)
            yield chunk
            chunk = self._file.read(READ_BYTES)


def _packed_bytes(name: str) -> int | None:
    """Return the bytes of a compressed file; None for one that is read as it is."""
    if not infer_compression(name):
        return None
    filesystem, path = url_to_fs(name)
    return int(filesystem.size(path) or 0)


def read_head(file: IO[bytes], name: str) -> bytes:
    """Return the first bytes without a UTF-8 byte-order mark; refuse an empty file and UTF-16."""
    head = file.read(HEAD_BYTES)
    if not head.strip():
        raise VectorFileError(f"{name} is empty; give a file with one word and its values per line")
    if (found := sniffed(head, name)).what:
        raise VectorFileError(f"{name} is {found.what}, not vectors: {found.remedy}")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise VectorFileError(f"{name} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {name}")
    return head.removeprefix(codecs.BOM_UTF8)


def read_header(stream: Stream, name: str) -> tuple[int, int]:
    """Read the line `n_words n_components` with which a word2vec file begins."""
    line = stream.take_line()
    fields = line.split()
    numbers = [int(f) for f in fields if f.isdigit() and len(f) <= _LARGEST_NUMBER_DIGITS]
    if len(fields) != 2 or len(numbers) != 2 or numbers[1] == 0:
        raise VectorFileError(
            f"{name}, line 1: {shown(line)} is not a word2vec header `n_words n_components`; "
            'give format="glove" for a text file without a header'
        )
    return numbers[0], numbers[1]


def shown(line: bytes) -> str:
    """Return the beginning of a line, for an error message."""
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")


def check_folder(name: str, target: str) -> None:
    """Raise FileNotFoundError where the folder of a local file to write is not there: a misspelt one is not made."""
    folder = Path(target).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{name} was not written: there is no folder {folder}; make it, or correct the name"
        )


@contextmanager
def writing(name: str) -> Iterator[IO[bytes]]:
    """Open for writing, compressed by the extension; the file appears when the block ends without an error."""
    filesystem, target = url_to_fs(name)
    compression = infer_compression(name)
    if isinstance(filesystem, LocalFileSystem):
        check_folder(name, target)
    with (
        replacing(target, filesystem=filesystem) as partial,
        opened(filesystem.unstrip_protocol(partial), "wb", compression=compression) as file,
    ):
        yield file
