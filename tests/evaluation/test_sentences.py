"""Sentences: correlation with human scores, and classification that touches no test text."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

import distembed as de
from distembed.evaluation import sentences
from distembed.evaluation.wordsets import EvaluationSet

WORDS = [f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst"]
ENCODER = de.TextEncoder(de.WordVectors(WORDS, np.random.default_rng(0).normal(size=(100, 12))))


def pairs_of(scores, first, second):
    return EvaluationSet("s", "sentences", list(zip(first, second, strict=True)), scores)


def classes_of(labels, texts, parts=None):
    groups = list(zip(labels, parts or [""] * len(labels), strict=True))
    return EvaluationSet("c", "classification", [(text,) for text in texts], groups=groups)


def sentences_of(n, *, words=WORDS, seed=1):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, 4)) for _ in range(n)]


def two_kinds(n):
    """Return labels, and texts of the first half of the words and of the second, in turn."""
    halves = sentences_of(n // 2, words=WORDS[:50]), sentences_of(n // 2, words=WORDS[50:], seed=2)
    return ["left", "right"] * (n // 2), [text for pair in zip(*halves, strict=True) for text in pair]


def score_of(*sets):
    (score,) = de.evaluate_sentences(ENCODER, sets)
    return score


def test_similarity_is_the_correlation_over_all_pairs():
    first, second = sentences_of(40), [*sentences_of(39, seed=2), "zz"]
    scores = np.random.default_rng(3).normal(size=40)
    score = score_of(pairs_of(scores, first, second))
    x, y = (ENCODER.encode(texts).vectors.astype(float) for texts in (first, second))
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    cosines = np.divide((x * y).sum(axis=1), lengths, out=np.zeros(40), where=lengths > 0)
    assert score.value == pytest.approx(spearmanr(cosines, scores)[0])
    assert (score.known, score.total) == (316, 317)
    assert score.policy == "SIF 0.001, whitening full, unknown skip"
    assert score.interval is not None
    without = score_of(pairs_of(np.array([1.0, np.nan, 2.0, 4.0]), first[:4], second[:4]))
    assert np.isnan(without.value)
    assert without.interval is None


def test_classes_are_learned_and_shuffled_labels_are_not():
    labels, texts = two_kinds(120)
    shuffled = np.random.default_rng(0).permutation(labels).tolist()
    assert score_of(classes_of(labels, texts)).value > 0.8
    parts = ["train"] * 70 + ["test"] * 50
    assert 0.3 < score_of(classes_of(shuffled, texts, parts)).value < 0.7


@pytest.mark.parametrize(
    "parts", [None, ["train"] * 60 + ["dev"] * 20 + ["test"] * 20, ["train"] * 80 + ["test"] * 20]
)
def test_no_tested_text_trains_or_chooses_its_model(parts):
    labels, texts = two_kinds(100)
    classes = np.unique(labels, return_inverse=True)[1]
    splits = list(sentences._splits(classes_of(labels, texts, parts), classes, 0))
    for train, choose, test in splits:
        assert sorted([*train, *choose, *test]) == list(range(100))
    tested = np.concatenate([test for _, _, test in splits])
    assert sorted(tested) == (list(range(80, 100)) if parts else list(range(100)))


FEW = {
    "a rare label": (["a"] * 20 + ["b"] * 2, None, WORDS),
    "one label": (["a"] * 12, None, WORDS),
    "many labels": ([str(i % 20) for i in range(60)], ["train"] * 40 + ["test"] * 20, WORDS),
    "one label, and no words": (["a"] * 12, None, ["."]),
    "a label of one training text": (["alone", *"ab" * 29, "a"], ["train"] * 40 + ["test"] * 20, WORDS),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FEW)
def test_labels_of_few_texts_are_scored(name):
    labels, parts, words = FEW[name]
    score = score_of(classes_of(labels, sentences_of(len(labels), words=words), parts))
    assert 0 <= score.value <= 1
    assert (score.value == 1) == name.startswith("one label")


def test_a_set_that_is_too_small_has_no_score_or_says_what_it_lacks(tmp_path):
    labels, texts = ["a", "b"] * 9, ["ak", "bl"] * 9
    assert np.isnan(score_of(classes_of(labels, texts)).value)
    few = "the set c has 5 texts in its part train: give it more, or no parts"
    with pytest.raises(ValueError, match=few):
        score_of(classes_of(labels[:6], texts[:6], ["train"] * 5 + ["test"]))
    with pytest.raises(ValueError, match="the set c has 0 texts in its part train"):
        score_of(classes_of(["a"], ["ak"], ["test"]))
    (tmp_path / "words.txt").write_text("ak bl 3\nak al 2\n")
    (tmp_path / "sts.tsv").write_text("news\t4.5\tak bl\tbk\nnews\t0\tak\tzz\n")
    with pytest.raises(ValueError, match="has no set of sentences"):
        de.evaluate_sentences(ENCODER, tmp_path / "words.txt")
    assert [score.set for score in de.evaluate_sentences(ENCODER, tmp_path)] == ["sts"]
