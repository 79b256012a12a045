"""Sparse spaces are scored and searched as the same rows held dense."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.inputs import half_of
from distembed.evaluation.scoring import Policy
from distembed.evaluation.sparse_space import SparseSpace, nearest_words
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import (
    EvaluationSet,
)
from distembed.vectors import WordVectors

WORDS = [f"w{i}" for i in range(14)]
PAIRS = [(WORDS[i], WORDS[j]) for i, j in [(0, 1), (0, 2), (0, 3), (4, 5), (4, 6), (4, 13), (7, 8), (9, 2)]]
NUMBERS = np.array([0.9, 0.2, 0.4, 0.3, 0.8, 0.1, 0.5, 0.6])
SETS = [
    EvaluationSet("similarity", "similarity", [*PAIRS, ("w0", "unknown")], np.append(NUMBERS, 1)),
    EvaluationSet(
        "synonym", "synonym", [("w0", "w1", "w2"), ("w3", "w4", "w6", "w7"), ("w5", "w8", "unknown")]
    ),
    EvaluationSet("category", "categorization", [(word,) for word in WORDS[:9]], groups=list("aaabbbccc")),
    EvaluationSet("association", "normed priming", PAIRS, NUMBERS),
    EvaluationSet(
        "priming", "priming", PAIRS, np.column_stack([NUMBERS, -NUMBERS]), [("x",)] * 5 + [("y",)] * 3
    ),
]


def some_rows(seed=0, n=14, m=40):
    rows = sp.random_array(
        (n, m), density=0.4, rng=np.random.default_rng(seed), format="csr", dtype=np.float32
    )
    rows = rows.tolil()
    rows[-1] = 0
    return sp.csr_array(rows)


@pytest.mark.parametrize("word_set", SETS, ids=lambda word_set: word_set.name)
@pytest.mark.parametrize("unknown", ["skip", "zero"])
def test_scores_equal_those_of_dense_vectors(word_set, unknown):
    rows, policy = some_rows(), Policy(unknown=unknown)
    sparse = evaluate_sets(SparseSpace(WORDS, rows), [word_set], policy)
    dense = evaluate_sets(WordVectors(WORDS, rows.toarray()), [word_set], policy)
    for mine, expected in zip(sparse, dense, strict=True):
        assert mine[:3] == expected[:3]
        assert mine[4:7] == expected[4:7]
        assert mine.value == pytest.approx(expected.value, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("chunks", [(14,), (7, 7), (5, 9), (1,) * 14])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_nearest_words_equal_those_of_dense_vectors(chunks, kind):
    rows = some_rows()
    space = da.from_array(rows.toarray(), chunks=(chunks, -1))
    if kind == "sparse":
        space = space.map_blocks(sp.csr_array, meta=sp.csr_array((0, 0), dtype=rows.dtype))
    found = nearest_words(space, WORDS, ["w3", "w0", "w13"], n=4)
    vectors = WordVectors(WORDS, rows.toarray())
    for word in ("w3", "w0"):
        expected = vectors.most_similar(word, n=4)
        assert [near for near, _ in found[word]] == [near.word for near in expected]
        np.testing.assert_allclose(
            [c for _, c in found[word]], [near.similarity for near in expected], atol=1e-6
        )
    assert found["w13"] == []  # its row is zeros


def test_every_word_of_a_set_is_told():
    assert SETS[0].words == {word for pair in PAIRS for word in pair} | {"unknown"}
    assert EvaluationSet("s", "synonym", [("Big Cat", "lion", "dog")]).words == {"Big_Cat", "lion", "dog"}


@pytest.mark.parametrize("word_set", SETS, ids=lambda word_set: word_set.name)
def test_the_halves_of_a_set_are_whole_items_and_together_all_of_it(word_set):
    halves = [half_of(word_set, development=development) for development in (True, False)]
    assert sum(len(half.items) for half in halves) == len(word_set.items)
    assert all(len(field) in (0, len(half.items)) for half in halves for field in half[3:])
    first = [{item[0] for item in half.items} for half in halves]
    assert not first[0] & first[1]
    for half in halves:
        places = [word_set.items.index(item) for item in half.items]
        for field, whole in zip(half[3:], word_set[3:], strict=True):
            assert len(field) == 0 or np.array_equal(field, [whole[place] for place in places])


def test_bad_input():
    rows = some_rows()
    with pytest.raises(ValueError, match="give one row per word"):
        SparseSpace(WORDS[:3], rows)
    with pytest.raises(ValueError, match="13 of them distinct"):
        SparseSpace([*WORDS[:13], "w0"], rows)
    broken = rows.copy()
    broken.data[0] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        SparseSpace(WORDS, broken)
    with pytest.raises(TypeError, match="analogies, which need word vectors"):
        evaluate_sets(SparseSpace(WORDS, rows), [EvaluationSet("a", "analogy", [("w0", "w1", "w2", "w3")])])


def test_unsorted_rows_are_sorted_and_the_argument_is_not():
    rows = sp.csr_array((np.array([1.0, 2.0], np.float32), np.array([3, 1]), np.array([0, 2])), shape=(1, 5))
    space = SparseSpace(["a"], rows)
    assert space.rows.indices.tolist() == [1, 3]
    assert rows.indices.tolist() == [3, 1]


def test_items_of_one_first_word_are_in_one_half_whatever_its_case():
    pairs = [
        (form(word), "y") for word in ("ab" * n for n in range(1, 20)) for form in (str.lower, str.upper)
    ]
    half = half_of(EvaluationSet("s", "antonyms", pairs), development=True)
    folded = [first.lower() for first, _ in half.items]
    assert 0 < len(folded) < len(pairs)
    assert all(folded.count(word) == 2 for word in folded)
