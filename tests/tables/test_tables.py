"""Tables are read as they stand, joined by name, and refused with the name and the remedy.

Prices become correlations of returns, with gaps by the paper's rule; a file of vectors is a table too.
"""

from __future__ import annotations

import gc
import gzip
import lzma
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import openpyxl
import openpyxl.chart
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.preprocessing

import distembed as de
from distembed.formats.tables import TableError, read_table, texts_of
from distembed.tables.domain import KNOWN_WORD_BYTES, holds_vectors, known_size, read_domain, read_new_rows
from distembed.tables.names import NearMiss, advice_on, match_names, near_misses
from distembed.tables.rows import Domain, Scales, warn_of_one_column
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection, PricesSection
from tests.commands import succeed

FEATURES = "name,sector,a,b\nGeneral Motors,cars,1,2.5\nFord,cars,3,4\nShell,oil,5,7\n"
FIRMS = ["General Motors", "Ford", "Shell"]
VALUES = [[1, 2.5], [3, 4], [5, 7]]
UV = ["u", "v"]
GERMAN = "Firma;Umsatz;Leute;Anteil\r\nMüller;1.234,5;1.200;3\r\nGröß;7,25;12.000;-4\r\n"
GERMAN_OPTIONS = {"delimiter": ";", "decimal": ",", "thousands": "."}
GERMAN_VALUES = [[1234.5, 1200, 3], [7.25, 12000, -4]]
OLD = [[1, 2], [3, 4]]
PICTURES = pa.array([b"\xff\xd8", b"\xff\xd9"])
LARGE = 9007199254740993


def pandas_table(index, values, described):
    """Return a table with a column that pandas is said to have as its index."""
    table = pa.table({"a": [1, 2], "b": [3, 4], index: values})
    return table.replace_schema_metadata({"pandas": f'{{"index_columns": {described}}}'})


