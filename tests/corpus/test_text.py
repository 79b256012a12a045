"""Plain text in lines and blocks is the same wherever it is cut; texts in memory are a corpus too.

Its encoding is UTF-8, that of a byte-order mark, or the one that is given; anything else is an error with a guess.
"""

from __future__ import annotations

import codecs
import gc
import json
import re
from itertools import pairwise
from pathlib import Path

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import records
from distembed.corpus.concordance import place_of
from distembed.corpus.readers import Corpus, Document, read_corpus
from distembed.corpus.records import CorpusError, Partition
from distembed.formats.encodings import HEAD_BYTES, detect_encoding, guess_encoding
from tests.corpus.conftest import write


def documents_by_split(path, bounds, **options):
    """Read the documents of a file cut at given bytes, with pieces of a few bytes."""
    ranges = zip([0, *bounds], [*bounds, None], strict=True)
    name = path.rpartition("/")[2]
    parts = tuple(Partition(url=path, name=name, start=a, stop=b, **options) for a, b in ranges)
    return [(one.id, one.title, one.text) for one in Corpus(parts).documents()]


PIECES = ["\n", "\r\n", "\r", "a", "é中", "two words", "x" * 9, " "]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
CUTS = st.sets(st.integers(1, 60), max_size=4)


def blocks_of(data: bytes) -> list[tuple[str, str, str]]:
    """Return the blocks of a text, found by looking at all of it at once."""
    ends = [match.end() for match in re.finditer(rb"(?:\A|\n\r?\n)[\r\n]*", data)]
    begins = [end for end in ends if end < len(data)]
    found = []
    for begin, last in zip(begins, [*begins[1:], None][: len(begins)], strict=True):
        block = data[begin:last]
        blank = re.search(rb"\n\r?\n", block)
        block = block[: blank.start()] if blank else re.sub(rb"(?:\r?\n|\r)\Z", b"", block)
        title = block.partition(b"\n")[0].rstrip(b"\r")
        found.append((f"mixed.txt:{begin}", title.decode(), block[len(title) :].decode()))
    return found


@given(text=TEXTS, cuts=CUTS, piece=st.integers(4, 20), mark=st.booleans())
@settings(max_examples=200, deadline=None)
@example(text="a\n\n\r\r\na", cuts={6}, piece=20, mark=False)
@example(text="a\n\n" + 70_000 * "\r" + "b", cuts={70_003}, piece=1 << 20, mark=False)
@example(text="é" * 511 + "a\r\r\nb", cuts=set(), piece=1025, mark=False)
def test_blocks_with_mixed_line_ends_split_anywhere(tmp_path_factory, text, cuts, piece, mark):
    data = text.encode()
    path = write(tmp_path_factory.getbasetemp() / "mixed.txt", codecs.BOM_UTF8 * mark + data)
    bounds = sorted(cut for cut in cuts if cut < len(data) + 3 * mark)
    found = documents_by_split(path, bounds, format="text", layout="blocks", piece_bytes=piece)
    places = [int(ident.partition(":")[2]) for ident, *_ in blocks_of(data)]
    moved = [f"mixed.txt:{place + 3 if place else 0}" if mark else f"mixed.txt:{place}" for place in places]
    assert found == [(ident, *block[1:]) for ident, block in zip(moved, blocks_of(data), strict=True)]


def test_a_title_ends_after_a_kilobyte_and_not_inside_a_character(tmp_path):
    line = "x" + "é" * 600
    [document] = read_corpus(write(tmp_path / "a.txt", f"{line}\nwords"), layout="blocks").documents()
    assert (document.title, document.title + document.text) == (line[:512], f"{line}\nwords")


@given(text=TEXTS, cuts=CUTS, piece=st.integers(4, 20))
@settings(max_examples=200, deadline=None)
def test_lines_with_mixed_line_ends_split_anywhere(tmp_path_factory, text, cuts, piece):
    data = text.encode()
    path = write(tmp_path_factory.getbasetemp() / "mixed.txt", data)
    bounds = sorted(cut for cut in cuts if cut < len(data))
    whole, cut = (documents_by_split(path, b, format="text", piece_bytes=piece) for b in ([], bounds))
    assert cut == whole
    *lines, last = text.split("\n")
    expected = [line for line in (*lines, last.removesuffix("\r")) if line not in {"", "\r"}]
    assert [text for *_, text in whole] == expected
    for ident, _, line in whole:
        place = int(ident.removeprefix("mixed.txt:"))
        assert data[place:].startswith(line.encode())


