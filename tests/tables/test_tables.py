"""Tables are read as they stand, joined by name, and refused with the name and the remedy."""

from __future__ import annotations

import lzma
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import openpyxl
import openpyxl.chart
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.preprocessing

from distembed.formats.tables import TableError, read_table, texts_of
from distembed.tables.domain import joined_words, read_domain, read_known
from distembed.tables.names import NearMiss, advice_on, match_names, near_misses
from distembed.tables.rows import Domain, warn_of_one_column
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection, PricesSection

FEATURES = "name,sector,a,b\nGeneral Motors,cars,1,2.5\nFord,cars,3,4\nShell,oil,5,7\n"
PRICES = (
    "date,X,Y,GAP,STILL\n2020-01-01,1,10,1,5\n2020-01-02,2,11,,5\n2020-01-03,1,10,1,5\n2020-01-06,3,12,1,5\n"
)


def write(folder: Path, text: str, name: str = "table.csv") -> str:
    path = folder / name
    path.write_bytes(lzma.compress(text.encode()) if name.endswith(".xz") else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["table.csv", "table.csv.xz"])
def test_features_of_a_csv(tmp_path: Path, name: str) -> None:
    domain = read_domain(
        DomainSection(path=write(tmp_path, FEATURES, name), label_column="sector", standardize=False)
    )
    assert domain.names == ["General Motors", "Ford", "Shell"]
    assert domain.labels == ["cars", "cars", "oil"]
    np.testing.assert_array_equal(domain.matrix, [[1, 2.5], [3, 4], [5, 7]])


