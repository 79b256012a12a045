"""Plain files of a workspace: a small adapter over fsspec for local folders and URLs.

It guarantees that:

- A run that is killed at any moment leaves only complete files. A local file is written under a temporary
  name and renamed (`distembed.files`); a remote file is a single PUT, or an upload in parts that is completed at
  the end, which object stores make atomic.
- After a power failure every committed stage is complete. A commit syncs its files, then the folders that
  lead to them, and only then writes, renames and syncs the manifest that names them (`Folder.sync`,
  `Folder.write`). Outputs that were not committed, and temporary outputs, may be damaged: their digests
  reveal it, and they are computed again.
- A process that lost the lock of a workspace writes and removes nothing more: the folder asks before each step
  (`Folder.check`). What a process had begun when it was paused is left, one block at most: its digest reveals it.
- Nothing outside the folder is read, written or removed, whatever a record names and wherever a symbolic link
  inside the folder leads. The folder itself may be a link, because the user chose it.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import IO, Any

from fsspec.implementations.local import LocalFileSystem

from distembed.files import DiskFullError, failures_told, naming_a_full_disk, replacing, sync
from distembed.storage import records
from distembed.urls import OBJECT_STORES, PROTOCOLS, check_regular, protocol_of, url_to_fs

READ_BYTES = 4 << 20
"""Bytes read at a time while a file is digested: large enough for a fast disk, small beside a block."""
SYNC_THREADS = 8
"""Files synced at once: 6,000 small ones took 0.6 s in place of 15 s one after the other (ext4 on one disk)."""
VERSION_KEYS = ("ETag", "etag", "md5Hash", "generation", "state")
"""What stores, and `_local_files`, say of a file that changes with its content; times alone are not among it."""


@dataclass(frozen=True)
class Folder:
    """A folder named by a URL; it can be pickled and holds no open handle. Names are relative and use ``/``.

    `check` is called before anything is written or removed, and raises an error where that is not allowed. `lease`
    lives as long as anything that reads the folder in this process, such as a temporary folder around it.
    """

    url: str
    check: Callable[[], object] = bool  # a folder that is no workspace has no lock
    lease: object = None

    @classmethod
    def at(cls, url: str | os.PathLike[str]) -> Folder:
        """Return the folder at a path or URL; a local one gets an absolute plain path.

        Raises
        ------
        FileExistsError
            If it is the root of a file system, which holds other things.
        """
        fs, root = url_to_fs(url)
        if not root.rstrip("/"):
            raise FileExistsError(
                f"{url} is the root of a file system, and no workspace: choose a folder in it."
            )
        local = isinstance(fs, LocalFileSystem)
        return cls((root if local else fs.unstrip_protocol(root)).rstrip("/"))

    @property
    def fs(self) -> Any:
        """Return the fsspec file system, of which fsspec keeps one instance per process."""
        return url_to_fs(self.url)[0]

    @property
    def is_local(self) -> bool:
        """Return whether the folder is on a mounted file system."""
        return "://" not in self.url

    def path(self, name: str) -> str:
        """Return the full path or URL of a file inside; "" is the folder itself.

        Raises
        ------
        OutsideError
            If the name leads out of the folder.
        """
        return f"{self.url}/{records.check_inside(name)}" if name else self.url

    def readable(self, name: str) -> str:
        """Return the path of a file inside that will be read.

        Raises
        ------
        NoFileError
            If it is a pipe, a socket or a device.
        OutsideError
            If the name leads out of the folder, or its path contains a symbolic link.
        """
        path = self.path(name)
        if self.is_local:
            _refuse_links(self.url, name.split("/"))
            check_regular(path)
        return path

    def writable(self, name: str, *, is_removed: bool = False) -> str:
        """Return the path of a file inside that will be written, and make the folders that lead to it.

        One that `is_removed` needs none.

        Raises
        ------
        OutsideError
            If the name leads out of the folder, or the path of its folder contains a symbolic link.
        PermissionError, LockedError
            If the folder is open for reading only, or another run has taken its lock over.
        """
        path = self.path(name)
        self.check()
        if self.is_local:
            _refuse_links(self.url, name.split("/")[:-1])
        if not is_removed and (
            self.is_local or protocol_of(self.url) not in PROTOCOLS
        ):  # object stores have none
            self.fs.makedirs(posixpath.dirname(path), exist_ok=True)
        return path

    def read(self, name: str, *, most: int | None = None) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        DamagedError
            If it has more bytes than `most`.
        """
        path = self.readable(name)
        with failures_told(path):
            if self.is_local:
                with open(path, "rb") as file:  # noqa: PTH123 (of the path of a URL)
                    size = os.fstat(file.fileno()).st_size  # it reserves what it is asked for
                    data = file.read() if most is None else file.read(min(size, most) + 1)
            else:
                try:
                    data = self.fs.cat_file(path, **({} if most is None else {"start": 0, "end": most + 1}))
                except OSError as error:  # S3 has no part of an empty object
                    self.fs.invalidate_cache()
                    if most is None or isinstance(error, FileNotFoundError) or self.fs.info(path)["size"]:
                        raise
                    data = b""
        if most is not None and len(data) > most:
            raise records.DamagedError(
                f"{self.path(name)} has more than {most:,} bytes, which no file of its kind has: remove it"
            )
        return data

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists."""
        path = self.path(name)
        with failures_told(path):
            return os.path.lexists(path) if self.is_local else bool(self.fs.exists(path))

    def write(self, name: str, *pieces: Any, durable: bool = False) -> records.FileRecord:
        """Write a whole file of one or more pieces of bytes in one atomic step; `durable` waits for the disk."""
        path = self.writable(name)
        if self.is_local:
            _clear(path)
            with _failure_told(path), replacing(path, durable=durable) as begun:
                _write_new(begun, pieces)
        else:
            self.fs.pipe_file(path, b"".join(pieces))
        return record_of(*pieces)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[WrittenFile]:
        """Open a file that comes in pieces; on this machine it appears whole, at the end, as with `write`."""
        path = self.writable(name)
        if self.is_local:
            _clear(path)
            with _failure_told(path), replacing(path) as begun, open(begun, "xb") as file:  # noqa: PTH123
                yield WrittenFile(file)
                self.writable(name, is_removed=True)  # the pieces may have taken hours
        else:
            with self.fs.open(path, "wb") as file:
                yield WrittenFile(file)

    def create(self, name: str, data: bytes) -> None:
        """Write a whole file that must not exist yet; a local one is empty for a moment.

        Raises
        ------
        FileExistsError
            If it exists. On a remote store without conditional writes its existence is tested first, which
            leaves a short race. On one with them, a write whose answer was lost is tried again and finds its
            own file: a file that holds exactly `data` is therefore not another's.
        """
        path = self.writable(name)
        if not self.is_local:
            self.fs.invalidate_cache()
            if self.fs.exists(path):
                raise FileExistsError(f"{path} exists.")
            try:
                self.fs.pipe_file(path, data, mode="create")
            except NotImplementedError:  # fsspec says so of stores without conditional writes; tested above
                self.fs.pipe_file(path, data)
            except FileExistsError:
                if self.read(name) != data:
                    raise
            return
        with _failure_told(path), open(path, "xb") as file:  # noqa: PTH123 (of the path of a URL)
            try:
                file.write(data)
                file.flush()
                sync(path)
            except OSError:
                os.unlink(path)  # noqa: PTH108
                raise

    def sync(self, names: Iterable[str]) -> None:
        """Wait until files, and the names of the folders that lead to them, have reached the disk.

        A remote store keeps what it has accepted. On a network file system this waits for what this machine
        wrote; what a worker on another one wrote went to the server when its file was closed.
        """
        if not self.is_local:
            return
        files = [self.path(name) for name in names]
        # A job may have made the folders above its workspace too.
        places = {posixpath.dirname(path) for path in files}
        folders = places.union(*(map(str, PurePosixPath(place).parents) for place in places))
        with ThreadPoolExecutor(SYNC_THREADS) as pool:
            list(pool.map(_sync, files))
            list(pool.map(partial(_sync, is_folder=True), folders))

    def find(self, name: str = "") -> dict[str, tuple[int, str]]:
        """Return the size in bytes and the version of every file below a folder; an absent folder has none.

        The version is what tells its content from another: of a local file its number and its time, of one in an
        object store what the store says, "" where it says nothing.
        """
        if self.is_local:
            start, every = len(self.url) + 1, _local_files(self.path(name))
        else:
            start, every = len(url_to_fs(self.url)[1].rstrip("/")) + 1, self._remote_files(name)
        return {path[start:]: (info["size"], version_of(info)) for path, info in every}

    def _remote_files(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the path and what a store says of a file, or of every file below a folder, after one question."""
        self.fs.invalidate_cache()
        path = url_to_fs(self.path(name))[1].rstrip("/")
        above, _, last = path.rpartition("/")
        if name and protocol_of(self.url) in OBJECT_STORES:
            # They are asked twice more whether an empty folder is a file, but not where the names have a prefix.
            every = self.fs.find(above, prefix=last, detail=True)
        else:
            every = self.fs.find(path, detail=True)
        return ((p, info) for p, info in every.items() if p == path or p.startswith(f"{path}/"))

    def remove(self, name: str) -> None:
        """Remove a file, a link, or a folder with its contents, if it exists; links are not followed."""
        path = self.writable(name, is_removed=True)
        if self.is_local:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                    shutil.rmtree(path)
                else:
                    os.unlink(path)  # noqa: PTH108
            return
        is_object = protocol_of(self.url) in OBJECT_STORES
        with contextlib.suppress(FileNotFoundError):
            if found := [file for file, _ in self._remote_files(name)] if is_object else [path]:
                self.fs.rm(found, recursive=not is_object)

    def record(self, name: str) -> records.FileRecord:
        """Return the size and the digest of a file, read piece by piece."""
        digest, path = WrittenFile(), self.readable(name)
        with (
            failures_told(path),
            open(path, "rb") if self.is_local else self.fs.open(path, "rb") as file,  # noqa: PTH123
        ):
            while piece := file.read(READ_BYTES):
                digest.write(piece)
        return digest.record


