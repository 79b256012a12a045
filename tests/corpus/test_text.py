"""Plain text in lines and in blocks: the same documents wherever it is cut, whatever its lines end in."""

from __future__ import annotations

import codecs
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distembed.corpus import records
from distembed.corpus.concordance import place_of
from distembed.corpus.readers import Corpus, Document, read_corpus
from distembed.corpus.records import Partition
from tests.corpus.conftest import write


def documents_by_split(path: str, bounds: list[int], **options: object) -> list[tuple[str, str, str]]:
    """Read the documents of a file cut at given bytes, with pieces of a few bytes."""
    stops = [*bounds, None]
    return [
        (document.id, document.title, document.text)
        for start, stop in zip([0, *bounds], stops, strict=True)
        for document in Corpus(
            (Partition(url=path, name=path.rpartition("/")[2], start=start, stop=stop, **options),)
        ).documents()
    ]


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
def test_a_byte_order_mark_is_no_text(tmp_path, layout):
    """Also where the encoding was given, so that the mark is a character of the text."""
    for name, encoding in (("a.txt", "utf-8-sig"), ("b.txt", "utf-16"), ("c.txt", "utf-16-le")):
        text = ("\ufeff" if encoding == "utf-16-le" else "") + "first\nsecond\n"
        path = write(tmp_path / name, text.encode(encoding))
        corpus = read_corpus(path, layout=layout, encoding="utf-16-le" if name == "c.txt" else None)
        first, *_ = corpus.documents()
        assert first.id == f"{name}:0"
        assert (first.title or first.text) == "first"
    path = write(tmp_path / "d.txt", codecs.BOM_UTF8 + b"\r\nfirst\nsecond\n")
    first, *_ = read_corpus(path, layout=layout).documents()
    assert (first.title or first.text) == "first"


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


# ---- pieces of some words ------------------------------------------------------------------------------------------


PIECE_WORDS = [f"word{number}" for number in range(25)]


@pytest.mark.parametrize("n_words", [1, 7, 25])
@pytest.mark.parametrize("limit", [32, records.TEXT_BYTES])
@pytest.mark.parametrize("layout", ["line", "blocks", "file"])
def test_pieces_of_a_document_are_documents_with_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_words: int, limit: int, layout: str
) -> None:
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


def test_pieces_have_the_columns_of_their_document(tmp_path: Path) -> None:
    records = [{"text": "a b c", "label": "x", "year": 1865}, {"text": "d", "label": "y", "year": 1870}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "meta.csv").write_text("id,kind\na.jsonl:0,novel\n")
    options = {"label_field": "label", "carry_fields": ["year"], "metadata": tmp_path / "meta.csv"}
    docs = read_corpus(tmp_path / "a.jsonl", piece_words=2, **options)  # type: ignore[arg-type]
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
