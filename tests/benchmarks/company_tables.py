"""The companies of the paper on imputation: their prices, the five spaces of vectors, and the authors' accuracies."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

import distembed as de
from distembed.tables.domain import join, read_domain
from distembed.tables.known import read_known
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection
from tests.benchmarks.inputs import open_text

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
    return read_domain(DomainSection(**prices_section(folder)))


def company_vectors(folder: Path, domain, space: str):
    """Return Y of the names, NaN where the space does not know them."""
    size = SPACES[space]
    known = read_known(KnownSection(path=str(folder / f"{space}Mat.csv.xz"), drop=(str(size), str(size + 1))))
    return join(domain, known, MatchingSection()).targets.astype(np.float64)


def imputed_names(affinities: str | Path, vectors: str | Path, *, min_degree: int = 5):
    """Return words, their vectors, and which are imputed: those of a table of affinities that have no vector.

    Both files have a word and its numbers on a line, as `aff.txt` and `sub*.txt` of the authors' language model; the
    degree of 5 and eta = 1e-3 are theirs too.
    """
    domain, known = de.WordVectors.load(affinities), de.WordVectors.load(vectors)
    rows = known.index(domain.words)
    targets = np.where((rows >= 0)[:, None], known.vectors[rows].astype(np.float64), np.nan)
    model = de.LatentSemanticImputation(
        min_degree=min_degree, weights="normalise_after", solver="power", tol=1e-3
    )
    new, found = np.flatnonzero(rows < 0), model.fit(domain.vectors, targets).vectors_
    words = [*known.words, *(domain.words[row] for row in new)]
    return words, np.vstack([known.vectors, found[new]]), np.arange(len(words)) >= len(known)


def frequencies(folder: Path) -> dict[str, float]:
    """Return how often each name stands in the authors' corpus."""
    with open_text(folder / "fullMat.csv.xz") as lines:
        return {row[0]: float(row[-1]) for row in list(csv.reader(lines))[1:]}


def authors_table(folder: Path, name: str):
    """Return a table of the authors' results: accuracies by row and column, as texts to numbers."""
    with (folder / "visual_results" / name).open(encoding="utf-8") as lines:
        (_, *columns), *rows = csv.reader(lines)
    return {row[0]: dict(zip(columns, map(float, row[1:]), strict=True)) for row in rows}
