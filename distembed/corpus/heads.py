"""The beginnings of files: the encoding of each, and what is doubtful about it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatch

from distembed.corpus.errors import CorpusError
from distembed.corpus.paths import name_files
from distembed.corpus.streams import Partition, Progress, decompressed, not_decoded, not_utf8, option_text
from distembed.formats.encodings import (
    HEAD_BYTES,
    ONE_BYTE,
    Guess,
    guess_encoding,
    is_binary,
    is_utf8,
    misread_as,
)
from distembed.formats.heads import Head, sniffed
from distembed.formats.pieces import open_url

GUESSED_FILES = 20
"""Files whose encoding is guessed."""

Encodings = tuple[tuple[str, str], ...]
"""Patterns of file names, each with the encoding of the files that match."""


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
    data = read_beginning(partition)
    head = sniffed(data, partition.url)
    check_is_text(partition, head)
    encoding = asked_encoding(partition.url, encodings)
    if encoding == "auto":
        if is_binary(data):
            raise CorpusError(
                f"{partition.url} holds binary data, not text: name files of text, or give its "
                f"{option_text(partition.section, 'encoding')}."
            )
        encoding = head.encoding
        if encoding == ONE_BYTE and partition.errors == "replace":
            encoding = "utf-8"  # whoever replaces bytes that do not decode has damaged UTF-8
    check_line_ends(partition, data.decode(encoding, "replace"))
    if encoding != partition.encoding:
        partition = replace(partition, encoding=encoding)
    if partition.bad_records == "skip":
        _check_decodes(partition, data)
    return partition


def _check_decodes(partition: Partition, data: bytes) -> None:
    """Check that the beginning of text, which is left out as a whole if at all, is in its encoding."""
    if partition.format != "text" or partition.errors != "strict":
        return
    try:
        codecs.getincrementaldecoder(partition.encoding)("strict").decode(data)
    except UnicodeDecodeError as error:
        if is_utf8(partition.encoding):
            raise not_utf8(partition.url, error.start, data[error.start], partition.section) from error
        raise not_decoded(partition, error) from error


def check_is_text(partition: Partition, head: Head) -> None:
    """Check that a file is no archive, and none of the other files that `sniffed` tells from text.

    Raises
    ------
    CorpusError
        If it is; the message says how to get its text.
    """
    if head.what:
        raise CorpusError(f"{partition.url} is {head.what}, not text: {head.remedy}.")


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


def read_beginning(partition: Partition, n_bytes: int = HEAD_BYTES, *, end: bytes | None = None) -> bytes:
    """Return about the first bytes of a file, decompressed, or those as far as the piece that holds an end."""
    with closing(open_url(partition.url)) as raw:
        if not partition.compression:
            return raw.read(n_bytes)
        data = b""
        for piece in decompressed(raw, partition, Progress()):
            data += piece
            if len(data) >= n_bytes or (end is not None and end in data):
                break
        return data[:n_bytes]


def doubts(partitions: Sequence[Partition], encodings: Encodings) -> Iterator[str]:
    """Yield a sentence on all files whose encoding is a guess, and one per file that seems to have another one."""
    guessed: dict[str, list[str]] = {}
    files = list({part.url: part for part in partitions}.values())
    for partition in files:
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
        yield from _guesses([part for part in files if part.url in set(urls)][:GUESSED_FILES])


def _guesses(partitions: Sequence[Partition]) -> Iterator[str]:
    """Yield, for each encoding that files seem to have in place of Windows-1252, a sentence with its evidence."""
    found: dict[str, list[tuple[Partition, Guess]]] = {}
    for partition in partitions:
        if (guess := guess_encoding(read_beginning(partition))) is not None:
            found.setdefault(guess.encoding, []).append((partition, guess))
    for encoding, guesses in found.items():
        partition, guess = guesses[0]
        names = name_files(part.url for part, _ in guesses)
        reads = f"{names} {'reads' if len(guesses) == 1 else 'read'} as text in {encoding}"
        key = option_text(partition.section, "encoding", encoding)
        yield f"{reads} ({guess.text!r}): if that is right, give {key}"
