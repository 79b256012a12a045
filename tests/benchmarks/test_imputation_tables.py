"""Figures of Latent Semantic Imputation on real data; what they were is in IMPUTATION.md.

Run with `-m slow -s`. Each prints a table; nothing but its shape is asserted.
"""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.evaluation import imputation
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
