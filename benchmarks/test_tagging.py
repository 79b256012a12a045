"""The tagger of the benchmarks learns from vectors what the words alone do not say."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from benchmarks.tagging import compare, read_corpus

WORDS = [f"w{i}" for i in range(120)]
IS_NAME = np.arange(120) % 3 == 0
"""Every third word is a name, which only its vector says where the word was not seen in training."""


def vectors(*, told: bool) -> de.WordVectors:
    matrix = np.random.default_rng(0).normal(size=(120, 8))
    matrix[:, 0] = np.where(IS_NAME, 3, -3) if told else 0
    return de.WordVectors(WORDS, matrix)


@pytest.fixture
def corpus(tmp_path):
    random = np.random.default_rng(1)
    tagged = [f"{word} {'B-N' if is_name else 'O'}" for word, is_name in zip(WORDS, IS_NAME, strict=True)]
    for part, low, high, n in (("train", 0, 60, 60), ("test", 60, 120, 20)):
        sentences = ["\n".join(tagged[i] for i in random.integers(low, high, size=6)) for _ in range(n)]
        (tmp_path / f"{part}.txt").write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    return read_corpus(tmp_path)


def test_vectors_that_tell_names_find_unseen_ones(corpus):
    scores = compare(corpus, {"told": vectors(told=True), "untold": vectors(told=False)})
    (told, without), (untold, same) = scores["told"], scores["untold"]
    assert told.value > 0.95
    assert max(untold.value, without.value) < 0.6
    assert same == without
    assert (told.known, told.total, without.known) == (120, 120, 0)
