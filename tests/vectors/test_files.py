"""Files of word vectors: every format there and back, with gensim, and what is wrong with bad files."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gensim.models import KeyedVectors
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from distembed.formats import streams
from distembed.vectors import VectorFileError, WordVectors, rows, word2vec


def same(left, right):
    return left.words == right.words and np.array_equal(left.vectors, right.vectors)


ENDS = ("txt", "vec.gz", "txt.xz", "txt.bz2", "txt.zst", "bin", "bin.gz", "glove", "parquet", "safetensors")


@pytest.mark.parametrize("name", [f"v.{end}" for end in ENDS])
def test_there_and_back(tmp_path, vectors, name):
    vectors.save(tmp_path / name)
    assert same(WordVectors.load(tmp_path / name), vectors)
    first = WordVectors.load(tmp_path / name, max_words=3)
    assert same(first, vectors.head(3))
    assert [path.name for path in tmp_path.iterdir()] == [name]  # no partial file is left


@pytest.mark.parametrize("name", ["v.txt", "v.bin", "v.parquet", "v.safetensors"])
def test_remote_files(vectors, name):
    vectors.save(f"memory://{name}")
    assert same(WordVectors.load(f"memory://{name}"), vectors)


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_ours_and_we_read_gensims(tmp_path, vectors, binary):
    ours, theirs = tmp_path / ("ours.bin" if binary else "ours.txt"), tmp_path / "theirs"
    vectors.save(ours)
    read = KeyedVectors.load_word2vec_format(str(ours), binary=binary)
    assert read.index_to_key == list(vectors.words)
    assert np.array_equal(read.vectors, vectors.vectors)
    read.save_word2vec_format(str(theirs), binary=binary)
    assert same(WordVectors.load(theirs), vectors)


def test_gensim_reads_our_glove(tmp_path, vectors):
    vectors.save(tmp_path / "v.glove")
    read = KeyedVectors.load_word2vec_format(str(tmp_path / "v.glove"), no_header=True)
    assert np.array_equal(read.vectors, vectors.vectors)


def test_blocks_smaller_than_a_line_change_nothing(tmp_path, vectors, monkeypatch):
    for name in ("v.txt", "v.bin", "v.glove", "v.parquet"):
        vectors.save(tmp_path / name)
    monkeypatch.setattr(streams, "READ_BYTES", 5)
    monkeypatch.setattr("distembed.vectors.files.HEAD_BYTES", 40)
    for name in ("v.txt", "v.bin", "v.glove", "v.parquet"):
        assert same(WordVectors.load(tmp_path / name), vectors)


@settings(max_examples=40)
@given(
    words=st.lists(
        st.text(st.characters(exclude_characters=" \t\r\n", codec="utf-8"), min_size=1), min_size=1
    ),
    width=st.sampled_from([1, 2, 30]),
    form=st.sampled_from(["word2vec", "word2vec-binary"]),
)
def test_text_and_binary_are_told_apart_whatever_the_words(tmp_path_factory, words, width, form):
    """Control characters in words do not make a text file binary."""
    words = sorted({word.removeprefix("\ufeff") or "a" for word in words})
    vectors = WordVectors(words, np.random.default_rng(0).normal(size=(len(words), width)))
    path = tmp_path_factory.mktemp("told") / "without-suffix"
    vectors.save(path, format=form)
    assert same(WordVectors.load(path), vectors)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"2 10000000\na 1 2\nb 2 1\n", r"line 2: 2 values after the word 'a', expected 10000000"),
        (
            b"2 10000000\na \0\0\x80\x3f",
            r"record 1 of the 2 .* begins at byte 11 and the file ends at byte 17",
        ),
        (b"2 99999999999999\na \0\0\x80\x3f", r"record 1 of the 2 that the header promises is cut short"),
        (b"999999999999 2\na 1 2\n", r"promises 999999999999 words and the file holds 1"),
        (b"9" * 5000 + b" 2\na 1 2\n", r"line 1: '9+\.\.\.' is not a word2vec header"),
    ],
)
def test_nothing_is_allocated_for_what_only_a_header_promises(tmp_path, data, message):
    (tmp_path / "v").write_bytes(data)
    WordVectors(["a"], [[1.0]]).save(tmp_path / "w.bin")
    WordVectors.load(tmp_path / "w.bin")  # what is imported and compiled at the first use counts for nothing
    tracemalloc.start()
    try:
        with pytest.raises(VectorFileError, match=message):
            WordVectors.load(tmp_path / "v")
        # reading takes 8 MiB, the promised matrix would take 40 or more
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_words_of_parquet_are_text_of_any_type(tmp_path, vectors, kind):
    words = (
        pa.array(vectors.words).dictionary_encode()
        if pa.types.is_dictionary(kind)
        else pa.array(vectors.words, kind)
    )
    pq.write_table(pa.table({"word": words, "vector": vectors.vectors.tolist()}), tmp_path / "v.parquet")
    assert same(WordVectors.load(tmp_path / "v.parquet"), vectors)


def test_memory_that_runs_out_is_named(tmp_path, vectors, monkeypatch):
    vectors.save(tmp_path / "v.txt")

    class Full(np.ndarray):
        def resize(self, *arguments, **options):
            raise MemoryError

    monkeypatch.setattr(rows.np, "empty", lambda *_, **__: np.zeros((0, 0), np.float32).view(Full))
    message = r"v\.txt: no memory is left after 0 words of 6 values; give max_words="
    with pytest.raises(MemoryError, match=message):
        WordVectors.load(tmp_path / "v.txt")


def test_c_program_writes_a_line_end_after_each_record(tmp_path):
    rows = b"".join(word + b" " + struct.pack("<2f", 1, 0.5) + b"\n" for word in (b"a", b"b"))
    (tmp_path / "v.bin").write_bytes(b"2 2\n" + rows)
    assert WordVectors.load(tmp_path / "v.bin").words == ("a", "b")


@given(
    st.lists(st.floats(-3.4e38, 3.4e38), min_size=1, max_size=30),
    st.sampled_from(["{!r}", "{:.3e}", "{:.25e}", "{:.40f}"]),
)
def test_numbers_round_as_numpy_rounds(tmp_path_factory, values, style):
    written = [style.format(value) for value in values]
    path = tmp_path_factory.mktemp("numbers") / "v.txt"
    path.write_text(f"1 {len(written)}\nw {' '.join(written)}\n")
    expected = np.array([float(text) for text in written]).astype(np.float32)
    assert np.array_equal(WordVectors.load(path).vectors[0], expected)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_values_near_midpoints_of_float32_round_to_the_nearest(value):
    """Not by way of float64, which takes what is a little above the middle for the middle."""
    with np.errstate(over="ignore"):  # of the largest number
        upper = np.nextafter(np.float32(value), np.float32(np.inf))
    if not np.isfinite(upper):
        return
    middle = (float(value) + float(upper)) / 2
    for written in (repr(middle), f"{middle:.30e}"):
        _, block = word2vec._parse_block(f"w {written}\n".encode(), rows.Source("x", "line", 1), 1, 0)
        found, other = Fraction(float(block[0, 0])), (Fraction(float(value)), Fraction(float(upper)))
        exact = Fraction(written)
        assert abs(found - exact) == min(abs(one - exact) for one in other)


def test_words_with_blanks(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text(". . . 0.1 -0.2\r\nat a@b.c +1 2e0 \nplain\t3\t.5\n\n\n")
    read = WordVectors.load(path)
    assert read.words == (". . .", "at a@b.c", "plain")
    assert read.vectors.tolist() == [[np.float32(0.1), np.float32(-0.2)], [1, 2], [3, 0.5]]
    for name in ("w.txt", "w.bin", "w.glove"):
        with pytest.raises(ValueError, match=r'the word \'\. \. \.\' cannot be written as .* space="_"'):
            read.save(tmp_path / name)
    read.save(tmp_path / "w.txt", space="_")
    assert WordVectors.load(tmp_path / "w.txt").words[0] == "._._."
    clash = WordVectors(["a b", "a_b"], np.eye(2))
    message = r"the words 'a b' and 'a_b' would both be written as 'a_b'; give another"
    with pytest.raises(ValueError, match=message):
        clash.save(tmp_path / "clash.txt", space="_")
    clash.save(tmp_path / "clash.txt", space="+")
    assert WordVectors.load(tmp_path / "clash.txt").words == ("a+b", "a_b")
    for half, name in (("\ud800", "ud800"), ("\udfff", "udfff")):
        message = rf"clash\.parquet: the word '\\{name}' holds half of a surrogate pair"
        with pytest.raises(ValueError, match=message):
            WordVectors([half], [[1.0]]).save(tmp_path / "clash.parquet")
    read.save(tmp_path / "w.parquet")
    assert WordVectors.load(tmp_path / "w.parquet").words == read.words


BAD_TEXT = {
    "short line": ("2 3\na 1 2 3\nb 1 2\n",
                   r"bad\.txt, line 3: 2 values after the word 'b', expected 3; complete or"),
    "long line": ("2 3\na 1 2 3\nb 1 2 3 4\n", r"line 3: 4 values after the word 'b', expected 3; correct"),
    "no number": ("2 3\na 1 2 3\nb 1 x 3\n", r"line 3: 'x' is not a number; correct"),
    "exponent without digits": ("a 1 2\nb 1 1e-\n", r"line 2: '1e-' is not a number; correct"),
    "nan": ("2 2\na 1 nan\nb 1 2\n", r"line 2: the vector of 'a' holds nan; remove"),
    "inf": ("a 1 2\nb 1 -inf\n", r"line 2: the vector of 'b' holds -inf"),
    "too large": ("a 1 2\nb 1 1e39\n", r"line 2: the vector of 'b' holds inf"),
    "duplicate": ("3 1\na 1\nb 2\na 3\n", r'line 4: the word .a. stands already in line 2; give duplicates="first"'),
    "fewer words": ("5 1\na 1\nb 2\n", r"line 1: the header promises 5 words and the file holds 2; download"),
    "more words": ("1 1\na 1\nb 2\n", r"line 1: the header promises 1 words and the file holds 2; .*max_words=1"),
    "wrong width": ("2 5\na 1 2\nb 2 1\n", r"line 2: 2 values after the word 'a', expected 5"),
    "blank line": ("a 1\n\nb 2\n", r"line 2 is blank; remove it"),
    "empty": ("", r"bad\.txt is empty; give"),
    "only spaces": (" \n\n", r"is empty"),
    "only a header": ("3 2\n", r"promises 3 words and the file holds 0"),
    "no vectors": ("hello world\n", r"line 1: 'hello world' is not a word and its values"),
    "zero width": ("3 0\n", r"line 1: '3 0' is not a word2vec header"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD_TEXT.values(), ids=BAD_TEXT)
def test_bad_text(tmp_path, text, message):
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(VectorFileError, match=message):
        WordVectors.load(tmp_path / "bad.txt")


def test_a_line_without_an_end_is_no_text(tmp_path, monkeypatch):
    monkeypatch.setattr(word2vec, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "v.txt").write_bytes(b"a " + b"1" * (3 << 20))
    with pytest.raises(VectorFileError, match=r"v\.txt: no line end within 1 MiB, .* give format="):
        WordVectors.load(tmp_path / "v.txt")


def test_wrong_encodings(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("a 1\nnaïve 2\n".encode("latin-1"))
    message = r"line 2: the word b'na\\xefve' is not utf-8; name the encoding"
    with pytest.raises(VectorFileError, match=message):
        WordVectors.load(path)
    assert WordVectors.load(path, encoding="latin-1").words == ("a", "naïve")
    assert WordVectors.load(path, errors="replace").words == ("a", "na\ufffdve")
    path.write_bytes("a 1\n".encode("utf-16"))
    with pytest.raises(VectorFileError, match="is UTF-16; convert it"):
        WordVectors.load(path)
    path.write_bytes("a 1\n".encode("utf-8-sig"))
    assert WordVectors.load(path).words == ("a",)


DAMAGED = [
    ("v.bin", lambda data: data[:-1], r"record 10 of the 10 that the header promises is cut short; .*max_words=9"),
    ("v.bin", lambda data: data[:40], r"record 2 of the 10"),
    ("v.bin", lambda _: b"1 6\n" + b"a" * (1 << 17),
     r"v\.bin, record 1: no word of 65536 bytes with its 6 values; correct"),
    ("v.bin", lambda data: data + b"xx", r"bytes are left over after the 10 words"),
    ("v.bin", lambda data: data.replace(b"10 6", b"10 7"), r"cut short|is not utf-8|holds|stands already"),
    ("v.bin", lambda data: data.replace(b"10 6\n", b"ten 6\n"), r"line 1: 'ten 6' is not a word2vec header"),
    *((name, lambda data: data[:-9], r"v\..*(download|write or download|again)")
      for name in ("v.txt.gz", "v.txt.xz", "v.bin.bz2", "v.parquet", "v.safetensors")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGED)
def test_damaged_files(tmp_path, vectors, name, damage, message):
    path = tmp_path / name
    vectors.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(VectorFileError, match=message):
        WordVectors.load(path, format="word2vec-binary" if name == "v.bin" else "auto")


def test_other_programs_parquet_and_safetensors(tmp_path, vectors):
    lists = [[1.0, 2.0], [3.0, 4.0]]
    pq.write_table(pa.table({"word": ["a", "b"], "vector": lists, "count": [2, 1]}), tmp_path / "v.parquet")
    assert WordVectors.load(tmp_path / "v.parquet").vectors.tolist() == lists
    for columns, message in (
        ({"word": ["a", "b"], "vector": [[1.0, 2.0], [3.0]]}, "row 1: 1 values, expected 2"),
        ({"word": list(map(str, range(4097))), "vector": [[1.0]] * 4096 + [[1.0, 2.0]]},
         "row 4096: 2 values, expected 1; write it again"),
        ({"word": ["a"], "vector": [[1.0, None]]}, "rows 0 to 1: a word or value is missing; write it again"),
        ({"word": pa.array([], pa.string()), "vector": pa.array([], pa.list_(pa.float32()))}, "holds no words; give"),
        ({"token": ["a"]}, r"has the columns token \(string\); it needs `word`"),
        ({"word": [1], "vector": [[1.0]]}, r"has the columns word \(int64\), vector"),
    ):  # fmt: skip
        pq.write_table(pa.table(columns), tmp_path / "v.parquet")
        with pytest.raises(VectorFileError, match=message):
            WordVectors.load(tmp_path / "v.parquet")
    save_file({"weight": vectors.vectors}, tmp_path / "v.safetensors")
    with pytest.raises(VectorFileError, match=r"holds the tensors \['weight'\] and lacks"):
        WordVectors.load(tmp_path / "v.safetensors")
    vectors.save(tmp_path / "v.safetensors")
    save_file(load_file(tmp_path / "v.safetensors") | {"vectors": np.eye(2)}, tmp_path / "v.safetensors")
    with pytest.raises(
        VectorFileError, match=r"v\.safetensors: words, offsets and vectors disagree; write it again"
    ):
        WordVectors.load(tmp_path / "v.safetensors")


def test_options_that_do_not_exist(tmp_path, vectors):
    with pytest.raises(ValueError, match=r'format is .csv.: give "auto", "word2vec"'):
        WordVectors.load(tmp_path / "x", format="csv")
    with pytest.raises(ValueError, match=r"cannot be detected from its name: end it in \.txt"):
        vectors.save(tmp_path / "v.dat")
    with pytest.raises(ValueError, match=r"leave out \.gz"):
        vectors.save(tmp_path / "v.parquet.gz")
    with pytest.raises(FileNotFoundError):
        WordVectors.load(tmp_path / "absent.txt")
    with pytest.raises(ValueError, match="max_words is 0: give an integer of 1 or more"):
        WordVectors.load(tmp_path / "absent.txt", max_words=0)


def test_duplicates_first(tmp_path):
    (tmp_path / "v.txt").write_text("a 1\nb 2\na 3\n")
    read = WordVectors.load(tmp_path / "v.txt", duplicates="first")
    assert (read.words, read.vectors.tolist()) == (("a", "b"), [[1], [2]])


def test_real_vectors_whose_header_is_one_short(shared):
    path = shared / "data/embeddings/glove50_4k.txt.xz"
    message = r"promises 4196 words and the file holds 4197; .*max_words=4196"
    with pytest.raises(VectorFileError, match=message):
        WordVectors.load(path)
    assert WordVectors.load(path, max_words=4196).most_similar("king", 2)[1].word == "queen"


def test_a_store_that_fails_is_named(vectors, monkeypatch):
    """What the store's library gives up is one sentence with the file and the remedy, and no damaged file."""
    vectors.save("memory://v.txt")

    def fail(*_args, **_options):
        raise OSError(5, "SlowDown")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.read", fail)
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.readinto", fail, raising=False)
    with pytest.raises(ConnectionError, match=r"store of memory://v\.txt failed.*SlowDown.*again"):
        WordVectors.load("memory://v.txt")


