"""Word vectors with a table of character n-grams."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable

NGRAMS = ("<ki", "kin", "king", "ing>", "ing", "run", "nni", "東京", "<東京>", "<->", "<na", "ïve>")


WORDS = ["king", "Queen", "it's", '"quoted"', "naïve", "東京", "a\u00a0b", "\U0001f600", "0.5", "-"]


@pytest.fixture
def vectors():
    return WordVectors(WORDS, np.random.default_rng(7).normal(size=(len(WORDS), 6)))


@pytest.fixture(scope="session")
def stringy():
    """Ten words x 6 components with twelve n-grams, from which other strings are composed."""
    rng = np.random.default_rng(5)
    words = ["king", "Queen", "naïve", "東京", "\U0001f600", "0.5", "-", "it's", "running", "jumper"]
    table = SubwordTable(rng.normal(size=(len(NGRAMS), 6)), rng.normal(size=6), ngrams=NGRAMS)
    return WordVectors(words, rng.normal(size=(len(words), 6)), subwords=table)