@pytest.mark.parametrize("layout", ["line", "blocks"])
@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("first\nsecond\n".encode("utf-8-sig"), None),
        ("first\nsecond\n".encode("utf-16"), None),
        (
            "\ufefffirst\nsecond\n".encode("utf-16-le"),
            "utf-16-le",
        ),  # where the mark is a character of the text
        ("\r\nfirst\nsecond\n".encode("utf-8-sig"), None),
    ],
)
def test_a_byte_order_mark_is_no_text(tmp_path, layout, data, encoding):
    first, *_ = read_corpus(write(tmp_path / "a.txt", data), layout=layout, encoding=encoding).documents()
    assert (first.title or first.text) == "first"
    assert first.id == "a.txt:0" or data.startswith(codecs.BOM_UTF8 + b"\r")


@given(text=TEXTS, cuts=CUTS, piece=st.integers(4, 20), layout=st.sampled_from(["line", "blocks", "file"]))
@settings(max_examples=150, deadline=None)
def test_documents_that_are_cut_have_the_same_text(tmp_path_factory, text, cuts, piece, layout):
    text = text.replace("\r", "")
    path = write(tmp_path_factory.getbasetemp() / "long.txt", (text * 5 or "x").encode())
    bounds = sorted(cut for cut in cuts if cut < len(text * 5) and layout != "file")
    options, joined = {"format": "text", "layout": layout}, {}
    whole = documents_by_split(path, [], **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.corpus.records.TEXT_BYTES", 16)
        for ident, head, part in documents_by_split(path, bounds, piece_bytes=piece, **options):
            name = ident.partition("#")[0]
            joined[name] = joined.get(name, head) + part
    assert joined == {ident: head + text for ident, head, text in whole}


PIECE_WORDS = [f"word{number}" for number in range(25)]


@pytest.mark.parametrize("n_words", [1, 7, 25])
@pytest.mark.parametrize("limit", [32, records.TEXT_BYTES])
@pytest.mark.parametrize("layout", ["line", "blocks", "file"])
def test_pieces_of_a_document_are_documents_with_its_title(tmp_path, monkeypatch, n_words, limit, layout):
    """Its pieces have so many words, or end where its batches do, and have all of its text together."""
    is_whole, file = limit == records.TEXT_BYTES, tmp_path / "a.txt"
    file.write_text("Title\n" * (layout == "blocks") + " ".join(PIECE_WORDS) + "\n" * (layout != "file"))
    [whole] = read_corpus(file, layout=layout).documents()
    monkeypatch.setattr(records, "TEXT_BYTES", limit)
    cut = read_corpus(file, layout=layout, piece_words=n_words)
    pieces = list(cut.documents())
    assert "".join(piece.text for piece in pieces) == whole.text
    found = [piece.text.split() for piece in pieces]
    assert max(map(len, found)) <= n_words
    if is_whole:
        assert found == [PIECE_WORDS[a:b] for a, b in pairwise([*range(0, 25, n_words), 25])]
    numbers = [[int(number) for number in piece.id.split("#")[1:]] for piece in pieces]
    assert all(one < other for one, other in pairwise(numbers))
    assert {(piece.id.partition("#")[0], piece.title) for piece in pieces} == {(whole.id, whole.title)}
    assert cut.tokenize().n_documents == len(pieces)
    assert place_of(cut, pieces[-1].id) == place_of(cut, whole.id)


def test_pieces_have_the_columns_of_their_document(tmp_path):
    records = [{"text": "a b c", "label": "x", "year": 1865}, {"text": "d", "label": "y", "year": 1870}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "meta.csv").write_text("id,kind\na.jsonl:0,novel\n")
    options = {"label_field": "label", "carry_fields": ["year"], "metadata": tmp_path / "meta.csv"}
    docs = read_corpus(tmp_path / "a.jsonl", piece_words=2, **options)
    place = len(json.dumps(records[0])) + 1
    assert list(docs.documents()) == [
        Document("a.jsonl:0#1", "", "x", "a b "),
        Document("a.jsonl:0#2", "", "x", "c"),
        Document(f"a.jsonl:{place}", "", "y", "d"),
    ]
    tokens = docs.tokenize()
    table = tokens.documents(tokens.partitions[0])
    assert table["year"].to_pylist() == ["1865", "1865", "1870"]
    assert table["kind"].to_pylist() == ["novel", "novel", None]


# ---- encodings -------------------------------------------------------------------------------------------------


GERMAN = "Über den Wölken muß die Freiheit größer sein, sagte Frau Käthe früh.\n" * 3
RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.\n" * 3
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n" * 40
CHINESE = "道可道，非常道。名可名，非常名。 第 1 章\n" * 30


@pytest.mark.parametrize(
    ("data", "found"),
    [
        *((GERMAN.encode(name), name) for name in ("utf-8", "cp1252", "utf-16", "utf-32")),
        (GERMAN.encode("utf-8-sig"), "utf-8"),
        (RUSSIAN.encode()[:101], "utf-8"),  # cut within a character
        (CHINESE.encode()[:101], "utf-8"),
        (GERMAN.encode() + b"\xff" + GERMAN.encode(), "utf-8"),
        (GERMAN.encode() + b"\0", "utf-8"),
        (("x" * (HEAD_BYTES - 1) + "ä").encode()[:HEAD_BYTES], "utf-8"),
        (b"Caf\xe9", "cp1252"),
    ],
)
def test_encodings_are_told_apart(data, found):
    assert detect_encoding(data) == found


def test_an_encoding_is_that_of_files_that_are_not_utf8_and_have_no_mark(tmp_path):
    encodings = ["utf-8", "latin-1", "utf-16", "utf-8-sig"]
    for encoding in encodings:
        (tmp_path / f"{encoding}.txt").write_bytes(GERMAN.encode(encoding))
    corpus = read_corpus([tmp_path / f"{encoding}.txt" for encoding in encodings], encoding="latin-1")
    assert [part.encoding for part in corpus.partitions] == ["utf-8", "latin-1", "utf-16", "utf-8"]
    assert [document.text for document in corpus.documents()] == 4 * GERMAN.splitlines()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"), (RUSSIAN, "koi8_r"), (RUSSIAN, "cp1251"), (CHINESE, "gb18030"), (JAPANESE, "euc_jp"),
        (JAPANESE, "shift_jis"),
    ],
)  # fmt: skip
def test_what_is_not_utf8_is_an_error_with_the_byte_and_a_guess(tmp_path, text, encoding):
    """It was read as Windows-1252, so that Russian became letters of western Europe."""
    data = text.encode(encoding)
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + data.split(b"\n")[0] + b'"}')
    (tmp_path / "a.csv").write_bytes(b"text\n" + data.split(b"\n")[0].replace(b",", b""))
    place = next(number for number, byte in enumerate(data) if byte >= 128)
    message = rf"a\.txt is not UTF-8: line 1, byte 0x{data[place]:02x} at offset {place} of the text; .*give encoding="
    with pytest.raises(CorpusError, match=message) as error:
        read_corpus(tmp_path / "a.txt")
    for name in ("a.jsonl", "a.csv"):
        with pytest.raises(CorpusError, match=rf"{name}, line [12], is not UTF-8 .*give encoding="):
            read_corpus(tmp_path / name).tokenize()
    guess = re.search(r'encoding="([\w-]+)"', str(error.value))[1]
    assert guess == encoding
    shown = f"it reads as text in {guess} ('{text.split(chr(10))[0][:30].strip()}" in str(error.value)
    assert shown == (guess != "cp1252")
    assert read_corpus(tmp_path / "a.txt", encoding=guess).tokenize().n_documents
    [first, *_] = read_corpus(tmp_path / "a.txt", encoding=encoding).documents()
    assert first.text == text.split("\n")[0]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("für,größer\n", None), ("der\ndie\nfür\n", None), ("café\n", None), ("año;mañana\n", None),
        ("żółw,łąka,gęś\n", "cp1250"), ("příliš žluťoučký kůň\n", "cp1250"), ("это\nтак\nчто\n", "cp1251"),
        ("bøger på\n", None), ("λέξη,λέξεις\n", "cp1253"), ("東京,大阪\n", "shift_jis"), ("서울,부산\n", "euc_kr"),
    ],
)  # fmt: skip
def test_the_encoding_of_a_few_words_is_guessed(text, encoding):
    """German of two words was cp1006 for charset-normalizer, which is an encoding of Urdu; None is Windows-1252."""
    guess = guess_encoding(text.encode(encoding or "cp1252"))
    assert (guess and guess[0]) == encoding


