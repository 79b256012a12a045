"""Stores of Zarr at a path or URL, and calls of Zarr that are each run by the thread that makes them.

The functions of Zarr that are not coroutines run on one thread of the process, for all its threads: there the blocks
of all of them are copied, checked and digested one after the other, and sixteen threads stored no faster than four.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore

from distembed.storage.files import Folder
from distembed.urls import check_regular, url_to_fs

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class _FileStore(LocalStore):
    """A local store that reads no pipe, socket or device in place of a file."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        check_regular(self.root / key)
        return await super().get(key, prototype, byte_range)


def zarr_store_in(folder: Folder, name: str, *, read_only: bool) -> Any:
    """Return the Zarr store in a folder of a workspace."""
    if folder.is_local:
        path = folder.inside(name) if read_only else folder.writable(name, folder=True)
        return _FileStore(path, read_only=read_only)
    filesystem, path = url_to_fs(folder.path(name), asynchronous=True)
    return FsspecStore.from_mapper(filesystem.get_mapper(path), read_only=read_only)


class _OwnThreadLoop(asyncio.SelectorEventLoop):
    """An event loop that does itself what it is asked to give to other threads."""

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002 - none is needed
        func: Callable[[Unpack[Arguments]], Result],
        *args: *Arguments,
    ) -> asyncio.Future[Result]:
        """Return a future that is done: the result of the function, or what it raised."""
        future: asyncio.Future[Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the future raises it where it is awaited
            future.set_exception(error)
        return future


def wait_for(folder: Folder, coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine of Zarr on a store in a folder, run by the calling thread if it is local.

    A remote store belongs to the thread of Zarr. A thread that runs an event loop, as that of a notebook does, cannot
    run another, and leaves the coroutine to the thread of Zarr as well.
    """
    if not folder.is_local or _runs_a_loop():
        return sync(coroutine)
    with asyncio.Runner(loop_factory=_OwnThreadLoop) as runner:
        return runner.run(coroutine)


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
