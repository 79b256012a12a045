"""Zarr stores at paths and URLs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distembed.urls import LOCAL, protocol_of, url_to_fs


def zarr_store(url: str, *, read_only: bool, options: Mapping[str, Any] | None = None) -> Any:
    """Return the Zarr store at a path or URL."""
    import zarr

    if protocol_of(url) in LOCAL:
        return zarr.storage.LocalStore(url_to_fs(url)[1], read_only=read_only)
    filesystem, path = url_to_fs(url, asynchronous=True, **(options or {}))
    return zarr.storage.FsspecStore.from_mapper(filesystem.get_mapper(path), read_only=read_only)
