"""The companies of the paper on imputation: their prices, the five spaces of vectors, and the authors' accuracies."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs import open_text
from distembed.tables.domain import join, read_domain, read_known
from distembed.tables.sections import KnownSection, MatchingSection, PricesSection

SPACES = {"google": 300, "glove": 300, "fast": 300, "part": 200, "full": 200}
"""The number of components of each space; a label and a frequency follow them."""


def prices_section(folder: Path) -> dict[str, Any]:
    """Return the options of a domain: the daily returns of 480 companies over the paper's two years."""
    return {
        "path": str(folder / "sp500_close_2015_2018.csv.xz"),
        "transform": "return_correlation",
        "first": "2016-08-24",
        "last": "2018-08-27",
        "names": str(folder / "sp500_token.csv"),
        "names_from": "Symbol",
        "names_to": "nGram",
        "names_label": "Sector",
    }


def read_prices(folder: Path):
    return read_domain(PricesSection(**prices_section(folder)))


def company_vectors(folder: Path, domain, space: str):
    """Return Y of the names, NaN where the space does not know them."""
    size = SPACES[space]
    known = read_known(KnownSection(path=str(folder / f"{space}Mat.csv.xz"), drop=(str(size), str(size + 1))))
    return join(domain, known, MatchingSection()).targets.astype(np.float64)


def frequencies(folder: Path) -> dict[str, float]:
    """Return how often each name stands in the authors' corpus."""
    with open_text(folder / "fullMat.csv.xz") as lines:
        return {row[0]: float(row[-1]) for row in list(csv.reader(lines))[1:]}


def authors_table(folder: Path, name: str):
    """Return a table of the authors' results: accuracies by row and column, as texts to numbers."""
    with (folder / "visual_results" / name).open(encoding="utf-8") as lines:
        (_, *columns), *rows = csv.reader(lines)
    return {row[0]: dict(zip(columns, map(float, row[1:]), strict=True)) for row in rows}
