"""Tables are read as they stand, joined by name, and refused with the name and the remedy."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.pipeline.tables.config import DomainSection, KnownSection, MatchingSection
from distembed.pipeline.tables.domain import column_shares, join, read_domain, read_known
from distembed.pipeline.tables.files import TableError
from distembed.pipeline.tables.names import match_names
from distembed.vectors import WordVectors

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


def test_features_of_parquet_and_npz_are_those_of_the_csv(tmp_path: Path) -> None:
    columns = {"name": ["u", "v"], "a": [1.0, 2.0], "b": [3.0, 4.0]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", name=np.array(["u", "v"]), X=np.array([[1.0, 3.0], [2.0, 4.0]]))
    for file in ("t.parquet", "t.npz"):
        domain = read_domain(DomainSection(path=str(tmp_path / file), standardize=False))
        assert domain.names == ["u", "v"]
        np.testing.assert_array_equal(domain.matrix, [[1, 3], [2, 4]])


def test_chosen_columns_and_standardized_ones(tmp_path: Path) -> None:
    path = write(tmp_path, FEATURES)
    chosen = read_domain(DomainSection(path=path, columns=("b",), standardize=True))
    assert chosen.matrix.shape == (3, 1)
    assert chosen.matrix.mean() == pytest.approx(0)
    assert chosen.matrix.std() == pytest.approx(1)


def test_features_are_standardized_and_correlations_are_not(tmp_path: Path) -> None:
    features = read_domain(DomainSection(path=write(tmp_path, FEATURES), drop=("sector",)))
    np.testing.assert_allclose(features.matrix.std(axis=0), [1, 1])
    prices = DomainSection(path=write(tmp_path, PRICES), transform="return_correlation", drop=("GAP",))
    np.testing.assert_allclose(read_domain(prices).matrix.diagonal(), 1)


def test_the_share_of_a_column_is_that_of_its_squared_differences() -> None:
    matrix = np.random.default_rng(0).standard_normal((20, 3)) * [1, 5, 2]
    squares = ((matrix[:, None] - matrix[None]) ** 2).sum(axis=(0, 1))
    np.testing.assert_allclose(column_shares(matrix, metric="euclidean"), squares / squares.sum())
    assert column_shares(matrix, metric="cosine").sum() == pytest.approx(1)
    np.testing.assert_array_equal(column_shares(np.ones((4, 2)), metric="euclidean"), [0, 0])


def test_a_constant_column_standardized_is_zero(tmp_path: Path) -> None:
    path = write(tmp_path, "name,a,b\nu,1,1\nv,1,2\n")
    np.testing.assert_array_equal(
        read_domain(DomainSection(path=path, standardize=True)).matrix, [[0, -1], [0, 1]]
    )


def test_prices_become_correlations_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    section = DomainSection(path=write(tmp_path, PRICES), transform="return_correlation", name_column="date")
    domain = read_domain(section)
    x, y = np.array([1, 2, 1, 3.0]), np.array([10, 11, 10, 12.0])
    expected = np.corrcoef(x[1:] / x[:-1] - 1, y[1:] / y[:-1] - 1)
    np.testing.assert_allclose(domain.matrix, expected)
    assert domain.names == ["X", "Y"]
    assert "missing" in domain.left_out["GAP"]
    assert "never moves" in domain.left_out["STILL"]


def test_a_window_of_dates_keeps_what_is_complete_in_it(tmp_path: Path) -> None:
    section = DomainSection(path=write(tmp_path, PRICES), transform="return_correlation", drop=("STILL",))
    with pytest.raises(TableError, match="2 dates from 2020-01-03"):
        read_domain(section.model_copy(update={"first": "2020-01-03"}))


def test_the_published_domain_matrix(shared: Path) -> None:
    folder = shared / "data" / "lsi"
    section = DomainSection(
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


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("name,a\nu,1\nu,2\n", {}, "the name 'u' twice"),
        ("name,a,a\nu,1,2\n", {}, "the column 'a' twice"),
        ("name,a\nu,1\nv,\n", {}, "no finite number for 1 of 2 names, first 'v'"),
        ("name,a\nu,one\nv,2\n", {}, "'a' .* drop it"),
        ("name,a\nu,1\n", {"name_column": "id"}, "no column 'id'; it has 'name', 'a'"),
        ("name,a\nu,1\n", {"drop": ("b",)}, "no column 'b'"),
        ("name,a\nu,1\n", {"columns": ("b",)}, "no column 'b'"),
        ("name,a\nu,1\n", {"label_column": "b"}, "no column 'b'"),
        ("name\nu\nv\n", {}, "no column of numbers"),
        ("date,X\n1,2\n2,3\n3,5\n", {"transform": "return_correlation"}, "for 1 names"),
        ("date,X\n1,a\n2,b\n3,c\n", {"transform": "return_correlation"}, "not prices"),
        ("name,a\nu,1,2\n", {}, "not a table"),
    ],
)
def test_a_bad_domain_is_refused(tmp_path: Path, text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_domain(DomainSection(path=write(tmp_path, text), **options))


def test_names_that_a_table_maps_to_one_are_refused(tmp_path: Path) -> None:
    names = write(tmp_path, "from,to\nFord,Cars\nShell,Cars\n", "names.csv")
    path = write(tmp_path, FEATURES)
    with pytest.raises(TableError, match="the name 'Cars' twice"):
        read_domain(DomainSection(path=path, names=names, drop=("sector",)))


def test_known_vectors_of_a_table_and_of_a_file_are_equal(tmp_path: Path) -> None:
    table = write(tmp_path, "w,0,1,label\nu,1,2,7\nv,3,4,8\n")
    (tmp_path / "v.txt").write_text("2 2\nu 1 2\nv 3 4\n")
    from_table = read_known(KnownSection(path=table, drop=("label",)))
    from_file = read_known(KnownSection(path=str(tmp_path / "v.txt")))
    assert from_table.words == from_file.words
    np.testing.assert_array_equal(from_table.vectors, from_file.vectors)


# ---- joining ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ignore_case", "ignore_underscores", "rows"),
    [
        (False, False, [-1, 1]),
        (True, False, [-1, 1]),
        (False, True, [0, 1]),
        (True, True, [0, 1]),
    ],
)
def test_spellings(ignore_case: bool, ignore_underscores: bool, rows: list[int]) -> None:
    found = match_names(
        ["General Motors", "ford"],
        ["General_Motors", "ford", "Ford"],
        ignore_case=ignore_case,
        ignore_underscores=ignore_underscores,
    )
    assert found.tolist() == rows


def test_case_is_ignored_only_where_no_word_is_spelled_alike() -> None:
    words = ["shell", "SHELL", "Shell"]
    assert match_names(["Shell"], words, ignore_case=True, ignore_underscores=True).tolist() == [2]
    assert match_names(["sHELL"], words, ignore_case=True, ignore_underscores=True).tolist() == [0]


def test_two_names_of_one_word_are_refused() -> None:
    with pytest.raises(TableError, match="'Shell' and 'SHELL' both match the word 'shell'"):
        match_names(["Shell", "SHELL"], ["shell"], ignore_case=True, ignore_underscores=True)


def test_no_overlap_is_refused_with_examples() -> None:
    with pytest.raises(TableError, match=r"no name of the table \('a', 'b'\).*'x'"):
        match_names(["a", "b"], ["x"], ignore_case=True, ignore_underscores=True)


def test_the_vocabulary_tells_where_each_row_comes_from(tmp_path: Path) -> None:
    domain = read_domain(DomainSection(path=write(tmp_path, FEATURES), label_column="sector"))
    known = WordVectors(["Shell", "other", "General_Motors"], np.arange(6).reshape(3, 2))
    both = join(domain, known, MatchingSection())
    table = both.vocabulary(with_others=True).to_pydict()
    assert table["word"] == ["General_Motors", "Ford", "Shell", "other"]
    assert table["origin"] == ["known", "imputed", "known", "other"]
    assert table["label"] == ["cars", "cars", "oil", ""]
    np.testing.assert_array_equal(both.targets, [[4, 5], [np.nan, np.nan], [0, 1]])
