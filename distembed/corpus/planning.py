"""What the tasks of a corpus read: its files, each after a look at its beginning, divided into partitions."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, takewhile

import numpy as np

from distembed.corpus.mediawiki import MAX_HEAD_BYTES, read_head
from distembed.corpus.paths import FoundFile, format_of, readable_name
from distembed.corpus.records import (
    RECORD_BYTES,
    BadRecord,
    CorpusError,
    Partition,
    Progress,
    not_decoded,
    not_utf8,
    stored_pieces,
)
from distembed.corpus.tables import asked_fields, check_fields, stored_bytes
from distembed.files import STORED_BYTES, UNPACKED_RATIO, damage_told, failures_told
from distembed.formats.delimited import DELIMITERS, first_rows
from distembed.formats.encodings import HEAD_BYTES, MARKS, MULTIBYTE
from distembed.formats.heads import sniffed
from distembed.formats.names import compression_of
from distembed.formats.parquet import ParquetFile
from distembed.urls import opened

MOST_PARTITIONS = 100_000
"""A file in more parts keeps the scheduler busier than the workers."""
REMOTE_FILES = 16
"""Files of a store whose beginnings are read at a time."""

NAMED_REFUSALS = 5
"""Files, at most, of those that cannot be read that a message names."""

CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters beside those that lay out text, and the escape of some Asian encodings."""


@lru_cache(maxsize=8)
def plan_files(
    files: tuple[FoundFile, ...], template: Partition, partition_bytes: int, encoding: str | None
) -> tuple[tuple[Partition, ...], tuple[BadRecord, ...]]:
    """Return the partitions of all files, and why others are left out where bad records are.

    The beginnings of the files are read once, until a store says something else of one: a plan asks several times.
    Files of one name are told apart by their folders, below the one that they have in common.

    Raises
    ------
    CorpusError
        No file can be read, or some cannot and bad records are an error; the message names them together.
    """

    def plan(file: FoundFile) -> list[Partition] | CorpusError:
        try:
            with failures_told(file.url):
                return _plan_file(file, template, partition_bytes, encoding)
        except CorpusError as error:
            return error

    # A store takes its time to answer; threads only hinder a disk.
    is_remote = any("://" in file.url for file in files)
    with ThreadPoolExecutor(REMOTE_FILES) as pool:
        found = list(pool.map(plan, files) if is_remote else map(plan, files))
    partitions = [part for one in found if isinstance(one, list) for part in one]
    pairs = zip(files, found, strict=True)
    refused = {readable_name(file.url): one for file, one in pairs if isinstance(one, CorpusError)}
    if refused and (not partitions or template.bad_records == "error"):
        if len(refused) in (1, len(files)):
            raise next(iter(refused.values()))
        reasons = [str(error).rstrip(".") for error in refused.values()]
        named = "; ".join(f"({number}) {why}" for number, why in enumerate(reasons[:NAMED_REFUSALS], 1))
        more = f"; and {len(reasons) - NAMED_REFUSALS} more" if len(reasons) > NAMED_REFUSALS else ""
        # Of parallel texts no record may be left out, since its counterpart is not.
        raise CorpusError(
            f"{len(reasons)} of {len(files)} files cannot be read: {named}{more}. Remove them, or correct them, or "
            'leave them out by bad_records="skip" (not of texts that are paired).'
        )
    names = Counter({partition.url: partition.name for partition in partitions}.values())
    places = {part.url: part.url.split("/") for part in partitions if names[part.name] > 1}
    levels = zip(*places.values(), strict=False)
    n_common = sum(1 for _ in takewhile(lambda level: len({*level}) == 1, levels))
    apart = {url: "/".join(place[n_common:]) for url, place in places.items()}
    found_apart = (replace(part, name=apart.get(part.url, part.name)) for part in partitions)
    return tuple(found_apart), tuple(BadRecord(url, "", str(why)) for url, why in refused.items())


