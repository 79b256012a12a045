"""Bringing the files of a data set into the folder: its sources are downloaded, and its files made of them."""

from __future__ import annotations

import hashlib
import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from distembed.datasets.catalog import DataFile, DataSet, data_folder
from distembed.datasets.preparations import PREPARATIONS
from distembed.files import replacing
from distembed.urls import downloading

SOURCES = "sources"
"""The folder of what was downloaded, in that of the data."""

PRESET = 6
"""How hard xz tries: a file is compressed once, and its digest is that of what it holds."""


def source_path(address: str) -> Path:
    """Return where the source of an address lies."""
    parts = urlsplit(address)
    return data_folder() / SOURCES / str(parts.hostname) / parts.path.lstrip("/")


def absent(data_set: DataSet) -> list[DataFile]:
    """Return the files of a data set that are not in the folder."""
    return [file for file in data_set.files if not (data_folder() / file.path).is_file()]


def changed(data_set: DataSet) -> list[DataFile]:
    """Return the files of a data set whose content differs from the SHA-256 in the table."""
    here = [file for file in data_set.files if (data_folder() / file.path).is_file()]
    return [file for file in here if _digest(data_folder() / file.path) != file.sha256]


def _digest(path: Path) -> str:
    """Return the SHA-256 of what a file holds, also a compressed one."""
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def fetch(data_set: DataSet) -> Iterator[str]:
    """Download the sources that the absent files of a data set need, yielding each address.

    Raises
    ------
    LookupError
        No address is known: the message says what to put where.
    ConnectionError
        A server cannot be reached, or has no such file.
    """
    for address in dict.fromkeys(each for file in absent(data_set) for each in _addresses(data_set, file)):
        target = source_path(address)
        if target.is_file():
            continue
        yield address
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with (
                downloading(address) as answer,
                replacing(str(target)) as partial,
                Path(partial).open("wb") as file,
            ):
                shutil.copyfileobj(answer, file)
        except OSError as error:
            raise ConnectionError(
                f"{address} cannot be downloaded ({error}): put that file at {target}, "
                f"then type distembed data prepare {data_set.name}"
            ) from error


def prepare(data_set: DataSet) -> Iterator[Path]:
    """Make the absent files of a data set of its sources, and yield each.

    Raises
    ------
    LookupError
        No address is known: the message says what to put where.
    FileNotFoundError
        A source is absent.
    ValueError
        What was made is not the file that belongs there.
    """
    for file in absent(data_set):
        content = PREPARATIONS[file.preparation](
            [_source(data_set, each) for each in _addresses(data_set, file)], **file.options
        )
        if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
            raise ValueError(
                f"the sources of {data_set.name} in {data_folder() / SOURCES} do not make {file.path}: its SHA-256 "
                f"would be {found} in place of {file.sha256}; remove them, and fetch them again"
            )
        target = data_folder() / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(str(target)) as partial:
            Path(partial).write_bytes(
                lzma.compress(content, preset=PRESET) if target.suffix == ".xz" else content
            )
        yield target


def _addresses(data_set: DataSet, file: DataFile) -> tuple[str, ...]:
    if data_set.by_hand:
        raise LookupError(
            f"no public address is known that makes {data_set.name}: put {data_set.by_hand} into "
            f"{data_folder() / file.path}"
        )
    return file.addresses


def _source(data_set: DataSet, address: str) -> bytes:
    try:
        return source_path(address).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{source_path(address)} is not there: type distembed data fetch {data_set.name}, or put {address} there"
        ) from None