class WrittenFile(io.RawIOBase):
    """A file to write to, or none, which takes the size and the digest of what is written."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        super().__init__()
        self._file, self._digest, self._size, self._tail = file, records.new_digest(), 0, b""

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, data: Any, /) -> int:
        """Write bytes after those that were written."""
        view = memoryview(data).cast("B")
        if self._file is not None:
            self._file.write(view)
        self._digest.update(view)
        self._size += len(view)
        self._tail = (self._tail + bytes(view[-records.TAIL_BYTES :]))[-records.TAIL_BYTES :]
        return len(view)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size

    @property
    def record(self) -> records.FileRecord:
        """The size and the digest of what was written."""
        return records.FileRecord(self._size, self._digest.hexdigest() + self._tail.hex())


def record_of(*pieces: Any) -> records.FileRecord:
    """Return the size and the digest of a file of one or more pieces of bytes."""
    digest = WrittenFile()
    for piece in pieces:
        digest.write(piece)
    return digest.record


def version_of(info: Mapping[str, Any]) -> str:
    """Return what tells the content of a file from another by what its store says of it; "" where it says nothing."""
    return next((f"{key} {info[key]}" for key in VERSION_KEYS if info.get(key)), "")


def _local_files(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path, the size and the version of whatever is no folder below a local one; links are not followed."""
    folders = [folder]  # no recursion: a stranger's folders may lie thousandfold inside each other
    while folders:
        place = folders.pop()
        try:
            with os.scandir(place) as listed:
                entries = list(listed)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            if place == folder:
                raise
            continue  # whoever reads the files that belong there says that they are unreadable
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                continue
            with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                found = entry.stat(follow_symlinks=False)
                yield entry.path, {"size": found.st_size, "state": f"{found.st_ino} {found.st_mtime_ns}"}