@pytest.mark.parametrize("end", ["txt", "glove", "bin", "glove.gz"])
def test_a_first_word_that_begins_like_a_byte_order_mark_keeps_it(tmp_path, end):
    words = ("\ufeffcat", "dog")
    WordVectors(words, [[1, 2], [3, 4]]).save(tmp_path / f"v.{end}")
    assert WordVectors.load(tmp_path / f"v.{end}").words == words


def test_vectors_that_unpack_to_far_more_than_their_file_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("distembed.files.UNPACKED_BYTES", 1 << 16)
    monkeypatch.setattr("distembed.formats.streams.READ_BYTES", 1 << 16)
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(b"1000000 2\n" + b"a 0 0\n" * 1_000_000))
    monkeypatch.setattr("distembed.files.UNPACKED_RATIO", 10)
    with pytest.raises(ValueError, match=r"v\.txt\.gz stores .* unpack to"):
        WordVectors.load(path)


ODD = {
    "a blank at the end of each line, as fastText has it": b"2 2\na 1 2 \nb 3 4 \n",
    "tabs": b"a\t1\t2\nb\t3\t4\n",
    "line ends of Windows": b"2 2\r\na 1 2\r\nb 3 4\r\n",
    "blanks before words and between fields": b" a 1 2\nb  3  4\n",
    "plus signs": b"a +1 2\nb 3 +4.0\n",
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_lines_as_other_programs_write_them(tmp_path, data):
    (tmp_path / "v.txt").write_bytes(data)
    read = WordVectors.load(tmp_path / "v.txt")
    assert (read.words, read.vectors.tolist()) == (("a", "b"), [[1, 2], [3, 4]])


def test_unusual_lines_stand_in_their_places(tmp_path):
    lines = ["a 1 2", "b c 3 4", "d 5 6", 'e" 7 8', "f g h 9 10", "i 11 12"]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    read = WordVectors.load(tmp_path / "v.txt")
    assert read.words == ("a", "b c", "d", 'e"', "f g h", "i")
    assert read.vectors.ravel().tolist() == list(range(1, 13))


def test_the_first_words_of_safetensors_are_read_alone(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40_000)]
    WordVectors(words, rng.standard_normal((40_000, 100), np.float32)).save(tmp_path / "v.safetensors")
    tracemalloc.start()
    try:
        read = WordVectors.load(tmp_path / "v.safetensors", max_words=100)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20  # the file has 16 MB
    finally:
        tracemalloc.stop()
    assert read.words == tuple(words[:100])
