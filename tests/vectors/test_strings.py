"""Word vectors that answer any string: composed from n-grams, kept by every operation and by safetensors."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from distembed.vectors import UnknownWordError, VectorFileError, WordVectors, safetensors
from distembed.vectors.subwords import SubwordTable

UNKNOWN = ["kinging", "runs", "東京都", "x", "", "Ω" * 10_000]


def plainly_composed(table, word):
    """Return the mean plus the average of the n-grams of a word, found by slicing."""
    marked = f"<{word}>"
    lengths = range(table.min_n, table.max_n + 1)
    found = [marked[i : i + n] for n in lengths for i in range(len(marked) - n + 1)]
    rows = [table.vectors[table.ngrams.index(gram)] for gram in found if gram in table.ngrams]
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
    assert stringy.analogy("king", "kinging", "runs")[0].word in stringy.words


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
    hashed = SubwordTable(rows, stringy.subwords.mean, n_buckets=40)
    table = hashed if n_buckets else stringy.subwords
    vectors = WordVectors(stringy.words, stringy.vectors, subwords=table).normalized()
    path = place if place.startswith("memory") else tmp_path / place
    vectors.save(path)
    read = WordVectors.load(path, max_words=3)
    assert read.words == vectors.words[:3]
    assert np.array_equal(read[UNKNOWN], vectors[UNKNOWN])
    assert (read.subwords.ngrams, read.subwords.normalized) == (vectors.subwords.ngrams, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("subword_mean"), "n-grams is not whole .*subword_mean"),
        (lambda t: t.pop("ngrams"), "n-grams is not whole .*ngrams"),
        (lambda t: t.update(ngram_offsets=t["ngram_offsets"][:-1]), "disagree; write it again"),
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


def test_a_safetensors_row_without_finite_values_is_named(tmp_path, stringy, monkeypatch):
    monkeypatch.setattr(safetensors, "BLOCK_VALUES", stringy.vectors.shape[1])  # blocks of one row
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


def test_composed_vectors_beside_the_words_own(stringy):
    with pytest.raises(ValueError, match="there is no table of n-grams to compose words from: give vectors"):
        WordVectors(["a"], [[1.0]]).composed_similarities(["a"])
    found = stringy.composed_similarities(stringy.words)
    expected = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        for a, b in zip(stringy.vectors, stringy.subwords.compose(stringy.words), strict=True)
    ]
    assert np.allclose(found, expected, atol=1e-6)