def test_columns_are_standardized_by_dask_ml_which_an_import_does_not_load(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).lognormal(size=(40, 3))
    pq.write_table(
        pa.table({"name": [f"n{i}" for i in range(40)], **{f"c{j}": matrix[:, j] for j in range(3)}}),
        tmp_path / "t.parquet",
    )
    code = (
        "import sys, distembed; assert 'dask_ml' not in sys.modules\n"
        "from distembed.tables.domain import read_domain; from distembed.tables.sections import DomainSection\n"
        f"domain = read_domain(DomainSection(path={str(tmp_path / 't.parquet')!r}))\n"
        "assert 'dask_ml.preprocessing' in sys.modules\n"
        "print(domain.matrix.tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = sklearn.preprocessing.StandardScaler().fit_transform(matrix)
    found = np.frombuffer(bytes.fromhex(run.stdout.strip())).reshape(40, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


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


def test_prices_become_correlations_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    section = PricesSection(path=write(tmp_path, PRICES), transform="return_correlation", name_column="date")
    domain = read_domain(section)
    x, y = np.array([1, 2, 1, 3.0]), np.array([10, 11, 10, 12.0])
    expected = np.corrcoef(x[1:] / x[:-1] - 1, y[1:] / y[:-1] - 1)
    np.testing.assert_allclose(domain.matrix, expected)
    assert domain.names == ["X", "Y"]
    left_out = {each.name: each.reason for each in domain.left_out}
    assert "missing" in left_out["GAP"]
    assert "never moves" in left_out["STILL"]


def test_the_published_domain_matrix(shared: Path) -> None:
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


RETURNS = {"transform": "return_correlation"}
DAYS = "date,X\n2020-01-01,{}\n2020-01-02,{}\n2020-01-03,{}\n"
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
    ("t.csv", DAYS.format(2, 3, 5), RETURNS, "for 1 names"),
    ("t.csv", DAYS.format("a", "b", "c"), RETURNS, "no column of numbers"),
    ("t.csv", "name,a\nu,1,2\n", {}, "not a table"),
    ("t.xls", b"\xd0\xcf\x11\xe0", {}, "is an old office document: save it as .xlsx, or its sheet as CSV"),
    ("t.xlsx", b"PK\x03\x04", {}, "cannot be read as a workbook"),
    ("t.db", b"SQLite format 3\0..", {}, "is a database of SQLite, not a table: save a table of it as CSV"),
    ("t.csv", b"PK\x03\x04....", {}, "is a ZIP archive or an office document, not a table: unpack it"),
    ("t.csv", b"", {}, r"t\.csv has no header"),
    ("t.csv", "n,a\nu,1\nv,1,2\n", {}, "1 row has another number: row 3 has 3 fields"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "options", "message"), REFUSED)
def test_a_bad_table_is_refused(
    tmp_path: Path, name: str, data: str | bytes, options: dict[str, object], message: str
) -> None:
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    section = PricesSection if options is RETURNS else DomainSection
    with pytest.raises(TableError, match=message):
        read_domain(section(path=str(tmp_path / name), **options))


def test_a_table_of_names_may_be_silent_on_some_and_say_a_thing_twice(tmp_path: Path) -> None:
    names = write(tmp_path, "name,like\nFord,Ford_Motor\nFord,\nFord,Ford_Motor\nShell,\n,x\n", "names.csv")
    section = DomainSection(path=write(tmp_path, FEATURES), names=names, names_from="name", names_to="like")
    found = read_domain(section)
    assert found.names == ["General Motors", "Ford_Motor", "Shell"]
    assert found.spellings == {"Ford_Motor": "Ford"}
    write(tmp_path, "name,like\nFord,one\nFord,two\n", "names.csv")
    with pytest.raises(TableError, match="has the name 'Ford' twice, as 'one' and 'two': keep one"):
        read_domain(section)


def test_names_that_a_table_maps_to_one_are_refused(tmp_path: Path) -> None:
    names = write(tmp_path, "from,to\nFord,Cars\nShell,Cars\n", "names.csv")
    path = write(tmp_path, FEATURES)
    with pytest.raises(TableError, match=r"1 name twice \('Cars'\)"):
        read_domain(DomainSection(path=path, names=names, drop=("sector",)))


def test_known_vectors_of_a_table_and_of_a_file_are_equal(tmp_path: Path) -> None:
    table = write(tmp_path, "w,0,1,label\nu,1,2,7\nv,3,4,8\n")
    (tmp_path / "v.txt").write_text("2 2\nu 1 2\nv 3 4\n")
    from_table = read_known(KnownSection(path=table, drop=("label",)))[0]
    from_file = read_known(KnownSection(path=str(tmp_path / "v.txt")))[0]
    assert from_table.words == from_file.words
    np.testing.assert_array_equal(from_table.vectors, from_file.vectors)


# ---- tables as people have them ------------------------------------------------------------------------------

MESSY = """company,sector,revenue,staff
Nova,cars,1200.5,10
Bolt,cars,n/a,20
Nova,cars,800,30
,cars,7,7
Cell,oil,50,
Dome,oil,100,40
"""


def messy(folder: Path, **options: object) -> Domain:
    text = str(options.pop("text", MESSY))
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
    assert [(each.name, each.reason[:9]) for each in domain.left_out] == [
        ("", "row 5 has"),
        ("Nova", "a further"),
    ]


def test_rows_with_missing_cells_are_left_out(tmp_path: Path) -> None:
    rows = messy(tmp_path, missing="drop_row", duplicates="first")
    assert rows.names == ["Nova", "Dome"]
    np.testing.assert_array_equal(rows.matrix, [[1200.5, 10], [100, 40]])
    assert [each.name for each in rows.left_out] == ["", "Nova", "Bolt", "Cell"]
    assert rows.left_out[2].reason == "no number in 'revenue'"
    with pytest.raises(TableError, match=r'has nothing left after domain.missing = "drop_row"'):
        messy(tmp_path, missing="drop_row", text="company,sector,a\nu,x,\nv,y,NA\n", columns=("a",))


def test_a_text_column_is_ignored_with_a_line(tmp_path: Path) -> None:
    domain = read_domain(DomainSection(path=write(tmp_path, "n,city,a,none\nu,Rome,1,\nv,Bern,2,\n")))
    assert domain.columns == ["a"]
    assert domain.notes == ["1 column of text ignored: 'city'", "1 column of no values ignored: 'none'"]


GERMAN = "Firma;Umsatz;Leute;Anteil\nMüller;1.234,5;1.200;3\nGröß;7,25;12.000;-4\n"
GERMAN_OPTIONS = {"delimiter": ";", "decimal": ",", "thousands": "."}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_table_of_another_country_is_read_as_its_section_says(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(GERMAN.replace("\n", "\r\n").encode(encoding))
    section = DomainSection(path=str(path), standardize=False, **GERMAN_OPTIONS)
    if encoding == "cp1252":
        with pytest.raises(
            TableError, match=r't\.csv is not utf-8: line 2 holds the byte 0xfc.*set encoding = "'
        ):
            read_domain(section)
        section = section.model_copy(update={"encoding": "cp1252"})
    domain = read_domain(section)
    assert domain.names == ["Müller", "Größ"]
    np.testing.assert_array_equal(domain.matrix, [[1234.5, 1200, 3], [7.25, 12000, -4]])


def test_a_point_is_never_taken_for_thousands_by_itself(tmp_path: Path) -> None:
    """`12.345` of a file with semicolons was read as twelve thousand, until a column with `0.5` was added."""
    path = write(tmp_path, "n;a\nu;12.345\nv;13.456\n")
    one = read_domain(DomainSection(path=path, delimiter=";", standardize=False))
    np.testing.assert_array_equal(one.matrix, [[12.345], [13.456]])
    with pytest.raises(
        TableError,
        match=r"2 cells without a number in the column 'a', first '12\.345' .*: set decimal = \"\.\"",
    ):
        read_domain(DomainSection(path=path, delimiter=";", decimal=","))


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
    with pytest.raises(
        TableError, match=r"t\.xlsx was saved with a sheet open that has no cells: open another"
    ):
        read_table(str(tmp_path / "t.xlsx"))


def test_names_are_text_as_they_were_written(tmp_path: Path) -> None:
    domain = read_domain(DomainSection(path=write(tmp_path, "id,a\n007,1\n7,2\n 8 ,3\nNA,4\n")))
    assert domain.names == ["007", "7", "8", "NA"]


# ---- near misses ---------------------------------------------------------------------------------------------


def misses(names: list[str], words: list[str], **options: bool) -> list[tuple[str, str, str]]:
    rows = match_names(names, words, MatchingSection(**options))
    return [tuple(miss) for miss in near_misses(names, words, rows, MatchingSection(**options))]


def test_names_that_nearly_match_are_offered() -> None:
    names = ["same", "Wells Fargo Inc.", "FORD", "Societe Generale", "Nothing like it", "Wel"]
    words = ["same", "Wells_Fargo", "Ford", "Société_Générale", "Wal", "ford"]
    assert misses(names, words) == [
        ("Wells Fargo Inc.", "Wells_Fargo", "punctuation, accents or legal form"),
        ("FORD", "Ford", "ignore_case"),
        ("Societe Generale", "Société_Générale", "punctuation, accents or legal form"),
    ]
    advice = advice_on([NearMiss(*miss) for miss in misses(names, words)])
    assert advice.startswith(
        "1 more name would match with matching.ignore_case = true; 'Wells Fargo Inc.' is like"
    )
    assert (
        misses(["Big Co", "same"], ["same", "Big_Co"], ignore_underscores=False)[0][2] == "ignore_underscores"
    )


# ---- joining ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "words", "options", "rows"),
    [
        (
            ["General Motors", "ford"],
            ["General_Motors", "ford", "Ford"],
            {"ignore_underscores": False},
            [-1, 1],
        ),
        (["General Motors", "ford"], ["General_Motors", "ford", "Ford"], {}, [0, 1]),
        (["General Motors", "ford"], ["General_Motors", "ford", "Ford"], {"ignore_case": True}, [0, 1]),
        # case is ignored only where no word is spelled alike
        (["Shell"], ["shell", "SHELL", "Shell"], {"ignore_case": True}, [2]),
        (["sHELL"], ["shell", "SHELL", "Shell"], {"ignore_case": True}, [0]),
        (
            ["Shell", "SHELL"],
            ["shell"],
            {"ignore_case": True},
            "'Shell' and 'SHELL' both match the word 'shell'",
        ),
        (["a", "b"], ["x"], {"ignore_case": True}, r"no name of the table \('a', 'b'\).*'x'"),
    ],
)
def test_spellings(
    names: list[str], words: list[str], options: dict[str, bool], rows: list[int] | str
) -> None:
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
