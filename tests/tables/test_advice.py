"""Rows and columns that would decide all distances are named, and what one can do of them works."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distembed.formats.tables import TableError
from distembed.tables.advice import is_like_an_id, outlying_rows
from distembed.tables.domain import read_domain
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
