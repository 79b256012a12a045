"""Files of word vectors: every format there and back, with gensim, and what is wrong with bad files."""

from __future__ import annotations

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

from distembed.formats import streams
from distembed.vectors import VectorFileError, WordVectors, rows, word2vec

NAMES = ["king", "Queen", "it's", '"quoted"', "na\u00efve", "東京", "a\u00a0b", "\U0001f600", "0.5", "-"]


@pytest.fixture
def vectors():
    return WordVectors(NAMES, np.random.default_rng(7).normal(size=(len(NAMES), 6)))


def same(left, right):
    return left.words == right.words and np.array_equal(left.vectors, right.vectors)


ENDS = ("txt", "vec.gz", "txt.xz", "txt.bz2", "txt.zst", "bin", "bin.gz", "glove", "parquet", "safetensors")


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("name", [f"v.{end}" for end in ENDS])
def test_there_and_back(tmp_path, vectors, name, remote, monkeypatch):
    """Also in blocks smaller than a line."""
    path = f"memory://{name}" if remote else tmp_path / name
    vectors.save(path)
    assert same(WordVectors.load(path), vectors)
    monkeypatch.setattr(streams, "READ_BYTES", 5)
    monkeypatch.setattr("distembed.vectors.files.HEAD_BYTES", 40)
    assert same(WordVectors.load(path), vectors)
    assert same(WordVectors.load(path, max_words=3), vectors.head(3))
    assert [path.name for path in tmp_path.iterdir()] == [name] * (not remote)  # no partial file is left


@pytest.mark.parametrize(
    ("name", "options"), [("v.txt", {}), ("v.bin", {"binary": True}), ("v.glove", {"no_header": True})]
)
def test_gensim_reads_ours_and_we_read_gensims(tmp_path, vectors, name, options):
    vectors.save(tmp_path / name)
    read = KeyedVectors.load_word2vec_format(str(tmp_path / name), **options)
    assert read.index_to_key == list(vectors.words)
    assert np.array_equal(read.vectors, vectors.vectors)
    read.save_word2vec_format(str(tmp_path / "theirs"), binary="binary" in options)
    assert same(WordVectors.load(tmp_path / "theirs"), vectors)


RECORDS = b"".join(
    word + b" " + struct.pack("<2f", *row) + b"\n" for word, row in ((b"a", (1, 2)), (b"b", (3, 4)))
)
WORDS = pa.array(["a", "b"])
LISTS = [[1.0, 2.0], [3.0, 4.0]]
LATIN = "a 1\nna\u00efve 2\n".encode("latin-1")
PAIRS = ("a", "b"), LISTS
OTHERS = {
    "a blank at the end of each line, as fastText has it": ("v.txt", b"2 2\na 1 2 \nb 3 4 \n", {}, *PAIRS),
    "tabs": ("v.txt", b"a\t1\t2\nb\t3\t4\n", {}, *PAIRS),
    "line ends of Windows": ("v.txt", b"2 2\r\na 1 2\r\nb 3 4\r\n", {}, *PAIRS),
    "blanks before words and between fields": ("v.txt", b" a 1 2\nb  3  4\n\n\n", {}, *PAIRS),
    "plus signs and exponents": ("v.txt", b"a +1 2e0\nb 3 +4.0\n", {}, *PAIRS),
    "a byte-order mark": ("v.txt", b"\xef\xbb\xbfa 1 2\nb 3 4\n", {}, *PAIRS),
    "line ends of the C program after each record": ("v.bin", b"2 2\n" + RECORDS, {}, *PAIRS),
    "another column": ("v.parquet", {"word": WORDS, "vector": LISTS, "count": [2, 1]}, {}, *PAIRS),
    "large strings": ("v.parquet", {"word": WORDS.cast(pa.large_string()), "vector": LISTS}, {}, *PAIRS),
    **({"views": ("v.parquet", {"word": pa.array(["a", "b"], pa.string_view()), "vector": LISTS}, {}, *PAIRS)}
       if int(pa.__version__.split(".")[0]) > 20 else {}),  # earlier versions write none
    "categories": ("v.parquet", {"word": WORDS.dictionary_encode(), "vector": LISTS}, {}, *PAIRS),
    "blanks in words": ("v.txt", b"a 1 2\nb c 3 4\n. . . 7 8\nat a@b.c 9 10\n", {},
                        ("a", "b c", ". . .", "at a@b.c"), [[1, 2], [3, 4], [7, 8], [9, 10]]),
    "a word twice": ("v.txt", b"a 1\nb 2\na 3\n", {"duplicates": "first"}, ("a", "b"), [[1], [2]]),
    "Latin 1": ("v.txt", LATIN, {"encoding": "latin-1"}, ("a", "na\u00efve"), [[1], [2]]),
    "broken letters": ("v.txt", LATIN, {"errors": "replace"}, ("a", "na\ufffdve"), [[1], [2]]),
}  # fmt: skip


