"""Tables are read as they stand, joined by name, and refused with the name and the remedy."""

from __future__ import annotations

import gzip
import lzma
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import openpyxl.chart
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.preprocessing

import distembed as de
from distembed.formats.tables import TableError, read_table, texts_of
from distembed.tables.domain import joined_words, read_domain, read_known
from distembed.tables.names import NearMiss, advice_on, match_names, near_misses
from distembed.tables.rows import Domain, warn_of_one_column
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection

FEATURES = "name,sector,a,b\nGeneral Motors,cars,1,2.5\nFord,cars,3,4\nShell,oil,5,7\n"
FIRMS = ["General Motors", "Ford", "Shell"]
VALUES = [[1, 2.5], [3, 4], [5, 7]]
UV = ["u", "v"]
GERMAN = "Firma;Umsatz;Leute;Anteil\r\nMüller;1.234,5;1.200;3\r\nGröß;7,25;12.000;-4\r\n"
GERMAN_OPTIONS = {"delimiter": ";", "decimal": ",", "thousands": "."}
GERMAN_VALUES = [[1234.5, 1200, 3], [7.25, 12000, -4]]
OLD = [[1, 2], [3, 4]]
PICTURES = pa.array([b"\xff\xd8", b"\xff\xd9"])


def pandas_table(index: str, values: list[Any], described: str) -> pa.Table:
    """Return a table with a column that pandas is said to have as its index."""
    table = pa.table({"a": [1, 2], "b": [3, 4], index: values})
    return table.replace_schema_metadata({"pandas": f'{{"index_columns": {described}}}'})


READ: dict[str, tuple[str, Any, dict[str, Any], list[str], list[list[float]]]] = {
    "plain": ("t.csv", FEATURES, {}, FIRMS, VALUES),
    "compressed": ("t.csv.xz", lzma.compress(FEATURES.encode()), {}, FIRMS, VALUES),
    "tabs, an upper-case name": ("T.TSV", b"n\ta\tb\nx,y\t1\t2\nz\t3\t4\n", {}, ["x,y", "z"], OLD),
    "quotes": ("t.Csv.GZ", gzip.compress(b'n,a,b\n"x,y",1,2\nz,3,4\n', mtime=0), {}, ["x,y", "z"], OLD),
    "line ends of old editors": ("t.csv", b'n,a,b\r"x,y",1,2\rz,3,4\r', {}, ["x,y", "z"], OLD),
    "names as they were written": ("t.csv", "id,a\n007,1\n7,2\n 8 ,3\nNA,4\n", {}, ["007", "7", "8", "NA"],
                                   [[1], [2], [3], [4]]),
    "points in German": ("t.csv", "n;a\nu;12.345\nv;13.456\n", {"delimiter": ";"}, UV, [[12.345], [13.456]]),
    **{f"German in {name}": ("t.csv", GERMAN.encode(name), GERMAN_OPTIONS | options, ["Müller", "Größ"], GERMAN_VALUES)
       for name, options in (("utf-8", {}), ("utf-8-sig", {}), ("utf-16", {}), ("cp1252", {"encoding": "cp1252"}))},
    "an index of pandas": ("t.csv", ",F,U\n0,A,1.5\n1,B,2.5\n", {"name_column": "F"}, ["A", "B"], [[1.5], [2.5]]),
    "row names of R": ("t.csv", '"","F","U"\n"1","A",1.5\n"2","B",2.5\n', {"name_column": "F"}, ["A", "B"],
                       [[1.5], [2.5]]),
    "upper-case Parquet": ("T.PARQUET", pa.table({"n": UV, "a": [1, 2]}), {}, UV, [[1], [2]]),
    "a named index": ("t.parquet", pandas_table("who", UV, '["who"]'), {}, UV, [[1, 3], [2, 4]]),
    "an index without a name": ("t.parquet", pandas_table("__index_level_0__", UV, '["__index_level_0__"]'), {}, UV,
                                [[1, 3], [2, 4]]),
    "what is left of a numbering": ("t.parquet", pandas_table("__index_level_0__", [7, 9], '["__index_level_0__"]'),
                                    {}, ["1", "2"], [[3], [4]]),
    "a range": ("t.parquet", pandas_table("c", [5, 6], '[{"kind": "range"}]'), {}, ["1", "2"], [[3, 5], [4, 6]]),
    **{f"no index: {each[:20]}": ("t.parquet", pandas_table("c", [5, 6], each), {}, ["1", "2"], [[3, 5], [4, 6]])
       for each in ("[1]", "{", "3", "[" * 100_000)},
    "bytes that are no text": ("t.parquet", pa.table({"id": UV, "a": [1, 2], "p": PICTURES}), {}, UV, [[1], [2]]),
    "decimal numbers and categories": (
        "t.parquet",
        pa.table({
            "id": UV,
            "price": pa.array([Decimal("1.50"), Decimal("2.25")]),
            "year": pa.array([2019, 2020]).dictionary_encode(),
            "kind": pa.array(["x", "y"]).dictionary_encode(),
        }),
        {"label_column": "kind"}, UV, [[1.5, 2019], [2.25, 2020]]),
}  # fmt: skip


