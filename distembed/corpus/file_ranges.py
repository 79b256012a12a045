"""Cuts a file into partitions: ranges of bytes, or of the row groups of Parquet."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np

from distembed.corpus.documents import stored_bytes
from distembed.corpus.errors import CorpusError
from distembed.corpus.streams import Partition, option_text
from distembed.files import damage_told
from distembed.formats.parquet import ParquetFile
from distembed.formats.pieces import open_url


def byte_partitions(partition: Partition, size: int, partition_bytes: int) -> list[Partition]:
    """Cut a file into ranges of nearly equal size."""
    n_partitions = max(1, -(-size // partition_bytes))
    if n_partitions == 1:
        return [partition]
    bounds = [size * k // n_partitions for k in range(n_partitions + 1)]
    stops: list[int | None] = [*bounds[1:-1], None]
    return [
        replace(partition, start=start, stop=stop, n_bytes=end - start)
        for start, stop, end in zip(bounds[:-1], stops, bounds[1:], strict=True)
    ]


def parquet_partitions(partition: Partition, partition_bytes: int) -> list[Partition]:
    """Group the row groups of a Parquet file into partitions."""
    remedy = f"give {option_text(partition.section, 'format')}"
    with (
        damage_told(partition.url, CorpusError, "a Parquet file", remedy),
        closing(open_url(partition.url)) as raw,
    ):
        metadata = ParquetFile(raw).metadata
    if metadata.num_row_groups == 0:
        return [replace(partition, stop=0)]
    sizes = [metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]
    group_of = np.cumsum([0, *sizes])[:-1] // partition_bytes
    starts = np.flatnonzero(np.diff(group_of, prepend=-1)).tolist()
    stops = [*starts[1:], len(sizes)]
    stored = np.cumsum([0, *(stored_bytes(metadata.row_group(k)) for k in range(len(sizes)))]).tolist()
    return [
        replace(partition, start=start, stop=stop, n_bytes=stored[stop] - stored[start])
        for start, stop in zip(starts, stops, strict=True)
    ]
