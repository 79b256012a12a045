"""Plain text in lines and in blocks: the same documents wherever it is cut, whatever its lines end in."""

from __future__ import annotations

import codecs
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distembed.corpus.readers import Corpus, read_corpus
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
