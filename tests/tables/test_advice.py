"""Rows and columns that would decide all distances are named, and what one can do of them works, also for new rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distembed.formats.tables import TableError
from distembed.tables.advice import is_like_an_id, outlying_rows
from distembed.tables.domain import read_domain, read_new_rows
from distembed.tables.rows import scales_of, scales_table
from distembed.tables.sections import DomainSection

RNG = np.random.default_rng(0)
N = 40
SIZES = np.exp(RNG.normal(8, 1.5, N))
KINDS = np.array(["Bank", "Oil", "Auto", ""])[RNG.integers(4, size=N)]


def companies(*, total: bool = False, ids: bool = False) -> str:
    """Return a table of companies: a size, two shares, a kind; with a row of totals or a column of ids."""
    shares = RNG.normal(size=(N, 2))
    rows = [
        [
            f"name {i}",
            *([str(70_000 + 3 * i)] if ids else []),
            f"{SIZES[i]:.1f}",
            *map(str, shares[i]),
            KINDS[i],
        ]
        for i in range(N)
    ]
    if total:
        rows.append(["Total", *(["0"] if ids else []), f"{SIZES.sum():.1f}", "50", "50", ""])
    header = ["name", *(["Ticker ID"] if ids else []), "Revenue", "a", "b", "Sector"]
    return "\n".join(",".join(row) for row in [header, *rows]) + "\n"


def section(folder: Path, text: str, **options: object) -> DomainSection:
    (folder / "table.csv").write_text(text)
    return DomainSection(path=str(folder / "table.csv"), **options)


def test_a_row_of_totals_is_named_and_left_out_on_request(tmp_path: Path) -> None:
    """One such row cost a third of the score."""
    found = read_domain(section(tmp_path, companies(total=True)))
    (note,) = (note for note in found.notes if "drop_rows" in note)
    assert "1 row outweighs all others in half of the columns" in note
    assert 'set domain.drop_rows = ["Total"]' in note
    without = read_domain(section(tmp_path, companies(total=True), drop_rows=("Total",)))
    assert "Total" not in without.names
    assert [(one.name, one.reason) for one in without.left_out] == [("Total", "domain.drop_rows names it")]
    assert not any("drop_rows" in note for note in without.notes)
    with pytest.raises(TableError, match=r"has no name 'Totals', which domain\.drop_rows leaves out"):
        read_domain(section(tmp_path, companies(total=True), drop_rows=("Totals",)))


def test_two_rows_of_totals_hide_no_other_and_heavy_tails_are_no_totals() -> None:
    rows = RNG.normal(size=(60, 6))
    assert outlying_rows(np.vstack([rows, 40 + np.zeros((2, 6))])).tolist() == [60, 61]
    assert outlying_rows(np.exp(RNG.normal(8, 1.2, size=(300, 6)))).size == 0
    assert outlying_rows(np.ones((20, 3))).size == 0


def test_a_column_of_ids_is_named(tmp_path: Path) -> None:
    found = read_domain(section(tmp_path, companies(ids=True)))
    (note,) = (note for note in found.notes if "id" in note and "domain.drop" in note)
    assert note.startswith("1 column with another whole number in each row looks like an id ('Ticker ID')")
    assert 'set domain.drop = ["Ticker ID"]' in note
    employees = np.exp(RNG.normal(9, 1, 50)).round()
    assert not is_like_an_id("Employees", employees)
    assert is_like_an_id("Employees", np.arange(100.0, 150.0))
    assert not is_like_an_id("Customer ID", np.repeat(employees, 2))


def test_logarithms_are_taken_of_skewed_columns_alone_and_of_new_rows_alike(tmp_path: Path) -> None:
    plain = read_domain(section(tmp_path, companies()))
    assert any(
        "1 column of few very large numbers ('Revenue'): domain.transform" in note for note in plain.notes
    )
    of_section = section(tmp_path, companies(), transform="log")
    found = read_domain(of_section)
    assert "the logarithm was taken in 1 column: 'Revenue'" in found.notes
    logs = np.log1p(SIZES.round(1) / np.median(SIZES.round(1)))
    np.testing.assert_allclose(found.matrix[:, 0], (logs - logs.mean()) / logs.std(), rtol=1e-5)
    assert np.abs(found.matrix[:, 1:].mean(axis=0)).max() < 1e-6
    again = read_new_rows(of_section, found.columns, scales_of(scales_table(found)))
    np.testing.assert_allclose(again.matrix, found.matrix, rtol=1e-5)


def test_text_of_few_values_becomes_columns_of_an_even_weight(tmp_path: Path) -> None:
    plain = read_domain(section(tmp_path, companies()))
    assert 'domain.one_hot = ["Sector"] would take text of few values as features' in plain.notes
    of_section = section(tmp_path, companies(), one_hot=("Sector",), label_column="Sector")
    found = read_domain(of_section)
    hot = ["Sector = Auto", "Sector = Bank", "Sector = Oil"]
    assert found.columns == ["Revenue", "a", "b", *hot]
    assert found.labels == KINDS.tolist()
    values = found.matrix[:, 3:]
    np.testing.assert_allclose(values.var(axis=0).sum(), 2, rtol=1e-5)  # as two standardized columns
    steps = {round(float(np.ptp(column)), 5) for column in values.T}
    assert len(steps) == 1  # a rare value weighs no more than a frequent one
    new = companies().splitlines()
    one = section(
        tmp_path, "\n".join([new[0], "new,5.0,0,0,Oil", "newer,5.0,0,0,Rail"]) + "\n", one_hot=("Sector",)
    )
    rows = read_new_rows(one, found.columns, scales_of(scales_table(found)))
    oil, none = rows.matrix[:, 3:]
    np.testing.assert_allclose(oil[2] - none[2], steps.pop(), rtol=1e-4)
    np.testing.assert_allclose(oil[:2], none[:2])


def test_a_text_of_many_values_is_refused(tmp_path: Path) -> None:
    rows = "\n".join(f"name {i},{i % 7},text {i}" for i in range(120))
    with pytest.raises(
        TableError, match=r"has 120 different values in the column 'what', of which domain\.one_hot"
    ):
        read_domain(section(tmp_path, f"name,a,what\n{rows}\n", one_hot=("what",)))
    with pytest.raises(TableError, match="no column 'kind'"):
        read_domain(section(tmp_path, f"name,a,what\n{rows}\n", one_hot=("kind",)))
