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

from distembed.formats.tables import TableError, texts_of
from distembed.tables.domain import read_domain, returns_of
from distembed.tables.rows import Domain
from distembed.tables.sections import PricesSection

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
