"""How fast vectors load and analogies are answered; recorded, never asserted.

Beside gensim: `pytest tests/benchmarks/test_evaluation.py --benchmark-enable --benchmark-only`.
"""

from __future__ import annotations

import numpy as np
import pytest
from gensim.models import KeyedVectors

from distembed.evaluation.words import answer_analogies
from distembed.vectors import WordVectors
from tests.benchmarks.measures import note_rate

N_COMPONENTS = 100


@pytest.fixture(scope="module")
def vectors(is_measured):
    n_words = 20_000 if is_measured else 1_000
    rng = np.random.default_rng(0)
    return WordVectors([f"w{i}" for i in range(n_words)], rng.normal(size=(n_words, N_COMPONENTS)))


@pytest.fixture(scope="module")
def text_file(vectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    vectors.save(path)
    return path


def test_load_text(benchmark, vectors, text_file):
    WordVectors.load(text_file, max_words=10)  # compiles
    read = benchmark.pedantic(WordVectors.load, args=(text_file,), rounds=1)
    note_rate(benchmark, "MB/s", text_file.stat().st_size / 1e6)
    assert len(read) == len(vectors.words)


def test_load_text_gensim(benchmark, vectors, text_file):
    read = benchmark.pedantic(KeyedVectors.load_word2vec_format, args=(str(text_file),), rounds=1)
    note_rate(benchmark, "MB/s", text_file.stat().st_size / 1e6)
    assert len(read) == len(vectors.words)


def test_answer_analogies(benchmark, vectors, is_measured):
    rng = np.random.default_rng(1)
    questions = rng.integers(900, size=(5_000 if is_measured else 50, 3))
    answer_analogies(vectors, questions[:10])  # compiles
    answers = benchmark.pedantic(answer_analogies, args=(vectors, questions), rounds=1)
    note_rate(benchmark, "questions/s", len(questions))
    assert len(answers.add_row) == len(questions)


def test_answer_analogies_gensim(benchmark, vectors, is_measured):
    keyed = KeyedVectors(N_COMPONENTS)
    keyed.add_vectors(list(vectors.words), vectors.vectors)
    keyed.fill_norms()
    rng = np.random.default_rng(1)
    questions = [[f"w{i}" for i in row] for row in rng.integers(900, size=(100 if is_measured else 5, 3))]

    def answer_all():
        return [keyed.most_similar(positive=[a2, b], negative=[a], topn=1) for a, a2, b in questions]

    answers = benchmark.pedantic(answer_all, rounds=1)
    note_rate(benchmark, "questions/s", len(questions))
    assert len(answers) == len(questions)
