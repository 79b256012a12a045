"""Word vectors: look-up, neighbors, analogies, post-processing; with a table of n-grams they answer any string."""

from __future__ import annotations

import gzip
import struct
from itertools import pairwise

import numpy as np
import pytest
from gensim.models import FastText, KeyedVectors
from gensim.models.fasttext import save_facebook_model
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from distembed.vectors import UnknownWordError, VectorFileError, WordVectors
from distembed.vectors.subwords import SubwordTable, word_ngrams
from tests.references import subwords as reference

UNKNOWN = ["kinging", "runs", "東京都", "x", "", "Ω" * 10_000]


NGRAMS = ("<ki", "kin", "king", "ing>", "ing", "run", "nni", "東京", "<東京>", "<->", "<na", "ïve>")


@pytest.fixture(scope="module")
def stringy():
    """Ten words x 6 components with twelve n-grams, from which other strings are composed."""
    rng = np.random.default_rng(5)
    words = ["king", "Queen", "naïve", "東京", "\U0001f600", "0.5", "-", "it's", "running", "jumper"]
    table = SubwordTable(rng.normal(size=(len(NGRAMS), 6)), rng.normal(size=6), ngrams=NGRAMS)
    return WordVectors(words, rng.normal(size=(len(words), 6)), subwords=table)


def bare(vectors):
    """Return vectors without their table of n-grams."""
    return WordVectors(vectors.words, vectors.vectors)


def table(**changed):
    return SubwordTable(**({"vectors": np.eye(2, 5), "mean": np.ones(5), "ngrams": ("one", "two")} | changed))