READ = {
    "plain": ("t.csv", FEATURES, {}, FIRMS, VALUES),
    "compressed": ("t.csv.xz", lzma.compress(FEATURES.encode()), {}, FIRMS, VALUES),
    "tabs, an upper-case name": ("T.TSV", b"n\ta\tb\nx,y\t1\t2\nz\t3\t4\n", {}, ["x,y", "z"], OLD),
    "quotes": ("t.Csv.GZ", gzip.compress(b'n,a,b\n"x,y",1,2\nz,3,4\n', mtime=0), {}, ["x,y", "z"], OLD),
    "names as they were written": ("t.csv", "id,a\n007,1\n7,2\n 8 ,3\nNA,4\n", {}, ["007", "7", "8", "NA"],
                                   [[1], [2], [3], [4]]),
    "points in German": ("t.csv", "n;a\nu;12.345\nv;13.456\n", {"delimiter": ";"}, UV, [[12.345], [13.456]]),
    **{f"German in {name}": ("t.csv", GERMAN.encode(name), GERMAN_OPTIONS | options, ["Müller", "Größ"], GERMAN_VALUES)
       for name, options in (("utf-16", {}), ("cp1252", {"encoding": "cp1252"}))},
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
    # names are what a text file would say
    "large numbers": ("t.parquet", pa.table({"id": [1000, LARGE], "a": [1, 2]}), {}, ["1000", str(LARGE)], [[1], [2]]),
    "no number": ("t.parquet", pa.table({"id": [1000, None, LARGE], "a": [1, 9, 2]}), {}, ["1000", str(LARGE)],
                  [[1], [2]]),
    "fractions": ("t.parquet", pa.table({"id": [1e3, np.nan, 2.5], "a": [1, 9, 2]}), {}, ["1000", "2.5"], [[1], [2]]),
    "bytes": ("t.parquet", pa.table({"id": pa.array(["ä".encode(), b"b "], pa.binary(2)), "a": [1, 2]}), {},
              ["ä", "b"], [[1], [2]]),
    "categories": ("t.parquet", pa.table({"id": pa.array(["b", "a"]).dictionary_encode(), "a": [1, 2]}), {},
                   ["b", "a"], [[1], [2]]),
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


def write(folder, data, name="table.csv"):
    path = folder / name
    if isinstance(data, pa.Table):
        pq.write_table(data, path)
    else:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


@pytest.mark.parametrize(("name", "data", "options", "names", "values"), READ.values(), ids=READ)
def test_a_table_is_read(tmp_path, request, name, data, options, names, values):
    gc.disable()  # what Python finalizes at the depth of the nested JSON fails for want of stack
    request.addfinalizer(gc.enable)
    domain = read_domain(DomainSection(path=write(tmp_path, data, name), standardize=False, **options))
    assert (domain.names, domain.matrix.tolist()) == (names, values)


@pytest.mark.parametrize(("other", "dtype"), [(pa.float32(), "float32"), (pa.int8(), "float64")])
def test_single_precision_is_kept_where_a_table_has_no_other(tmp_path, other, dtype):
    columns = {"n": UV, "a": pa.array([1.5, 2], pa.float32()), "b": pa.array([3, 4], other)}
    path = write(tmp_path, pa.table(columns), "t.parquet")
    assert read_domain(DomainSection(path=path)).matrix.dtype == dtype


def test_labels_and_ignored_columns_are_told(tmp_path):
    path = write(tmp_path, ",n,city,a,none\n0,u,Rome,1,\n1,v,Bern,2,\n")
    domain = read_domain(DomainSection(path=path, name_column="n", label_column="city"))
    assert (domain.columns, domain.labels) == (["a"], ["Rome", "Bern"])
    assert domain.notes == ["1 column without a name ignored: ''", "1 column of no values ignored: 'none'"]
    plain = read_domain(DomainSection(path=path, name_column="n"))
    assert "1 column of text ignored: 'city'" in plain.notes


def test_a_sheet_is_read_as_its_csv_would_be_without_the_rows_above_its_header(tmp_path):
    rows = [["A report"], [], ["name", "a", "since"], ["u", 1.0, datetime(2020, 1, 2)], ["v", 0.125, None]]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    path = write(tmp_path, "A report\n\nname,a,since\nu,1,2020-01-02\nv,0.125,\n")
    found = [read_table(str(each), skip_rows=2) for each in (path, tmp_path / "t.xlsx")]
    text, sheet = ({name: texts_of(values) for name, values in each.columns.items()} for each in found)
    assert text == sheet == {"name": ["u", "v"], "a": ["1", "0.125"], "since": ["2020-01-02", ""]}
    options = {"skip_rows": 2, "drop": ("since",), "decimal": ",", "thousands": "."}
    section = DomainSection(path=str(tmp_path / "t.xlsx"), standardize=False, **options)
    assert read_domain(section).matrix.tolist() == [[1], [0.125]]  # numbers of a sheet have no signs
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


GAPS = (
    "date,A,B,C,GAPS,STILL\n2020-01-06,3,12,4,,5\n2020-01-01,1,10,1,,5\n2020-01-04,,,,,\n"
    "2020-01-02,2,,3,1,5\n2020-01-03,1,10,0,,5\n2020-01-07,2,11,5,,5\n"
)
"""Out of order, with a day without trade, a price of zero and two names with a gap each."""
DAYS = "date,X\n2020-01-01,{}\n2020-01-02,{}\n2020-01-03,{}\n"
DAYS_FIRST = "day,A,B\n30.01.2020,1,4\n31.01.2020,2,5\n01.02.2020,1,5\n02.02.2020,3,4\n"
YEAR = r"the date '30\.01\.2020': write dates with the year first"
LONG = "date,name,price\n" + "".join(f"2020-01-0{d},{n},{d}\n" for n in "AB" for d in range(1, 5))
PRICES = {"transform": "return_correlation"}
REFUSED = [
    ("t.csv", "name,a\nu,1\nu,2\n", {}, r"1 name twice \('u'\)"),
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
    ("t.txt.gz", b"\x1f\x8b\x08 cut", {}, r"t\.txt\.gz cannot be read to its end .*copy or download it again"),
    ("t.xls", b"\xd0\xcf\x11\xe0", {}, "is an old office document: save it as .xlsx, or its sheet as CSV"),
    ("t.xlsx", b"PK\x03\x04", {}, "cannot be read as a workbook"),
    # prices
    ("p.csv", GAPS, PRICES, r"prices on every date for 1 names.*max_missing = 0\.2"),
    ("p.csv", DAYS.format(2, 3, 5), PRICES, "for 1 names"),
    ("p.csv", DAYS.format("a", "b", "c"), PRICES, "no column of numbers"),
    ("p.csv", DAYS_FIRST, PRICES, YEAR),
    ("p.csv", DAYS_FIRST, PRICES | {"first": "2020-01-01"}, YEAR),
    ("p.csv", LONG, PRICES, "has the date '2020-01-01' in several rows: turn the table: a row is a day"),
    ("t.db", b"SQLite format 3\0..", {}, "is a database of SQLite, not a table: save a table of it as CSV"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "options", "message"), REFUSED)
def test_a_bad_table_is_refused(tmp_path, name, data, options, message):
    section = PricesSection if "transform" in options else DomainSection
    with pytest.raises(TableError, match=message):
        read_domain(section(path=write(tmp_path, data, name), **options))


def test_columns_are_standardized_and_a_constant_one_is_zero(tmp_path):
    matrix = np.random.default_rng(0).lognormal(size=(40, 3))
    columns = {
        "name": [f"n{i}" for i in range(40)],
        "one": [1] * 40,
        **{f"c{j}": matrix[:, j] for j in range(3)},
    }
    path = write(tmp_path, pa.table(columns), "t.parquet")
    expected = sklearn.preprocessing.StandardScaler().fit_transform(matrix)
    domain = read_domain(DomainSection(path=path))
    np.testing.assert_allclose(
        domain.matrix, np.hstack([np.zeros((40, 1)), expected]), rtol=1e-12, atol=1e-12
    )
    chosen = read_domain(DomainSection(path=path, columns=("c0", "one")))
    np.testing.assert_array_equal(chosen.matrix, domain.matrix[:, [1, 0]])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_column_that_decides_alone_is_named_with_its_share_of_the_squared_differences(metric):
    matrix = np.random.default_rng(0).standard_normal((20, 3)) * [1, 5, 2]
    rows = matrix / np.linalg.norm(matrix, axis=1, keepdims=True) if metric == "cosine" else matrix
    squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=(0, 1))
    domain = Domain([], matrix, ["a", "b", "c"], [], [], [])
    told = f"the column 'b' carries {squares[1] / squares.sum():.1%} of the distance between names"
    assert warn_of_one_column(domain, metric=metric).startswith(told)
    for even in (np.ones((4, 2)), matrix / [1, 5, 2], matrix[:, :1]):
        assert not warn_of_one_column(domain._replace(matrix=even), metric=metric)


