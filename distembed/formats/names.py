"""What the name of a file says of it: how it is packed, and its extension before that of the compression."""

from __future__ import annotations

from pathlib import PurePath

COMPRESSIONS = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
"""The ends of the names of compressed files, in lower case, and what a reader calls each."""


def compression_of(name: str) -> str:
    """Return how the name of a file says that it is compressed, "" where it is not."""
    return COMPRESSIONS.get(PurePath(name).suffix.lower(), "")


def without_compression(name: str) -> str:
    """Return the name of a file without the extension of its compression."""
    for compression in COMPRESSIONS:
        name = name[: -len(compression)] if name.lower().endswith(compression) else name
    return name


def suffix_of(name: str) -> str:
    """Return the extension of a file before that of its compression, in lower case."""
    return PurePath(without_compression(name)).suffix.lower()
