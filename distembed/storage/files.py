"""Plain files of a workspace: one small adapter over fsspec for a local folder and any URL.

A local write goes to a ``.partial`` file first and is renamed into place. A remote one is a single PUT, which
the
object stores make atomic. Only a commit waits for the disk: what else a power cut can tear is told by its
digest or seal, and done again.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import zarr
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from distembed.storage.schema import FileRecord, new_digest

PARTIAL = ".partial"
READ_BYTES = 4 << 20
"""Bytes read at a time while a file is digested: large enough for a fast disk, small beside a block."""


@dataclass(frozen=True)
class Folder:
    """A folder named by a URL; picklable, holds no open handle. Names are relative and use ``/``."""

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Folder:
        """Return the folder at a path or URL; a local one gets an absolute plain path."""
        fs, root = url_to_fs(os.fspath(url), **(options or {}))
        local = isinstance(fs, LocalFileSystem)
        return cls(root.rstrip("/") if local else fs.unstrip_protocol(root).rstrip("/"), dict(options or {}))

    @property
    def fs(self) -> Any:
        """Return the fsspec file system, which fsspec keeps one of per process."""
        return url_to_fs(self.url, **self.options)[0]

    @property
    def is_local(self) -> bool:
        """Tell whether the folder is on a mounted file system."""
        return isinstance(self.fs, LocalFileSystem)

    @property
    def root(self) -> str:
        """Return the path of the folder as its file system writes it."""
        return str(url_to_fs(self.url, **self.options)[1]).rstrip("/")

    def path(self, name: str) -> str:
        """Return the full path or URL of a file inside."""
        return f"{self.url}/{name}"

    def inside(self, name: str) -> str:
        """Return the path of a file inside as its file system writes it."""
        return f"{self.root}/{name}"

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        data: bytes = self.fs.cat_file(self.inside(name))
        return data

    def exists(self, name: str) -> bool:
        """Tell whether a file or folder is there."""
        return bool(self.fs.exists(self.inside(name)))

    def write(self, name: str, data: bytes, *, durable: bool = False) -> FileRecord:
        """Write a whole file in one step that either happened or did not; `durable` waits for the disk."""
        path = self.inside(name)
        self.fs.makedirs(posixpath.dirname(path), exist_ok=True)
        if self.is_local:
            _replace_local(path, data, durable=durable)
        else:
            self.fs.pipe_file(path, data)
        return FileRecord(len(data), new_digest(data).hexdigest())

    def create(self, name: str, data: bytes) -> None:
        """Write a whole file that must not exist.

        Raises
        ------
        FileExistsError
            If it exists. A remote store without conditional writes is asked first, which leaves a moment's
            race.
        """
        path = self.inside(name)
        self.fs.makedirs(posixpath.dirname(path), exist_ok=True)
        if self.is_local:
            _link_local(path, data)
            return
        self.fs.invalidate_cache()
        if self.fs.exists(path):
            raise FileExistsError(f"{self.path(name)} exists.")
        try:
            self.fs.pipe_file(path, data, mode="create")
        except NotImplementedError:  # no stub: fsspec raises it for a store without conditional writes
            self.fs.pipe_file(path, data)

    def find(self, name: str = "") -> dict[str, int]:
        """Return the size in bytes of every file below a folder; an absent folder has none."""
        self.fs.invalidate_cache()
        root = self.root
        found = self.fs.find(self.inside(name) if name else root, detail=True)
        return {path[len(root) + 1 :]: info["size"] for path, info in found.items()}

    def beginning(self, prefix: str) -> dict[str, int]:
        """Return the size of every file whose name begins with `prefix` followed by no digit."""
        folder, start = posixpath.split(self.inside(prefix))
        self.fs.invalidate_cache()
        if not self.fs.exists(folder):
            return {}
        sizes: dict[str, int] = {}
        for entry in self.fs.ls(folder, detail=True):
            path = entry["name"].rstrip("/")
            rest = posixpath.basename(path)
            if rest.startswith(start) and not rest[len(start) : len(start) + 1].isdigit():
                name = path[len(self.root) + 1 :]
                sizes.update(self.find(name) if entry["type"] == "directory" else {name: entry["size"]})
        return sizes

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all it holds, if it is there."""
        path = self.inside(name)
        self.fs.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            if self.fs.exists(path):
                self.fs.rm(path, recursive=self.fs.isdir(path))

    def record(self, name: str) -> FileRecord:
        """Return size and digest of a file as it lies there, read piece by piece."""
        digest, size = new_digest(), 0
        with self.fs.open(self.inside(name), "rb") as file:
            while piece := file.read(READ_BYTES):
                digest.update(piece)
                size += len(piece)
        return FileRecord(size, digest.hexdigest())

    def zarr_store(self, name: str, *, read_only: bool) -> Any:
        """Return the Zarr store in a folder inside."""
        if self.is_local:
            return zarr.storage.LocalStore(self.inside(name), read_only=read_only)
        options = dict(self.options)
        return zarr.storage.FsspecStore.from_url(
            self.path(name), storage_options=options, read_only=read_only
        )


def _write_partial(path: str, data: bytes, *, durable: bool) -> str:
    partial = f"{path}.{uuid.uuid4().hex[:12]}{PARTIAL}"
    try:
        with open(partial, "wb") as file:  # noqa: PTH123 (fsspec hands out plain strings)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)  # noqa: PTH108
        message = f"Cannot write {path}: {error.strerror}. Mend this and run again."
        raise OSError(error.errno, message) from error
    return partial


def _replace_local(path: str, data: bytes, *, durable: bool) -> None:
    partial = _write_partial(path, data, durable=durable)
    os.replace(partial, path)  # noqa: PTH105


def _link_local(path: str, data: bytes) -> None:
    # A link either appears whole or not at all, and never over another file: no reader sees half a lock.
    partial = _write_partial(path, data, durable=False)
    try:
        os.link(partial, path)
    finally:
        os.unlink(partial)  # noqa: PTH108
