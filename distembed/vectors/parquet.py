"""The Parquet format: the columns `word` (string) and `vector` (list of float32)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.formats.parquet import ParquetFile, read_batches
from distembed.vectors.rows import Block, Source, VectorFileError, check_finite, row_blocks


def read_parquet(file: IO[bytes], name: str) -> Iterator[Block]:
    """Yield the rows of a Parquet file in blocks; columns other than `word` and `vector` are ignored."""
    try:
        table = ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise VectorFileError(
            f"{name} is not a whole Parquet file ({error}); write or download it again"
        ) from error
    _check_columns(table.schema_arrow, name)
    n_read, width = 0, None
    for batch in read_batches(table, 1 << 12, columns=["word", "vector"]):
        words, vectors = _parquet_rows(batch, name, n_read)
        width = width or vectors.shape[1]
        if vectors.shape[1] != width:
            raise VectorFileError(
                f"{name}, row {n_read}: {vectors.shape[1]} values, expected {width}; write it again"
            )
        check_finite(words, vectors, Source(name, "row", 0), n_read)
        yield words, vectors
        n_read += len(words)


def _check_columns(schema: pa.Schema, name: str) -> None:
    found = {field.name: field.type for field in schema}
    if not (_is_text(found.get("word")) and _is_list_of_floats(found.get("vector"))):
        columns = ", ".join(f"{column} ({kind})" for column, kind in found.items())
        raise VectorFileError(
            f"{name} has the columns {columns}; it needs `word` (string) and `vector` (list of float)"
        )


def _is_text(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list_of_floats(kind: pa.DataType | None) -> bool:
    list_types = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
    return isinstance(kind, list_types) and pa.types.is_floating(kind.value_type)


def _parquet_rows(batch: pa.RecordBatch, name: str, first: int) -> Block:
    words, lists = batch.column("word"), batch.column("vector")
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    values = lists.flatten()
    if words.null_count or lists.null_count or values.null_count:
        raise VectorFileError(
            f"{name}, rows {first} to {first + len(batch)}: a word or value is missing; write it again"
        )
    short = np.flatnonzero(lengths != lengths[0])
    if short.size or lengths[0] == 0:
        row = int(short[0]) if short.size else 0
        raise VectorFileError(
            f"{name}, row {first + row}: {lengths[row]} values, expected {lengths[0] or 1}; write it again"
        )
    matrix = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return words.cast(pa.string()).to_pylist(), matrix.reshape(len(batch), int(lengths[0]))


def write_parquet(file: IO[bytes], words: list[str], vectors: NDArray[np.float32]) -> None:
    """Write both columns, with a checksum in every page."""
    kind = pa.list_(pa.float32(), vectors.shape[1])
    schema = pa.schema([("word", pa.string()), ("vector", kind)])
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True
    ) as writer:
        for block_words, block in row_blocks(words, vectors):
            values = pa.array(np.ascontiguousarray(block).ravel())
            lists = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])
            writer.write_batch(pa.record_batch([pa.array(block_words, pa.string()), lists], schema=schema))
