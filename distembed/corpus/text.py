"""Reads plain text as batches of documents: a line each, blocks between blank lines with a title, or whole files."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.corpus.records import (
    TEXT_BYTES,
    Batch,
    Block,
    batch_of,
    blocks_of,
    document_table,
    is_utf8,
    not_utf8,
    repaired,
)
from distembed.corpus.streams import Partition, Progress
from distembed.formats.names import without_compression

BLANK_LINE = re.compile(rb"\n\r?\n")
"""What ends a block. (A line of white space is text.)"""
LAST_LINE_END = re.compile(rb"(?:\r?\n|\r)\Z")
MAX_TITLE_BYTES = 1024


def read_text(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of a text partition, in the layout it names.

    Raises
    ------
    CorpusError
        If the text is not UTF-8, and what is not is not to be replaced.
    """
    read = {"line": read_lines, "blocks": read_blocks, "file": read_file}[partition.layout]
    return read(partition, progress)


def read_lines(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of text with a document a line; an empty line is none."""
    for block in blocks_of(partition, progress, [b"\n"], limit=TEXT_BYTES):
        array = np.frombuffer(block.data, np.uint8)
        stops = np.flatnonzero(array == ord("\n"))
        if not block.data.endswith(b"\n"):
            stops = np.append(stops, len(array) - (block.is_last and block.data.endswith(b"\r")))
        places = np.append(0, stops[:-1] + 1)
        starts = places.copy()
        if block.offset == 0 and block.data.startswith(codecs.BOM_UTF8):
            starts[0] = len(codecs.BOM_UTF8)
        is_filled = stops > starts + 1
        few = np.flatnonzero(stops == starts + 1)
        is_filled[few] = array[starts[few]] != ord("\r")
        is_filled[0] |= block.continues
        starts, stops, places = starts[is_filled], stops[is_filled], places[is_filled]
        offsets = pa.array(block.offset + places[int(block.continues) :]).cast(pa.string())
        ids = pc.binary_join_element_wise(f"{partition.name}:", offsets, "")
        documents = document_table(ids, pa.repeat("", len(ids)), pa.nulls(len(ids), pa.string()))
        batch = Batch(array, starts, stops, documents, block.is_open)
        yield _checked(partition, progress, block, batch)


def read_blocks(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of text in blocks: blank lines between documents, the title on the first line."""
    for block in blocks_of(partition, progress, [b"\n\n", b"\n\r\n"], limit=TEXT_BYTES):
        texts, ids, titles, begin = [], [], [], 0
        for end, after in [*(found.span() for found in BLANK_LINE.finditer(block.data)), (None, 0)]:
            text = block.data[begin:end]
            if end is None and block.is_last:
                text = LAST_LINE_END.sub(b"", text)
            if block.continues:
                texts.append(text)
                break
            place, text = _without_line_ends(text, at_beginning=block.offset + begin == 0)
            if text or block.is_open:
                ids.append(f"{partition.name}:{block.offset + begin + place}")
                title = _title_of(text)
                titles.append(title.decode("utf-8", "replace"))
                texts.append(text[len(title) :])
            begin = after
        documents = document_table(ids, titles, pa.nulls(len(ids), pa.string()))
        yield _checked(partition, progress, block, batch_of(texts, documents, is_open=block.is_open))


def _without_line_ends(text: bytes, *, at_beginning: bool) -> tuple[int, bytes]:
    """Return where a block begins, and the block; a byte-order mark before the first is no part of it."""
    if at_beginning and text.startswith(codecs.BOM_UTF8):
        text = text[len(codecs.BOM_UTF8) :]
        place, block = _without_line_ends(text, at_beginning=False)
        return (place + len(codecs.BOM_UTF8) if place else 0), block
    block = text.lstrip(b"\r\n")
    return len(text) - len(block), block


def _title_of(text: bytes) -> bytes:
    """Return the first line of a block, or as much of it as a title may have."""
    title = text[:MAX_TITLE_BYTES].partition(b"\n")[0]
    if len(title) == MAX_TITLE_BYTES:
        while text[len(title) : len(title) + 1] and text[len(title)] & 0xC0 == 0x80:
            title = title[:-1]
    return title.rstrip(b"\r")


def read_file(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the text of a file as one document; its title is the name without the extension."""
    title = PurePosixPath(without_compression(partition.name)).stem
    for block in blocks_of(partition, progress, [], limit=TEXT_BYTES):
        text = block.data if block.continues else block.data.removeprefix(codecs.BOM_UTF8)
        documents = document_table([partition.name], [title], [None]).slice(int(block.continues))
        yield _checked(partition, progress, block, batch_of([text], documents, is_open=block.is_open))


def _checked(partition: Partition, progress: Progress, block: Block, batch: Batch) -> Batch:
    """Return the batch of a block in UTF-8: what is not is an error, or replaced."""
    if is_utf8(block.data):
        return batch
    if partition.errors == "strict":
        raise not_utf8(partition, block.data, block.offset)
    texts = [repaired(progress, text) for text in batch.texts()]
    return batch_of(texts, batch.documents, is_open=batch.is_open)
