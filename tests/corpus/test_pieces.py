"""Long documents in pieces of some words, each a document of its own."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from distembed.corpus import records
from distembed.corpus.concordance import place_of
from distembed.corpus.readers import Document, read_corpus

WORDS = [f"word{number}" for number in range(25)]


def _numbers(ident: str) -> list[int]:
    return [int(number) for number in ident.split("#")[1:]]


@pytest.mark.parametrize("n_words", [1, 7, 24, 25, 26])
@pytest.mark.parametrize("limit", [32, 100, records.TEXT_BYTES])
@pytest.mark.parametrize("layout", ["line", "blocks", "file"])
def test_pieces_of_a_document_are_documents_with_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_words: int, limit: int, layout: str
) -> None:
    """Its pieces have so many words, or end where its batches do, and have all of its text together."""
    usual = records.TEXT_BYTES
    file = tmp_path / "a.txt"
    file.write_text("Title\n" * (layout == "blocks") + " ".join(WORDS) + "\n" * (layout != "file"))
    [whole] = read_corpus(file, layout=layout).documents()
    monkeypatch.setattr(records, "TEXT_BYTES", limit)
    cut = read_corpus(file, layout=layout, piece_words=n_words)
    pieces = list(cut.documents())
    assert "".join(piece.text for piece in pieces) == whole.text
    bounds = [*range(0, 25, n_words), 25]
    found = [piece.text.split() for piece in pieces]
    assert [word for words in found for word in words] == WORDS
    assert max(map(len, found)) <= n_words
    assert limit < usual or found == [WORDS[a:b] for a, b in pairwise(bounds)]
    assert [piece.id for piece in pieces] == sorted({piece.id for piece in pieces}, key=_numbers)
    assert {piece.id.partition("#")[0] for piece in pieces} == {whole.id}
    assert {piece.title for piece in pieces} == {whole.title}
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
    with pytest.raises(ValueError, match="piece_words is 0: give an integer of 1 or more"):
        read_corpus(tmp_path / "a.jsonl", piece_words=0)
