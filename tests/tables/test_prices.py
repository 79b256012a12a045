"""Prices become correlations of returns, with gaps by the paper's rule, and what cannot is named."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.formats.tables import TableError, texts_of
from distembed.tables.domain import holds_vectors, read_domain, read_new_rows, returns_of
from distembed.tables.rows import Domain, Scales
from distembed.tables.sections import DomainSection, PricesSection
from tests.commands import succeed

MESSY = (
    "date,A,B,C,GAPS,STILL\n2020-01-06,3,12,4,,5\n2020-01-01,1,10,1,,5\n2020-01-04,,,,,\n"
    "2020-01-02,2,,3,1,5\n2020-01-03,1,10,0,,5\n2020-01-07,2,11,5,,5\n"
)
"""Out of order, with a day without trade, a price of zero and two names with a gap each."""


def read(path: Path, data: str | pa.Table, **options: Any) -> Domain:
    if isinstance(data, str):
        path.write_text(data)
    else:
        pq.write_table(data, path)
    return read_domain(PricesSection(path=str(path), transform="return_correlation", **options))


def test_gaps_get_the_mean_of_the_day(tmp_path: Path) -> None:
    domain = read(tmp_path / "p.csv", MESSY, max_missing=0.2)
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


def test_returns_equal_those_of_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    prices = rng.uniform(1, 2, (40, 12))
    prices[rng.random(prices.shape) < 0.1] = np.nan
    found = returns_of(prices, [str(i) for i in range(12)], max_missing=0.15)
    kept = [i for i in range(12) if np.isnan(prices[:, i]).mean() <= 0.15]
    assert found.names == [str(i) for i in kept]
    assert 0 < len(kept) < 12
    for day in range(39):
        known = {i: prices[day + 1, i] / prices[day, i] - 1 for i in kept}
        mean = np.mean([value for value in known.values() if not np.isnan(value)])
        expected = [mean if np.isnan(value) else value for value in known.values()]
        np.testing.assert_allclose(found.matrix[day], expected)


DAYS = "date,X\n2020-01-01,{}\n2020-01-02,{}\n2020-01-03,{}\n"
GERMAN = "day,A,B\n30.01.2020,1,4\n31.01.2020,2,5\n01.02.2020,1,5\n02.02.2020,3,4\n"
YEAR = r"the date '30\.01\.2020': write dates with the year first"
LONG = "date,name,price\n" + "".join(f"2020-01-0{d},{n},{d}\n" for n in "AB" for d in range(1, 5))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (MESSY, {}, r"prices on every date for 1 names.*max_missing = 0\.2"),
        (DAYS.format(2, 3, 5), {}, "for 1 names"),
        (DAYS.format("a", "b", "c"), {}, "no column of numbers"),
        (GERMAN, {}, YEAR),
        (GERMAN, {"first": "2020-01-01"}, YEAR),
        (LONG, {}, "has the date '2020-01-01' in several rows: turn the table: a row is a day"),
    ],
)
def test_what_are_no_prices_of_days_is_refused(
    tmp_path: Path, text: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        read(tmp_path / "p.csv", text, **options)


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
    data = pa.table({"date": dates, "A": [1, 3, 2, 5, 4, 7], "B": [2, 3, 7, 4, 6, 5]})
    if suffix == "csv":
        rows = zip(*[texts_of(column) for column in data.columns], strict=True)
        data = "\n".join(map(",".join, [data.column_names, *rows]))
    path = tmp_path / f"p.{suffix}"
    assert len(read(path, data, first="2020-01-30", last="2020-02-01").names) == 2
    assert len(read(path, data, last="2020-01").names) == 2
    for window, message in (
        ({"first": "2020-01-31", "last": "2020-02-01"}, "has 2 dates from"),
        ({"last": "1.2.2020"}, r"domain\.last is '1\.2\.2020': write the year first"),
    ):
        with pytest.raises(TableError, match=message):
            read(path, data, **window)


def test_the_published_domain_matrix(shared: Path) -> None:
    folder = shared / "data" / "lsi"
    prices = {
        "path": str(folder / "sp500_close_2015_2018.csv.xz"),
        "transform": "return_correlation",
        "first": "2016-08-24",
        "last": "2018-08-27",
    }
    names = {
        "names": str(folder / "sp500_token.csv"),
        "names_from": "Symbol",
        "names_to": "nGram",
        "names_label": "Sector",
    }
    domain = read_domain(PricesSection(**prices, **names))
    reference = np.load(shared / "reference" / "imputation_sp500_google.npz")
    order = [domain.names.index(name) for name in reference["index"]]
    # the published rows are in their own order, their columns in that of the symbols: distances are the same
    ours, theirs = np.sort(domain.matrix[order], axis=1), np.sort(reference["aff"], axis=1)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert len(set(domain.labels)) == 11
    gaps = read_domain(PricesSection(**prices, max_missing=0.2))
    assert len(gaps.names) + len(gaps.left_out) == 484
    assert np.isfinite(gaps.matrix).all()


# ---- a vector file as domain ---------------------------------------------------------------------------------------


WORDS = ["General_Motors", "Ford", "Shell", "BP", "Total", "Fiat"]
VECTORS = de.WordVectors(WORDS, np.random.default_rng(0).standard_normal((6, 4)))


@pytest.mark.parametrize(
    "name", ["v.bin", "v.vec", "v.txt", "v.safetensors", "v.txt.xz", "v.glove", "v.parquet"]
)
def test_a_vector_file_is_a_domain_as_it_stands(tmp_path: Path, name: str) -> None:
    VECTORS.save(tmp_path / name)
    options: dict[str, Any] = {"path": str(tmp_path / name)}
    options |= {"format": "vectors"} if name == "v.parquet" else {}
    domain = read_domain(DomainSection(**options))
    assert domain.names == WORDS
    np.testing.assert_allclose(domain.matrix, VECTORS.vectors, rtol=1e-6)
    assert read_domain(DomainSection(**options, max_words=3)).names == WORDS[:3]


@pytest.mark.parametrize(
    ("text", "holds"),
    [("Ford 1 2 3\n", True), ("1 3\nFord 1 2 3\n", True), ("Ford 1\n", False), ("a,b 1 2\n", False)],
)
def test_the_first_line_of_a_text_says_whether_it_holds_vectors(
    tmp_path: Path, text: str, holds: bool
) -> None:
    (tmp_path / "v.txt").write_text(text)
    assert holds_vectors(str(tmp_path / "v.txt"), "auto") == holds


def test_new_rows_of_vectors_stand_on_the_scales_of_the_old(tmp_path: Path) -> None:
    VECTORS.save(tmp_path / "v.bin")
    section, columns = DomainSection(path=str(tmp_path / "v.bin")), ["1", "2", "3", "4"]
    scales = Scales(np.arange(4.0), np.full(4, 2.0), np.zeros(4))
    found = read_new_rows(section, columns, scales)
    assert found.names == WORDS
    np.testing.assert_allclose(found.matrix, (VECTORS.vectors - np.arange(4)) / 2, rtol=1e-6)
    with pytest.raises(TableError, match=r"v\.bin holds vectors of 4 components, but the job has 3 columns"):
        read_new_rows(section, columns[:3], scales)


@pytest.mark.parametrize("options", [{"columns": ("a",)}, {"transform": "return_correlation"}])
def test_a_key_of_tables_is_refused_for_vectors(tmp_path: Path, options: dict[str, Any]) -> None:
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
[imputation]
min_degree = 4
[evaluation]
n_folds = 2
"""


def test_a_job_reads_the_vocabulary_of_one_embedding_and_the_vectors_of_another(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names, Y = [f"n{i}" for i in range(40)], rng.standard_normal((40, 5))
    de.WordVectors(names, rng.standard_normal((40, 3))).save(tmp_path / "domain.bin")
    lines = [f"{names[i]}," + ",".join(map(str, Y[i])) for i in range(20)]
    (tmp_path / "known.csv").write_text("name,a,b,c,d,e\n" + "\n".join(lines) + "\n")
    (tmp_path / "job.toml").write_text(JOB)
    planned = succeed("plan", tmp_path / "job.toml").output
    assert "40 names x 3 numbers, vectors of 5 components" in planned
    assert 'imputation.metric = "cosine"' in planned
    succeed("run", tmp_path / "job.toml", "--until", "join")
    joined = de.Workspace.open(tmp_path / "w")
    assert joined.stages()["join"].facts["n_known"] == 20
    np.testing.assert_array_equal(joined.array("known_vectors").compute()[:20], Y[:20].astype(np.float32))