MESSY = """company,sector,revenue,staff
Nova,cars,1200.5,10
Bolt,cars,n/a,20
Nova,cars,800,30
,cars,7,7
Cell,oil,50,
Dome,oil,100,40
"""


def messy(folder, text=MESSY, **options):
    section = DomainSection(path=write(folder, text), label_column="sector", standardize=False, **options)
    return read_domain(section)


def test_all_problems_of_a_table_are_told_at_once(tmp_path):
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


ONCE = "1 name stood more than once ('Nova'): the first row was kept"
MEDIAN = "2 cells without a number took the median of the column, in 'revenue', 'staff'"


def test_missing_cells_take_the_median_or_their_rows_are_left_out(tmp_path):
    domain = messy(tmp_path, missing="median", duplicates="first")
    assert domain.names == ["Nova", "Bolt", "Cell", "Dome"]
    assert domain.labels == ["cars", "cars", "oil", "oil"]
    np.testing.assert_array_equal(domain.matrix, [[1200.5, 10], [100, 20], [50, 20], [100, 40]])
    assert domain.notes == ["1 row without a name left out", ONCE, MEDIAN]
    left_out = [(each.name, each.reason[:9]) for each in domain.left_out]
    assert left_out == [("", "row 5 has"), ("Nova", "a further")]
    rows = messy(tmp_path, missing="drop_row", duplicates="first")
    assert rows.names == ["Nova", "Dome"]
    np.testing.assert_array_equal(rows.matrix, [[1200.5, 10], [100, 40]])
    assert [each.name for each in rows.left_out] == ["", "Nova", "Bolt", "Cell"]
    assert rows.left_out[2].reason == "no number in 'revenue'"


