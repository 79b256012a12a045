"""Sentences: their files, correlation with human scores, and classification that touches no test text."""

from __future__ import annotations

import json
import lzma

import numpy as np
import pytest
from scipy.stats import spearmanr

import distembed as de
from distembed.evaluation import sentences, wordsets
from distembed.evaluation.wordsets import EvaluationSet, find_sets
from distembed.files import read_small

WORDS = [f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst"]
VECTORS = de.WordVectors(WORDS, np.random.default_rng(0).normal(size=(100, 12)))
ENCODER = de.TextEncoder(VECTORS)


def pairs_of(scores, first, second):
    return EvaluationSet("s", "sentences", list(zip(first, second, strict=True)), scores)


def classes_of(name, labels, texts, parts=None):
    groups = list(zip(labels, parts or [""] * len(labels), strict=True))
    return EvaluationSet(name, "classification", [(text,) for text in texts], groups=groups)


def sentences_of(n, *, words=WORDS, seed=1):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, 4)) for _ in range(n)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sts").mkdir()
    lines = "news\t4.5\tak bl\tbk, äl!\r\nnews\t0\tak\tzz\r\n"
    (tmp_path / "sts" / "year.TSV").write_bytes(lines.encode("utf-16"))
    for part, n in (("train", 10), ("test", 10)):
        lines = "".join(f"{i % 2}\tak bl {i}\n" for i in range(n))
        (tmp_path / f"kind-{part}.tsv.xz").write_bytes(lzma.compress(lines.encode()))
    (tmp_path / "words.txt").write_text("ak bl 3\nak al 2\n", encoding="utf-8")
    (tmp_path / "notes.tsv").write_text("one\tfile\nof\tno format\n", encoding="utf-8")
    return tmp_path


def test_files_of_sentences_are_found_among_others(folder):
    found = find_sets(folder, sentences=True)
    classes, pairs, words = found.sets
    assert (pairs.name, pairs.task, pairs.values.tolist()) == ("year", "sentences", [4.5, 0])
    assert pairs.items == [("ak bl", "bk, äl!"), ("ak", "zz")]
    assert (classes.name, classes.task, len(classes.items)) == ("kind", "classification", 20)
    assert [part for _, part in classes.groups] == ["test"] * 10 + ["train"] * 10
    assert (words.name, words.task) == ("words", "similarity")
    assert found.passed_over == ["notes.tsv (of no known format)"]


def test_similarity_is_the_correlation_over_all_pairs():
    first, second = sentences_of(40), sentences_of(40, seed=2)
    scores = np.random.default_rng(3).normal(size=40)
    (score,) = de.evaluate_sentences(ENCODER, [pairs_of(scores, first, [*second[:39], "zz"])])
    x, y = (
        ENCODER.encode(first).vectors.astype(float),
        ENCODER.encode([*second[:39], "zz"]).vectors.astype(float),
    )
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    cosines = np.divide((x * y).sum(axis=1), lengths, out=np.zeros(40), where=lengths > 0)
    assert score.value == pytest.approx(spearmanr(cosines, scores)[0])
    assert (score.known, score.total) == (316, 317)
    assert score.policy == "SIF 0.001, whitening full, unknown skip"
    assert score.interval is not None