def write(folder: Path, data: str | bytes | pa.Table, name: str = "table.csv") -> str:
    path = folder / name
    if isinstance(data, pa.Table):
        pq.write_table(data, path)
    else:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


@pytest.mark.parametrize(("name", "data", "options", "names", "values"), READ.values(), ids=READ)
def test_a_table_is_read(
    tmp_path: Path, name: str, data: Any, options: dict[str, Any], names: list[str], values: list[list[float]]
) -> None:
    domain = read_domain(DomainSection(path=write(tmp_path, data, name), standardize=False, **options))
    assert (domain.names, domain.matrix.tolist()) == (names, values)


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
    path = write(tmp_path, pa.table({"id": values, "a": np.arange(len(values)) + 1.0}), "t.parquet")
    assert read_domain(DomainSection(path=path)).names == names


def test_labels_and_ignored_columns_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, ",n,city,a,none\n0,u,Rome,1,\n1,v,Bern,2,\n")
    domain = read_domain(DomainSection(path=path, name_column="n", label_column="city"))
    assert (domain.columns, domain.labels) == (["a"], ["Rome", "Bern"])
    assert domain.notes == ["1 column without a name ignored: ''", "1 column of no values ignored: 'none'"]
    plain = read_domain(DomainSection(path=path, name_column="n"))
    assert "1 column of text ignored: 'city'" in plain.notes


def test_a_sheet_is_read_as_its_csv_would_be_without_the_rows_above_its_header(tmp_path: Path) -> None:
    rows = [["A report"], [], ["name", "a", "since"], ["u", 1.0, datetime(2020, 1, 2)], ["v", 2.5, None]]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    path = write(tmp_path, "A report\n\nname,a,since\nu,1,2020-01-02\nv,2.5,\n")
    found = [read_table(str(each), skip_rows=2) for each in (path, tmp_path / "t.xlsx")]
    text, sheet = ({name: texts_of(values) for name, values in each.columns.items()} for each in found)
    assert text == sheet == {"name": ["u", "v"], "a": ["1", "2.5"], "since": ["2020-01-02", ""]}
    with pytest.raises(TableError, match="and skip_rows where rows stand above the header"):
        read_table(path)
    chart = openpyxl.chart.BarChart()
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=2, min_row=4, max_row=5))
    book.create_chartsheet().add_chart(chart)
    book.active = 1
    book.save(tmp_path / "t.xlsx")
    message = r"t\.xlsx was saved with a sheet open that has no cells: open another"
    with pytest.raises(TableError, match=message):
        read_table(str(tmp_path / "t.xlsx"))


