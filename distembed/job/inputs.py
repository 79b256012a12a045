"""The external inputs of a job, and the stamps that distinguish one version of a file from another.

A stage reads the paths of the job (`InputPath`) that are among its parameters; the runner stamps them here,
in the same way for all. A local file is known by its content, whatever its size, so that a `touch` changes nothing.
Its size, its times and its number on the disk are hints: where they are those of an earlier look, its content is not
read again. A large file of an object store is known by the version that the store gives it (ETag, MD5, generation),
and by its content if it gives none. The stamps that a committed stage recorded are used for files that no longer
exist.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any, get_args

from dask.system import CPU_COUNT
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel

from distembed.corpus.paths import files_at, named_files, readable_name, size_of
from distembed.display import format_bytes
from distembed.files import RefusedError, failures_told
from distembed.job.model import Read
from distembed.storage import records
from distembed.storage.folder import version_of
from distembed.storage.workspace import Workspace
from distembed.urls import check_regular, url_to_fs

DIGESTED_BYTES = 64 << 20
"""Up to so many bytes together, the files of a path are read at every look: it takes a tenth of a second."""

NOTED_BYTES = 1 << 30
"""A run says that it reads more than this to know files by their content: it takes a second and more."""

READING_THREADS, PIECE_BYTES = min(8, CPU_COUNT), 1 << 20
"""Files that are read at a time, and the bytes of each that are in memory."""

SETTLED_NS = 2_000_000_000
"""A file that was written less than so long ago may change again within the steps of its store's clock."""

HINTS = "inputs.json"
"""The file of a workspace with the hints of its large local inputs: where it is damaged or gone, they are read."""

FILES = "files"
"""Where the stamps are among the parameters of a stage."""

Stamps = dict[str, list[Any]]
"""Size in bytes and version by file; a workspace is known by the digest of its content."""


