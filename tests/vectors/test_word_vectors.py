"""Word vectors: look-up, neighbors, analogies, post-processing."""

from __future__ import annotations

import numpy as np
import pytest
from gensim.models import KeyedVectors

from distembed.vectors import UnknownWordError, WordVectors


def test_constructor_refuses():
    with pytest.raises(ValueError, match="2 words with an array of shape"):
        WordVectors(["a", "b"], np.ones((3, 2)))
    with pytest.raises(ValueError, match="'a' stands in rows 0 and 2"):
        WordVectors(["a", "b", "a"], np.ones((3, 2)))
    with pytest.raises(ValueError, match="row 1, the vector of 'b', holds NaN"):
        WordVectors(["a", "b"], [[1, 2], [np.nan, 1]])


def test_look_up(vectors):
    assert len(vectors) == 10
    assert "king" in vectors
    assert "nobody" not in vectors
    assert vectors.index("Queen") == 1
    assert vectors.index(["Queen", "nobody", "king"]).tolist() == [1, -1, 0]
    assert np.array_equal(vectors[["Queen", "king"]], vectors.vectors[[1, 0]])
    with pytest.raises(UnknownWordError) as caught:
        vectors["queen"]
    assert str(caught.value) == "the word 'queen' has no vector among 10 words; did you mean 'Queen'?"
    with pytest.raises(KeyError, match=r"'kingg' has no vector .* did you mean 'king'"):
        vectors.similarity("king", "kingg")


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(3)
    return WordVectors([f"w{i}" for i in range(500)], rng.normal(size=(500, 20)))


def as_gensim(vectors):
    keyed = KeyedVectors(vectors.vectors.shape[1])
    keyed.add_vectors(list(vectors.words), vectors.vectors)
    return keyed


@pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`")  # gensim calls it itself
@pytest.mark.parametrize("block_values", [20, 140, 1 << 21])
def test_neighbors_equal_gensims(many, monkeypatch, block_values):
    monkeypatch.setattr("distembed.vectors.word_vectors.BLOCK_VALUES", block_values)
    keyed = as_gensim(many)
    pairs = [
        (many.most_similar("w7", 5), keyed.most_similar("w7", topn=5)),
        (many.most_similar(["w1", "w2"], 5), keyed.most_similar(["w1", "w2"], topn=5)),
        (many.most_similar(many["w3"] * 2, 5), keyed.most_similar([many["w3"] * 2], topn=5)),
    ]
    for ours, theirs in pairs:
        assert [word for word, _ in ours] == [word for word, _ in theirs]
        assert np.allclose([s for _, s in ours], [s for _, s in theirs], atol=1e-6)
    add = keyed.most_similar(positive=["w2", "w3"], negative=["w1"], topn=5)
    assert [word for word, _ in many.analogy("w1", "w2", "w3", 5)] == [word for word, _ in add]
    mul = keyed.most_similar_cosmul(positive=["w2", "w3"], negative=["w1"], topn=5)
    assert [word for word, _ in many.analogy("w1", "w2", "w3", 5, method="mul")] == [word for word, _ in mul]
    assert many.similarity("w1", "w2") == pytest.approx(float(keyed.similarity("w1", "w2")), abs=1e-6)


def test_neighbors_ties_exclusions_and_limits():
    flat = WordVectors(["a", "b", "c", "d"], [[1, 0], [1, 0], [2, 0], [0, 0]])
    assert [n.word for n in flat.most_similar("c", 10)] == ["a", "b", "d"]
    assert [n.word for n in flat.most_similar("c", 2, exclude=["a", "unknown"])] == ["b", "d"]
    assert flat.most_similar("a", 1) == [("b", 1.0)]
    assert {n.similarity for n in flat.most_similar("d")} == {0.0}
    with pytest.raises(ValueError, match="n is 0"):
        flat.most_similar("a", 0)
    with pytest.raises(ValueError, match="shape \\(3,\\); give a word"):
        flat.most_similar([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="method is 'sum'"):
        flat.analogy("a", "b", "c", method="sum")


def test_zero_vector_is_kept(tmp_path):
    (tmp_path / "v.txt").write_text("a 0 0\nb 1 1\n")
    read = WordVectors.load(tmp_path / "v.txt")
    assert read.similarity("a", "b") == 0
    assert read.normalized().vectors[0].tolist() == [0, 0]
    assert np.linalg.norm(read.normalized()["b"]) == pytest.approx(1)


@pytest.mark.parametrize("block_values", [60, 1 << 21])
def test_postprocess_removes_mean_and_top_components(many, monkeypatch, block_values):
    monkeypatch.setattr("distembed.vectors.word_vectors.BLOCK_VALUES", block_values)
    shifted = WordVectors(many.words, many.vectors + 3)
    cleaned = shifted.postprocess(n_components_removed=2).vectors
    wide = shifted.vectors.astype(np.float64)
    centered = wide - wide.mean(axis=0)
    _, _, vt = np.linalg.svd(centered, full_matrices=False)
    assert np.allclose(cleaned, centered - centered @ vt[:2].T @ vt[:2], atol=1e-5)
    untouched = shifted.postprocess(remove_mean=False, n_components_removed=0)
    assert np.allclose(untouched.vectors, shifted.vectors)
    usual = shifted.postprocess(remove_mean=True, n_components_removed=1).vectors
    assert shifted.postprocess().vectors.tobytes() == usual.tobytes()
    with pytest.raises(ValueError, match="n_components_removed is 20; give 0 to 19"):
        shifted.postprocess(n_components_removed=20)


def test_restriction_keeps_the_order_of_rows(vectors):
    assert vectors.restricted(["-", "nobody", "Queen"]).words == ("Queen", "-")
    with pytest.raises(ValueError, match="none of the words given is known"):
        vectors.restricted(["nobody"])


def test_a_word_is_looked_up_as_it_is_written_before_its_case_is_ignored():
    vectors = WordVectors(["us", "US", "Paris"], np.eye(3))
    assert vectors.index("US", ignore_case=True) == 1
    assert vectors.index(["us", "Us", "paris", "Rome"], ignore_case=True).tolist() == [0, 0, 2, -1]
    assert vectors.index([], ignore_case=True).dtype == np.int64
