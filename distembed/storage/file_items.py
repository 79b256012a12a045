"""Outputs that are plain files: items, each made by a task of its own under a prefix that is its own."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from distembed.storage.files import Folder
from distembed.storage.schema import (
    BlockRecord,
    FileRecord,
    Output,
    OutputRecord,
    digest_of_json,
)


class MakeFiles(Protocol):
    """A function that writes the files of an item, named `prefix` plus a suffix, and returns a JSON summary."""

    def __call__(self, index: int, prefix: str, /) -> Mapping[str, Any]:
        """Write the files and return the summary."""
        ...


class FileItem(NamedTuple):
    """One item of `Stage.store_files`: the full paths or URLs of its files, sorted, and its summary."""

    paths: list[str]
    summary: Mapping[str, Any]


def file_items(folder: Folder, record: OutputRecord) -> list[FileItem]:
    """Return the items of a files output.

    Raises
    ------
    FileNotFoundError
        If the output was temporary and has been dropped.
    """
    if record.dropped:
        raise FileNotFoundError(f"Temporary output {record.spec.name!r} was dropped: run its stage again.")
    return [FileItem([folder.path(name) for name in sorted(b.files)], b.summary) for b in record.blocks]


def make_item(index: int, *, folder: Folder, spec: Output, make: MakeFiles) -> BlockRecord:
    """Make the files of an item, after removing those that an earlier run left, and return their record.

    Raises
    ------
    ValueError
        If it writes no file.
    """
    prefix = spec.block_location(index)
    for name in folder.beginning(prefix):
        folder.remove(name)
    folder.make_folder(posixpath.dirname(prefix))
    summary = dict(make(index, folder.path(prefix)))
    files: dict[str, FileRecord] = {name: folder.record(name) for name in sorted(folder.beginning(prefix))}
    if not files:
        raise ValueError(
            f"Item {index} of {spec.name!r} wrote no file that begins with {folder.path(prefix)}."
        )
    return BlockRecord(
        index, digest_of_json([[files[name].digest for name in files], summary]), files, summary
    )
