"""Word vectors: look-up, neighbors, analogies, post-processing."""

from __future__ import annotations

import numpy as np
import pytest
from gensim.models import KeyedVectors
from safetensors.numpy import load_file, save_file

import distembed as de
from distembed.vectors import UnknownWordError, VectorFileError, WordVectors
from distembed.vectors.subwords import SubwordTable
from tests.references.subwords import fnv1a


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
    found = many.most_similar(positive=["w2", "w3"], negative=["w1"], n=5)
    assert [word for word, _ in found] == [word for word, _ in add]
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
    usual = shifted.postprocess(n_components_removed=1).vectors
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


# --- word vectors that answer any string: composed from n-grams, kept by every operation and by safetensors ---


UNKNOWN = ["kinging", "runs", "東京都", "x", "", "Ω" * 10_000]


def plainly_composed(table, word):
    """Return the mean plus the average of the n-grams of a word, found by slicing."""
    marked = f"<{word}>"
    lengths = range(table.min_n, table.max_n + 1)
    found = [marked[i : i + n] for n in lengths for i in range(len(marked) - n + 1)]
    row_of = {key: row for row, key in enumerate(table.ngrams.tolist())}
    rows = [table.vectors[row_of[fnv1a(gram)]] for gram in found if fnv1a(gram) in row_of]
    return table.mean + sum(rows, start=np.zeros(len(table.mean))) / max(len(found), 1)


def test_unknown_words_are_composed_and_known_ones_keep_their_rows(stringy):
    assert np.array_equal(stringy["king"], stringy.vectors[0])
    for word in UNKNOWN:
        assert np.allclose(stringy[word], plainly_composed(stringy.subwords, word), atol=1e-6)
    both = stringy[["runs", "king"]]
    assert np.array_equal(both, [stringy["runs"], stringy["king"]])
    assert "runs" not in stringy
    assert stringy.index("runs") == -1
    assert len(stringy) == 10
    assert "12 n-grams of 3 to 6 characters for other strings" in repr(stringy)


def test_unknown_words_have_neighbors_similarities_and_analogies(stringy):
    composed = stringy["kinging"]
    cosines = stringy.normalized().vectors @ (composed / np.linalg.norm(composed))
    nearest = [stringy.words[row] for row in np.argsort(-cosines)[:3]]
    assert [neighbor.word for neighbor in stringy.most_similar("kinging", 3)] == nearest
    assert stringy.similarity("kinging", "king") == pytest.approx(float(cosines[0]), abs=1e-6)
    assert stringy.most_similar(["kinging", "king"])[0].word != "king"


def test_where_a_vector_comes_from_is_told(stringy):
    assert stringy.describe("king") == "row 0 of 10 words"
    assert stringy.describe("kings") == "composed from 4 of 14 n-grams"
    assert stringy.describe("King") == "composed from 2 of 10 n-grams; 'king' has a vector of its own"
    assert stringy.describe("Ωμ") == "the mean vector: none of its 3 n-grams is known"
    assert "has no vector among 10 words" in WordVectors(stringy.words, stringy.vectors).describe("kings")


def test_without_a_table_nothing_is_composed(stringy):
    plain = WordVectors(stringy.words, stringy.vectors)
    with pytest.raises(UnknownWordError, match="'kingly' has no vector"):
        plain.most_similar(["king", "kingly"])
    with pytest.raises(UnknownWordError):
        plain.extended(["kingly"])
    with pytest.raises(ValueError, match="n-grams have vectors of 6 components and the words of 2"):
        WordVectors(["a"], np.ones((1, 2)), subwords=stringy.subwords)


def test_postprocessing_treats_composed_vectors_as_rows(stringy):
    """What is composed after post-processing is what post-processing makes of the composed rows."""
    mean = stringy.vectors.mean(axis=0)
    cleaned = stringy.postprocess(n_components_removed=2)
    top = np.linalg.svd(stringy.vectors - mean)[2][:2].T
    expected = stringy[UNKNOWN] - mean
    assert np.allclose(cleaned[UNKNOWN], expected - expected @ top @ top.T, atol=1e-5)
    unit = cleaned.normalized()[UNKNOWN]
    assert np.allclose(unit, cleaned[UNKNOWN] / np.linalg.norm(cleaned[UNKNOWN], axis=1)[:, None], atol=1e-6)
    with pytest.raises(ValueError, match="remove mean and components first"):
        stringy.normalized().postprocess()


def test_directions_of_the_spelling_are_added(stringy):
    mean = stringy.subwords.mean.astype(float)
    added = stringy.with_spelling(0.5)
    for word in stringy.words:
        own = stringy[word] - mean
        spelled = plainly_composed(stringy.subwords, word) - mean
        expected = own / np.linalg.norm(own) + 0.5 * spelled / (np.linalg.norm(spelled) or 1)
        assert np.allclose(added[word], expected, atol=1e-5)
    for word in UNKNOWN:
        assert np.allclose(added[word], stringy[word] - mean, atol=1e-6)
    assert np.allclose(stringy.with_spelling(0).norms, 1, atol=1e-6)