def test_a_table_of_names_may_be_silent_on_some_and_say_a_thing_twice(tmp_path):
    names = write(tmp_path, "name;like\nFord;Ford_Motor\nFord;\nFord;Ford_Motor\nShell;\n;x\n", "names.csv")
    section = DomainSection(path=write(tmp_path, FEATURES), names=names, names_from="name", names_to="like")
    found = read_domain(section)
    assert found.names == ["General Motors", "Ford_Motor", "Shell"]
    assert found.spellings == {"Ford_Motor": "Ford"}
    for text, message in (
        ("name,like\nFord,one\nFord,two\n", "has the name 'Ford' twice, as 'one' and 'two': keep one"),
        ("name,like\nFord,Cars\nShell,Cars\n", r"1 name twice \('Cars'\)"),
        ("name,like\nFord\n", r"fields that hold the delimiter in quotes \(\"\.\.\.\"\)$"),
        ("name,like\nFord,Größe\n".encode("cp1252"), "names.csv is not utf-8: .* save it as UTF-8$"),
    ):
        write(tmp_path, text, "names.csv")
        with pytest.raises(TableError, match=message):
            read_domain(section)


@pytest.mark.parametrize("name", ["v.txt", "v.bin.gz", "v.safetensors", "v.parquet"])
def test_known_vectors_are_as_large_in_memory_as_their_header_says(tmp_path, name):
    de.WordVectors([f"w{i}" for i in range(500)], np.ones((500, 8))).save(path := str(tmp_path / name))
    for n in (None, 9):
        found = known_size(KnownSection(path=path, max_words=n))
        assert found == (8, (n or 500) * (4 * 8 + KNOWN_WORD_BYTES))


def misses(names, words, **options):
    rows = match_names(names, words, MatchingSection(**options))
    return [tuple(miss) for miss in near_misses(names, words, rows, MatchingSection(**options))]


def test_names_that_nearly_match_are_offered():
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
def test_spellings(names, words, options, rows):
    if isinstance(rows, str):
        with pytest.raises(TableError, match=rows):
            match_names(names, words, MatchingSection(**options))
    else:
        assert match_names(names, words, MatchingSection(**options)).tolist() == rows


def prices(folder, data, name="p.csv", **options):
    path = write(folder, data, name)
    return read_domain(PricesSection(path=path, transform="return_correlation", **options))


def test_gaps_get_the_mean_of_the_day(tmp_path):
    domain = prices(tmp_path, GAPS, max_missing=0.2)
    assert domain.names == ["A", "B", "C"]
    # 1, 2, 3, 6 and 7 January: B lacks the 2nd, C the 3rd, so each lacks two returns of the four.
    a = np.array([1, -0.5, 2, -1 / 3])
    b = np.array([np.nan, np.nan, 0.2, -1 / 12])
    c = np.array([2, np.nan, np.nan, 0.25])
    b[:2] = (a[0] + c[0]) / 2, a[1]
    c[1:3] = a[1], (a[2] + b[2]) / 2
    np.testing.assert_allclose(domain.matrix, np.corrcoef([a, b, c]))
    assert {each.name: each.reason.split(",")[0] for each in domain.left_out} == {
        "GAPS": "80.0% of its prices are missing or not positive",
        "STILL": "its price never moves",
    }
    assert "1 date on which no name has a price left out" in domain.notes
    assert "4 daily returns without a price took the mean of the day, in 2 names: 'B', 'C'" in domain.notes


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
def test_a_window_takes_in_its_first_and_last_day(tmp_path, dates, suffix):
    data = pa.table({"date": dates, "A": [1, 3, 2, 5, 4, 7], "B": [2, 3, 7, 4, 6, 5]})
    if suffix == "csv":
        rows = zip(*[texts_of(column) for column in data.columns], strict=True)
        data = "\n".join(map(",".join, [data.column_names, *rows]))
    name = f"p.{suffix}"
    assert len(prices(tmp_path, data, name, first="2020-01-30", last="2020-02-01").names) == 2
    assert len(prices(tmp_path, data, name, last="2020-01").names) == 2
    for window, message in (
        ({"first": "2020-01-31", "last": "2020-02-01"}, "has 2 dates from"),
        ({"last": "1.2.2020"}, r"domain\.last is '1\.2\.2020': write the year first"),
    ):
        with pytest.raises(TableError, match=message):
            prices(tmp_path, data, name, **window)


