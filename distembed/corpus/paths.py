"""The files that the paths of a corpus name: files, folders, globs and URLs."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fsspec

from distembed.files import check_regular, depth_told, failures_told

OF_DESKTOPS = frozenset({"Thumbs.db", "desktop.ini"})
"""Files that desktops write into the folders of their users."""


def name_files(urls: Iterable[str]) -> str:
    """Return file names for a message: the first three, and the number of others."""
    names = list(dict.fromkeys(urls))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def find_files(paths: list[str | Path], options: tuple[tuple[str, Any], ...]) -> list[str]:
    """Return the URLs that paths and globs name, in order."""
    urls = []
    for path in map(str, paths):
        with failures_told(path):
            found = files_at(path, options)
        if not found:
            check_file_name(path)
            raise FileNotFoundError(
                f"{path} matches no file; check the path, or give a folder or a glob (*.txt)."
            )
        urls += found
    return urls


def files_at(path: str, options: tuple[tuple[str, Any], ...]) -> list[str]:
    """Return the URLs of the files that a path, a folder or a glob names, in order."""
    filesystem, inner = fsspec.core.url_to_fs(path, **dict(options))
    if filesystem.isdir(inner):
        with depth_told(path):
            every = sorted(filesystem.find(inner))
        files = [name for name in every if not is_hidden(name[len(inner) :])]
    elif filesystem.exists(inner):
        check_regular(path)
        return [path]
    else:
        found = sorted(filesystem.glob(inner)) if glob.has_magic(inner) else []
        files = [name for name in found if not filesystem.isdir(name)]
    return [filesystem.unstrip_protocol(name) if "://" in path else name for name in files]


def is_hidden(name: str) -> bool:
    """Return whether a file below a folder is hidden, in a hidden folder, or a file that desktops put beside others."""
    *folders, last = name.strip("/").split("/")
    return (
        any(part.startswith(".") for part in (*folders, last)) or last.startswith("~$") or last in OF_DESKTOPS
    )


def check_file_name(path: str) -> None:
    """Check that the file system encoding of this process can represent a name.

    Raises
    ------
    OSError
        If it cannot, because file names are ASCII in some locales.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        encoding = sys.getfilesystemencoding()
        raise OSError(
            f"{path!r} cannot be represented in {encoding}, which this locale uses for file names; set PYTHONUTF8=1."
        ) from error
