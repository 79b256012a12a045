"""Labels of neighbors equal scikit-learn's, and the published accuracies."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from distembed.evaluation import imputation


@pytest.mark.parametrize("weights", imputation.VOTES)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_label_accuracy_is_scikit_learns(k, weights, monkeypatch):
    monkeypatch.setattr(imputation, "QUERIES_AT_ONCE", 7)
    rng = np.random.default_rng(k)
    vectors, labels = rng.standard_normal((60, 4)), rng.choice(list("abc"), 60)
    classifier = KNeighborsClassifier(k, weights=weights)
    theirs = cross_val_score(classifier, vectors, labels, cv=LeaveOneOut()).mean()
    ours = imputation.neighbor_label_accuracy(vectors, labels, n_neighbors=[k], weights=weights)
    assert ours == {k: pytest.approx(theirs)}


@pytest.mark.parametrize("counts", [[0], [5], []])
def test_a_number_of_neighbors_that_cannot_be_is_refused(counts):
    with pytest.raises(ValueError, match="n_neighbors"):
        imputation.neighbor_label_accuracy(np.eye(5), list("aabbc"), n_neighbors=counts)


def test_labels_must_be_as_many_as_vectors():
    with pytest.raises(ValueError, match="5 vectors came with 4 labels"):
        imputation.neighbor_label_accuracy(np.eye(5), list("aabb"), n_neighbors=[1])


def test_the_published_accuracies(shared):
    """The vectors of the authors' program give the figures recorded with them."""
    reference = np.load(shared / "reference" / "imputation_sp500_google.npz")
    names = shared / "data" / "lsi" / "sp500_token.csv"
    with names.open(encoding="utf-8", errors="replace") as file:
        fields = [line.rstrip("\n").rsplit(",", 3) for line in file]
    sector = {name: label for _, label, _, name in fields}
    labels = [sector[name] for name in reference["index"]]
    after = imputation.neighbor_label_accuracy(reference["PQ_eta1e-06"], labels, n_neighbors=[1, 5, 10])
    assert [round(value, 3) for value in after.values()] == [0.821, 0.775, 0.752]


def test_neighbors_at_distance_zero_alone_vote_by_distance():
    rows, labels = [[0.0], [0.0], [0.1], [0.2]], list("abbb")
    accuracy = imputation.neighbor_label_accuracy(
        rows, labels, n_neighbors=[3], weights="distance", judged=[1]
    )
    assert accuracy == {3: 0.0}  # the one equal row is an "a", against two that are near
    assert imputation.neighbor_label_accuracy(rows, labels, n_neighbors=[3], judged=[1]) == {3: 1.0}


def test_all_names_are_asked_for_up_to_the_limit():
    rng = np.random.default_rng(0)
    vectors, labels = rng.standard_normal((40, 3)), rng.choice(list("ab"), 40)
    rows = imputation.label_accuracies({"all": (vectors, labels)}, max_names=100, seed=0)
    whole = imputation.neighbor_label_accuracy(vectors, labels)
    assert {row.n_neighbors: row.accuracy for row in rows if row.votes == "uniform"} == whole
    (row, *_) = imputation.label_accuracies({"some": (vectors, labels)}, max_names=3, seed=0)
    assert row.n_names == 40
    assert round(3 * row.accuracy) == pytest.approx(3 * row.accuracy)
    assert imputation.label_accuracies({"two": (vectors[:2], labels[:2])}, max_names=3, seed=0) == []
