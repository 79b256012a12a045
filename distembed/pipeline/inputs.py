"""What a job reads from outside, stamped: what tells one version of a file from another.

Every stage says which paths it reads (`StageSpec.reads`); the runner stamps them here, one way for all. The files of
a path that hold little are known by their content, so that a `touch` changes nothing; larger ones by what their store
says of a version (ETag, generation, time to the nanosecond), and by their content where it says nothing. The stamps
that a committed stage recorded stand in for files that are no longer there.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from distembed.storage.schema import StageManifest, new_digest
from distembed.storage.workspace import Workspace

DIGESTED_BYTES = 64 << 20
"""Up to so many bytes together, the files of a path are read whole and known by their content."""

FILES = "files"
"""Where the stamps are among the parameters of a stage."""

VERSION_KEYS = ("ETag", "etag", "md5Hash", "generation", "mtime")
"""What stores say of a file that changes with its content; times in whole seconds are not among it."""

Stamps = dict[str, list[Any]]
"""Size in bytes and version by file; a workspace is known by the digest of its content."""


class Inputs(NamedTuple):
    """The stamps of the files of each path, and the paths where nothing lies."""

    stamps: dict[str, Stamps]
    absent: tuple[str, ...]


def stamp_inputs(
    paths: Iterable[str], recorded: Mapping[str, Stamps], look: Callable[[str], Stamps]
) -> Inputs:
    """Stamp what lies at each path: a file, a glob, a folder with all below it, or a workspace.

    Parameters
    ----------
    paths : iterable of str
        Paths or fsspec URLs.
    recorded : mapping
        The stamps by path that a committed stage recorded: they stand in for paths where nothing lies.
    look : callable
        Returns the stamps at a path: `stamps_at`, or one that remembers them.
    """
    found = {path: look(path) for path in dict.fromkeys(paths)}
    absent = tuple(path for path, stamps in found.items() if not stamps)
    return Inputs({path: stamps or dict(recorded.get(path, {})) for path, stamps in found.items()}, absent)


def stamps_at(path: str) -> Stamps:
    """Return size and version of every file at a path, none where nothing lies."""
    fs, _ = url_to_fs(path)
    files = _files_at(path)
    if not files and Workspace.exists(path):
        return {path: [0, f"workspace {Workspace.open(path).digest()}"]}
    n_bytes = sum(info["size"] or 0 for info in files.values())
    digested = n_bytes <= DIGESTED_BYTES
    return {name: _stamp(fs, info, digested=digested) for name, info in sorted(files.items())}


def _files_at(path: str) -> dict[str, dict[str, Any]]:
    """Return what the store says of each file at a path, by the file's own path or URL."""
    fs, inner = url_to_fs(path)
    fs.invalidate_cache()
    try:
        info = fs.info(inner)
    except FileNotFoundError:
        found = fs.glob(inner, detail=True) if glob.has_magic(inner) else {}
    else:
        if info["type"] != "directory":
            return {path: info}
        found = {} if Workspace.exists(path) else fs.find(inner, detail=True)
    named = fs.unstrip_protocol if "://" in path else str
    return {named(name): info for name, info in found.items() if info["type"] == "file"}


def _stamp(fs: Any, info: Mapping[str, Any], *, digested: bool) -> list[Any]:
    version = "" if digested else _version(fs, info)
    if version:
        return [int(info["size"] or 0), version]
    with fs.open(info["name"], "rb") as file:
        digest = hashlib.file_digest(file, new_digest).hexdigest()
        return [file.tell(), f"content {digest}"]


def _version(fs: Any, info: Mapping[str, Any]) -> str:
    """Return what the store says of a file's version, "" where it says nothing to rely on."""
    if isinstance(fs, LocalFileSystem):
        return f"mtime {os.stat(info['name']).st_mtime_ns} ns"  # noqa: PTH116 - fsspec's time is a float
    return next((f"{key} {info[key]}" for key in VERSION_KEYS if info.get(key)), "")


def recorded_sizes(manifest: StageManifest) -> dict[str, int]:
    """Return the size in bytes of each file that a committed stage has read."""
    files: Mapping[str, Stamps] = manifest.parameters.get(FILES, {})
    return {name: int(stamp[0]) for stamps in files.values() for name, stamp in stamps.items()}


def file_sizes(urls: Iterable[str]) -> dict[str, int]:
    """Return the size in bytes of each file."""
    places = {url: url_to_fs(url) for url in dict.fromkeys(urls)}
    return {url: int(fs.info(path)["size"]) for url, (fs, path) in places.items()}


def code_file(pattern: str) -> tuple[str, ...]:
    """Return the source file of a `module:function` tokenizer, found without importing it; none for others."""
    module, colon, _ = pattern.partition(":")
    top, *inner = module.split(".")
    spec = find_spec(top) if colon and top else None
    if spec is None or spec.origin is None:
        return ()
    if not inner:
        return (spec.origin,)
    place = Path(spec.origin).parent.joinpath(*inner)
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return tuple(str(file) for file in candidates if file.is_file())[:1]
