"""What other programs write is read as they mean it: pandas, old editors, upper-case names."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.formats.tables import TableError, read_table, texts_of
from distembed.tables.domain import read_domain
from distembed.tables.rows import Domain
from distembed.tables.sections import DomainSection, PricesSection


def read(folder: Path, table: pa.Table, **options: object) -> Domain:
    pq.write_table(table, folder / "t.parquet")
    return read_domain(DomainSection(path=str(folder / "t.parquet"), **{"standardize": False, **options}))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array([1000, 9007199254740993]), ["1000", "9007199254740993"]),
        (pa.array([1000, None, 9007199254740993]), ["1000", "9007199254740993"]),
        (pa.array([1000.0, np.nan, 2.5]), ["1000", "2.5"]),
        (pa.array(["ä".encode(), b"b"]), ["ä", "b"]),
        (pa.array(["ä".encode(), b"b "], pa.binary(2)), ["ä", "b"]),
        (pa.array(["b", "a"]).dictionary_encode(), ["b", "a"]),
    ],
)
def test_names_of_parquet_are_what_a_text_file_would_say(
    tmp_path: Path, values: pa.Array, names: list[str]
) -> None:
    domain = read(tmp_path, pa.table({"id": values, "a": np.arange(len(values)) + 1.0}))
    assert domain.names == names


def test_bytes_that_are_not_utf8_are_no_names(tmp_path: Path) -> None:
    pictures = pa.array([b"\xff\xd8", b"\xff\xd9"])
    with pytest.raises(TableError, match=r"t\.parquet holds bytes in the column 'id' that are not UTF-8"):
        read(tmp_path, pa.table({"id": pictures, "a": [1, 2]}))
    assert read(tmp_path, pa.table({"id": ["u", "v"], "a": [1, 2], "p": pictures})).columns == ["a"]


def test_decimal_numbers_and_categories_of_parquet_are_columns(tmp_path: Path) -> None:
    columns = {
        "id": ["u", "v"],
        "price": pa.array([Decimal("1.50"), Decimal("2.25")]),
        "year": pa.array([2019, 2020]).dictionary_encode(),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
    }
    domain = read(tmp_path, pa.table(columns), label_column="kind")
    assert (domain.columns, domain.labels) == (["price", "year"], ["x", "y"])
    np.testing.assert_array_equal(domain.matrix, [[1.5, 2019], [2.25, 2020]])


@pytest.mark.parametrize(
    ("index", "described", "columns"),
    [
        (("who", ["u", "v"]), '["who"]', ["a", "b"]),
        (("__index_level_0__", ["u", "v"]), '["__index_level_0__"]', ["a", "b"]),
        (("__index_level_0__", [7, 9]), '["__index_level_0__"]', ["b"]),  # what is left of a numbering
        (("c", [5, 6]), '[{"kind": "range"}]', ["b", "c"]),
    ],
)
def test_an_index_of_pandas_is_the_names(
    tmp_path: Path, index: tuple[str, list[object]], described: str, columns: list[str]
) -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4], index[0]: index[1]})
    domain = read(tmp_path, table.replace_schema_metadata({"pandas": f'{{"index_columns": {described}}}'}))
    assert domain.columns == columns
    assert domain.names == (["u", "v"] if columns[0] == "a" else ["1", "2"])


@pytest.mark.parametrize("described", ["[1]", "{", '{"index_columns": 3}', "[" * 100_000])
def test_what_pandas_did_not_write_is_no_index(tmp_path: Path, described: str) -> None:
    table = pa.table({"name": ["a"], "x": [1]}).replace_schema_metadata({"pandas": described})
    pq.write_table(table, tmp_path / "t.parquet")
    assert list(read_table(str(tmp_path / "t.parquet")).columns) == ["name", "x"]


def prices(folder: Path, dates: pa.Array, *, suffix: str = "parquet", **window: str) -> int:
    """Return how many series have returns in a window of dates."""
    rng = np.random.default_rng(0)
    table = pa.table({"date": dates, "A": rng.uniform(1, 2, len(dates)), "B": rng.uniform(1, 2, len(dates))})
    path = folder / f"p.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        rows = zip(*[texts_of(table[name]) for name in table.column_names], strict=True)
        path.write_text("\n".join(map(",".join, [table.column_names, *rows])))
    domain = read_domain(PricesSection(path=str(path), transform="return_correlation", **window))
    return len(domain.names)


EVENINGS = [datetime(2020, 1, 29, 20) + timedelta(days=day) for day in range(6)]
NEW_YORK = [day.replace(tzinfo=ZoneInfo("America/New_York")) for day in EVENINGS]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    "dates",
    [
        pa.array([day.date() for day in EVENINGS]),
        pa.array(EVENINGS, pa.timestamp("ns")),
        pa.array(EVENINGS, pa.timestamp("s")),
        pa.array(NEW_YORK, pa.timestamp("us", "America/New_York")),
        pa.array([f"{day:%Y/%m/%d}" for day in EVENINGS]),
        pa.array([int(f"{day:%Y%m%d}") for day in EVENINGS]),
    ],
)
def test_a_window_takes_in_its_first_and_last_day(tmp_path: Path, dates: pa.Array, suffix: str) -> None:
    window = {"first": "2020-01-30", "last": "2020-02-01"}
    assert prices(tmp_path, dates, suffix=suffix, **window) == 2
    with pytest.raises(TableError, match="has 2 dates from"):
        prices(tmp_path, dates, suffix=suffix, first="2020-01-31", last="2020-02-01")
    assert prices(tmp_path, dates, suffix=suffix, last="2020-01") == 2
    with pytest.raises(TableError, match=r"domain\.last is '1\.2\.2020': write the year first"):
        prices(tmp_path, dates, suffix=suffix, last="1.2.2020")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("T.TSV", b"row_names\ta\tb\nx,y\t1\t2\nz\t3\t4\n"),
        ("t.Csv.GZ", gzip.compress(b'row_names,a,b\n"x,y",1,2\nz,3,4\n', mtime=0)),
        ("t.csv", b'row_names,a,b\r"x,y",1,2\rz,3,4\r'),
    ],
)
def test_tables_of_old_editors_are_read(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    domain = read_domain(DomainSection(path=str(tmp_path / name), standardize=False))
    assert (domain.names, domain.columns) == (["x,y", "z"], ["a", "b"])
    np.testing.assert_array_equal(domain.matrix, [[1, 2], [3, 4]])


def test_upper_case_parquet_is_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": ["u", "v"], "a": [1, 2]}), tmp_path / "T.PARQUET")
    assert read_domain(DomainSection(path=str(tmp_path / "T.PARQUET"))).names == ["u", "v"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (",Firma,Umsatz\n0,A,1.5\n1,B,2.5\n", ["Umsatz"]),
        ('"","Firma","Umsatz"\n"1","A",1.5\n"2","B",2.5\n', ["Umsatz"]),
        ("nr,Firma,Umsatz\n0,A,1.5\n1,B,2.5\n", ["nr", "Umsatz"]),
    ],
)
def test_a_column_without_a_name_is_no_feature(tmp_path: Path, text: str, columns: list[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    domain = read_domain(DomainSection(path=str(path), name_column="Firma"))
    assert domain.columns == columns
    assert domain.notes == ([] if len(columns) == 2 else ["1 column without a name ignored: ''"])
