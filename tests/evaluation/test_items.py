"""The table of items: their means are the scores of the sets."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import evaluate_sets, item_table
from distembed.evaluation.wordsets import (
    EvaluationSet,
)
from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable

WORDS = [f"w{i}" for i in range(14)]
PAIRS = [(WORDS[i], WORDS[j]) for i, j in [(0, 1), (0, 2), (0, 3), (4, 5), (4, 6), (4, 13), (7, 8)]]
NUMBERS = np.array([0.9, 0.2, 0.4, 0.3, 0.8, 0.1, 0.5])
VECTORS = WordVectors(WORDS, np.random.default_rng(0).normal(size=(14, 5)))
QUESTIONS = [(f"w{i}", f"w{i + 1}", f"w{i + 2}", f"w{i % 5}") for i in range(11)]
SYNONYMS = [("w0", "w1", "w2"), ("w3", "w4", "w6", "w7"), ("w5", "w8", "unknown")]


def rows_of(word_set, policy=None, **candidates):
    found = item_table(candidates or {"v": VECTORS}, [word_set], policy or Policy())
    return found.to_pylist()


@pytest.mark.parametrize(
    "word_set",
    [
        EvaluationSet("a", "analogy", [*QUESTIONS, ("w1", "w2", "w3", "unknown")]),
        EvaluationSet("s", "synonym", SYNONYMS),
        EvaluationSet(
            "c", "categorization", [(w,) for w in [*WORDS[:9], "unknown"]], groups=list("aaabbbccca")
        ),
    ],
)
def test_the_mean_of_the_items_is_the_score_of_the_set(word_set):
    rows, score = rows_of(word_set), evaluate_sets(VECTORS, [word_set])[0]
    assert (sum(row["known"] for row in rows), len(rows)) == (score.known, score.total)
    assert np.mean([row["score"] for row in rows if row["known"]]) == pytest.approx(score.value)
    assert {row["score"] for row in rows if not row["known"]} == {None}
    assert {row["task"] for row in rows} == {score.task}


@pytest.mark.parametrize(
    "word_set",
    [
        EvaluationSet("s", "similarity", [*PAIRS, ("w0", "unknown")], np.append(NUMBERS, 1)),
        EvaluationSet("n", "normed priming", PAIRS, NUMBERS),
        EvaluationSet("p", "priming", PAIRS, np.column_stack([NUMBERS, NUMBERS]), [("x",)] * 7),
        EvaluationSet("a", "antonyms", PAIRS),
    ],
)
def test_a_pair_has_its_cosine_and_its_human_score(word_set):
    rows = rows_of(word_set)
    for row, pair, number in zip(rows, PAIRS, NUMBERS, strict=False):
        a, b = (VECTORS[word].astype(float) for word in pair)
        assert row["score"] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
        assert row["value"] == (number if word_set.name in "sn" else None)
        assert row["known"]
    assert all(row["score"] is None and not row["known"] for row in rows[len(PAIRS) :])


def test_every_candidate_has_a_row_of_each_item_and_longer_items_more_words():
    rows = rows_of(EvaluationSet("s", "synonym", SYNONYMS), a=VECTORS, b=VECTORS.head(3))
    assert [row["vectors"] for row in rows] == ["a"] * 3 + ["b"] * 3
    assert [rows[1][f"word{n}"] for n in (1, 2, 3, 4)] == ["w3", "w4", "w6", "w7"]
    assert rows[0]["word4"] is None
    assert [row["known"] for row in rows] == [True, True, False, True, False, False]
    assert item_table({"v": VECTORS}, [], Policy()).num_rows == 0


def test_a_composed_word_gives_a_score_and_is_not_known():
    table = SubwordTable(np.eye(3, 5), np.zeros(5), 2, 3, ngrams=("w14", "4>", "w1"))
    vectors = WordVectors(WORDS, VECTORS.vectors, subwords=table)
    pairs = EvaluationSet("s", "similarity", [("w0", "w1"), ("w0", "w14")], np.array([1.0, 2.0]))
    known, composed = rows_of(pairs, Policy(unknown="subwords"), v=vectors)
    assert (known["known"], composed["known"]) == (True, False)
    assert composed["score"] == pytest.approx(vectors.extended(["w14"]).similarity("w0", "w14"), abs=1e-6)
