"""gensim's KeyedVectors both ways, with gensim itself."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.vectors import WordVectors

models = pytest.importorskip("gensim.models", reason="gensim's own objects: pip install 'distembed[demo]'")

WORDS = ["king", "queen", "été", "new york"]


def random_vectors() -> WordVectors:
    return WordVectors(WORDS, np.random.default_rng(0).normal(size=(4, 5)))


def test_gensim_gives_the_same_rows_and_neighbors() -> None:
    ours = random_vectors()
    keyed = ours.to_gensim(counts=[9, 5, 3, 1])
    assert keyed.index_to_key == WORDS
    assert keyed.get_vecattr("été", "count") == 3
    np.testing.assert_array_equal(keyed.vectors, ours.vectors)
    for (word, cosine), neighbor in zip(keyed.most_similar("king"), ours.most_similar("king"), strict=True):
        assert word == neighbor.word
        assert cosine == pytest.approx(neighbor.similarity, abs=1e-6)


def test_there_and_back_gives_the_same_bits() -> None:
    ours = random_vectors()
    back = WordVectors.from_gensim(ours.to_gensim())
    assert back.words == ours.words
    np.testing.assert_array_equal(back.vectors, ours.vectors)


def test_a_trained_model_is_taken_by_its_vectors() -> None:
    model = models.Word2Vec([["a", "b", "c"]] * 20, vector_size=4, min_count=1, workers=1, epochs=1)
    ours = WordVectors.from_gensim(model)
    assert list(ours) == model.wv.index_to_key
    np.testing.assert_array_equal(ours["b"], model.wv["b"])


def test_keyed_vectors_have_copies_of_their_own() -> None:
    ours = random_vectors()
    ours.to_gensim().vectors[:] = 0
    assert ours.vectors.any()


def test_what_is_no_keyed_vectors_is_named() -> None:
    with pytest.raises(TypeError, match="dict is no gensim KeyedVectors"):
        WordVectors.from_gensim({"king": [1.0]})
    numbered = models.KeyedVectors(2)
    numbered.add_vectors([0, 1], np.eye(2, dtype=np.float32))
    with pytest.raises(TypeError, match="the key of row 0 is 0, of type int"):
        WordVectors.from_gensim(numbered)


@pytest.mark.parametrize("counts", [[1, 2], [0.5, 1, 2, 3]])
def test_counts_are_one_whole_number_for_each_word(counts: list[float]) -> None:
    with pytest.raises(ValueError, match="one whole number for each of the 4 words"):
        random_vectors().to_gensim(counts=counts)