def two_kinds(n, seed=5):
    """Texts of the first half of the words and of the second, in turn, with their kind as the label."""
    return ["left", "right"] * (n // 2), [
        text
        for pair in zip(
            sentences_of(n // 2, words=WORDS[:50], seed=seed),
            sentences_of(n // 2, words=WORDS[50:], seed=seed + 1),
            strict=True,
        )
        for text in pair
    ]


def test_classes_are_learned_and_shuffled_labels_are_not():
    labels, texts = two_kinds(200)
    shuffled = np.random.default_rng(0).permutation(labels).tolist()
    learned, chance = (
        score.value
        for score in de.evaluate_sentences(
            ENCODER, [classes_of("a", labels, texts), classes_of("b", shuffled, texts)]
        )
    )
    assert learned > 0.8
    assert 0.35 < chance < 0.65


@pytest.mark.parametrize(
    "parts", [None, ["train"] * 60 + ["dev"] * 20 + ["test"] * 20, ["train"] * 80 + ["test"] * 20]
)
def test_no_tested_text_trains_or_chooses_its_model(parts):
    labels, texts = two_kinds(100)
    classes = np.unique(labels, return_inverse=True)[1]
    splits = list(sentences._splits(classes_of("c", labels, texts, parts), classes, 0))
    for train, choose, test in splits:
        assert not set(test) & (set(train) | set(choose))
        assert not set(train) & set(choose)
        assert len(train) + len(choose) + len(test) == 100
    tested = np.concatenate([test for _, _, test in splits])
    assert sorted(tested) == (list(range(80, 100)) if parts else list(range(100)))


def test_a_path_without_sentences_is_refused(folder):
    with pytest.raises(ValueError, match="has no set of sentences"):
        de.evaluate_sentences(ENCODER, folder / "words.txt")
    assert len(de.evaluate_sentences(ENCODER, folder / "sts")) == 1


def json_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def test_json_lines_have_labels_titles_and_parts(tmp_path):
    records = [
        {"label": "a", "text": "ak bl", "title": "bk", "split": "TRAIN"},
        {"label": None, "text": "ak", "split": "train"},
        {"label": "a", "text": "ak", "split": "not-used"},
        {"label": 7, "text": "bl", "title": None, "split": "test"},
    ]
    (tmp_path / "news.jsonl.xz").write_bytes(lzma.compress(json_lines(records).encode()))
    (tmp_path / "plain.jsonl").write_text(json_lines([{"text": "no label"}]), encoding="utf-8")
    for part in ("train", "test"):
        (tmp_path / f"two-{part}.jsonl").write_text(
            json_lines([{"label": "a", "text": part}]), encoding="utf-8"
        )
    news, two = find_sets(tmp_path, sentences=True).sets
    assert news[:3] == ("news", "classification", [("bk\nak bl",), ("bl",)])
    assert news.groups == [("a", "train"), ("7", "test")]
    assert (two.name, two.items, two.groups) == (
        "two", [("test",), ("train",)], [("a", "test"), ("a", "train")],
    )  # fmt: skip


def test_a_label_of_one_training_text_does_not_stop_the_choice():
    labels, texts = two_kinds(60)
    parts = ["train"] * 40 + ["test"] * 20
    (score,) = de.evaluate_sentences(ENCODER, [classes_of("c", ["alone", *labels[1:]], texts, parts)])
    assert 0 < score.value < 1


FEW = {
    "a rare label": (["a"] * 20 + ["b"] * 2, None),
    "one label": (["a"] * 12, None),
    "many labels": ([str(i % 20) for i in range(60)], ["train"] * 40 + ["test"] * 20),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("words", [WORDS, ["."]])
def test_labels_of_few_texts_are_scored(name, words):
    labels, parts = FEW[name]
    each = classes_of(name, labels, sentences_of(len(labels), words=words), parts)
    (score,) = de.evaluate_sentences(ENCODER, [each])
    assert 0 <= score.value <= 1
    if name == "one label":
        assert score.value == 1


def test_a_set_that_is_too_small_has_no_score_or_says_what_it_lacks():
    (score,) = de.evaluate_sentences(ENCODER, [classes_of("c", ["a", "b"] * 9, ["ak", "bl"] * 9)])
    assert np.isnan(score.value)
    labels, texts = ["a", "b"] * 3, ["ak", "bl"] * 3
    with pytest.raises(
        ValueError, match="the set c has 5 texts in its part train: give it more, or no parts"
    ):
        de.evaluate_sentences(ENCODER, [classes_of("c", labels, texts, ["train"] * 5 + ["test"])])
    with pytest.raises(ValueError, match="the set c has 0 texts in its part train"):
        de.evaluate_sentences(ENCODER, [classes_of("c", ["a"], ["ak"], ["test"])])


def test_pairs_without_a_correlation_have_no_interval():
    scores = np.array([1.0, np.nan, 2.0, 4.0])
    (score,) = de.evaluate_sentences(ENCODER, [pairs_of(scores, sentences_of(4), sentences_of(4, seed=2))])
    assert np.isnan(score.value)
    assert score.interval is None


def test_a_file_is_read_once_and_json_lines_without_a_label_only_at_their_head(folder, monkeypatch):
    (folder / "log.jsonl").write_text(json_lines([{"text": "no label"}] * 3), encoding="utf-8")
    read = []
    monkeypatch.setattr(wordsets, "read_small", lambda path: read.append(path.name) or read_small(path))
    found = find_sets(folder, sentences=True)
    de.evaluate(VECTORS, [one for one in found.sets if one.task == "similarity"])
    assert sorted(read) == ["kind-test.tsv.xz", "kind-train.tsv.xz", "notes.tsv", "words.txt", "year.TSV"]
    assert found.passed_over == ["log.jsonl (of no known format)", "notes.tsv (of no known format)"]