def test_spelling_that_cannot_be_added(stringy):
    bare = WordVectors(stringy.words, stringy.vectors)
    for vectors, weight in ((stringy, -1), (stringy.normalized(), 1), (bare, 1)):
        with pytest.raises(ValueError, match="weight of 0 or more"):
            vectors.with_spelling(weight)


def test_fewer_and_more_rows_keep_the_table(stringy):
    few = stringy.head(2)
    assert np.array_equal(few["running"], stringy.subwords.compose(["running"])[0])
    assert np.array_equal(few["king"], stringy["king"])
    assert np.array_equal(stringy.restricted(["Queen"])["runs"], stringy["runs"])
    more = stringy.extended(["king", "runs", "runs"])
    assert more.words == (*stringy.words, "runs")
    assert np.array_equal(more.vectors[-1], stringy["runs"])


@pytest.mark.parametrize("place", ["memory://v.safetensors", "v.safetensors"])
@pytest.mark.parametrize("n_buckets", [None, 40])
def test_safetensors_there_and_back(tmp_path, stringy, place, n_buckets):
    rows = np.random.default_rng(3).normal(size=(40, stringy.vectors.shape[1]))
    hashed = SubwordTable(rows, stringy.subwords.mean)
    table = hashed if n_buckets else stringy.subwords
    vectors = WordVectors(stringy.words, stringy.vectors, subwords=table).normalized()
    path = place if place.startswith("memory") else tmp_path / place
    vectors.save(path)
    read = WordVectors.load(path, max_words=3)
    assert read.words == vectors.words[:3]
    assert np.array_equal(read[UNKNOWN], vectors[UNKNOWN])
    assert read.subwords.normalized
    np.testing.assert_array_equal(read.subwords.ngrams, vectors.subwords.ngrams)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("subword_mean"), "n-grams is not whole .*subword_mean"),
        (lambda t: t.pop("ngrams"), "n-grams is not whole .*ngrams"),
        (lambda t: t.update(ngrams=t["ngrams"][:-1]), "12 vectors for 11 n-grams"),
        (lambda t: t.update(offsets=np.empty(0, np.int64)), "disagree; write it again"),
        (lambda t: t.update(subword_vectors=t["subword_vectors"][:5]), "5 vectors for 12 n-grams"),
        (lambda t: t.update(subword_options=t["subword_options"][:2]), "n-grams is not whole"),
    ],
)
def test_safetensors_with_a_damaged_table(tmp_path, stringy, change, message):
    stringy.save(tmp_path / "v.safetensors")
    tensors = load_file(tmp_path / "v.safetensors")
    change(tensors)
    save_file(tensors, tmp_path / "v.safetensors")
    with pytest.raises(VectorFileError, match=rf"v\.safetensors: .*{message}"):
        WordVectors.load(tmp_path / "v.safetensors")


def test_a_safetensors_row_without_finite_values_is_named(tmp_path, stringy):
    stringy.save(tmp_path / "v.safetensors")
    tensors = load_file(tmp_path / "v.safetensors")
    tensors["vectors"][2, 0] = np.nan
    save_file(tensors, tmp_path / "v.safetensors")
    with pytest.raises(
        VectorFileError, match=rf"row 2: the vector of '{stringy.words[2]}' holds nan; remove"
    ):
        WordVectors.load(tmp_path / "v.safetensors")


def test_table_of_another_program_in_half_precision(tmp_path, stringy):
    stringy.save(tmp_path / "v.safetensors")
    tensors = load_file(tmp_path / "v.safetensors")
    halves = {name: t.astype(np.float16) if t.dtype == np.float32 else t for name, t in tensors.items()}
    save_file(halves, tmp_path / "v.safetensors")
    read = WordVectors.load(tmp_path / "v.safetensors")
    assert isinstance(read.subwords, SubwordTable)
    assert np.allclose(read["runs"], stringy["runs"], atol=1e-2)


def test_words_to_be_near_to_and_far_from_are_asked_as_gensim_asks(tmp_path):
    rng = np.random.default_rng(0)
    vectors = de.WordVectors([f"w{i}" for i in range(30)], rng.normal(size=(30, 5)).astype(np.float32))
    vectors.save(tmp_path / "v.bin")
    theirs = KeyedVectors.load_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    expected = theirs.most_similar(positive=["w1", "w2"], negative=["w3"], topn=5)
    found = vectors.most_similar(positive=["w1", "w2"], negative=["w3"], n=5)
    assert [one.word for one in found] == [word for word, _ in expected]
    np.testing.assert_allclose(
        [one.similarity for one in found], [cosine for _, cosine in expected], atol=1e-6
    )
    for options in ({}, {"positive": "w1"}, {"negative": "w1"}):
        with pytest.raises((TypeError, ValueError), match=r"give lists of words|no word is given"):
            vectors.most_similar(**options)
    assert de.TextEncoder(tmp_path / "v.bin").vectors.words == vectors.words
