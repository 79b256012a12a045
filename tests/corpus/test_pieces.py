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


@pytest.mark.parametrize("n_words", [1, 7, 25])
@pytest.mark.parametrize("limit", [32, records.TEXT_BYTES])
@pytest.mark.parametrize("layout", ["line", "blocks", "file"])
def test_pieces_of_a_document_are_documents_with_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_words: int, limit: int, layout: str
) -> None:
    """Its pieces have so many words, or end where its batches do, and have all of its text together."""
    is_whole, file = limit == records.TEXT_BYTES, tmp_path / "a.txt"
    file.write_text("Title\n" * (layout == "blocks") + " ".join(WORDS) + "\n" * (layout != "file"))
    [whole] = read_corpus(file, layout=layout).documents()
    monkeypatch.setattr(records, "TEXT_BYTES", limit)
    cut = read_corpus(file, layout=layout, piece_words=n_words)
    pieces = list(cut.documents())
    assert "".join(piece.text for piece in pieces) == whole.text
    found = [piece.text.split() for piece in pieces]
    assert max(map(len, found)) <= n_words
    if is_whole:
        assert found == [WORDS[a:b] for a, b in pairwise([*range(0, 25, n_words), 25])]
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