def write(path, data):
    if isinstance(data, dict):
        pq.write_table(pa.table(data), path)
    else:
        path.write_bytes(data)
    return path


@pytest.mark.parametrize(("name", "data", "options", "words", "values"), OTHERS.values(), ids=OTHERS)
def test_files_as_other_programs_write_them(tmp_path, name, data, options, words, values):
    read = WordVectors.load(write(tmp_path / name, data), **options)
    assert (read.words, read.vectors.tolist()) == (words, values)


BAD = [
    ("bad.txt", b"2 3\na 1 2 3\nb 1 2\n", r", line 3: 2 values after the word 'b', expected 3; complete or"),
    ("bad.txt", b"2 3\na 1 2 3\nb 1 2 3 4\n", "line 3: 4 values after the word 'b', expected 3; correct"),
    ("bad.txt", b"2 3\na 1 2 3\nb 1 x 3\n", "line 3: 'x' is not a number; correct"),
    ("bad.txt", b"a 1 2\nb 1 1e-\n", "line 2: '1e-' is not a number; correct"),
    ("bad.txt", b"2 2\na 1 nan\nb 1 2\n", "line 2: the vector of 'a' holds nan; remove"),
    ("bad.txt", b"a 1 2\nb 1 -inf\n", "line 2: the vector of 'b' holds -inf"),
    ("bad.txt", b"a 1 2\nb 1 1e39\n", "line 2: the vector of 'b' holds inf"),
    ("bad.txt", b"3 1\na 1\nb 2\na 3\n", 'line 4: the word .a. stands already in line 2; remove one of the lines'),
    ("bad.txt", b"5 1\na 1\nb 2\n", "line 1: the header promises 5 words and the file holds 2; download"),
    ("bad.txt", b"1 1\na 1\nb 2\n", "the header promises 1 words and the file holds 2; .*max_words=1"),
    ("bad.txt", b"2 5\na 1 2\nb 2 1\n", "line 2: 2 values after the word 'a', expected 5"),
    ("bad.txt", b"a 1\n\nb 2\n", "line 2 is blank; remove it"),
    ("bad.txt", b"", " is empty; give"),
    ("bad.txt", b" \n\n", "is empty"),
    ("bad.txt", b"3 2\n", "promises 3 words and the file holds 0"),
    ("bad.txt", b"hello world\n", "line 1: 'hello world' is not a word and its values"),
    ("bad.txt", b"3 0\n", "line 1: '3 0' is not a word2vec header"),
    ("bad.txt", b"a " + b"1" * (3 << 20), ": no line end within 1 MiB, .* give format="),
    ("bad.txt", b"a 1\nna\xefve 2\n", r"line 2: the word b'na\\xefve' is not utf-8; name the encoding"),
    ("bad.txt", "a 1\n".encode("utf-16"), "is UTF-16; convert it"),
    ("bad.parquet", {"word": WORDS, "vector": [[1.0, 2.0], [3.0]]}, "row 1: 1 values, expected 2"),
    ("bad.parquet", {"word": list(map(str, range(4097))), "vector": [[1.0]] * 4096 + [[1.0, 2.0]]},
     "row 4096: 2 values, expected 1; write it again"),
    ("bad.parquet", {"word": ["a"], "vector": [[1.0, None]]}, "rows 0 to 1: a word or value is missing; write it"),
    ("bad.parquet", {"word": WORDS[:0], "vector": pa.array([], pa.list_(pa.float32()))}, "holds no words; give"),
    ("bad.parquet", {"token": ["a"]}, r"has the columns token \(string\); it needs `word`"),
    ("bad.parquet", {"word": [1], "vector": [[1.0]]}, r"has the columns word \(int64\), vector"),
    # what only a header promises, for which nothing is allocated
    ("bad", b"2 10000000\na 1 2\nb 2 1\n", "line 2: 2 values after the word 'a', expected 10000000"),
    ("bad", b"2 10000000\na \0\0\x80\x3f", "record 1 of the 2 .* begins at byte 11 and the file ends at byte 17"),
    ("bad", b"2 99999999999999\na \0\0\x80\x3f", "record 1 of the 2 that the header promises is cut short"),
    ("bad", b"999999999999 2\na 1 2\n", "promises 999999999999 words and the file holds 1"),
    ("bad", b"9" * 5000 + b" 2\na 1 2\n", r"line 1: '9+\.\.\.' is not a word2vec header"),
    # of ten words of six components
    ("v.bin", lambda data: data[:-1], "record 10 of the 10 that the header promises is cut short; .*max_words=9"),
    ("v.bin", lambda data: data[:40], "record 2 of the 10"),
    ("v.bin", lambda _: b"1 6\n" + b"a" * (1 << 17), "record 1: no word of 65536 bytes with its 6 values; correct"),
    ("v.bin", lambda data: data + b"xx", "bytes are left over after the 10 words"),
    ("v.bin", lambda data: data.replace(b"10 6", b"10 7"), "cut short|is not utf-8|holds|stands already"),
    ("v.bin", lambda data: data.replace(b"10 6\n", b"ten 6\n"), "line 1: 'ten 6' is not a word2vec header"),
    *((name, lambda data: data[:-9], "(download|write or download|again)") for name in ("v.parquet", "v.safetensors")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "message"), BAD)
