"""Temporary folders of what lazy arrays read."""

from __future__ import annotations

import atexit
import fcntl
import shutil
import socket
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from distembed.execution import client_in_force


class Scratch:
    """A temporary folder that is removed once no graph refers to it and no task can still need it.

    A cluster may compute a persisted array after this process has dropped its graph. The folder is therefore kept while
    the client waits for any result, at the longest until the process ends. Workers receive the path of the folder only.
    What a killed process of this machine left is removed when the next folder with the prefix is created beside it.

    Attributes
    ----------
    url : str
        The path of the folder.
    """

    def __init__(self, prefix: str, parent: str | Path | None = None) -> None:
        _remove_abandoned(Path(parent or tempfile.gettempdir()), prefix)
        self.url = tempfile.mkdtemp(prefix=prefix, dir=parent)
        _LOCKS[self.url] = _lock(Path(self.url))
        self._leave = weakref.finalize(self, _leave, self.url)

    def __enter__(self) -> str:
        return self.url

    def __exit__(self, *_: object) -> None:
        self._leave()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.url,)

    def __dask_tokenize__(self) -> str:
        return self.url


LOCK = ".in-use"
"""The file of a folder that its process has locked, with the name of the machine."""

_LOCKS: dict[str, TextIO] = {}
"""The locked files of the folders of this process: the system unlocks them when it ends, however it ends."""


def _lock(folder: Path) -> TextIO:
    """Return the locked file of a new folder; it gets its name when it is locked."""
    new = folder / f"{LOCK}-new"
    file = new.open("w", encoding="utf-8")
    file.write(socket.gethostname())
    file.flush()
    with suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_EX)
        new.rename(folder / LOCK)
    return file


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the folders of this machine whose processes have ended without removing them."""
    for path in parent.glob(f"{prefix}*/{LOCK}"):
        with suppress(OSError, UnicodeDecodeError), path.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.read() == socket.gethostname():
                shutil.rmtree(path.parent, ignore_errors=True)


_LEFT: list[str] = []
"""The folders that no graph refers to any more."""


def _leave(folder: str) -> None:
    _LEFT.append(folder)
    client = client_in_force()
    if client is None or not any(future.status == "pending" for future in list(client.futures.values())):
        _remove_left()


@atexit.register
def _remove_left() -> None:
    while _LEFT:
        folder = _LEFT.pop()
        shutil.rmtree(folder, ignore_errors=True)
        _LOCKS.pop(folder).close()
