"""Zarr stores at paths and URLs."""

from __future__ import annotations

from typing import Any

from zarr.storage import FsspecStore, LocalStore

from distembed.urls import LOCAL, check_regular, protocol_of, url_to_fs


class _FileStore(LocalStore):
    """A local store that reads no pipe, socket or device in place of a file."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        check_regular(self.root / key)
        return await super().get(key, prototype, byte_range)


def zarr_store(url: str, *, read_only: bool) -> Any:
    """Return the Zarr store at a path or URL."""
    if protocol_of(url) in LOCAL:
        return _FileStore(url_to_fs(url)[1], read_only=read_only)
    filesystem, path = url_to_fs(url, asynchronous=True)
    return FsspecStore.from_mapper(filesystem.get_mapper(path), read_only=read_only)