REFUSED = [
    (lambda v: WordVectors(["a", "b"], np.ones((3, 2))), "2 words with an array of shape"),
    (lambda v: WordVectors(["a", "b", "a"], np.ones((3, 2))), "'a' stands in rows 0 and 2"),
    (lambda v: WordVectors(["a", "b"], [[1, 2], [np.nan, 1]]), "row 1, the vector of 'b', holds NaN"),
    (lambda v: WordVectors(["a"], np.eye(1, 2), subwords=v.subwords), "of 6 components and the words of 2"),
    (lambda v: v.most_similar("king", 0), "n is 0"),
    (lambda v: v.most_similar([1.0, 2.0, 3.0]), r"shape \(3,\); give a word"),
    (lambda v: v.most_similar(), "no word is given: name one"),
    (lambda v: v.most_similar(positive="king"), "positive is 'king': give a list of words"),
    (lambda v: v.most_similar("king", negative="king"), "negative is 'king': give a list of words"),
    (lambda v: v.most_similar("king", exclude="pear"), "exclude is 'pear': give a list of words"),
    (lambda v: v.postprocess(n_components_removed=6), "n_components_removed is 6; give 0 to 5"),
    (lambda v: v.normalized().postprocess(), "remove mean and components first"),
    (lambda v: v.restricted(["nobody"]), "none of the words given is known"),
    (lambda v: v.with_spelling(-1), "weight of 0 or more"),
    (lambda v: v.normalized().with_spelling(), "weight of 0 or more"),
    (lambda v: bare(v).with_spelling(), "weight of 0 or more"),
    (lambda v: bare(v)["queen"], "the word 'queen' has no vector among 10 words; did you mean 'Queen'?"),
    (lambda v: bare(v).similarity("king", "kingg"), "'kingg' has no vector .* did you mean 'king'"),
    (lambda v: bare(v).most_similar(["king", "kingly"]), "'kingly' has no vector"),
    (lambda v: bare(v).extended(["kingly"]), "'kingly' has no vector"),
    (lambda _: table(min_n=4, max_n=3), "min_n is 4 and max_n is 3"),
    (lambda _: table(min_n=0), "min_n is 0"),
    (lambda _: table(mean=np.ones(4)), r"the mean \(4,\)"),
    (lambda _: table(mean=np.full(5, np.nan)), "NaN or infinity"),
    (lambda _: table(ngrams=("one",)), "2 vectors for 1 n-grams"),
    (lambda _: table(ngrams=("one", "one")), "occurs twice"),
    (lambda _: table(ngrams=np.array([1, 1], np.uint32)), "occurs twice"),
    (lambda _: table(ngrams=np.array([[1], [2]], np.uint32)), "give one for each"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_cannot_be_answered_is_refused(stringy, call, message):
    with pytest.raises((ValueError, TypeError, UnknownWordError), match=message):
        call(stringy)


def test_look_up(stringy):
    vectors = bare(stringy)
    assert [word in vectors for word in ("king", "nobody")] == [True, False]
    assert vectors.index(["Queen", "nobody", "king"]).tolist() == [1, -1, 0]
    assert np.array_equal(vectors[["Queen", "king"]], vectors.vectors[[1, 0]])
    assert vectors.restricted(["-", "nobody", "Queen"]).words == ("Queen", "-")  # in the order of the rows
    cases = WordVectors(["us", "US", "Paris"], np.eye(3))  # a word as it is written comes before others
    assert cases.index("US", ignore_case=True) == 1
    assert cases.index(["us", "Us", "paris", "Rome"], ignore_case=True).tolist() == [0, 0, 2, -1]
    assert cases.index([], ignore_case=True).dtype == np.int64


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(3)
    return WordVectors([f"w{i}" for i in range(500)], rng.normal(size=(500, 20)))


@pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`")  # gensim calls it itself
@pytest.mark.parametrize("block_values", [20, 140, 1 << 21])
def test_neighbors_equal_gensims(many, monkeypatch, block_values):
    monkeypatch.setattr("distembed.vectors.word_vectors.BLOCK_VALUES", block_values)
    keyed = KeyedVectors(20)
    keyed.add_vectors(list(many.words), many.vectors)
    analogy = {"positive": ["w2", "w3"], "negative": ["w1"]}
    for found, expected in (
        (many.most_similar("w7", 5), keyed.most_similar("w7", topn=5)),
        (many.most_similar(["w1", "w2"], 5), keyed.most_similar(["w1", "w2"], topn=5)),
        (many.most_similar(many["w3"] * 2, 5), keyed.most_similar([many["w3"] * 2], topn=5)),
        (many.most_similar(n=5, **analogy), keyed.most_similar(topn=5, **analogy)),
    ):
        assert [word for word, _ in found] == [word for word, _ in expected]
        assert np.allclose([s for _, s in found], [s for _, s in expected], atol=1e-6)
    assert many.similarity("w1", "w2") == pytest.approx(float(keyed.similarity("w1", "w2")), abs=1e-6)


def test_ties_exclusions_and_zero_vectors():
    flat = WordVectors(["a", "b", "c", "d"], [[1, 0], [1, 0], [2, 0], [0, 0]])
    assert [n.word for n in flat.most_similar("c", 10)] == ["a", "b", "d"]
    assert [n.word for n in flat.most_similar("c", 2, exclude=["a", "unknown"])] == ["b", "d"]
    assert flat.most_similar("a", 1) == [("b", 1.0)]
    assert {n.similarity for n in flat.most_similar("d")} == {flat.similarity("a", "d")} == {0.0}
    assert flat.normalized().vectors.tolist() == [[1, 0], [1, 0], [1, 0], [0, 0]]


@pytest.mark.parametrize("block_values", [60, 1 << 21])
def test_postprocess_removes_mean_and_top_components(many, monkeypatch, block_values):
    monkeypatch.setattr("distembed.vectors.word_vectors.BLOCK_VALUES", block_values)
    shifted = WordVectors(many.words, many.vectors + 3)
    centered = shifted.vectors - shifted.vectors.mean(axis=0, dtype=np.float64)
    top = np.linalg.svd(centered, full_matrices=False)[2][:2].T
    for n, removed in ((1, top[:, :1]), (2, top)):
        cleaned = shifted.postprocess(n_components_removed=n).vectors
        assert np.allclose(cleaned, centered - centered @ removed @ removed.T, atol=1e-5)
    assert np.array_equal(shifted.postprocess().vectors, shifted.postprocess(n_components_removed=1).vectors)


# ---- a table of n-grams -------------------------------------------------------------------------------------------


def test_unknown_words_are_composed_and_known_ones_keep_their_rows(stringy):
    assert np.array_equal(stringy["king"], stringy.vectors[0])
    assert np.array_equal(stringy[UNKNOWN], stringy.subwords.compose(UNKNOWN))
    assert np.array_equal(stringy[["runs", "king"]], [stringy["runs"], stringy["king"]])
    assert "runs" not in stringy
    assert stringy.index("runs") == -1
    assert np.array_equal(stringy.head(2)["running"], stringy.subwords.compose(["running"])[0])
    assert np.array_equal(stringy.restricted(["Queen"])["runs"], stringy["runs"])
    more = stringy.extended(["king", "runs", "runs"])
    assert more.words == (*stringy.words, "runs")
    assert np.array_equal(more.vectors[-1], stringy["runs"])
    composed = stringy["kinging"]
    cosines = stringy.normalized().vectors @ (composed / np.linalg.norm(composed))
    nearest = [stringy.words[row] for row in np.argsort(-cosines)[:3]]
    assert [neighbor.word for neighbor in stringy.most_similar("kinging", 3)] == nearest
    assert stringy.similarity("kinging", "king") == pytest.approx(float(cosines[0]), abs=1e-6)
    assert stringy.most_similar(["kinging", "king"])[0].word != "king"


def test_where_a_vector_comes_from_is_told(stringy):
    assert "12 n-grams of 3 to 6 characters for other strings" in repr(stringy)
    assert stringy.describe("king") == "row 0 of 10 words"
    assert stringy.describe("kings") == "composed from 4 of 14 n-grams"
    assert stringy.describe("King") == "composed from 2 of 10 n-grams; 'king' has a vector of its own"
    assert stringy.describe("Ωμ") == "the mean vector: none of its 3 n-grams is known"
    assert "has no vector among 10 words" in bare(stringy).describe("kings")


def test_postprocessing_treats_composed_vectors_as_rows(stringy):
    """What is composed after post-processing is what post-processing makes of the composed rows."""
    mean = stringy.vectors.mean(axis=0)
    cleaned = stringy.postprocess(n_components_removed=2)
    top = np.linalg.svd(stringy.vectors - mean)[2][:2].T
    expected = stringy[UNKNOWN] - mean
    assert np.allclose(cleaned[UNKNOWN], expected - expected @ top @ top.T, atol=1e-5)
    unit = cleaned.normalized()[UNKNOWN]
    assert np.allclose(unit, cleaned[UNKNOWN] / np.linalg.norm(cleaned[UNKNOWN], axis=1)[:, None], atol=1e-6)


def test_directions_of_the_spelling_are_added(stringy):
    mean = stringy.subwords.mean.astype(float)
    own, spelled = stringy.vectors - mean, stringy.subwords.compose(stringy.words) - mean
    lengths = np.linalg.norm(spelled, axis=1, keepdims=True)
    expected = own / np.linalg.norm(own, axis=1, keepdims=True)
    expected += 0.5 * spelled / np.where(lengths, lengths, 1)
    added = stringy.with_spelling(0.5)
    assert np.allclose(added.vectors, expected, atol=1e-5)
    assert np.allclose(added[UNKNOWN], stringy[UNKNOWN] - mean, atol=1e-6)
    assert np.allclose(stringy.with_spelling(0).norms, 1, atol=1e-6)


@pytest.mark.parametrize("n_buckets", [None, 40])
def test_safetensors_keep_the_table(tmp_path, stringy, n_buckets):
    rows = np.random.default_rng(3).normal(size=(40, stringy.vectors.shape[1]))
    table = SubwordTable(rows, stringy.subwords.mean) if n_buckets else stringy.subwords
    vectors = WordVectors(stringy.words, stringy.vectors, subwords=table).normalized()
    vectors.save(tmp_path / "v.safetensors")
    read = WordVectors.load(tmp_path / "v.safetensors", max_words=3)
    assert read.words == vectors.words[:3]
    assert np.array_equal(read[UNKNOWN], vectors[UNKNOWN])
    assert read.subwords.normalized
    np.testing.assert_array_equal(read.subwords.ngrams, vectors.subwords.ngrams)


def halved(tensors):
    tensors |= {name: t.astype(np.float16) for name, t in tensors.items() if t.dtype == np.float32}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (halved, None),
        (lambda t: t.pop("subword_mean"), ": .*n-grams is not whole .*subword_mean"),
        (lambda t: t.pop("ngrams"), ": .*n-grams is not whole .*ngrams"),
        (lambda t: t.update(ngrams=t["ngrams"][:-1]), ": .*12 vectors for 11 n-grams"),
        (lambda t: t.update(offsets=np.empty(0, np.int64)), ": .*disagree; write it again"),
        (lambda t: t.update(vectors=np.eye(2)), ": words, offsets and vectors disagree; write it again"),
        (lambda t: t.update(subword_vectors=t["subword_vectors"][:5]), ": .*5 vectors for 12 n-grams"),
        (lambda t: t.update(subword_options=t["subword_options"][:2]), ": .*n-grams is not whole"),
        (lambda t: t["vectors"].__setitem__((2, 0), np.nan), ", row 2: the vector of 'naïve' holds nan; remove"),
        (lambda t: t.pop("words"), r" holds the tensors \['ngrams', .* and lacks \['words'\]"),
    ],
)  # fmt: skip
def test_safetensors_of_another_program_are_read_in_half_precision_or_refused(
    tmp_path, stringy, change, message
):
    path = tmp_path / "v.safetensors"
    stringy.save(path)
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    if message:
        with pytest.raises(VectorFileError, match=rf"v\.safetensors{message}"):
            WordVectors.load(path)
    else:
        assert np.allclose(WordVectors.load(path)["runs"], stringy["runs"], atol=1e-2)


# ---- models of fastText, and their n-grams ---------------------------------------------------------------------------

STRANGE = ["kinging", "walks", "東京都", "x", "Ω" * 300]


@pytest.fixture(scope="module")
def model():
    sentences = [["the", "king", "runs", "</s>"], ["the", "Queen", "was", "running", "</s>"]] * 5
    return FastText(sentences, vector_size=6, min_count=1, bucket=500, epochs=1, seed=1, workers=1)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("fasttext") / "model.bin"
    save_facebook_model(model, str(path))
    return path


def test_a_model_that_gensim_trained(model, written, monkeypatch, tmp_path):
    monkeypatch.setattr("distembed.vectors.rows.BLOCK_VALUES", 100)
    read = WordVectors.load(written)  # told by its first bytes: the name alone would mean word2vec
    assert read.words == tuple(model.wv.index_to_key)
    for word in [*read.words, *STRANGE]:
        if word != "</s>":
            assert np.allclose(read[word], model.wv.get_vector(word), atol=1e-6)
    # fastText gives `</s>` no n-grams, whatever its spelling, and gensim does not know that
    row = model.wv.key_to_index["</s>"]
    assert np.allclose(read["</s>"], model.wv.vectors_vocab[row], atol=1e-6)
    (tmp_path / "model.bin.gz").write_bytes(gzip.compress(written.read_bytes()))
    assert np.array_equal(WordVectors.load(tmp_path / "model.bin.gz").vectors, read.vectors)
    first = WordVectors.load(written, max_words=3)
    assert first.words == read.words[:3]
    assert np.array_equal(first[[*first.words, *STRANGE]], read[[*first.words, *STRANGE]])


def test_a_model_without_n_grams(model, tmp_path):
    without = FastText([["a", "b"]] * 5, vector_size=6, min_count=1, max_n=0, epochs=1, seed=1, workers=1)
    save_facebook_model(without, str(tmp_path / "v.bin"))
    read = WordVectors.load(tmp_path / "v.bin")
    assert read.subwords is None
    assert np.array_equal(read.vectors, without.wv.vectors_vocab)


SHAPE = struct.pack("<qq", 507, 6)
"""The rows and columns of the matrix of a model of seven words and 500 buckets."""


def _end(data):
    """Return where the rows of the buckets end."""
    return data.index(SHAPE) + len(SHAPE) + 4 * 507 * 6


def _with(data, place, form, value):
    return data[:place] + struct.pack(form, value) + data[place + struct.calcsize(form) :]


DAMAGED = [
    (lambda data: data[: _end(data) - 20], r"cannot be read as a model of fastText \(.*\): take a whole one"),
    (lambda data: data[:20], r"\(it is cut short|\(unpack requires"),
    (lambda data: data[:110], r"\(it is cut short"),  # in a word: gensim alone would look for its end for ever
    (lambda data: data[:92] + b"a" * 70_000, r"\(it is cut short"),
    (lambda data: _with(data, 68, "<i", 1 << 30), r"cannot be read"),
    (lambda data: _with(data, 64 + 4, "<i", 1 << 28), r"do not fit a matrix of the shape"),
    (lambda data: _with(data, 8, "<i", 7), r"7 components do not fit a matrix of the shape \(507, 6\)"),
    (lambda data: data.replace(SHAPE, struct.pack("<qq", 506, 6), 1), r"500 buckets and .* shape \(506, 6\)"),
    (lambda data: data.replace(SHAPE, struct.pack("<qq", 1 << 40, 6), 1), r"cannot be read"),
    (lambda data: _with(data, 84, "<q", 5), r"cannot be read"),  # pruned
    (lambda data: _with(data, 64, "<i", 6), r"cannot be read"),
    (lambda data: data.replace(b"king\0", b"k\xffng\0"), r"word \d: the word b'k\\xffng' is not utf-8"),
    (lambda data: data.replace(b"Queen\0", b"king\0"), r"7 words, 6 of them different"),
    (lambda data: data[: _end(data) - 40] + b"\xff" * 40 + data[_end(data) :], r"hold NaN or infinity"),
    (lambda data: b"2 2\na 12345678b 12345678", r"begins with 3220320a"),
    (lambda data: data[:8] + bytes(4) + data[12:40] + bytes(4) + data[44:64] + bytes(12) + data[76:92] + bytes(17),
     r"\(0 words, 0 of them different, 0 buckets and 0 components"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGED)
def test_bad_models(tmp_path, written, damage, message):
    path = tmp_path / "bad.bin"
    path.write_bytes(damage(written.read_bytes()))
    with pytest.raises(VectorFileError, match=rf"bad\.bin.*{message}"):
        WordVectors.load(path, format="fasttext" if "begins" in message else "auto")


# --- n-grams and their hashes equal fastText's, and any string has a vector ---------------------------------


ODD_WORDS = [
    "the", "a", "", "größe", "日本語", "👍🏽", "é", "e\u0301", "x<y>", "aaaa", "42", "\udcff", "ß" * 7,
]  # fmt: skip


def ngrams(words, min_n, max_n):
    found = word_ngrams(words, min_n, max_n)
    strings = found.strings(np.arange(len(found.starts)))
    return [strings[i:j] for i, j in pairwise(found.offsets)]


@given(st.lists(st.text(max_size=8), max_size=5), st.integers(1, 3), st.integers(0, 4))
def test_ngrams_of_any_text(words, min_n, more):
    max_n = min_n + more
    assert ngrams(words, min_n, max_n) == [reference.ngrams(word, min_n, max_n) for word in words]


def random_rows(n, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


KNOWN = tuple(dict.fromkeys(one for word in ("größe", "the", "aaaa") for one in reference.ngrams(word, 3, 6)))
TABLE = SubwordTable(random_rows(len(KNOWN)), random_rows(1)[0], ngrams=KNOWN)
TABLES = {
    "n-grams": (TABLE, {key: row for row, key in enumerate(TABLE.ngrams.tolist())}, reference.fnv1a),
    "buckets": (
        SubwordTable(random_rows(10), random_rows(1)[0]),
        {row: row for row in range(10)},
        lambda one: reference.fnv1a(one) % 10,
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_composed_vectors_are_those_of_the_formula_alone_and_among_others(kind, monkeypatch):
    table, rows, key = TABLES[kind]
    expected = table.mean + reference.averaging(ODD_WORDS, rows, 3, 6, key=key) @ table.vectors
    np.testing.assert_allclose(table.compose(ODD_WORDS), expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr("distembed.vectors.subwords.WORDS_TOGETHER", 2)
    words = [*ODD_WORDS, "the" * 3334]
    np.testing.assert_array_equal(table.compose(words), np.vstack([table.compose([word]) for word in words]))
    assert table.compose([]).shape == (0, 5)
    with pytest.raises(TypeError, match="give a list of words"):
        table.compose("the")


def test_strings_without_known_n_grams_have_the_mean_and_normalized_vectors_length_one():
    assert TABLE.n_ngrams(["the", ""]).tolist() == [6, 0]
    assert TABLE.n_known(["the", "then", "日本語", ""]).tolist() == [6, 3, 0, 0]
    np.testing.assert_array_equal(TABLE.compose(["日本語", "", "a"]), [TABLE.mean] * 3)  # a script never seen
    none = SubwordTable(np.empty((0, 5)), np.ones(5), ngrams=())
    np.testing.assert_array_equal(none.compose(["any"]), np.ones((1, 5)))
    unit = SubwordTable(TABLE.vectors, TABLE.mean, ngrams=KNOWN, normalized=True).compose(ODD_WORDS)
    plain = TABLE.compose(ODD_WORDS)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1)[:, None], rtol=1e-5)
