"""Figures of Latent Semantic Imputation on real data; what they were is in IMPUTATION.md.

Run with `-m slow -s`. Each prints a table; nothing but its shape is asserted.
"""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.evaluation import imputation
from distembed.formats.tables import read_columns
from distembed.tables.rows import Domain
from tests.benchmarks.company_tables import SPACES, company_vectors, read_prices

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def domain(shared):
    return read_prices(shared / "data" / "lsi")


def imputed(X, Y, **options):
    return de.LatentSemanticImputation(**options).fit(X, Y).vectors_


def accuracies(vectors, labels):
    found = imputation.neighbor_label_accuracy(vectors, labels, n_neighbors=(1, *imputation.NEIGHBOR_COUNTS))
    return "  ".join(f"{value:.3f}" for value in found.values())


@pytest.mark.parametrize("space", SPACES)
def test_table_1(shared, domain, space):
    Y = company_vectors(shared / "data" / "lsi", domain, space)
    known = ~np.isnan(Y[:, 0])
    labels = np.array(domain.labels)
    print(f"\n{space}: {known.sum()} known, {(~known).sum()} imputed; k = 1, {imputation.NEIGHBOR_COUNTS}")
    print("before        ", accuracies(Y[known], labels[known]))
    for weights in ("simplex", "normalise_after"):
        after = imputed(domain.matrix, Y, weights=weights)
        print(f"{weights:<15}", accuracies(after, labels))
    print("domain itself ", accuracies(domain.matrix, labels))


@pytest.mark.parametrize("space", ["google", "glove", "fast"])
def test_sensitivity(shared, domain, space):
    Y = company_vectors(shared / "data" / "lsi", domain, space)
    for min_degree in (2, 3, 5, 8, 10, 15, 20, 30, 50):
        after = imputed(domain.matrix, Y, min_degree=min_degree)
        print(f"{space} min_degree {min_degree:>3}: {accuracies(after, domain.labels)}")
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6):
        model = de.LatentSemanticImputation(solver="power", tol=tol).fit(domain.matrix, Y)
        found = accuracies(model.vectors_, domain.labels)
        print(f"{space} eta {tol:.0e}: {found}  sweeps {model.n_iter_}, residual {model.residual_:.1e}")


def test_domains_and_metrics(shared, domain):
    """Print Table 1 at k = 1, 5, 10 for other readings of the domain matrix than its plain rows."""
    correlations = domain.matrix
    centered = correlations - correlations.mean(axis=0)
    values, axes = np.linalg.eigh(correlations)
    domains = {
        "rows of the correlation matrix": (correlations, "euclidean"),
        "the same, cosine": (correlations, "cosine"),
        "columns standardized": (centered / centered.std(axis=0), "euclidean"),
        "centered both ways": (centered - centered.mean(axis=1)[:, None], "euclidean"),
        "standardized returns": (axes * np.sqrt(np.maximum(values, 0)), "euclidean"),
    }
    for space in ("google", "glove", "fast"):
        Y = company_vectors(shared / "data" / "lsi", domain, space)
        for name, (X, metric) in domains.items():
            found = imputation.neighbor_label_accuracy(
                imputed(X, Y, metric=metric), domain.labels, n_neighbors=(1, 5, 10)
            )
            print(f"{space}, {name}: {found}")


def test_columns_of_different_sizes(shared):
    """Print sectors of neighbors of returns beside revenue and staff, raw and standardized."""
    folder = shared / "data" / "lsi"
    files = "sp500_close_2015_2018.csv.xz", "sp500_token.csv"
    prices, tokens = (read_columns(str(folder / file)) for file in files)
    months = [date[:7] for date in prices.pop("date")]
    ends = [i for i in range(len(months)) if i + 1 == len(months) or months[i] != months[i + 1]]
    of = {name: np.array([float(text or "nan") for text in column])[ends] for name, column in prices.items()}
    closes = {row: of[symbol] for row, symbol in enumerate(tokens["Symbol"]) if symbol in of}
    whole = [row for row, close in closes.items() if (close > 0).all()]
    random = np.random.default_rng(0)
    sizes = lambda: (random.lognormal(23, 1.2), random.lognormal(10, 1.3))  # noqa: E731 - revenue and staff
    X = np.array([[*(close[1:] / close[:-1] - 1), *sizes()] for close in map(closes.get, whole)])
    labels = [tokens["Sector"][row] for row in whole]
    raw = Domain([tokens["nGram"][row] for row in whole], X, [], labels, [], [])
    for name, matrix in {"raw": X, "standardized": (X - X.mean(axis=0)) / X.std(axis=0)}.items():
        Y = company_vectors(folder, raw, "google")
        known, vectors = np.flatnonzero(~np.isnan(Y[:, 0])), imputed(matrix, Y)
        for what, rest in {"all": np.arange(len(X)), "known": known}.items():
            others = np.setdiff1d(np.arange(len(X)), known)
            found = [same_label(vectors, np.array(labels), row, rest[rest != row]) for row in others]
            print(f"{name}: {np.mean(found):.3f} of the {what} neighbors of an imputed name have its sector")


def same_label(vectors, labels, row, others):
    """Return the share of the ten nearest others by cosine that have the label of a row."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = others[np.argsort(-units[others] @ units[row], kind="stable")[:10]]
    return (labels[nearest] == labels[row]).mean()
