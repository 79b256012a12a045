"""What the name of a file says of it: how it is packed, and which format its extension stands for."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import splitext

from distembed.spelling import did_you_mean

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
"""The ends of the names of compressed files, in lower case, and what fsspec calls each."""

TEXT_FORMATS = {
    ".xml": "mediawiki",
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""The formats of a corpus by the extensions of its files."""

TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".xlsm")
"""How the names of tables end that are neither vectors nor told by their first bytes."""


def compression_of(name: str) -> str:
    """Return how the name of a file says that it is compressed, "" where it is not."""
    return COMPRESSIONS.get(_extension(name), "")


def without_compression(name: str) -> str:
    """Return the name of a file without the extension of its compression."""
    for compression in COMPRESSIONS:
        name = name[: -len(compression)] if name.lower().endswith(compression) else name
    return name


def suffix_of(name: str) -> str:
    """Return the extension of a file before that of its compression, in lower case."""
    return _extension(without_compression(name))


def _extension(name: str) -> str:
    # A `PurePath` of each name is a sixth of the time in which a corpus of 100,000 files is planned.
    return splitext(name.rstrip("/"))[1].lower()


class FormatError(ValueError):
    """A file is to be written in a format that there is not, or that its name does not tell."""


def unknown_format(
    name: str, ends: Sequence[str], *, asked: str | None = None, formats: Sequence[str] = ()
) -> FormatError:
    """Return the error of a file, with the nearest end of a name that tells a format, or the nearest format."""
    if asked is not None:
        advice = did_you_mean(asked, formats, otherwise=f"choose {', '.join(formats)}")
        return FormatError(f"there is no format {asked!r} to write {name} in; {advice}")
    every = f"end it in {', '.join(ends[:-1])} or {ends[-1]}"
    advice = did_you_mean(suffix_of(name), ends, otherwise=every)
    return FormatError(f"the format of {name} cannot be detected from its name: {advice}")
