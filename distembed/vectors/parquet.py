"""Vectors in Parquet: the columns `word` (string) and `vector` (list of float32)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distembed.files import damage_told
from distembed.formats.parquet import ListError, ParquetFile, is_list, is_text, matrix_of_lists, read_batches
from distembed.formats.streams import reading, writing
from distembed.vectors.rows import Block, Source, VectorFileError, WordRows, gather, row_blocks


def read_parquet(source: Source, max_words: int | None) -> WordRows:
    """Read the columns `word` and `vector` of a Parquet file; others are ignored."""
    with (
        reading(source.path, VectorFileError) as file,
        damage_told(source.path, VectorFileError, "a Parquet file"),
    ):
        return gather(_blocks(ParquetFile(file), source.path), source, max_words)


def _blocks(table: ParquetFile, name: str) -> Iterator[Block]:
    found = {field.name: field.type for field in table.schema_arrow}
    vector = found.get("vector", pa.null())
    if not (is_text(found.get("word")) and is_list(vector) and pa.types.is_floating(vector.value_type)):
        columns = ", ".join(f"{column} ({kind})" for column, kind in found.items())
        raise VectorFileError(
            f"{name} has the columns {columns}; it needs `word` (string) and `vector` (list of float)"
        )
    n_read, width = 0, 0
    for batch in read_batches(table, 1 << 12, columns=["word", "vector"]):
        words, lists = batch.column("word"), batch.column("vector")
        if words.null_count and words.is_null().equals(lists.is_null()):  # names that were left out of a job
            words, lists = words.drop_null(), lists.drop_null()
        if not len(words):
            continue
        if words.null_count or lists.null_count or lists.flatten().null_count:
            raise VectorFileError(
                f"{name}, rows {n_read} to {n_read + len(words)}: a word or value is missing; write it again"
            )
        try:
            matrix = matrix_of_lists(lists, width)
        except ListError as error:
            raise VectorFileError(
                f"{name}, row {n_read + error.row}: {error.length} values, expected {width or len(lists[0]) or 1}; "
                "write it again"
            ) from None
        yield words.cast(pa.string()).to_pylist(), matrix.astype(np.float32, copy=False)
        n_read, width = n_read + len(words), matrix.shape[1]


def write_parquet(name: str, rows: WordRows) -> None:
    """Write both columns, with a checksum in every page."""
    n_components = rows.vectors.shape[1]
    schema = pa.schema([("word", pa.string()), ("vector", pa.list_(pa.float32(), n_components))])
    with (
        writing(name) as file,
        pq.ParquetWriter(
            file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True
        ) as out,
    ):
        for words, block in row_blocks(rows.words, rows.vectors):
            values = pa.array(np.ascontiguousarray(block).ravel())
            lists = pa.FixedSizeListArray.from_arrays(values, n_components)
            out.write_batch(pa.record_batch([pa.array(words, pa.string()), lists], schema=schema))
