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


@pytest.mark.parametrize(
    "load", [WordVectors.load, KeyedVectors.load_word2vec_format], ids=["ours", "gensim"]
)
def test_load_text(benchmark, vectors, tmp_path, load):
    path = str(tmp_path / "v.txt")
    vectors.save(path)
    WordVectors.load(path, max_words=10)  # compiles
    read = benchmark.pedantic(load, args=(path,), rounds=1)
    note_rate(benchmark, "MB/s", (tmp_path / "v.txt").stat().st_size / 1e6)
    assert len(read) == len(vectors.words)


def answer_by_gensim(keyed, questions):
    words = [[f"w{i}" for i in question] for question in questions]
    return [keyed.most_similar(positive=[a2, b], negative=[a], topn=1) for a, a2, b in words]


@pytest.mark.parametrize("by", ["ours", "gensim"])
def test_answer_analogies(benchmark, vectors, is_measured, by):
    n = {"ours": 5_000, "gensim": 100}[by] if is_measured else 5
    questions = np.random.default_rng(1).integers(900, size=(n, 3))
    answer_analogies(vectors, questions[:5])  # compiles
    keyed = KeyedVectors(N_COMPONENTS)
    keyed.add_vectors(list(vectors.words), vectors.vectors)
    keyed.fill_norms()
    work, source = {"ours": (answer_analogies, vectors), "gensim": (answer_by_gensim, keyed)}[by]
    answers = benchmark.pedantic(work, args=(source, questions), rounds=1)
    note_rate(benchmark, "questions/s", n)
    assert len(answers.add_row if by == "ours" else answers) == n