@pytest.mark.parametrize(
    "data", [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xe4\xb8"]
)
@pytest.mark.parametrize("layout", ["line", "blocks", "file"])
def test_surrogates_and_overlong_bytes_are_not_utf_8(tmp_path, data, layout):
    path = tmp_path / "f.txt"
    path.write_bytes(b"e\xcc\x81 " + data + b" x")
    with pytest.raises(CorpusError, match=f"byte 0x{data[0]:02x} at offset 4 "):
        read_corpus(path, layout=layout)
    tokens = read_corpus(path, layout=layout, errors="replace").tokenize()
    assert tokens.summaries[0].n_tokens == (0 if layout == "blocks" else 2)  # there, it is the title


GIVEN = ["the sea", "", "the wind", "a ship"]
CELLS = ["the sea", None, "the wind", "a ship"]
"""The same with a missing cell, which is an empty document."""
FRAME = pd.DataFrame(
    {
        "label": ["s", "s", None, "t"],
        "text": CELLS,
        "year": [1865, 1866, 1867, 1870],
        "title": ["A", None, "C", "D"],
        "is_long": [True, False, True, False],
    }
)
LAZY = dd.from_pandas(FRAME, npartitions=2)


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (GIVEN, "0 1 2 3"),
        (iter(GIVEN), "0 1 2 3"),
        (np.array(CELLS, object), "0 1 2 3"),
        (["the sea", float("nan"), "the wind", "a ship"], "0 1 2 3"),
        (pd.Series([*GIVEN[:1], pd.NA, *GIVEN[2:]], index=list("abcd")), "a b c d"),
        (pd.Series(CELLS, dtype="string", index=list("abcd")), "a b c d"),
        (pd.Series(GIVEN, dtype="category"), "0 1 2 3"),
        (pa.array(CELLS), "0 1 2 3"),
        (pa.chunked_array([CELLS[:2], CELLS[2:]]), "0 1 2 3"),
        (pa.array(CELLS).dictionary_encode(), "0 1 2 3"),
        (FRAME[["text"]].set_index(pd.Index(list("abcd"))), "a b c d"),
        (FRAME.assign(id=["x", None, "y", "z"]), "x texts.parquet:0.1 y z"),
        (pa.table({"text": CELLS, "id": [7, 8, 9, 10]}), "7 8 9 10"),
        (pa.record_batch({"text": CELLS}), "0 1 2 3"),
        (LAZY["text"].rename("body"), "0 1 2 3"),
        (dd.from_pandas(pd.Series(CELLS), npartitions=2), "0 1 2 3"),
        (LAZY.clear_divisions()["text"], "0.0 0.1 1.0 1.1"),
        (db.from_sequence(CELLS, npartitions=2), "0.0 0.1 1.0 1.1"),
        (da.from_array(np.array(CELLS, object), chunks=3), "0.0 0.1 0.2 1.0"),
    ],
)
def test_every_kind_of_texts_is_the_same_corpus(texts, ids):
    found = [(document.id, document.text) for document in de.read_texts(texts).documents()]
    assert found == [*zip(ids.split(), GIVEN, strict=True)]