def stamp_inputs(
    paths: Iterable[str], recorded: Mapping[str, Stamps], look: Callable[[str], Stamps]
) -> tuple[dict[str, Stamps], dict[str, str], tuple[str, ...]]:
    """Stamp what lies at each path: a file, a glob, a folder with all below it, or a workspace.

    Returns the stamps of the files of each path by its name, the name of each path, and the paths without files.

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
    names: dict[str, str] = {}
    shared = Counter[str]()
    for path in dict.fromkeys(paths):
        name = path.rstrip("/").rsplit("/", 1)[-1]
        shared[name] += 1
        names[path] = f"{name} ({shared[name]})" if shared[name] > 1 else name
    found = {path: look(path) for path in names}
    absent = tuple(path for path, stamps in found.items() if not stamps)
    stamps = {names[path]: stamps or dict(recorded.get(names[path], {})) for path, stamps in found.items()}
    return stamps, names, absent


def look_for(
    workspace: Workspace | None, *, note: Callable[[str], None] | None = None
) -> Callable[[str], Stamps]:
    """Return what stamps the inputs of a job for a workspace; without one there is nothing to compare content with.

    Parameters
    ----------
    workspace : Workspace or None
        Its hints save reading.
    note : callable, optional
        Called with a sentence before much is read.
    """
    if workspace is None:
        return partial(stamps_at, read=False)
    with suppress(records.ManifestError):
        found = json.loads(records.unseal(_recorded_hints(workspace), HINTS))
        _hints.update({state: version for state, version in found.items() if isinstance(version, str)})
    return partial(stamps_at, note=note)


def stamps_at(path: str, *, note: Callable[[str], None] | None = None, read: bool = True) -> Stamps:
    """Return size and version of every file at a path, or of a workspace; none where nothing lies.

    Files of a folder or a glob are named relative to the folder; hidden ones are no part of it. With `read` False the
    versions are empty.

    Raises
    ------
    ConnectionError
        The store of the path failed.
    """
    with failures_told(path):
        fs, inner = url_to_fs(path)
        fs.invalidate_cache()
        folder, found = named_files(fs, inner)
        names = (readable_name(name[len(folder) :] if folder else name.rsplit("/", 1)[-1]) for name in found)
        files = {name.lstrip("/"): info for name, info in zip(names, found.values(), strict=True)}
        if (not files or records.WORKSPACE_FILE in files) and Workspace.exists(path):
            return {records.WORKSPACE_FILE: [0, f"digest {Workspace.open(path).digest()}"]}
        sizes = {name: int(info["size"] or 0) for name, info in files.items()}
        if not read:
            return {name: [size, ""] for name, size in sizes.items()}
        if isinstance(fs, LocalFileSystem):
            paths = [info["name"] for info in files.values()]
            n_bytes = sum(size for state, size, _ in map(_state, paths) if state not in _hints)
            if note is not None and n_bytes > NOTED_BYTES:
                note(f"reading {path}, {format_bytes(n_bytes)}, to know it by its content")
            return dict(zip(files, _local_contents(paths), strict=True))
        stamps, is_large = Stamps(), sum(sizes.values()) > DIGESTED_BYTES
        for name, info in files.items():
            version = version_of(info) if is_large else ""
            stamps[name] = [sizes[name], version] if version else _content(fs, info["name"])
        return stamps


def versions_at(path: str) -> dict[str, str]:
    """Return the version of every file at a path by its URL, as the readers of a corpus name it."""
    urls = (file.url for file in files_at(path))
    return {url: str(version) for url, (_, version) in zip(urls, stamps_at(path).values(), strict=True)}


def _content(fs: Any, path: str, stopped: Event | None = None) -> list[Any]:
    """Return size and digest of the content of a file, which is read by the piece until it is `stopped`."""
    digest, n_bytes = records.new_digest(), 0
    if isinstance(fs, LocalFileSystem):
        check_regular(path)
    with fs.open(path, "rb") as file:
        while piece := file.read(PIECE_BYTES):
            if stopped is not None and stopped.is_set():
                raise InterruptedError(f"{path} was not read to its end")
            digest.update(piece)
            n_bytes += len(piece)
    return [n_bytes, f"content {digest.hexdigest()}"]


# --- hints, which save reading ---------------------------------------------------------------------------------


_hints: dict[str, str] = {}
"""The version of a local file as it was when it was last read as a whole, by its state."""


def _state(path: str) -> tuple[str, int, int]:
    """Return what changes when a local file is written, its size, and when it was changed last.

    A copy may keep the size and the time of writing; nobody can set the time of change. The number of the device says
    nothing: a network folder has another one on each machine.
    """
    found = os.stat(path)  # noqa: PTH116 - a name in bytes that are not UTF-8
    numbers = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return " ".join(map(str, numbers)), found.st_size, max(found.st_mtime_ns, found.st_ctime_ns)


def _local_contents(paths: Iterable[str]) -> list[list[Any]]:
    """Return the stamps of local files by their content; threads read them, and end with an error or Ctrl-C."""
    stopped = Event()

    def stamp_of(path: str) -> list[Any]:
        state, size, changed = _state(path)
        if state in _hints:
            return [size, _hints[state]]
        stamp = _content(LocalFileSystem(), path, stopped)
        if time.time_ns() - changed > SETTLED_NS and _state(path)[0] == state:
            _hints[state] = stamp[1]
        return stamp

    with ThreadPoolExecutor(READING_THREADS) as pool:
        try:
            return list(pool.map(stamp_of, paths))
        finally:
            stopped.set()


def keep_hints(workspace: Workspace, parameters: Iterable[Mapping[str, Any]]) -> None:
    """Record in a workspace the hints of the large inputs whose stamps are among the parameters of stages."""
    paths = (stamps for each in parameters for stamps in each.get(FILES, {}).values())
    large = (stamps for stamps in paths if sum(int(size) for size, _ in stamps.values()) > DIGESTED_BYTES)
    versions = {version for stamps in large for _, version in stamps.values()}
    data = records.seal(
        records.canonical_json({state: version for state, version in _hints.items() if version in versions})
    )
    if versions and _recorded_hints(workspace) != data:
        workspace.write_file(HINTS, data)


def _recorded_hints(workspace: Workspace) -> bytes:
    """Return the hints as they lie in a workspace, nothing of a file that cannot be read as a record."""
    try:
        return workspace.read_file(HINTS, most=records.RECORD_BYTES) or b""
    except (ConnectionError, RefusedError):
        raise
    except OSError:
        return b""


def recorded_bytes(parameters: Mapping[str, Any]) -> int:
    """Return the total size in bytes of the files whose stamps are among the parameters of a stage."""
    files: Mapping[str, Stamps] = parameters.get(FILES, {})
    return sum(int(stamp[0]) for stamps in files.values() for stamp in stamps.values())


def file_sizes(urls: Iterable[str]) -> dict[str, int]:
    """Return the size in bytes of each file."""
    sizes = {}
    for url in urls:
        with failures_told(url):
            fs, path = url_to_fs(url)
            sizes[url] = size_of(fs.info(path), url)
    return sizes


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
    if spec is None:
        return ()
    if not inner:
        candidates = [Path(spec.origin)] if spec.origin else []
    else:
        places = [Path(folder).joinpath(*inner) for folder in spec.submodule_search_locations or ()]
        candidates = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return tuple(str(file) for file in candidates if file.is_file())[:1]
