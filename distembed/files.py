"""Files that are read whole within limits, or written under a partial name and renamed, and failures of their stores.

Every file that this package writes appears complete or not at all, whichever process is killed at whatever
time. Two attempts to write one file never share a partial name, so neither can damage what the other one
writes; the last to finish wins.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import fcntl
import io
import lzma
import os
import re
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import infer_compression

from distembed.urls import NoFileError, opened, public

PARTIAL = ".partial"
PARTIAL_NAME = re.compile(rf"\.[0-9a-f]{{12}}{re.escape(PARTIAL)}$")
SHELL_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where a shell puts what it passes from a command in place of a file."""
SMALL_BYTES = 2 << 30
"""What is read at once is no larger: words, tests, tables and names."""

PIECE_BYTES = 16 << 20
"""Bytes read at a time of what is read whole."""

UNPACKED_BYTES, UNPACKED_RATIO = 1 << 30, 500
"""What unpacks to more bytes than the first, and to more than so many times what is stored, is meant to harm.

Text and tables shrink to a tenth or a hundredth; a table of zeros and ones to a three-hundredth.
"""

DECOMPRESSORS: dict[str | None, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
}
"""What unpacks one stream of a file, by fsspec's name of the compression; Arrow unpacks all of a file of "zstd"."""

STORED_BYTES, MOST_STORED_BYTES = 1 << 14, 1 << 18
"""Bytes of a compressed file that are read at a time: few at first, for they may unpack to a thousand times as much."""

STORE_LIBRARIES = ("aiobotocore", "aiohttp", "botocore", "gcsfs", "google")
"""The libraries by which stores are reached, whose errors may have any class."""


NO_CREDENTIALS = "NoCredentialsError"
"""The error of the package of S3, which need not be installed, where it finds no keys."""


class DiskFullError(OSError):
    """An error because a disk, or a quota on it, has no room for a file; the message names both."""

    def __str__(self) -> str:
        return str(self.strerror)


class BombError(ValueError):
    """An error because a small file would take the memory of a large one."""


def read_head(path: str | Path, n_bytes: int) -> bytes:
    """Read the first bytes of a local file or URL, unpacked by the end of its name.

    What a shell passes as a file, `/dev/stdin` and the `/dev/fd/63` of ``<(command)``, may be a pipe.

    Raises
    ------
    NoFileError
        If it is no file.
    """
    if str(path).startswith(SHELL_PIPES) and Path(path).is_fifo():
        with open(path, "rb") as pipe:  # noqa: PTH123 (of a text or a path)
            return pipe.read(n_bytes)
    data = bytearray()
    with unpacked(path) as file:
        # Not at once: Python takes as much memory as it is asked for before it reads.
        while piece := file.read(min(PIECE_BYTES, n_bytes - len(data))):
            data += piece
    return bytes(data)


def read_small(path: str | Path, *, most: int | None = None) -> bytes:
    """Read a local file or URL whole, unpacked by the end of its name.

    Parameters
    ----------
    path : str or Path
        Words, tests, a table or a job.
    most : int, optional
        The bytes that it may have, unpacked; `SMALL_BYTES` by default.

    Raises
    ------
    NoFileError, BombError
        If it is no file, or is larger.

    Examples
    --------
    >>> from pathlib import Path
    >>> from distembed.files import read_small
    >>> _ = Path("stop.txt").write_text("the")
    >>> read_small("stop.txt")
    b'the'
    """
    most = SMALL_BYTES if most is None else most
    data = read_head(path, most + 1)
    if len(data) > most:
        raise BombError(
            f"{path} has more than {most:,} bytes (unpacked): that is no list, table or job, give another file"
        )
    return data


