"""Files as bytes in pieces of bounded size: compressed ones stream after stream, from any of their streams on."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from distembed.files import is_store_failure
from distembed.urls import check_regular, url_to_fs

READ_BYTES = 1 << 18
"""Bytes of a compressed file that are read at a time."""
BZ2_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
BZ2_STREAM_BYTES = 10
"""Bytes of a stream of an .xz file without a byte of text."""


def open_url(url: str) -> BinaryIO:
    """Open a local file or an fsspec URL for reading bytes."""
    check_regular(url)
    try:
        filesystem, path = url_to_fs(url)
        return filesystem.open(
            path, "rb", **({} if filesystem.protocol[0] == "file" else {"block_size": 1 << 22})
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{url} does not exist; check the path.") from error


class Packed:
    """A compressed file that is unpacked in pieces of bounded size.

    Parameters
    ----------
    raw : binary file
        The file, at the beginning of one of its streams.
    name : str
        Its path or URL, for errors.
    compression : {"bz2", "gz", "xz", "zst"}
    piece_bytes : int
        The most bytes of a piece.
    error_kind : type
        The error that damaged data raise.

    Attributes
    ----------
    n_read : int
        The compressed bytes that were read so far.
    """

    def __init__(
        self,
        raw: BinaryIO,
        name: str,
        compression: str,
        *,
        piece_bytes: int,
        error_kind: type[ValueError] = ValueError,
    ) -> None:
        self._raw, self._name, self._compression = raw, name, compression
        self._piece_bytes, self._error_kind = piece_bytes, error_kind
        self.n_read = 0

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield decompressed pieces, each with the number of compressed bytes before its stream.

        A file of Zstandard counts as one stream.

        Raises
        ------
        ValueError
            Of the kind that was given, if the data are damaged, or end inside a stream.
        """
        if self._compression == "zst":
            yield from ((data, 0) for data in self._zst_pieces())
            return
        consumed, data = 0, self._read()
        if not data:
            raise self._error_kind(
                f"{self._name} is empty: no {self._compression} data in it; download it again."
            )
        while data:
            stream, start = _new_decompressor(self._compression), consumed
            while not stream.eof:
                if not data and not (data := self._read()):
                    raise self._error_kind(
                        f"{self._name} is truncated: it ends inside a {self._compression} stream, at compressed "
                        f"byte {self._raw.tell()}; download it again."
                    )
                consumed += len(data)
                yield from ((piece, start) for piece in self._inflate(stream, data))
                data = stream.unused_data
            consumed -= len(data)
            data, n_padding = self._without_padding(data)
            consumed += n_padding

    def _read(self) -> bytes:
        data = self._raw.read(READ_BYTES)
        self.n_read += len(data)
        return data

    def _without_padding(self, data: bytes) -> tuple[bytes, int]:
        """Return what follows a stream, and the zero bytes before it: after a gzip or xz stream they are padding."""
        padding = b"\0" if self._compression in {"gz", "xz"} else b""
        n_padding = 0
        while not data.lstrip(padding) and (more := self._read()):
            n_padding += len(data)
            data = more
        stripped = data.lstrip(padding)
        return stripped, n_padding + len(data) - len(stripped)

    def _inflate(self, stream: Any, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data, never more than one piece at a time."""
        try:
            if self._compression == "gz":
                while data and not stream.eof:
                    yield stream.decompress(data, self._piece_bytes)
                    data = stream.unconsumed_tail
                return
            yield stream.decompress(data, self._piece_bytes)
            while not stream.needs_input and not stream.eof:
                yield stream.decompress(b"", self._piece_bytes)
        except (OSError, zlib.error, lzma.LZMAError, EOFError, ValueError) as error:
            raise self._error_kind(
                f"{self._name} is damaged near compressed byte {self._raw.tell()}: {error}; download it again."
            ) from error

    def _zst_pieces(self) -> Iterator[bytes]:
        """Yield the whole of a Zstandard file, through Arrow's codec."""
        try:
            with pa.CompressedInputStream(pa.PythonFile(self._raw, mode="r"), "zstd") as stream:
                while data := stream.read(self._piece_bytes):
                    self.n_read = self._raw.tell()
                    yield data
                self.n_read = self._raw.tell()
        except OSError as error:
            if is_store_failure(error):
                raise
            raise self._error_kind(
                f"{self._name} is damaged or truncated: {error}; download it again."
            ) from error


def _new_decompressor(compression: str) -> Any:
    """Return a decompressor of one stream of the format."""
    if compression == "bz2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor() if compression == "xz" else zlib.decompressobj(wbits=31)


def find_bz2_stream(raw: BinaryIO, start: int, stop: int | None) -> int | None:
    """Return where the first bz2 stream begins from a byte of a file on, None where none begins before another byte.

    A stream is found by its magic number (``BZh1``..``BZh9`` and that of the first block, 80 bits together), so that
    a file of many streams is divided without an index. What is searched here is read again.
    """
    position, tail = start, b""
    raw.seek(position)
    end = float("inf") if stop is None else stop + BZ2_STREAM_BYTES - 1
    while position < end and (data := raw.read(READ_BYTES)):
        window = tail + data
        found = BZ2_STREAM.search(window)
        if found:
            begin = position - len(tail) + found.start()
            return begin if stop is None or begin < stop else None
        tail = window[-BZ2_STREAM_BYTES + 1 :]
        position += len(data)
    return None
