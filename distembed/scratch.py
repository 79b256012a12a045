"""Temporary folders of what lazy arrays read."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import weakref
from pathlib import Path

from distembed.execution import client_in_force


class Scratch:
    """A temporary folder that is removed once no graph refers to it and no task can still need it.

    A cluster may compute a persisted array after this process has dropped its graph. The folder is therefore kept while
    the client waits for any result, at the longest until the process ends. Workers receive the path of the folder only.

    Attributes
    ----------
    url : str
        The path of the folder.
    """

    def __init__(self, prefix: str, parent: str | Path | None = None) -> None:
        self.url = tempfile.mkdtemp(prefix=prefix, dir=parent)
        weakref.finalize(self, _leave, self.url)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.url,)

    def __dask_tokenize__(self) -> str:
        return self.url


_LEFT: list[str] = []
"""The folders that no graph refers to any more."""


def _leave(folder: str) -> None:
    _LEFT.append(folder)
    if not _results_are_awaited():
        _remove_left()


def _results_are_awaited() -> bool:
    client = client_in_force()
    return client is not None and any(future.status == "pending" for future in list(client.futures.values()))


@atexit.register
def _remove_left() -> None:
    while _LEFT:
        shutil.rmtree(_LEFT.pop(), ignore_errors=True)
