"""Whole files: written under a partial name of their own and renamed into place.

Every file that this package writes appears whole or not at all, whoever is killed and when. Two attempts at
one file never share a partial name, so neither can damage what the other one writes; the last to end wins.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

PARTIAL = ".partial"


def partial_name(path: str) -> str:
    """Return a name beside `path` that no other attempt at it uses."""
    return f"{path}.{uuid.uuid4().hex[:12]}{PARTIAL}"


@contextlib.contextmanager
def replacing(path: str, *, filesystem: Any = None, durable: bool = False) -> Iterator[str]:
    """Give a partial name to write to, which is renamed to `path` when the block ends without an error.

    After an error the partial file is removed, and whatever was at `path` is still there.

    Parameters
    ----------
    path : str
        Path as its file system writes it.
    filesystem : fsspec file system, optional
        Where `path` lies; by default the local one.
    durable : bool
        Wait until the content, and then the new name, have reached the disk. A remote store keeps what it
        has accepted.
    """
    partial = partial_name(path)
    try:
        yield partial
        _rename(partial, path, filesystem, durable=durable)
    except BaseException:
        with contextlib.suppress(OSError):
            if filesystem is None:
                Path(partial).unlink()
            else:
                filesystem.rm_file(partial)
        raise


def _rename(partial: str, path: str, filesystem: Any, *, durable: bool) -> None:
    if filesystem is not None and not isinstance(filesystem, LocalFileSystem):
        filesystem.mv(partial, path)
        return
    if durable:
        sync(partial)
    os.replace(partial, path)  # noqa: PTH105 (fsspec hands out plain strings)
    if durable:
        sync(os.path.dirname(path))  # noqa: PTH120


def sync(path: str) -> None:
    """Wait until the content of a local file, or the names in a local folder, have reached the disk.

    Raises
    ------
    OSError
        If the disk reports that it could not keep them.
    """
    if os.name != "posix":  # elsewhere a folder cannot be opened, nor a file synced that is open for reading
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some mounted network stores have no sync for folders; they keep a name when they accept it.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(handle)