def test_the_published_domain_matrix(shared):
    folder = shared / "data" / "lsi"
    section = PricesSection(
        path=str(folder / "sp500_close_2015_2018.csv.xz"),
        transform="return_correlation",
        first="2016-08-24",
        last="2018-08-27",
        names=str(folder / "sp500_token.csv"),
        names_from="Symbol",
        names_to="nGram",
        names_label="Sector",
    )
    domain = read_domain(section)
    reference = np.load(shared / "reference" / "imputation_sp500_google.npz")
    order = [domain.names.index(name) for name in reference["index"]]
    # the published rows are in their own order, their columns in that of the symbols: distances are the same
    ours, theirs = np.sort(domain.matrix[order], axis=1), np.sort(reference["aff"], axis=1)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert len(set(domain.labels)) == 11


COMPANIES = ["General_Motors", "Ford", "Shell", "BP", "Total", "Fiat"]
VECTORS = de.WordVectors(COMPANIES, np.random.default_rng(0).standard_normal((6, 4)))


@pytest.mark.parametrize(
    "name", ["v.bin", "v.vec", "v.txt", "v.safetensors", "v.txt.xz", "v.glove", "v.parquet"]
)
def test_a_vector_file_is_a_domain_as_it_stands(tmp_path, name):
    VECTORS.save(tmp_path / name)
    options = {"path": str(tmp_path / name)}
    options |= {"format": "vectors"} if name == "v.parquet" else {}
    domain = read_domain(DomainSection(**options))
    assert domain.names == COMPANIES
    np.testing.assert_allclose(domain.matrix, VECTORS.vectors, rtol=1e-6)
    assert read_domain(DomainSection(**options, max_words=3)).names == COMPANIES[:3]


@pytest.mark.parametrize(
    ("text", "holds"),
    [("Ford 1 2 3\n", True), ("1 3\nFord 1 2 3\n", True), ("Ford 1\n", False), ("a,b 1 2\n", False)],
)
def test_the_first_line_of_a_text_says_whether_it_holds_vectors(tmp_path, text, holds):
    assert holds_vectors(write(tmp_path, text, "v.txt"), "auto") == holds


def test_new_rows_of_vectors_stand_on_the_scales_of_the_old(tmp_path):
    VECTORS.save(tmp_path / "v.bin")
    section, columns = DomainSection(path=str(tmp_path / "v.bin")), ["1", "2", "3", "4"]
    scales = Scales(np.arange(4.0), np.full(4, 2.0), np.zeros(4))
    found = read_new_rows(section, columns, scales)
    assert found.names == COMPANIES
    np.testing.assert_allclose(found.matrix, (VECTORS.vectors - np.arange(4)) / 2, rtol=1e-6)
    with pytest.raises(TableError, match=r"v\.bin holds vectors of 4 components, but the job has 3 columns"):
        read_new_rows(section, columns[:3], scales)


@pytest.mark.parametrize("options", [{"columns": ("a",)}, {"transform": "return_correlation"}])
def test_a_key_of_tables_is_refused_for_vectors(tmp_path, options):
    VECTORS.save(tmp_path / "v.bin")
    with pytest.raises(TableError, match=rf"domain\.{next(iter(options))} says nothing"):
        read_domain(DomainSection(path=str(tmp_path / "v.bin"), **options))


JOB = """
[job]
system = "imputation"
workspace = "w"
[domain]
path = "domain.bin"
[known]
path = "known.csv"
drop = ["year"]
[imputation]
min_degree = 4
[evaluation]
n_folds = 2
"""


def test_a_job_reads_the_vocabulary_of_one_embedding_and_the_vectors_of_another(tmp_path):
    rng = np.random.default_rng(0)
    names, Y = [f"n{i}" for i in range(40)], rng.standard_normal((40, 5))
    de.WordVectors(names, rng.standard_normal((40, 3))).save(tmp_path / "domain.bin")
    lines = [f"{names[i]},7," + ",".join(map(str, Y[i])) for i in range(20)]
    (tmp_path / "known.csv").write_text("name,year,a,b,c,d,e\n" + "\n".join(lines) + "\n")
    (tmp_path / "job.toml").write_text(JOB)
    planned = succeed("plan", tmp_path / "job.toml").output
    assert "40 names x 3 numbers, vectors of 5 components" in planned
    assert 'imputation.metric = "cosine"' in planned
    succeed("run", tmp_path / "job.toml", "--until", "join")
    joined = de.Workspace.open(tmp_path / "w")
    assert joined.stages()["join"].facts["n_known"] == 20
    np.testing.assert_array_equal(joined.array("known_vectors").compute()[:20], Y[:20].astype(np.float32))
