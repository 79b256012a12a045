"""The external inputs of a job, and the stamps that distinguish one version of a file from another.

A stage reads the paths of the job (`InputPath`) that are among its parameters; the runner stamps them here,
in the same way for all. Small files are identified by their content, so that a `touch` changes nothing;
larger ones by the version that their store reports (ETag, generation, time to the nanosecond), and by their
content if it reports none. The stamps that a committed stage recorded are used for files that no longer
exist.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel

from distembed.files import depth_told, failures_told
from distembed.pipeline.sections import Read
from distembed.storage.schema import WORKSPACE_FILE, new_digest
from distembed.storage.workspace import Workspace

DIGESTED_BYTES = 64 << 20
"""Up to so many bytes together, the files of a path are read whole and known by their content."""

SETTLED_NS = 2_000_000_000
"""A file that was written less than so long ago may change again within the steps of its store's clock."""

FILES = "files"
"""Where the stamps are among the parameters of a stage."""

VERSION_KEYS = ("ETag", "etag", "md5Hash", "generation", "mtime")
"""What stores say of a file that changes with its content; times in whole seconds are not among it."""

Stamps = dict[str, list[Any]]
"""Size in bytes and version by file; a workspace is known by the digest of its content."""


class Inputs(NamedTuple):
    """The stamps of the files of each path by its name, the name of each path, and the paths without files."""

    stamps: dict[str, Stamps]
    names: dict[str, str]
    absent: tuple[str, ...]


def stamp_inputs(
    paths: Iterable[str], recorded: Mapping[str, Stamps], look: Callable[[str], Stamps]
) -> Inputs:
    """Stamp what lies at each path: a file, a glob, a folder with all below it, or a workspace.

    Paths and files bear the last part of their names only, so that a job whose inputs are moved together with it
    stays what it was.

    Parameters
    ----------
    paths : iterable of str
        Paths or fsspec URLs.
    recorded : mapping
        The stamps by name that a committed stage recorded: they stand in for paths where nothing lies.
    look : callable
        Returns the stamps at a path: `stamps_at`, or one that remembers them.
    """
    names = _names(dict.fromkeys(paths))
    found = {path: look(path) for path in names}
    absent = tuple(path for path, stamps in found.items() if not stamps)
    stamps = {names[path]: stamps or dict(recorded.get(names[path], {})) for path, stamps in found.items()}
    return Inputs(stamps, names, absent)


def _names(paths: Iterable[str]) -> dict[str, str]:
    """Return the last part of each path, numbered where several share it."""
    found: dict[str, str] = {}
    for path in paths:
        name = path.rstrip("/").rsplit("/", 1)[-1]
        others = sum(other.rstrip("/").rsplit("/", 1)[-1] == name for other in found)
        found[path] = f"{name} ({others + 1})" if others else name
    return found


def stamps_at(path: str) -> Stamps:
    """Return size and version of every file at a path, none where nothing lies.

    Files of a folder or a glob are named relative to the folder.

    Raises
    ------
    ConnectionError
        The store of the path failed.
    """
    with failures_told(path):
        fs, inner = url_to_fs(path)
        files = _files_at(fs, inner)
        if (not files or WORKSPACE_FILE in files) and Workspace.exists(path):
            return {WORKSPACE_FILE: [0, f"digest {Workspace.open(path).digest()}"]}
        n_bytes = sum(info["size"] or 0 for info in files.values())
        digested = n_bytes <= DIGESTED_BYTES
        return {name: _stamp(fs, info, digested=digested) for name, info in sorted(files.items())}


