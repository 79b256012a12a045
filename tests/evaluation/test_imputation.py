"""Hidden vectors are found again; a verdict says what a table is worth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from distembed.evaluation import imputation as evaluation

Y = np.random.default_rng(0).standard_normal((40, 6))


@pytest.mark.parametrize(
    ("answer", "known", "cosine", "rank"),
    [
        (Y[0], np.repeat(Y[:20], 2, axis=0), 1.0, 1.5),
        *((np.full(6, filling), Y, 0.0, 20.5) for filling in (0.0, np.nan, np.inf)),
    ],
)
def test_equal_answers_share_their_ranks(answer, known, cosine, rank):
    """A truth that is there twice ranks between both; a vector without a direction is as near to one as to the next."""
    score = evaluation.recovery(answer[None], [0], known)
    assert (score.cosine, score.rank) == (pytest.approx(cosine), rank)


def test_the_mean_of_nearest_is_a_mean():
    X = np.array([[0.0], [1.0], [5.0], [0.4]])
    Y = np.array([[1.0], [3.0], [9.0], [np.nan]])
    assert evaluation.nearest_mean(X, Y, k=2)[3] == [2.0]
    assert evaluation.nearest_mean(X, Y, k=1)[3] == [1.0]
    np.testing.assert_array_equal(evaluation.nearest_mean(X, Y)[:3], Y[:3])


def test_every_known_row_is_hidden_once_and_some_stay():
    known = np.arange(3, 50, 2)
    folds = evaluation.hold_out_folds(known, n_folds=5, max_names=1000, seed=0)
    assert sorted(np.concatenate(folds)) == known.tolist()
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    assert sum(map(len, evaluation.hold_out_folds(known, n_folds=5, max_names=7, seed=0))) == 7
    assert [fold.size for fold in evaluation.hold_out_folds([4, 9], n_folds=5, max_names=7, seed=0)] == [1, 1]


def test_the_mean_of_all_has_a_cosine_and_no_centered_one():
    known, rows = Y + 10, np.arange(5)
    mean = np.tile(known[5:].mean(axis=0), (5, 1))
    score = evaluation.recovery(mean, rows, known, centers=mean)
    assert score.cosine.min() > 0.9
    assert not score.centered_cosine.any()
    truth = evaluation.recovery(known[:5], rows, known, centers=mean)
    np.testing.assert_allclose(truth.centered_cosine, 1)


def test_the_hidden_name_is_no_neighbor_of_its_own():
    known, labels = np.array([[1.0, 0], [1, 0.1], [1, 0.2], [0, 1]]), ["a", "a", "b", ""]
    assert evaluation.recovery(known[:1], [0], known, labels=labels).label_share == [pytest.approx(1 / 3)]
    assert np.isnan(evaluation.recovery(known[3:], [3], known, labels=labels).label_share).all()


def test_gains_are_of_the_first_method_over_the_others():
    rng = np.random.default_rng(0)
    ranks, no_labels = rng.integers(1, 10, 60).astype(float), np.full(60, np.nan)
    good = evaluation.Recovery(rng.uniform(0.5, 0.9, 60), ranks, no_labels, rng.uniform(0.2, 0.6, 60))
    others = {
        "poor": good._replace(rank=good.rank + 30, centered_cosine=good.centered_cosine - 0.2),
        "of worse cosine": good._replace(centered_cosine=good.centered_cosine - 0.2),
        "of worse rank": good._replace(rank=good.rank + 30),
        "of worse plain cosine": good._replace(cosine=good.cosine - 0.2),
    }
    first, *found = evaluation.compare_methods({"good": good, **others}, n_known=60)
    assert (first.centered_gain, found[0].centered_gain) == (0, pytest.approx(0.2))
    assert found[0].rank_gain == pytest.approx(0.5)
    assert first.cosine_low < first.cosine < first.cosine_high
    assert [evaluation.is_better(row) for row in (first, *found)] == [False, True, True, True, False]
    few = evaluation.Recovery(*(values[:2] for values in good))
    assert evaluation.is_better(evaluation.compare_methods({"good": few}, n_known=60)[0]) is None


def verdict_of(answers, known):
    """Return the verdict on answers beside those of a shuffled table."""
    shuffled = np.random.default_rng(1).permutation(answers)
    rows = np.arange(len(known))
    both = {
        name: evaluation.recovery(found, rows, known) for name, found in (("own", answers), ("s", shuffled))
    }
    own, control = evaluation.compare_methods(both, n_known=len(known))
    return evaluation.judge(own, control, n_known=len(known))


@pytest.mark.parametrize(
    ("signal", "word", "reason"),
    [
        (2.0, "useful", "median rank 1 of 600"),
        (0.08, "weak", "a useful table has 0.1 or more and a rank of 150 or less"),
        (0.02, "useless", "where chance has 0 and 300"),
        (0.0, "useless", "no better than from the table with its rows shuffled"),
    ],
)
def test_a_table_is_useful_weak_or_useless_for_a_reason(signal, word, reason):
    """One that is better than chance by a hair, as a cosine of .024 and rank 282 of 578, was called better."""
    rng = np.random.default_rng(0)
    known = rng.standard_normal((600, 100))
    found = verdict_of(signal * known + rng.standard_normal((600, 100)), known)
    assert (found.word, reason in found.reason) == (word, True), found


def test_too_few_hidden_names_give_no_verdict():
    known = np.random.default_rng(0).standard_normal((9, 5))
    assert verdict_of(known, known) is None


@pytest.mark.parametrize("weights", evaluation.VOTES)
def test_label_accuracy_is_scikit_learns(weights, monkeypatch):
    monkeypatch.setattr(evaluation, "QUERIES_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    vectors, labels = rng.standard_normal((16, 4)), rng.choice(list("abc"), 16)
    ours = evaluation.neighbor_label_accuracy(vectors, labels, n_neighbors=[1, 2, 5], weights=weights)
    for k, found in ours.items():
        classifier = KNeighborsClassifier(k, weights=weights)
        theirs = cross_val_score(classifier, vectors, labels, cv=LeaveOneOut()).mean()
        assert found == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("labels", "counts", "message"),
    [
        *(("aabbc", counts, "n_neighbors = .* must lie in 1 … 4") for counts in ([0], [5], [])),
        ("aabb", [1], "5 vectors came with 4 labels"),
    ],
)
def test_what_cannot_be_judged_is_refused(labels, counts, message):
    with pytest.raises(ValueError, match=message):
        evaluation.neighbor_label_accuracy(np.eye(5), list(labels), n_neighbors=counts)


def test_the_published_accuracies(shared):
    """The vectors of the authors' program give the figures recorded with them."""
    reference = np.load(shared / "reference" / "imputation_sp500_google.npz")
    names = shared / "data" / "lsi" / "sp500_token.csv"
    with names.open(encoding="utf-8", errors="replace") as file:
        fields = [line.rstrip("\n").rsplit(",", 3) for line in file]
    sector = {name: label for _, label, _, name in fields}
    labels = [sector[name] for name in reference["index"]]
    after = evaluation.neighbor_label_accuracy(reference["PQ_eta1e-06"], labels, n_neighbors=[1, 5, 10])
    assert [round(value, 3) for value in after.values()] == [0.821, 0.775, 0.752]


def test_neighbors_at_distance_zero_alone_vote_by_distance():
    rows, labels = [[0.0], [0.0], [0.1], [0.2]], list("abbb")
    accuracy = evaluation.neighbor_label_accuracy(
        rows, labels, n_neighbors=[3], weights="distance", judged=[1]
    )
    assert accuracy == {3: 0.0}  # the one equal row is an "a", against two that are near
    assert evaluation.neighbor_label_accuracy(rows, labels, n_neighbors=[3], judged=[1]) == {3: 1.0}
