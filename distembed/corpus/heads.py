"""The beginnings of files: the encoding of each, and what is doubtful about it."""

from __future__ import annotations

import codecs
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatch

from distembed.corpus.paths import name_files
from distembed.corpus.streams import CorpusError, Partition, Progress, decompressed, open_url, option_text
from distembed.formats.encodings import HEAD_BYTES, ONE_BYTE, detect_encoding, is_binary, misread_as

Encodings = tuple[tuple[str, str], ...]
"""Patterns of file names, each with the encoding of the files that match."""

_RENAME = "save it as plain text, or give it the extension of its format"
_UNZIP = ("a ZIP archive or an office document", "unpack it (unzip FILE), or save it as plain text")
NOT_TEXT = {
    b"%PDF": ("a PDF file", "save it as plain text (pdftotext FILE)"),
    b"PK\x03\x04": _UNZIP,
    b"PK\x05\x06": _UNZIP,
    b"\xd0\xcf\x11\xe0": ("an old office document", "save it as plain text"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it (7z x FILE)"),
    b"Rar!\x1a\x07": ("a RAR archive", "unpack it (unrar x FILE)"),
    b"\x1f\x8b": ("compressed with gzip", _RENAME),
    b"BZh": ("compressed with bzip2", _RENAME),
    b"\xfd7zXZ": ("compressed with xz", _RENAME),
    b"\x28\xb5\x2f\xfd": ("compressed with Zstandard", _RENAME),
    b"PAR1": ("a Parquet file", _RENAME),
}
"""The first bytes of files that are no text, whatever their name, with what they are and what to do."""

PACKED_TAR = (".tgz", ".tbz", ".tbz2", ".txz", ".tzst")
"""How the names of tar archives end that say nothing else of their compression."""


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
    check_is_text(partition, head)
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


def check_is_text(partition: Partition, head: bytes) -> None:
    """Check that a file is no archive, and none of the other files of `NOT_TEXT`, from its first bytes unpacked.

    Raises
    ------
    CorpusError
        If it is; the message says how to get its text.
    """
    found = [meaning for magic, meaning in NOT_TEXT.items() if head.startswith(magic)]
    if is_tar(head) or (found and partition.url.lower().endswith(PACKED_TAR)):
        found = [("a tar archive", "unpack it (tar -xf FILE), and give the folder with its files")]
    for what, remedy in found:
        raise CorpusError(f"{partition.url} is {what}, not text: {remedy}.")


def is_tar(head: bytes) -> bool:
    """Return whether bytes begin with the header of a tar archive: its mark, or that of before 1988 by its checksum."""
    if head[257:262] == b"ustar":
        return True
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


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
