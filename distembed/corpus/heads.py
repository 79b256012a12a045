"""The beginnings of files: the encoding of each, and what is doubtful about it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatch

from distembed.corpus.encodings import HEAD_BYTES, ONE_BYTE, detect_encoding, is_binary, misread_as
from distembed.corpus.paths import name_files
from distembed.corpus.streams import CorpusError, Partition, Progress, decompressed, open_url, option_text

Encodings = tuple[tuple[str, str], ...]
"""Patterns of file names, each with the encoding of the files that match."""

NOT_TEXT = {
    b"%PDF": "a PDF file",
    b"PK\x03\x04": "a ZIP file or an office document",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
    b"PAR1": "a Parquet file",
}
"""The first bytes of files that are no text, whatever their name."""


def encoding_patterns(encoding: str | Mapping[str, str]) -> Encodings:
    """Return the encodings asked for as patterns of file names, and check that Python knows each.

    Raises
    ------
    ValueError
        If there is no such encoding.
    """
    patterns = {"*": encoding} if isinstance(encoding, str) else dict(encoding)
    for name in patterns.values():
        try:
            codecs.lookup("utf-8" if name == "auto" else name)
        except LookupError as error:
            raise ValueError(
                f'encoding is {name!r}, which Python does not know; give "auto", "utf-8", "utf-16", "latin-1", '
                '"cp1252" or another of its names'
            ) from error
    return tuple(patterns.items())


def asked_encoding(url: str, encodings: Encodings) -> str:
    """Return the encoding that the first matching pattern gives a file, "auto" where none matches."""
    name = url.rsplit("/", 1)[-1]
    return next((e for pattern, e in encodings if fnmatch(url, pattern) or fnmatch(name, pattern)), "auto")


def with_encoding(partition: Partition, encodings: Encodings) -> Partition:
    """Return a partition of text with the encoding that was asked for, or that its beginning shows.

    Raises
    ------
    CorpusError
        If the file is no text.
    """
    head = read_beginning(partition)
    for magic, what in NOT_TEXT.items():
        if head.startswith(magic):
            raise CorpusError(
                f"{partition.url} is {what}, not text: save it as plain text, or give it the extension of its format."
            )
    encoding = asked_encoding(partition.url, encodings)
    if encoding == "auto":
        if is_binary(head):
            raise CorpusError(
                f"{partition.url} holds binary data, not text: name files of text, or give its "
                f"{option_text(partition.section, 'encoding')}."
            )
        encoding = detect_encoding(head)
        if encoding == ONE_BYTE and partition.errors == "replace":
            encoding = "utf-8"  # whoever replaces bytes that do not decode has damaged UTF-8
    check_line_ends(partition, head.decode(encoding, "replace"))
    return replace(partition, encoding=encoding)


def check_line_ends(partition: Partition, text: str) -> None:
    """Check that the lines at the beginning of a file end in line feeds, also after carriage returns.

    Raises
    ------
    CorpusError
        If there are carriage returns alone.
    """
    if "\r" in text and "\n" not in text:
        raise CorpusError(
            f"{partition.url} has lines that end in carriage returns alone; convert it: tr '\\r' '\\n' < FILE > NEW"
        )


def read_beginning(partition: Partition) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with closing(open_url(partition.url, partition.storage_options)) as raw:
        if not partition.compression:
            return raw.read(HEAD_BYTES)
        data = b""
        for piece in decompressed(raw, partition, Progress()):
            data += piece
            if len(data) >= HEAD_BYTES:
                break
        return data[:HEAD_BYTES]


def doubts(partitions: Sequence[Partition], encodings: Encodings) -> Iterator[str]:
    """Yield a sentence on all files whose encoding is a guess, and one per file that seems to have another one."""
    guessed: dict[str, list[str]] = {}
    for partition in {part.url: part for part in partitions}.values():
        if partition.format in ("mediawiki", "parquet"):
            continue
        key = option_text(partition.section, "encoding")
        if asked_encoding(partition.url, encodings) == "auto":
            if partition.encoding == ONE_BYTE:
                guessed.setdefault(key, []).append(partition.url)
        elif (why := misread_as(read_beginning(partition), partition.encoding)) is not None:
            yield f"{partition.url} {why}; give {option_text(partition.section, 'encoding', 'auto')}"
    for key, urls in guessed.items():
        one = len(urls) == 1
        are, them = ("is", "it is") if one else ("are", "they are")
        names = urls[0] if one else f"{len(urls):,} files ({name_files(urls)})"
        yield f"{names} {are} not UTF-8 and {are} taken for Windows-1252 (western European); give {key} if {them} not"
