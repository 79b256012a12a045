"""Scores of words that have no vector of their own: composed from their n-grams, and counted apart."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.evaluation.words import Policy, evaluate, evaluate_sets, score_records
from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable

WORDS = ["king", "queen", "man", "woman", "car", "cars"]
NGRAMS = ("kin", "que", "man", "wom", "car", "ly>", "s>")


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(11)
    table = SubwordTable(rng.normal(size=(7, 5)), rng.normal(size=5), 2, 3, ngrams=NGRAMS)
    return WordVectors(WORDS, rng.normal(size=(6, 5)), subwords=table)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    (folder / "pairs.tsv").write_text(
        "king\tqueen\t8\nking\tkingly\t7\nmanly\twomanly\t5\ncar\tKings\t1\ncars\tcar\t9\n"
    )
    (folder / "analogies.txt").write_text(": plurals\ncar cars king kings\nman woman king queen\n")
    return folder


def rows_added(vectors, sets_words):
    """Return what the policy stands for: vectors whose vocabulary had held the set's words."""
    composed = vectors.subwords.compose(sets_words)
    return WordVectors([*vectors.words, *sets_words], np.concatenate([vectors.vectors, composed]))


def test_every_item_is_answered_and_composed_ones_are_counted_apart(vectors, sets):
    scores = {(s.set, s.metric): s for s in evaluate(vectors, sets, unknown="subwords")}
    pairs = scores["pairs", "spearman"]
    assert (pairs.known, pairs.composed, pairs.total, pairs.answered) == (2, 3, 5, "2+3/5")
    assert "unknown subwords" in pairs.policy
    added = rows_added(vectors, ["kings", "kingly", "manly", "womanly"])
    expected = {(s.set, s.metric): s for s in evaluate(added, sets)}
    assert pairs.value == pytest.approx(expected["pairs", "spearman"].value)
    for metric in ("3CosAdd", "3CosMul"):
        score = scores["analogies", metric]
        assert (score.known, score.composed, score.total) == (1, 1, 2)
    small = rows_added(vectors, ["kings"])  # the words of the other set are no candidates
    for answer in evaluate(small, sets / "analogies.txt"):
        assert scores["analogies", answer.metric].value == answer.value
    assert [record.get("composed") for record in score_records(scores.values())].count(3) == 1


def test_antonyms_are_ranked_among_all_words(vectors, tmp_path):
    (tmp_path / "a.tsv").write_text("word\tantonym\nman\twomanly\nking\tqueen\n")
    (score,) = evaluate(vectors, tmp_path, unknown="subwords")
    (expected,) = evaluate(rows_added(vectors, ["womanly"]), tmp_path)
    assert (score.value, score.known, score.composed) == (expected.value, 1, 1)


def test_skipping_is_unchanged_and_says_nothing_of_composing(vectors, sets):
    plain = WordVectors(vectors.words, vectors.vectors)
    assert evaluate(vectors, sets) == evaluate(plain, sets)
    assert all("composed" not in record for record in score_records(evaluate(vectors, sets)))


def test_a_vocabulary_that_knows_none_of_the_words(vectors, tmp_path):
    (tmp_path / "far.tsv").write_text("kings\tmanly\t3\nqueens\twomanly\t4\nkings\tqueens\t5\n")
    (score,) = evaluate(vectors, tmp_path, unknown="subwords")
    assert (score.known, score.composed) == (0, 3)


def test_vectors_without_n_grams_are_named(vectors):
    plain = WordVectors(vectors.words, vectors.vectors)
    with pytest.raises(
        ValueError, match=r'unknown is "subwords", and there is no table of n-grams .* in b\.txt'
    ):
        evaluate_sets(plain, [], Policy(unknown="subwords"), name="b.txt")