def _plan_file(
    file: FoundFile, template: Partition, partition_bytes: int, encoding: str | None
) -> list[Partition]:
    """Return the partitions of one file; those of bytes are ranges of nearly equal size."""
    url, size, _, path = file
    if readable_name(url) != url:
        raise CorpusError(f"{readable_name(url)} has a name that is not UTF-8; rename the file.")
    kind = format_of(url) if template.format == "auto" else template.format
    compression = "" if kind == "parquet" else compression_of(url)
    partition = replace(template, url=url, format=kind, compression=compression, n_bytes=size, name=path)
    if size == 0:
        raise CorpusError(f"{url} is empty (0 bytes); remove it from the corpus or download it again.")
    if kind == "parquet":
        return _parquet_partitions(partition, partition_bytes)
    is_dump, is_table = kind == "mediawiki", kind in ("csv", "tsv")
    n_bytes, end = (MAX_HEAD_BYTES, b"</siteinfo>") if is_dump else (HEAD_BYTES, None)
    data = read_beginning(partition, n_bytes, end=end)
    what, remedy = sniffed(data, url)
    if what:
        raise CorpusError(f"{url} is {what}, not text: {remedy}.")
    if is_dump:
        declared, namespaces = read_head(partition, data)
        partition = replace(partition, encoding=declared, namespace_names=namespaces)
    else:
        partition = _with_encoding(partition, encoding, data)
    partition = _with_delimiter(partition, data) if is_table else partition
    can_be_cut = partition.compression in ("", "bz2" if is_dump else "") and partition.is_plain
    if is_table or partition.is_one_document or not can_be_cut or size <= partition_bytes:
        return [partition]
    n_partitions = -(-size // partition_bytes)
    if n_partitions > MOST_PARTITIONS:
        raise CorpusError(
            f"{partition.url} has {size:,} bytes, which would be {n_partitions:,} partitions of {partition_bytes:,}: "
            "raise partition_bytes"
        )
    bounds = [size * k // n_partitions for k in range(n_partitions + 1)]
    return [
        replace(partition, start=start, stop=None if stop == size else stop, n_bytes=stop - start)
        for start, stop in pairwise(bounds)
    ]


def _parquet_partitions(partition: Partition, partition_bytes: int) -> list[Partition]:
    """Group the row groups of a Parquet file into partitions."""
    told = damage_told(partition.url, CorpusError, "a Parquet file", "give format=")
    with told, opened(partition.url) as raw:
        metadata = ParquetFile(raw).metadata
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    group_of = np.cumsum([0, *(group.total_byte_size for group in groups)])[:-1] // partition_bytes
    starts = np.flatnonzero(np.diff(group_of, prepend=-1)).tolist()
    return [
        replace(partition, start=start, stop=stop, n_bytes=sum(map(stored_bytes, groups[start:stop])))
        for start, stop in pairwise([*starts, len(groups)])
    ] or [replace(partition, stop=0)]


def read_beginning(partition: Partition, n_bytes: int = HEAD_BYTES, *, end: bytes | None = None) -> bytes:
    """Return about the first bytes of a file, unpacked, or those as far as the piece that holds an end.

    A file whose beginning unpacks to as much as no honest one does is read on, until it is refused, or does no more.
    """
    data, n_unpacked, progress = b"", 0, Progress()
    small = replace(partition, piece_bytes=min(partition.piece_bytes, n_bytes))
    for piece, _ in stored_pieces(small, progress):
        n_unpacked += len(piece)
        data += piece if len(data) < n_bytes else b""
        is_enough = len(data) >= n_bytes or (end is not None and end in data)
        if is_enough and 2 * n_unpacked <= UNPACKED_RATIO * (progress.n_bytes_read - STORED_BYTES):
            break
    return data[:n_bytes]


def _with_encoding(partition: Partition, encoding: str | None, data: bytes) -> Partition:
    """Return a partition of text with its encoding, by the beginning of the file.

    It is that of a byte-order mark, UTF-8 where the text has the form of it, or else the one that was given. (Text of
    another encoding is hardly ever valid UTF-8.)

    Raises
    ------
    CorpusError
        If the file holds binary data, or its beginning is in none of these.
    """
    found = next((name for mark, name in MARKS if data.startswith(mark)), None)
    if found is None and encoding is None and 100 * len(CONTROL.findall(data)) > len(data):
        raise CorpusError(
            f"{partition.url} holds binary data, not text: name files of text, or give its encoding= if it is UTF-16 "
            "without a byte-order mark."
        )
    if found is None:
        is_in_utf8 = MULTIBYTE.search(data) is not None and _fault(data, "utf-8") is None
        found = "utf-8" if is_in_utf8 or encoding is None else encoding
    text = data.decode(found, "replace")
    if "\r" in text and "\n" not in text:
        raise CorpusError(
            f"{partition.url} has lines that end in carriage returns alone; convert it: tr '\\r' '\\n' < FILE > NEW"
        )
    partition = replace(partition, encoding=found)
    if partition.format == "text" and partition.errors == "strict" and (fault := _fault(data, found)):
        raise not_utf8(partition, data, 0) if partition.is_plain else not_decoded(partition, fault)
    return partition


def _fault(data: bytes, encoding: str) -> UnicodeError | None:
    """Return why the beginning of a text is not in an encoding; None where it is."""
    try:
        codecs.getincrementaldecoder(encoding)("strict").decode(data)
    except UnicodeError as error:
        return error
    return None


def _with_delimiter(partition: Partition, data: bytes) -> Partition:
    """Return a partition of CSV or TSV with its delimiter, and check that it has the columns asked for.

    Raises
    ------
    CorpusError
        If a column is missing.
    ValueError
        If the delimiter is not one character.
    """
    candidates = partition.delimiter
    if candidates != "auto" and len(candidates.encode()) != 1:
        raise ValueError(f'delimiter is {candidates!r}; give one character, as ";", or "auto"')
    n_bytes = HEAD_BYTES
    while len(data) == n_bytes < RECORD_BYTES and data.count(b"\n") < 2:
        n_bytes *= 4  # a header of thousands of columns
        data = read_beginning(partition, n_bytes)
    text = data.decode(partition.encoding, "replace").removeprefix("\ufeff")
    if candidates == "auto":
        candidates = "\t" if partition.format == "tsv" else DELIMITERS
    asked, has_quotes = asked_fields(partition).keys(), partition.format == "csv"
    headers = {one: next(iter(first_rows(text, one, has_quotes=has_quotes)), []) for one in candidates}
    best = max(headers, key=lambda one: (len(asked & {*headers[one]}), len(headers[one])))
    check_fields(partition, headers[best])
    return replace(partition, delimiter=best)
