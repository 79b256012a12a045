"""Prices with gaps become returns by the paper's rule, and what cannot is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distembed.formats.tables import TableError
from distembed.tables.domain import read_domain, returns_of
from distembed.tables.sections import PricesSection

MESSY = (
    "date,A,B,C,GAPS,STILL\n2020-01-06,3,12,4,,5\n2020-01-01,1,10,1,,5\n2020-01-04,,,,,\n"
    "2020-01-02,2,,3,1,5\n2020-01-03,1,10,0,,5\n2020-01-07,2,11,5,,5\n"
)
"""Out of order, with a day without trade, a price of zero and two names with a gap each."""


def read(folder: Path, text: str, **options: object) -> object:
    path = folder / "prices.csv"
    path.write_text(text)
    return read_domain(PricesSection(path=str(path), transform="return_correlation", **options))


def test_gaps_get_the_mean_of_the_day(tmp_path: Path) -> None:
    domain = read(tmp_path, MESSY, max_missing=0.2)
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


def test_without_gaps_allowed_only_complete_names_stay(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"prices on every date for 1 names.*max_missing = 0\.2"):
        read(tmp_path, MESSY)


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


@pytest.mark.parametrize("window", [{}, {"first": "2020-01-01"}])
def test_dates_that_do_not_begin_with_the_year_are_refused(tmp_path: Path, window: dict[str, str]) -> None:
    text = "day,A,B\n30.01.2020,1,4\n31.01.2020,2,5\n01.02.2020,1,5\n02.02.2020,3,4\n"
    with pytest.raises(TableError, match=r"the date '30\.01\.2020': write dates with the year first"):
        read(tmp_path, text, **window)


def test_the_published_prices_with_gaps(shared: Path) -> None:
    folder = shared / "data" / "lsi"
    section = PricesSection(
        path=str(folder / "sp500_close_2015_2018.csv.xz"),
        transform="return_correlation",
        first="2016-08-24",
        last="2018-08-27",
        max_missing=0.2,
    )
    domain = read_domain(section)
    assert len(domain.names) + len(domain.left_out) == 484
    assert np.isfinite(domain.matrix).all()


def test_a_long_table_of_prices_is_told_to_be_turned(tmp_path: Path) -> None:
    rows = "".join(f"2020-01-0{d},{n},{d}\n" for n in "AB" for d in range(1, 5))
    long = f"date,name,price\n{rows}"
    with pytest.raises(
        TableError, match=r"has the date '2020-01-01' in several rows: turn the table: a row is a day"
    ):
        read(tmp_path, long)
