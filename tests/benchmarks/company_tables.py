"""The companies of the paper on imputation: their prices, the five spaces of vectors, and the authors' accuracies."""

from __future__ import annotations

import csv
import lzma
from pathlib import Path

import numpy as np

from distembed.tables.domain import join, read_domain
from distembed.tables.known import read_known
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection

SPACES = {
    "google": 300,
    "glove": 300,
    "fast": 300,
    "part": 200,
    "full": 200,
}  # components; then label, frequency


def read_prices(folder: Path):
    """Return the correlations of the daily returns of 480 companies over the paper's two years."""
    return read_domain(
        DomainSection(
            path=str(folder / "sp500_close_2015_2018.csv.xz"),
            name_column="date",
            transform="return_correlation",
            first="2016-08-24",
            last="2018-08-27",
            names=str(folder / "sp500_token.csv"),
            names_from="Symbol",
            names_to="nGram",
            names_label="Sector",
        )
    )


def company_vectors(folder: Path, domain, space: str):
    """Return Y of the names, NaN where the space does not know them."""
    size = SPACES[space]
    known = read_known(KnownSection(path=str(folder / f"{space}Mat.csv.xz"), drop=(str(size), str(size + 1))))
    return join(domain, known, MatchingSection()).targets.astype(np.float64)


def token_counts(folder: Path, domain):
    """Return how often each name stands in the authors' corpus, 0 where they do not say."""
    with lzma.open(folder / "fullMat.csv.xz", "rt", encoding="utf-8") as lines:
        rows = csv.reader(lines)
        next(rows)
        counts = {row[0]: float(row[-1]) for row in rows}
    return np.array([counts.get(name, 0.0) for name in domain.names])


def authors_table(folder: Path, name: str):
    """Return a table of the authors' results: accuracies by row and column, as texts to numbers."""
    with (folder / "visual_results" / name).open(encoding="utf-8") as lines:
        (_, *columns), *rows = csv.reader(lines)
    return {row[0]: dict(zip(columns, map(float, row[1:]), strict=True)) for row in rows}