REFUSED = [
    ("t.csv", "name,a\nu,1\nu,2\n", {}, r"1 name twice \('u'\)"),
    ("t.csv", "name,a,a\nu,1,2\n", {}, "the column 'a' twice"),
    ("t.csv", "name,a\nu,1\nv,\n", {}, "no finite number for 1 of 2 names in the column 'a', first 'v': fill"),
    ("t.csv", "name,a\nu,one\nv,zwei\n", {}, "no column of numbers"),
    ("t.csv", "name,a\nu,one\nv,2.5\n", {},
     r"1 cell without a number in the column 'a', first 'one' in the row of 'u' \(row 2\)"),
    ("t.csv", "name,a\nu,one\nv,two\n", {"columns": ("a",)}, "text in the column 'a', not numbers"),
    ("t.csv", "name,a\nu,1\n", {"name_column": "id"}, "no column 'id'; it has 'name', 'a'"),
    ("t.csv", "name,a\nu,1\n", {"drop": ("b",)}, "no column 'b'"),
    ("t.csv", "name,a\nu,1\n", {"columns": ("b",)}, "no column 'b'"),
    ("t.csv", "name,a\nu,1\n", {"label_column": "b"}, "no column 'b'"),
    ("t.csv", "name\nu\nv\n", {}, "no column of numbers"),
    ("t.csv", "name,a\nu,\nv,NA\n", {"columns": ("a",), "missing": "drop_row"},
     r'has nothing left after domain.missing = "drop_row"'),
    ("t.csv", "name,a\nu,1,2\n", {}, "not a table"),
    ("t.csv", "n;a\nu;12.345\nv;13.456\n", {"delimiter": ";", "decimal": ","},
     r"2 cells without a number in the column 'a', first '12\.345' .*: set decimal = \"\.\""),
    ("t.csv", GERMAN.encode("cp1252"), {}, r't\.csv is not utf-8: line 2 holds the byte 0xfc.*set encoding = "'),
    ("t.parquet", pa.table({"id": PICTURES, "a": [1, 2]}), {},
     r"t\.parquet holds bytes in the column 'id' that are not UTF-8"),
    ("t.xls", b"\xd0\xcf\x11\xe0", {}, "is an old office document: save it as .xlsx, or its sheet as CSV"),
    ("t.xlsx", b"PK\x03\x04", {}, "cannot be read as a workbook"),
    ("t.db", b"SQLite format 3\0..", {}, "is a database of SQLite, not a table: save a table of it as CSV"),
    ("t.csv", b"PK\x03\x04....", {}, "is a ZIP archive or an office document, not a table: unpack it"),
    ("t.csv", b"", {}, r"t\.csv has no header"),
    ("t.csv", "n,a\nu,1\nv,1,2\n", {}, "1 row has another number: row 3 has 3 fields"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "options", "message"), REFUSED)
def test_a_bad_table_is_refused(
    tmp_path: Path, name: str, data: str | bytes | pa.Table, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        read_domain(DomainSection(path=write(tmp_path, data, name), **options))


# ---- scales ----------------------------------------------------------------------------------------------------


def test_columns_are_standardized_by_dask_ml_which_an_import_does_not_load(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).lognormal(size=(40, 3))
    columns = {"name": [f"n{i}" for i in range(40)], **{f"c{j}": matrix[:, j] for j in range(3)}}
    domain = read_domain(DomainSection(path=write(tmp_path, pa.table(columns), "t.parquet")))
    expected = sklearn.preprocessing.StandardScaler().fit_transform(matrix)
    np.testing.assert_allclose(domain.matrix, expected, rtol=1e-12, atol=1e-12)
    modules = Path(de.__file__).parent.rglob("*.py")
    assert not [
        path
        for path in modules
        if re.search(r"^(from|import) dask_ml", path.read_text("utf-8"), re.MULTILINE)
    ]


def test_chosen_columns_are_standardized_and_a_constant_one_is_zero(tmp_path: Path) -> None:
    path = write(tmp_path, "name,a,b,c\nu,1,1,7\nv,1,2,9\n")
    found = read_domain(DomainSection(path=path, columns=("a", "b")))
    np.testing.assert_array_equal(found.matrix, [[0, -1], [0, 1]])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_column_that_decides_alone_is_named_with_its_share_of_the_squared_differences(metric: str) -> None:
    matrix = np.random.default_rng(0).standard_normal((20, 3)) * [1, 5, 2]
    rows = matrix / np.linalg.norm(matrix, axis=1, keepdims=True) if metric == "cosine" else matrix
    squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=(0, 1))
    domain = Domain([], matrix, ["a", "b", "c"], [], [], [])
    told = f"the column 'b' carries {squares[1] / squares.sum():.1%} of the distance between names"
    assert warn_of_one_column(domain, metric=metric).startswith(told)
    for even in (np.ones((4, 2)), matrix / [1, 5, 2], matrix[:, :1]):
        assert not warn_of_one_column(domain._replace(matrix=even), metric=metric)