@pytest.mark.parametrize(
    "table", [FRAME, LAZY, pa.Table.from_pandas(FRAME)], ids=["pandas", "Dask", "pyarrow"]
)
def test_titles_labels_and_columns_of_a_table_are_in_the_documents(table):
    tokens = de.read_texts(table).tokenize()
    documents = pa.concat_tables([tokens.documents(partition) for partition in tokens.partitions]).to_pydict()
    assert documents == {
        "id": ["0", "1", "2", "3"],
        "title": ["A", "", "C", "D"],
        "label": ["s", "s", None, "t"],
        "n_tokens": [2, 0, 2, 2],
        "year": ["1865", "1866", "1867", "1870"],
        "is_long": ["true", "false", "true", "false"],
    }


def test_the_columns_are_those_that_are_named():
    frame = FRAME.rename(columns={"text": "body", "label": "kind"}).drop(columns="title")
    docs = de.read_texts(frame, text_field="body", id_field="year", title_field="kind", label_field="is_long")
    first = next(docs.documents())
    assert (first.id, first.title, first.label, first.text) == ("1865", "s", "true", "the sea")


def test_what_counts_takes_texts_as_files(tmp_path):
    words = [text for text in GIVEN if text]
    (tmp_path / "texts.txt").write_text("\n".join(words) + "\n")
    vocabulary = de.build_vocabulary(GIVEN)
    for count in (
        lambda texts: de.build_vocabulary(texts).counts.tolist(),
        lambda texts: de.count_document_terms(texts, vocabulary).compute().toarray().tolist(),
        lambda texts: de.count_cooccurrences(texts, vocabulary, window=2).compute().toarray().tolist(),
    ):
        expected = count(de.read_corpus(tmp_path / "texts.txt"))
        assert count(words) == count(pd.Series(words)) == count(LAZY.dropna(subset="text")) == expected


def test_the_temporary_files_are_removed_with_the_corpus():
    docs = de.read_texts(GIVEN)
    folder = Path(docs.partitions[0].url).parent
    assert folder.is_dir()
    del docs
    gc.collect()
    assert not folder.exists()