@contextlib.contextmanager
def unpacked(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a local file or URL for reading, unpacked by the end of its name; see `Unpacked` for the errors."""
    compression = infer_compression(str(path))
    with opened(path) as file:
        is_packed = compression == "zstd" or compression in DECOMPRESSORS
        yield io.BufferedReader(Unpacked(file, compression, str(path)), 1 << 20) if is_packed else file


class Unpacked(io.RawIOBase):
    """The content of a compressed file, of all its streams, each to its end.

    Python's own readers take damage where a stream begins for the end of the file, and fsspec's of Zstandard ends after
    the first stream, whole or not.

    Attributes
    ----------
    begin : the stored bytes before the stream of what was read last; 0 for Zstandard
    n_stored, n_unpacked : the bytes that were read so far, and what they hold
    """

    def __init__(self, file: IO[bytes], compression: str, name: str) -> None:
        self._file, self._compression, self._name = file, compression, name
        self.begin = self.n_stored = self.n_unpacked = 0
        self._data, self._padding = b"", b""
        self._stream: Any = None
        if compression == "zstd":
            self._stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the beginning of a buffer as `read` does, and return the number of bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        """Return at most so many bytes, all of one stream; none at the end.

        Raises
        ------
        BombError
            See `refuse_bomb`.
        EOFError
            If the data are damaged, or end inside a stream.
        """
        if size < 0:
            return self.readall()
        try:
            data = self._read(size)
        except (OSError, ValueError, zlib.error, lzma.LZMAError) as error:
            if is_store_failure(error):
                raise
            raise EOFError(f"{error} near compressed byte {self.n_stored}") from error
        self.n_unpacked += len(data)
        refuse_bomb(self._name, self.n_stored, self.n_unpacked)
        return data

    def _read(self, size: int) -> bytes:
        data = b""
        while not data:
            if self._compression == "zstd":
                try:
                    data = self._stream.read(size)
                finally:
                    self.n_stored = self._file.tell()
                break
            if not self._data and getattr(self._stream, "needs_input", True):
                # From the second time on as much as before in all, so that half of what was read is unpacked.
                self._data = self._file.read(min(max(STORED_BYTES, self.n_stored), MOST_STORED_BYTES))
                self.n_stored += len(self._data)
                if not self._data and self._stream is None:
                    break
                if not self._data:
                    raise EOFError(f"it ends inside a stream, at compressed byte {self.n_stored}")
            if self._stream is None:
                self._data = self._data.lstrip(self._padding)
                if not self._data:
                    continue
                self._stream = DECOMPRESSORS[self._compression]()
                self.begin = self.n_stored - len(self._data)
            data = self._stream.decompress(self._data, size)
            self._data = self._stream.unused_data or getattr(self._stream, "unconsumed_tail", b"")
            if self._stream.eof:  # zeros after a stream of gzip or xz are padding
                self._stream, self._padding = None, b"" if self._compression == "bz2" else b"\0"
        return data


class RefusedError(PermissionError):
    """An error because an object store does not allow its caller to read or write; the message says where."""


def refuse_bomb(path: str, stored: int, unpacked: int) -> None:
    """Refuse a file, or a part of one, that unpacks to far more than it stores.

    Parameters
    ----------
    path : str
        The file, for the error.
    stored, unpacked : int
        Its bytes on disk, and those that it takes in memory as far as they are known.

    Raises
    ------
    BombError
        If it takes more than `UNPACKED_BYTES` and more than `UNPACKED_RATIO` times what it stores.
    """
    if unpacked > max(UNPACKED_BYTES, UNPACKED_RATIO * stored):
        raise BombError(
            f"{path} stores {stored:,} bytes that unpack to {unpacked:,} or more, which no honest file does: do not "
            "use it, or, if you made it, write it without compression"
        )


@contextlib.contextmanager
def failures_told(url: str) -> Iterator[None]:
    """Turn a failure of the object store at `url`, which its library no longer retries, into one sentence.

    A file that is not there, and content that is wrong, are no failures of the store.

    Raises
    ------
    ConnectionError
        If the store failed; the message names the URL.
    RefusedError
        If the store answered that the caller may not do this; the message names the URL.
    """
    try:
        yield
    except Exception as error:
        if "://" not in url or not is_store_failure(error):
            raise
        reason = (
            (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        )
        url, reason = public(url), public(reason, url)
        if _is_refusal(error):
            raise RefusedError(
                f"the object store of {url} refuses access ({reason.rstrip('.')}): check which keys or profile are "
                "used (~/.aws, the configuration of fsspec or the environment) and what they may do there"
            ) from error
        raise ConnectionError(
            f"the object store of {url} failed, also when it was asked again ({reason.rstrip('.')}): give the same "
            "command again once it answers; what is finished is kept"
        ) from error


@contextlib.contextmanager
def damage_told(
    path: str, error_kind: type[ValueError | OSError], kind: str, remedy: str = "copy or write it again"
) -> Iterator[None]:
    """Turn whatever a library raises of a file that it cannot decode into one sentence that names the file.

    Parsers of Arrow, NumPy, zip and XML raise errors of any class where bytes are damaged or meant to harm.
    Errors that this package raises, and those of the system that name a file, are sentences already.

    Raises
    ------
    ValueError, OSError
        Of the kind that is given.
    """
    try:
        yield
    except Exception as error:
        is_told = (
            type(error).__module__.startswith("distembed.") or getattr(error, "filename", None) is not None
        )
        if (
            is_told
            or isinstance(error, ImportError | MemoryError)
            or ("://" in path and is_store_failure(error))
        ):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise error_kind(f"{path} cannot be read as {kind} ({reason}): {remedy}") from error


def is_store_failure(error: Exception) -> bool:
    """Return whether a library of a store raised an error, or made it from an answer: a number, a text and no file."""
    if isinstance(error, RefusedError) or type(error).__name__ == NO_CREDENTIALS:
        return False  # told already, or the store was not asked
    if (
        _is_refusal(error)
        or type(error).__module__.partition(".")[0] in STORE_LIBRARIES
        or isinstance(error, TimeoutError)
    ):
        return True
    return isinstance(error, OSError) and error.errno is not None and error.filename is None


def _is_refusal(error: Exception) -> bool:
    """Return whether a store answered 401 or 403, which s3fs and gcsfs say in classes and words of their own."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    return isinstance(error, PermissionError) or str(error).startswith(("Forbidden", "Unauthorized"))


def partial_name(path: str) -> str:
    """Return a name beside `path` that no other attempt at it uses."""
    return f"{path}.{uuid.uuid4().hex[:12]}{PARTIAL}"


_allowed: ContextVar[Callable[[], object]] = ContextVar("allowed", default=bool)


@contextlib.contextmanager
def asking(check: Callable[[], object]) -> Iterator[None]:
    """Call `check`, which raises where it is not allowed, before `replacing` begins or names a file in the block."""
    before = _allowed.set(check)
    try:
        yield
    finally:
        _allowed.reset(before)


@contextlib.contextmanager
def replacing(path: str, *, filesystem: Any = None, durable: bool = False) -> Iterator[str]:
    """Yield a partial name to write to, which is renamed to `path` when the block ends without an error.

    After an error the partial file is removed, and the previous content of `path` is unchanged.

    Parameters
    ----------
    path : str
        The path as its file system writes it.
    filesystem : fsspec file system, optional
        The file system of `path`; by default the local one.
    durable : bool
        Wait until the content, and then the new name, have reached the disk. A remote store keeps what it has
        accepted.

    Raises
    ------
    DiskFullError
        If an OSError of the block, or of the rename, means that there is no room.
    NoFileError
        If `path` is a name of a device, in whose place the rename would put a file.
    """
    partial, place = partial_name(path), os.path.realpath(os.path.dirname(path))  # noqa: PTH120
    if place == "/dev" or place.startswith("/proc/"):
        raise NoFileError(f"{path} is a pipe or a device, and no file: name a file to write")
    _allowed.get()()
    try:
        with naming_a_full_disk(path):  # before the partial file is gone, and with it the lack of room
            yield partial
            _allowed.get()()  # it may have taken hours
            if filesystem is not None and not isinstance(filesystem, LocalFileSystem):
                filesystem.mv(partial, path)
                return
            if durable:
                sync(partial, with_drive=True)
            os.replace(partial, path)  # noqa: PTH105 (fsspec hands out plain strings)
            if durable:
                sync(os.path.dirname(path), with_drive=True)  # noqa: PTH120
    except BaseException:
        with contextlib.suppress(OSError):
            (filesystem or LocalFileSystem()).rm_file(partial)
        raise


@contextlib.contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new local folder to write to, which takes the place of the folder `path` when the block ends.

    After an error it is removed, and what was at `path` is unchanged. A kill between the two renames at the end
    leaves the previous folder and the new one, both whole, under partial names beside `path`.

    Parameters
    ----------
    path : Path
        A folder that is replaced with all that is in it, or a name that is free.

    Raises
    ------
    DiskFullError
        If an OSError of the block, or of a rename, means that there is no room.
    """
    partial, previous = Path(partial_name(str(path))), Path(partial_name(str(path)))
    partial.mkdir()
    try:
        with naming_a_full_disk(str(path)):
            yield partial
            if path.exists():
                path.rename(previous)
            partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(previous, ignore_errors=True)


@contextlib.contextmanager
def naming_a_full_disk(path: str) -> Iterator[None]:
    """Name the file, the disk and the remedy where the block finds no room for what becomes `path`.

    Raises
    ------
    DiskFullError
        If an error of the block means that there is no room.
    """
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else None
        if told := re.search(
            r"\(os error (\d+)\)", str(error)
        ):  # as libraries that are written in Rust tell it
            number = number or int(told[1])
        if isinstance(error, DiskFullError) or number not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        if number == errno.EFBIG:
            limit = f"{path} was not written: it is larger than this shell or its disk lets a file be"
            raise DiskFullError(
                number, f"{limit}; raise the limit (ulimit -f) or name another place"
            ) from error
        folder = Path(path).absolute().parent
        mount = next((place for place in (folder, *folder.parents) if place.is_mount()), folder)
        raise DiskFullError(
            number,
            f"{path} was not written: {os.strerror(number)}, {mount} ({shutil.disk_usage(mount).free:,} bytes free); "
            "make room there and give the same command again",
        ) from error


def sync(path: str, *, with_drive: bool = False) -> None:
    """Wait until the content of a local file, or the names in a local folder, have reached the disk.

    `with_drive` lets a drive write all that it holds, with what was synced before, where the system leaves that to it.

    Raises
    ------
    OSError
        If the disk reports that it could not keep them.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        flush = getattr(fcntl, "F_FULLFSYNC", None)  # macOS
        if with_drive and flush is not None:
            with contextlib.suppress(OSError):  # a mounted store without a drive
                fcntl.fcntl(handle, flush)
    except OSError as error:
        # Some mounted network stores have no sync for folders; they keep a name when they accept it.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(handle)