# ---- tables as people have them --------------------------------------------------------------------------------

MESSY = """company,sector,revenue,staff
Nova,cars,1200.5,10
Bolt,cars,n/a,20
Nova,cars,800,30
,cars,7,7
Cell,oil,50,
Dome,oil,100,40
"""


def messy(folder: Path, text: str = MESSY, **options: Any) -> Domain:
    section = DomainSection(path=write(folder, text), label_column="sector", standardize=False, **options)
    return read_domain(section)


def test_all_problems_of_a_table_are_told_at_once(tmp_path: Path) -> None:
    text = MESSY.replace("800", '"1.800,5"').replace("7,7", "7,€ 7")
    with pytest.raises(TableError) as refused:
        messy(tmp_path, drop=("id",), text=text)
    told = str(refused.value)
    assert "has 5 problems:" in told
    assert "(1) it has no column 'id'; it has 'company', 'sector', 'revenue' and 1 more" in told
    assert (
        "(2) it has 1 cell without a number in the column 'revenue', first '1.800,5' in the row of 'Nova' (row 4): set "
        'decimal = "," and thousands = "."' in told
    )
    assert (
        "(3) it has 1 cell without a number in the column 'staff', first '€ 7' in the row of '' (row 5): correct or "
        "empty it, or leave the column out with drop" in told
    )
    assert """(4) it has 1 name twice ('Nova'): keep one, or set domain.duplicates = "first\"""" in told
    assert "first 'Bolt', 1 of 5 names in the column 'staff', first 'Cell'" in told
    assert told.endswith('or set domain.missing = "median" or "drop_row"')


def test_missing_cells_take_the_median(tmp_path: Path) -> None:
    domain = messy(tmp_path, missing="median", duplicates="first")
    assert domain.names == ["Nova", "Bolt", "Cell", "Dome"]
    assert domain.labels == ["cars", "cars", "oil", "oil"]
    np.testing.assert_array_equal(domain.matrix, [[1200.5, 10], [100, 20], [50, 20], [100, 40]])
    assert domain.notes == [
        "1 row without a name left out",
        "1 name stood more than once ('Nova'): the first row was kept",
        "2 cells without a number took the median of the column, in 'revenue', 'staff'",
    ]
    left_out = [(each.name, each.reason[:9]) for each in domain.left_out]
    assert left_out == [("", "row 5 has"), ("Nova", "a further")]


def test_rows_with_missing_cells_are_left_out(tmp_path: Path) -> None:
    rows = messy(tmp_path, missing="drop_row", duplicates="first")
    assert rows.names == ["Nova", "Dome"]
    np.testing.assert_array_equal(rows.matrix, [[1200.5, 10], [100, 40]])
    assert [each.name for each in rows.left_out] == ["", "Nova", "Bolt", "Cell"]
    assert rows.left_out[2].reason == "no number in 'revenue'"


# ---- names -----------------------------------------------------------------------------------------------------


