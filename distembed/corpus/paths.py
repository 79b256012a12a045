"""The files that the paths of a corpus name, by files, folders, globs and URLs, and the formats their names suggest."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from distembed.files import failures_told
from distembed.formats.names import TEXT_FORMATS, suffix_of
from distembed.urls import check_regular, url_to_fs

Format = Literal["auto", "mediawiki", "text", "jsonl", "csv", "tsv", "parquet"]
OF_WIKIPEDIA = ".xml-p"
"""What stands in Wikipedia's own names: enwiki-20240101-pages-articles1.xml-p1p41242."""

OF_DESKTOPS = frozenset({"Thumbs.db", "desktop.ini"})
"""Files that desktops write into the folders of their users."""

OF_ARRAYS = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata"})
"""Files that say what the folder of a Zarr array of version 2 holds."""


def name_files(urls: Iterable[str]) -> str:
    """Return file names for a message: the first three, and the number of others."""
    names = list(dict.fromkeys(urls))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class FoundFile(NamedTuple):
    """A file that a path names: its URL, its bytes as it is stored, what its store says, its path in the folder."""

    url: str
    size: int
    version: str
    path: str


def readable_name(url: str) -> str:
    """Return the name of a file, with escapes for the bytes that are not UTF-8."""
    return url.encode(errors="surrogateescape").decode(errors="backslashreplace")


def find_files(paths: list[str | Path]) -> tuple[FoundFile, ...]:
    """Return the files that paths and globs name, in order, each once where it is first named."""
    files: dict[tuple[Any, str], FoundFile] = {}
    for path in map(str, paths):
        with failures_told(path):
            found = files_at(path)
        if not found:
            try:
                os.fsencode(path)
            except UnicodeEncodeError as error:  # file names are ASCII in some locales
                encoding = sys.getfilesystemencoding()
                raise OSError(
                    f"{path!r} cannot be represented in {encoding}, which this locale uses for file names; set "
                    "PYTHONUTF8=1."
                ) from error
            raise FileNotFoundError(
                f"{path} matches no file; check the path, or give a folder or a glob (*.txt)."
            )
        for file in found:
            files.setdefault(url_to_fs(file.url), file)
    return tuple(files.values())


def files_at(path: str) -> list[FoundFile]:
    """Return the files that a path, a folder or a glob names, in order."""
    filesystem, inner = url_to_fs(path)
    folder, infos = named_files(filesystem, inner)
    if not folder and inner in infos:
        check_regular(path)
        urls = [path]
    else:
        urls = [filesystem.unstrip_protocol(name) if "://" in path else name for name in infos]
    names = [name[len(folder) :].lstrip("/") if folder else name.rpartition("/")[2] for name in infos]
    return [
        FoundFile(url, size_of(info, url), repr(info), name)
        for url, info, name in zip(urls, infos.values(), names, strict=True)
    ]


def size_of(info: Mapping[str, Any], url: str) -> int:
    """Return the size in bytes of a file by what its store says of it.

    Raises
    ------
    OSError
        If that has no size, as of pages that a web server makes when they are asked for.
    """
    if info.get("size") is None:
        raise OSError(f"the store of {url} does not say how large the file is: download it and name the copy")
    return int(info["size"])


def named_files(filesystem: Any, path: str) -> tuple[str, dict[str, Any]]:
    """Return the folder of a path of a store, and what the store says of each file that it names, in order.

    A folder stands for all files below it, and a glob for those that it matches; hidden ones are left out, unless the
    glob asks for them itself, as ``.notes/*`` does. Symbolic links to files are followed, those to folders are not. The
    folder is "" where the path is that of a file.
    """
    try:
        info = filesystem.info(path)
    except FileNotFoundError:
        folder = path[: re.search(r"[*?[]|$", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        found = filesystem.glob(path, detail=True) if glob.has_magic(path) else {}
    else:
        if info["type"] != "directory":
            return "", {path: info}
        try:
            folder, found = path.rstrip("/"), filesystem.find(path, detail=True)
        except RecursionError:
            raise OSError(
                f"{path} has folders inside each other too deeply to be listed: give one further down"
            ) from None
    asked = is_hidden(path[len(folder) :])
    infos = {name: found[name] for name in sorted(found) if asked or not is_hidden(name[len(folder) :])}
    is_file = {  # the type of a link is "other", as that of a pipe
        name: info["type"] == "file" or (info.get("islink", False) and not filesystem.isdir(name))
        for name, info in infos.items()
    }
    return folder, {name: info for name, info in infos.items() if is_file[name]}


def is_hidden(name: str) -> bool:
    """Return whether a file below a folder is hidden, in a hidden folder, or a file that desktops put beside others.

    Every reader of folders asks here, and so do the stamps of what a stage has read.
    """
    *folders, last = name.strip("/").split("/")
    starts_with_dot = any(part.startswith(".") for part in folders) or (
        last.startswith(".") and last not in OF_ARRAYS
    )
    return starts_with_dot or last.startswith("~$") or last in OF_DESKTOPS


def format_of(url: str) -> str:
    """Return the format that the name of a file suggests, with or without the extension of a compression."""
    return TEXT_FORMATS.get(suffix_of(url), "mediawiki" if OF_WIKIPEDIA in url else "text")
