"""The walk of an analyst: a spreadsheet of companies with all its faults, to vectors in a CSV file and their worth.

What is typed and what is answered is in docs/howto/companies.md.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.formats.tables import read_columns
from tests.commands import refusal, succeed

JOB = """
[job]
system = "imputation"
workspace = "companies-workspace"
[domain]
path = "companies.csv"
name_column = "Company"
label_column = "Sector"
[known]
path = "known.csv.xz"
[report]
n_map_words = 20
[resources]
workers = 2
"""


def with_comma(value: float, digits: int) -> str:
    """Return a number as it is written in Germany, "n/a" for none."""
    text = f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))
    return text if np.isfinite(value) else "n/a"


def spreadsheet(folder: Path) -> list[list[str]]:
    """Return returns of 43 months beside an invented revenue and staff, some rows twice, and a row of totals."""
    prices, tokens = (
        read_columns(str(folder / name)) for name in ("sp500_close_2015_2018.csv.xz", "sp500_token.csv")
    )
    months = [date[:7] for date in prices["date"]]
    ends = [i for i in range(len(months) - 1) if months[i] != months[i + 1]][:44]
    random = np.random.default_rng(0)
    returns = [f"Return {months[i]}" for i in ends[1:]]
    rows = [["Company", "Ticker", "Sector", *returns, "Revenue (Mio. €)", "Employees"]]
    for symbol, name, sector in zip(tokens["Symbol"], tokens["Name"], tokens["Sector"], strict=True):
        if symbol in prices:
            closes = np.array([float(text or "nan") for text in prices[symbol]])[ends]
            returns = [with_comma(100 * value, 2) for value in closes[1:] / closes[:-1] - 1]
            size = [with_comma(random.lognormal(8, 1.2), 1), with_comma(random.lognormal(10, 1.3), 0)]
            rows.append([name, symbol, sector, *returns, *size])
    return [*rows, rows[8], rows[31], ["", "", "Total", *[""] * 43, "9.999.999,0", ""]]


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a job, a table as a German spreadsheet saves it, and a table of known vectors."""
    folder, source = tmp_path_factory.mktemp("walk"), shared / "data" / "lsi"
    with (folder / "companies.csv").open("w", encoding="cp1252", errors="replace", newline="") as file:
        csv.writer(file, delimiter=";").writerows(spreadsheet(source))
    (folder / "known.csv.xz").write_bytes((source / "googleMat.csv.xz").read_bytes())
    (folder / "job.toml").write_text(JOB)
    return folder


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / "job.toml").read_text()
    assert old in text
    (folder / "job.toml").write_text(text.replace(old, new, 1))


def test_a_company_table_with_all_its_faults_becomes_vectors_with_a_figure_of_their_worth(
    folder: Path,
) -> None:
    job, workspace = folder / "job.toml", folder / "companies-workspace"
    remedy = (
        'is not utf-8: line 1 holds the byte 0x80. It may be cp1252: correct it, or set encoding = "cp1252"'
    )
    assert remedy in refusal("plan", job)
    change(folder, "[known]", 'encoding = "cp1252"\n[known]')
    assert "companies.csv has one column, 'Company;Ticker;" in refusal("plan", job)
    change(folder, "[known]", 'delimiter = ";"\n[known]')
    refused = refusal("plan", job)
    assert (
        "in 43 columns ('Return 2015-02', 'Return 2015-03', 'Return 2015-04' and 40 more), first " in refused
    )
    assert 'set decimal = ","; (' in refused
    assert "in 2 columns ('Revenue (Mio. €)', 'Employees'), first " in refused
    assert 'set decimal = "," and thousands = "."; (' in refused
    change(folder, "[known]", 'decimal = ","\nthousands = "."\n[known]')
    refused = refusal("plan", job)
    assert (
        "companies.csv has 2 problems: (1) it has 2 names twice ('Adobe Systems Inc', 'Ameren Corp')"
        in refused
    )
    assert "(2) it has no finite number for 23 of 486 names in the column 'Return 2015-02'" in refused
    change(folder, "[known]", 'missing = "median"\nduplicates = "first"\n[known]')
    planned = succeed("plan", job)
    assert "484 names x 45 numbers" in planned.output
    assert "text ignored: 'Ticker'" in planned.output
    change(folder, "[report]", 'drop = ["300", "301"]\n[report]')
    few = succeed("run", job, "--until", "hold_out")
    assert "hold_out: nothing is hidden: fewer than 10 names would judge the table" in few.output
    assert de.Workspace.open(workspace).table("hold_out").num_rows == 0

    succeed("export", workspace, "--to", folder / "names.csv")
    change(folder, "[known]", 'names = "names.csv"\nnames_from = "name"\nnames_to = "like"\n[known]')
    done = succeed("run", job, "--replace")
    assert "484 names: 63 matched a known vector, 421 were imputed" in done.output
    assert "Hold-out: 63 known names hidden in 5 folds" in done.output
    assert "The table is weak for these vectors, because the centered cosine" in done.output

    succeed("export", workspace, "--to", folder / "vectors.csv")
    with (folder / "vectors.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert (rows["3M Company"]["matched"], rows["3M Company"]["origin"]) == ("3M", "known")
    assert rows["A.O. Smith Corp"]["origin"] == "imputed"
    assert rows["A.O. Smith Corp"]["vector_299"]
    assert [row["reason"][:10] for name, row in rows.items() if not name] == ["row 488 ha"]
    figures = {
        row["method"]: row["cosine"] for row in de.Workspace.open(workspace).table("hold_out").to_pylist()
    }
    assert figures["imputation"] > figures["shuffled table"]