def test_a_table_of_names_may_be_silent_on_some_and_say_a_thing_twice(tmp_path: Path) -> None:
    names = write(tmp_path, "name,like\nFord,Ford_Motor\nFord,\nFord,Ford_Motor\nShell,\n,x\n", "names.csv")
    section = DomainSection(path=write(tmp_path, FEATURES), names=names, names_from="name", names_to="like")
    found = read_domain(section)
    assert found.names == ["General Motors", "Ford_Motor", "Shell"]
    assert found.spellings == {"Ford_Motor": "Ford"}
    for text, message in (
        ("name,like\nFord,one\nFord,two\n", "has the name 'Ford' twice, as 'one' and 'two': keep one"),
        ("name,like\nFord,Cars\nShell,Cars\n", r"1 name twice \('Cars'\)"),
    ):
        write(tmp_path, text, "names.csv")
        with pytest.raises(TableError, match=message):
            read_domain(section)


def test_known_vectors_of_a_table_and_of_a_file_are_equal(tmp_path: Path) -> None:
    table = write(tmp_path, "w,0,1,label\nu,1,2,7\nv,3,4,8\n")
    file = write(tmp_path, "2 2\nu 1 2\nv 3 4\n", "v.txt")
    from_table = read_known(KnownSection(path=table, drop=("label",)))[0]
    from_file = read_known(KnownSection(path=file))[0]
    assert from_table.words == from_file.words
    np.testing.assert_array_equal(from_table.vectors, from_file.vectors)


def misses(names: list[str], words: list[str], **options: bool) -> list[tuple[str, str, str]]:
    rows = match_names(names, words, MatchingSection(**options))
    return [tuple(miss) for miss in near_misses(names, words, rows, MatchingSection(**options))]


def test_names_that_nearly_match_are_offered() -> None:
    names = ["same", "Wells Fargo Inc.", "FORD", "Societe Generale", "Nothing like it", "Wel"]
    words = ["same", "Wells_Fargo", "Ford", "Société_Générale", "Wal", "ford"]
    found = misses(names, words)
    assert found == [
        ("Wells Fargo Inc.", "Wells_Fargo", "punctuation, accents or legal form"),
        ("FORD", "Ford", "ignore_case"),
        ("Societe Generale", "Société_Générale", "punctuation, accents or legal form"),
    ]
    told = "1 more name would match with matching.ignore_case = true; 'Wells Fargo Inc.' is like"
    assert advice_on([NearMiss(*miss) for miss in found]).startswith(told)
    [apart] = misses(["Big Co", "same"], ["same", "Big_Co"], ignore_underscores=False)
    assert apart[2] == "ignore_underscores"


MOTORS, FORDS = ["General Motors", "ford"], ["General_Motors", "ford", "Ford"]
SHELLS = ["shell", "SHELL", "Shell"]
CASE = {"ignore_case": True}


@pytest.mark.parametrize(
    ("names", "words", "options", "rows"),
    [
        (MOTORS, FORDS, {"ignore_underscores": False}, [-1, 1]),
        (MOTORS, FORDS, {}, [0, 1]),
        (MOTORS, FORDS, CASE, [0, 1]),
        (["Shell"], SHELLS, CASE, [2]),  # case is ignored only where no word is spelled alike
        (["sHELL"], SHELLS, CASE, [0]),
        (["Shell", "SHELL"], ["shell"], CASE, "'Shell' and 'SHELL' both match the word 'shell'"),
        (["a", "b"], ["x"], CASE, r"no name of the table \('a', 'b'\).*'x'"),
    ],
)
def test_spellings(names: list[str], words: list[str], options: dict[str, bool], rows: Any) -> None:
    if isinstance(rows, str):
        with pytest.raises(TableError, match=rows):
            match_names(names, words, MatchingSection(**options))
    else:
        assert match_names(names, words, MatchingSection(**options)).tolist() == rows


def test_the_vocabulary_tells_where_each_row_comes_from(tmp_path: Path) -> None:
    domain = read_domain(DomainSection(path=write(tmp_path, FEATURES), label_column="sector"))
    words = ["Shell", "other", "General_Motors"]
    rows = match_names(domain.names, words, MatchingSection())
    table = joined_words(domain, words, rows, np.array([1])).to_pydict()
    assert table["word"] == ["General_Motors", "Ford", "Shell", "other"]
    assert table["origin"] == ["known", "imputed", "known", "other"]
    assert table["label"] == ["cars", "cars", "oil", ""]
