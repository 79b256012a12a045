"""The beginnings of files: whether each is text, and its encoding."""

from __future__ import annotations

import codecs
import re
from contextlib import closing
from dataclasses import replace

from distembed.corpus.errors import CorpusError
from distembed.corpus.records import not_utf8
from distembed.corpus.streams import Partition, Progress, decompressed, not_decoded, option_text
from distembed.formats.encodings import HEAD_BYTES, MARKS, MULTIBYTE
from distembed.formats.heads import Head, sniffed
from distembed.formats.pieces import open_url

CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters beside those that lay out text, and the escape of some Asian encodings."""


def check_encoding(encoding: str | None) -> None:
    """Check that Python knows an encoding.

    Raises
    ------
    ValueError
        If there is no such encoding.
    """
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError as error:
        raise ValueError(
            f'encoding is {encoding!r}, which Python does not know; give "utf-16", "latin-1", "cp1252" or another of '
            "its names"
        ) from error


def with_encoding(partition: Partition, encoding: str | None) -> Partition:
    """Return a partition of text with its encoding.

    It is that of a byte-order mark, UTF-8 where the text has the form of it, or else the one that was given. (Text of
    another encoding is hardly ever valid UTF-8.)

    Raises
    ------
    CorpusError
        If the file is no text, or its beginning is in none of these.
    """
    data = read_beginning(partition)
    check_is_text(partition, sniffed(data, partition.url))
    marked = next((name for mark, name in MARKS if data.startswith(mark)), None)
    if marked is None and encoding is None and 100 * len(CONTROL.findall(data)) > len(data):
        raise CorpusError(
            f"{partition.url} holds binary data, not text: name files of text, or give its "
            f"{option_text(partition.section, 'encoding')} if it is UTF-16 without a byte-order mark."
        )
    is_in_utf8 = MULTIBYTE.search(data) is not None and _fault_of(data, "utf-8") is None
    found = marked or ("utf-8" if is_in_utf8 or encoding is None else encoding)
    partition = replace(partition, encoding=found)
    check_line_ends(partition, codecs.getincrementaldecoder(found)("replace").decode(data))
    if partition.format == "text" and partition.errors == "strict":
        fault = _fault_of(data, partition.encoding)
        if fault is not None:
            raise not_utf8(partition, data, 0) if partition.is_utf8 else not_decoded(partition, fault)
    return partition


def _fault_of(data: bytes, encoding: str) -> UnicodeDecodeError | None:
    """Return why the beginning of a text is not in an encoding; None where it is."""
    try:
        codecs.getincrementaldecoder(encoding)("strict").decode(data)
    except UnicodeDecodeError as error:
        return error
    return None


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
