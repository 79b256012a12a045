"""Byte streams of files: opened with decompression, read by line and by chunk, and written as a whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import infer_compression

from distembed.files import failures_told, replacing, unpacked
from distembed.urls import NoFileError, check_regular, opened, url_to_fs

READ_BYTES = 8 << 20  # text parsed at a time: large against a line, small against any matrix worth loading
MAX_LINE_BYTES = 64 << 20  # a longer line or record is none: some 5 million values as text, 16 as binary


@contextmanager
def reading(name: str, error_kind: type[ValueError] = ValueError) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed by its extension; an error of a kind names a file with damaged data."""
    with unpacking(name, error_kind), unpacked(name) as file:
        yield file


@contextmanager
def unpacking(name: str, error_kind: type[ValueError] = ValueError) -> Iterator[None]:
    """Name the file, in an error of a kind, whose data are found damaged or cut short inside."""
    try:
        with failures_told(name):
            yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{name}: there is no such file; check its name") from error
    except (ConnectionError, PermissionError, IsADirectoryError, NoFileError):
        raise
    except (EOFError, OSError) as error:
        raise error_kind(f"{name} cannot be read to its end ({error}); copy or download it again") from error


class Stream:
    """The bytes of a file whose beginning has been read already: first `take_line`, then `chunks`.

    `position` is the number of bytes taken so far, after decompression and without a byte-order mark.
    """

    def __init__(self, file: IO[bytes], head: bytes) -> None:
        self._file = file
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
            yield chunk
            chunk = self._file.read(READ_BYTES)


@contextmanager
def local_copy(name: str, error_kind: type[ValueError] = ValueError) -> Iterator[str]:
    """Yield a local path with the content of a file: its own, or a temporary one where it is remote or compressed."""
    check_regular(name)
    filesystem, path = url_to_fs(name)
    if isinstance(filesystem, LocalFileSystem) and not infer_compression(name):
        yield path
        return
    with NamedTemporaryFile(prefix="distembed-") as copy:
        with reading(name, error_kind) as file:
            shutil.copyfileobj(file, copy, READ_BYTES)
        copy.flush()
        yield copy.name


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