@contextlib.contextmanager
def _failure_told(path: str) -> Iterator[None]:
    try:
        with naming_a_full_disk(path):
            yield
    except OSError as error:
        if error.errno is None or isinstance(error, DiskFullError):
            raise  # it says itself what is wrong, as a lock that was lost and a damaged block do
        message = f"Cannot write {path}: {error.strerror}. Correct this and run again."
        raise OSError(error.errno, message) from error


def _write_new(path: str, pieces: Iterable[Any]) -> None:
    with open(path, "xb") as file:  # noqa: PTH123 (fsspec hands out plain strings)
        file.writelines(pieces)


def _clear(path: str) -> None:
    """Remove a folder that stands where a file belongs."""
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
        shutil.rmtree(path)


def _refuse_links(root: str, parts: Iterable[str]) -> None:
    path = root
    for part in parts:
        path = f"{path}/{part}"
        if os.path.islink(path):  # noqa: PTH114
            target = os.path.realpath(path)
            raise records.OutsideError(
                f"{path} is a symbolic link to {target}, and nothing is read, written or removed through links inside "
                "a workspace: put the file or folder itself in its place, or choose another workspace."
            )


def _sync(path: str, *, is_folder: bool = False) -> None:
    # A folder above the workspace may be closed to its user; a network disk tells its quota here.
    with contextlib.suppress(*([PermissionError] if is_folder else [])), _failure_told(path):
        sync(path)
