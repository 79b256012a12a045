"""The data sets by name, and the folder in which their files lie: `{data}/PATH` in a job."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from distembed.compiled import user_cache

VARIABLE = "DISTEMBED_DATA"
"""The environment variable that names the folder."""

PREFIX = "{data}/"
TABLE = Path(__file__).with_name("data_sets.toml")
BESIDE = Path(__file__).parents[3] / "shared" / "data"
"""The folder beside a checkout that its tests read."""


class DataFile(NamedTuple):
    """A file of a data set: its path in the folder, the addresses it is made of, how, and the digest of its content."""

    path: str
    addresses: tuple[str, ...]
    preparation: str
    options: dict[str, str]
    sha256: str


class DataSet(NamedTuple):
    """Some files with one origin; `by_hand` says where they are from if no address is known that makes them."""

    name: str
    what: str
    licence: str
    by_hand: str
    files: tuple[DataFile, ...]


@cache
def data_sets() -> dict[str, DataSet]:
    """Return every data set by its name."""
    return {name: _data_set(name, table) for name, table in tomllib.loads(TABLE.read_text("utf-8")).items()}


def _data_set(name: str, table: dict[str, Any]) -> DataSet:
    files = tuple(_file(path, table | entry) for path, entry in table["files"].items())
    return DataSet(name, table["what"], table["licence"], table.get("by_hand", ""), files)


def _file(path: str, entry: dict[str, Any]) -> DataFile:
    given = entry.get("from", [])
    names = [given] if isinstance(given, str) else given
    addresses = [urljoin(entry["source"], each) for name in names for each in _numbered(name)]
    return DataFile(
        path, tuple(addresses), entry.get("prepare", "copy"), entry.get("options", {}), entry["sha256"]
    )


def _numbered(name: str) -> Iterator[str]:
    """Yield the names that `a{00..12}b` stands for; another name as it is."""
    if found := re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", name):
        before, first, last, after = found.groups()
        yield from (f"{before}{n:0{len(first)}}{after}" for n in range(int(first), int(last) + 1))
    else:
        yield name


def data_folder() -> Path:
    """Return the folder: that of `DISTEMBED_DATA`, else the one beside a checkout, else one in the user's cache."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser().absolute()
    return BESIDE if BESIDE.is_dir() else user_cache() / "distembed" / "data"


def missing_advice(text: str) -> str | None:
    """Return the command that brings what a text names in the folder, files or globs; None where it names nothing."""
    found = re.findall(re.escape(f"{data_folder()}{os.sep}") + r"([^\s,;:'\"]+)", text)
    paths = [Path(each).as_posix().rstrip(".") for each in found]
    names = [
        each.name
        for each in data_sets().values()
        if any(_is_at(file.path, path) for file in each.files for path in paths)
    ]
    return f"distembed data fetch {' '.join(names)}" if names else None


def _is_at(path: str, wanted: str) -> bool:
    return fnmatch(path, wanted) or path.startswith(f"{wanted.rstrip('/')}/")