def _files_at(fs: Any, path: str) -> dict[str, dict[str, Any]]:
    """Return what the store says of each file at a path of it."""
    fs.invalidate_cache()
    try:
        info = fs.info(path)
    except FileNotFoundError:
        folder = path[: re.search(r"[*?[]|$", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        found = fs.glob(path, detail=True) if glob.has_magic(path) else {}
    else:
        if info["type"] != "directory":
            return {path.rsplit("/", 1)[-1]: info}
        folder = path.rstrip("/")
        with depth_told(path):
            found = fs.find(path, detail=True)
    files = {name: info for name, info in found.items() if info["type"] == "file"}
    return {name.removeprefix(folder).lstrip("/"): info for name, info in files.items()}


def _stamp(fs: Any, info: Mapping[str, Any], *, digested: bool) -> list[Any]:
    version = "" if digested else _version(fs, info)
    if version:
        return [int(info["size"] or 0), version]
    if isinstance(fs, LocalFileSystem):
        found = os.stat(info["name"])  # noqa: PTH116 - fsspec's times are floats
        times = found.st_mtime_ns, found.st_ctime_ns  # a copy may keep the first, and none the second
        if time.time_ns() - max(times) > SETTLED_NS:
            return list(_known_content(info["name"], found.st_size, found.st_ino, *times))
    return _content(fs, info["name"])


@lru_cache(maxsize=4096)
def _known_content(path: str, *_version: int) -> list[Any]:
    """Return the stamp of a local file by its content, which is read once in a process: a plan asks three times."""
    return _content(LocalFileSystem(), path)


def _content(fs: Any, path: str) -> list[Any]:
    with fs.open(path, "rb") as file:
        digest = hashlib.file_digest(file, new_digest).hexdigest()
        return [file.tell(), f"content {digest}"]


def _version(fs: Any, info: Mapping[str, Any]) -> str:
    """Return the version of a file that the store reports; "" if it reports none that is reliable."""
    if isinstance(fs, LocalFileSystem):
        return f"mtime {os.stat(info['name']).st_mtime_ns} ns"  # noqa: PTH116 - fsspec's time is a float
    return next((f"{key} {info[key]}" for key in VERSION_KEYS if info.get(key)), "")


def recorded_bytes(parameters: Mapping[str, Any]) -> int:
    """Return the total size in bytes of the files whose stamps are among the parameters of a stage."""
    files: Mapping[str, Stamps] = parameters.get(FILES, {})
    return sum(int(stamp[0]) for stamps in files.values() for stamp in stamps.values())


def file_sizes(urls: Iterable[str]) -> dict[str, int]:
    """Return the size in bytes of each file."""
    return {url: _file_size(url) for url in dict.fromkeys(urls)}


def _file_size(url: str) -> int:
    with failures_told(url):
        fs, path = url_to_fs(url)
        return int(fs.info(path)["size"])


def inputs_of(section: BaseModel) -> dict[str, tuple[str, ...]]:
    """Return, for each value of a section or a job that names something to read, the paths to stamp."""
    found: dict[str, tuple[str, ...]] = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        kinds = set(_marks(field.annotation, field.metadata))
        for text in texts_in(value) if kinds else ():
            found[text] = code_file(text) if Read.CODE in kinds else (text,)
        inner = value.values() if isinstance(value, Mapping) else [value]
        for each in inner:
            found |= inputs_of(each) if isinstance(each, BaseModel) else {}
    return found


def _marks(annotation: Any, metadata: Iterable[Any] = ()) -> Iterator[Read]:
    """Yield what a type says of the files that its values name, at any depth."""
    yield from (
        mark for mark in (*metadata, *getattr(annotation, "__metadata__", ())) if isinstance(mark, Read)
    )
    for inner in get_args(annotation):
        yield from _marks(inner)


def is_input(annotation: Any) -> bool:
    """Return whether the values of a type name files that a stage reads."""
    return Read.FILES in set(_marks(annotation))


def texts_in(value: Any) -> Iterator[str]:
    """Yield every string in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(inner)


def code_file(pattern: str) -> tuple[str, ...]:
    """Return the source file of a `module:function` tokenizer, found without importing it; none for others.

    A module that is built into Python has no file: the recorded version of Python stands for it.
    """
    module, colon, _ = pattern.partition(":")
    top, *inner = module.split(".")
    spec = find_spec(top) if colon and top else None
    if spec is None or spec.origin is None:
        return ()
    place = Path(spec.origin).parent.joinpath(*inner)
    candidates = (place.with_suffix(".py"), place / "__init__.py") if inner else (Path(spec.origin),)
    return tuple(str(file) for file in candidates if file.is_file())[:1]