def test_bad_files(tmp_path, vectors, monkeypatch, name, data, message):
    monkeypatch.setattr(word2vec, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / name
    if callable(data):
        vectors.save(path)
        data = data(path.read_bytes())
    write(path, data)
    tracemalloc.start()
    try:
        with pytest.raises(VectorFileError, match=name + ".*" + message):
            WordVectors.load(path, format="word2vec-binary" if name == "v.bin" else "auto")
        # reading takes 8 MiB, the matrix that a header promises would take 40 or more
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


BLANK = WordVectors([". . .", "._._."], np.eye(2))
ONE = WordVectors(["a"], [[1.0]])
OPTIONS = [
    *((lambda path, end=end: BLANK.save(path / f"w.{end}"),
       r'the word \'\. \. \.\' cannot be written as .* space="_"') for end in ("txt", "bin", "glove")),
    (lambda path: BLANK.save(path / "w.txt", space="_"),
     r"the words '\. \. \.' and '\._\._\.' would both be written as '\._\._\.'; give another"),
    (lambda path: WordVectors(["\ud800"], [[1.0]]).save(path / "c.parquet"),
     r"c\.parquet: the word '\\ud800' holds half of a surrogate pair"),
    (lambda path: ONE.save(path / "v.dat"), r"cannot be detected from its name: end it in \.txt"),
    (lambda path: ONE.save(path / "v.parquet.gz"), r"leave out \.gz"),
    (lambda path: WordVectors.load(path / "x", format="csv"), r'format is .csv.: give "auto", "word2vec"'),
    (lambda path: WordVectors.load(path / "absent.txt", max_words=0), "max_words is 0: give an integer of 1 or"),
    (lambda path: WordVectors.load(path / "absent.txt"), "there is no such file"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), OPTIONS)
def test_what_cannot_be_written_or_found_is_refused(tmp_path, call, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        call(tmp_path)


def test_blanks_in_words_are_written_as_another_character(tmp_path):
    for name, options, first in (("w.txt", {"space": "+"}, ".+.+."), ("w.parquet", {}, ". . .")):
        BLANK.save(tmp_path / name, **options)
        assert WordVectors.load(tmp_path / name).words == (first, "._._.")


CHARACTERS = st.characters(exclude_characters=" \t\r\n", codec="utf-8")


@settings(max_examples=40)
@given(
    words=st.lists(st.text(CHARACTERS, min_size=1), min_size=1),
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


def test_memory_that_runs_out_is_named(tmp_path, vectors, monkeypatch):
    vectors.save(tmp_path / "v.txt")

    class Full(np.ndarray):
        def resize(self, *arguments, **options):
            raise MemoryError

    monkeypatch.setattr(rows.np, "empty", lambda *_, **__: np.zeros((0, 0), np.float32).view(Full))
    message = r"v\.txt: no memory is left after 0 words of 6 values; give max_words="
    with pytest.raises(MemoryError, match=message):
        WordVectors.load(tmp_path / "v.txt")


def next_to(value, end):
    return float(np.nextafter(np.float32(value), np.float32(end)))


FINITE = st.floats(-3.4e38, 3.4e38)
MIDDLES = st.floats(-(2.0**127), 2.0**127, width=32).map(lambda low: (low + next_to(low, np.inf)) / 2)


@given(FINITE | MIDDLES, st.sampled_from(["{!r}", "{:.3e}", "{:.25e}", "{:.40f}", "{:.30e}"]))
def test_numbers_round_to_the_nearest_float32(tmp_path_factory, value, style):
    """Not by way of float64, which takes what is a little above the middle for the middle."""
    written = style.format(value)
    path = tmp_path_factory.getbasetemp() / "number.txt"
    path.write_text(f"w {written}\n")
    [[found]] = WordVectors.load(path).vectors
    near, exact = float(np.float32(float(written))), Fraction(written)
    others = [near, next_to(near, -np.inf), next_to(near, np.inf)]
    assert abs(Fraction(float(found)) - exact) == min(abs(Fraction(one) - exact) for one in others)


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
