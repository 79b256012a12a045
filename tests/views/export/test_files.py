"""Tables as files: every format reads back as what was given, and no more than a piece is held."""

from __future__ import annotations

import gzip
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from distembed.job.tables import Table, paired, with_numbers
from distembed.views.export import TABLE_FORMATS, table_format, write_table

TITLES = ["Ärger, mit Komma", 'said "no"', "two\nlines", None, "=1+1", ""]
SCHEMA = pa.schema([("title", pa.string()), ("topic", pa.int64())])
WEIGHTS = np.arange(12, dtype=np.float32).reshape(6, 2) / 7
WEIGHTS[4] = np.nan


def table(*, as_lists: bool = False, numbers: bool = True) -> Table:
    """Return a table of six rows in two pieces, one of whose rows has no numbers."""
    batch = pa.record_batch([pa.array(TITLES), pa.array(range(6))], schema=SCHEMA)
    pieces = [(batch.slice(first, last - first), WEIGHTS[first:last]) for first, last in [(0, 4), (4, 6)]]
    plain = pa.RecordBatchReader.from_batches(SCHEMA, [batch])
    rows = with_numbers(SCHEMA, pieces, "weight", 2, apart=not as_lists) if numbers else plain
    return Table(rows, 6, "six rows")


@pytest.mark.parametrize("format_", ["csv", "tsv"])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_text_reads_back(tmp_path, format_, compression):
    path = tmp_path / f"t.{format_}{compression}"
    write_table(str(path), table(), format=table_format(str(path)))
    data = gzip.decompress(path.read_bytes()) if compression else path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") == (format_ == "csv")  # what Excel needs, and only where it looks
    found = pacsv.read_csv(
        pa.BufferReader(data),
        parse_options=pacsv.ParseOptions(
            delimiter="," if format_ == "csv" else "\t", newlines_in_values=True
        ),
        convert_options=pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    assert found.column_names == ["title", "topic", "weight_0", "weight_1"]
    assert found["title"].to_pylist() == TITLES
    assert found["weight_1"].to_pylist()[4] is None
    np.testing.assert_allclose(found["weight_1"].to_numpy(), WEIGHTS[:, 1], rtol=1e-7)


@pytest.mark.parametrize("as_lists", [False, True])
def test_parquet_reads_back(tmp_path, as_lists):
    path = tmp_path / "t.parquet"
    write_table(str(path), table(as_lists=as_lists), format="parquet")
    found = pq.read_table(path)
    assert found["title"].to_pylist() == TITLES
    if as_lists:
        # One of fixed size is a type of its own, which pyarrow before 26 cannot read with a missing row.
        assert isinstance(found.schema.field("weight").type, pa.ListType)
        assert found["weight"].to_pylist()[4] is None
        assert found["weight"].to_pylist()[5] == WEIGHTS[5].tolist()
    else:
        assert found["weight_0"].to_numpy()[:4].tobytes() == WEIGHTS[:4, 0].tobytes()
        assert found["weight_0"].to_pylist()[4] is None


def test_npy_holds_the_numbers(tmp_path):
    write_table(str(tmp_path / "t.npy"), table(), format="npy")
    assert np.load(tmp_path / "t.npy").tobytes() == WEIGHTS.tobytes()


@pytest.mark.parametrize("format_", TABLE_FORMATS)
def test_a_table_without_numbers(tmp_path, format_):
    path = str(tmp_path / f"t.{format_}")
    if format_ == "npy":
        with pytest.raises(ValueError, match="this table has none beside its columns title, topic; choose"):
            write_table(path, table(numbers=False), format="npy")
        assert list(tmp_path.iterdir()) == []
    else:
        write_table(path, table(numbers=False), format=table_format(path))
        assert Path(path).stat().st_size


@pytest.mark.parametrize("name", ["t.parquet.gz", "t.npy.xz"])
def test_a_binary_file_is_not_compressed_as_a_whole(tmp_path, name):
    with pytest.raises(ValueError, match="not compressed as a whole; leave out"):
        write_table(str(tmp_path / name), table(), format=table_format(name))


@pytest.mark.parametrize("format_", TABLE_FORMATS)
def test_no_more_than_a_piece_is_held(tmp_path, format_):
    """The pieces of a table are gone when the next but one is made: a million documents pass through."""
    made: list[weakref.ref[np.ndarray]] = []

    def pieces() -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        for _ in range(5):
            assert sum(ref() is not None for ref in made) <= 1
            numbers = np.ones((3, 2), np.float32)
            made.append(weakref.ref(numbers))
            yield pa.record_batch([pa.array(TITLES[:3]), pa.array(range(3))], schema=SCHEMA), numbers
            del numbers

    whole = Table(with_numbers(SCHEMA, pieces(), "weight", 2, apart=True), 15, "fifteen rows")
    path = str(tmp_path / f"t.{format_}")
    write_table(path, whole, format=table_format(path))
    assert len(made) == 5


def test_a_failure_leaves_what_was_there(tmp_path):
    def pieces() -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        yield pa.record_batch([pa.array(TITLES), pa.array(range(6))], schema=SCHEMA), WEIGHTS
        raise OSError("the store is gone")

    path = tmp_path / "t.csv"
    path.write_text("before")
    with pytest.raises(OSError, match="the store is gone"):
        write_table(str(path), Table(with_numbers(SCHEMA, pieces(), "weight", 2), 6, ""), format="csv")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("batch_rows", [1, 4, 10])
@pytest.mark.parametrize("block_rows", [1, 3, 10])
def test_rows_of_other_bounds_are_paired(batch_rows, block_rows):
    numbers = pa.record_batch({"row": list(range(10))})
    array = np.arange(10, dtype=np.float32)[:, np.newaxis]
    batches = (numbers.slice(first, batch_rows) for first in range(0, 10, batch_rows))
    blocks = (array[first : first + block_rows] for first in range(0, 10, block_rows))
    pieces = list(paired(batches, blocks))
    assert [row for columns, _ in pieces for row in columns["row"].to_pylist()] == list(range(10))
    assert np.concatenate([rows for _, rows in pieces]).ravel().tolist() == list(range(10))
    assert all(columns.num_rows == len(rows) for columns, rows in pieces)
