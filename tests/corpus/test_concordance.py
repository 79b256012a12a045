"""Passages where two words stand together: the places of a plain search, no border crossed, the documents named."""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import partitions
from distembed.corpus.concordance import beginnings, document_passages, find_passages, meetings, place_of
from distembed.corpus.partitions import Tokens
from distembed.corpus.tokenizer import Tokenizer
from tests.corpus.conftest import counted_tokens

KING = "The king sat. On his throne the old king slept, far from a throne."
TEXTS = [
    {"id": "one", "title": "First", "text": KING},
    {"id": "two", "title": "Second", "text": "A king. Nothing else."},
    {"id": "three", "title": "Third", "text": "The throne of the king"},
]


def word_passages(tokens, word, n):
    return find_passages(tokens, [(word, word)], window=0, n=n, several=True)[word, word]


def tokens_of(folder, **options):
    fields = {"id_field": "id", "title_field": "title"}
    return counted_tokens(folder, TEXTS[:2], TEXTS[2:], tokenizer=Tokenizer(**options), **fields)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return tokens_of(tmp_path_factory.mktemp("concordance"))


def test_passages_have_their_documents_and_both_words(tokens):
    pairs = [("king", "throne"), ("king", "slept"), ("queen", "throne")]
    found = find_passages(tokens, pairs, window=3)
    assert [(p.document, p.title) for p in found["king", "throne"]] == [("one", "First"), ("three", "Third")]
    for pair in pairs[:2]:
        marked = [{p.words[place] for place in p.marked} for p in found[pair]]
        assert marked == [{*pair}] * len(marked)
    assert found["king", "throne"][1].words == ("the", "throne", "of", "the", "king")
    assert found["queen", "throne"] == []
    (first,) = find_passages(tokens, pairs[:1], window=3, n=1)[pairs[0]]
    assert first.document == "one"
    for n in range(1, 6):
        places = word_passages(tokens, "king", n)
        assert [passage.document for passage in places] == ["one", "one", "two", "three"][:n]
        assert all([passage.words[place] for place in passage.marked] == ["king"] for passage in places)
    assert word_passages(tokens, "queen", 3) == []
    once = find_passages(tokens, [("king", "king")], window=0)["king", "king"]
    assert [one.document for one in once] == ["one", "two", "three"]


def test_the_place_of_a_document_follows_from_its_id(tmp_path):
    (tmp_path / "a.txt").write_text("Title one\nThe Tables, a table; TABLE!\ntablet\n\nThe table\nturns.\n")
    corpus = de.read_corpus(tmp_path / "a.txt", partition_bytes=20)
    places = [place_of(corpus, document.id) for document in corpus.documents()]
    assert places == [f"{tmp_path / 'a.txt'}, line {line}" for line in (1, 2, 3, 5, 6)]
    assert place_of(corpus, "own id") == ""
    assert place_of(de.read_corpus(tmp_path, layout="file"), "a.txt") == str(tmp_path / "a.txt")


def test_a_document_is_quoted_by_its_heaviest_stretches_and_by_its_first_words(tokens):
    weights = {"throne": 2.0, "king": 1.0}
    first, second = document_passages(tokens, 0, weights, n=2, width=4)
    assert first.title == "First"
    heavy, light = (sum(weights.get(word, 0) for word in passage.words) for passage in (first, second))
    assert heavy >= light
    assert {first.words[place] for place in first.marked} <= {"throne", "king"}
    assert [p.document for p in document_passages(tokens, 2, {"throne": 1.0})] == ["three"]
    assert document_passages(tokens, 1, {"throne": 1.0}) == []
    assert beginnings(tokens, np.array([0, 2]), 3) == {0: "“the king sat …”", 2: "“the throne of …”"}
    assert beginnings(tokens, np.array([1]), 9) == {1: "“a king nothing else”"}


def test_no_passage_crosses_a_border(tmp_path):
    tokens = tokens_of(tmp_path, border="sentence")
    assert find_passages(tokens, [("sat", "throne")], window=9)["sat", "throne"] == []
    (passage,) = find_passages(tokens, [("king", "slept")], window=9)["king", "slept"]
    assert passage.words[passage.marked[0]] == "king"
    assert "sat" in passage.words  # a passage is read across sentences, though the pair is within one


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 3)), max_size=30), st.integers(1, 4))
def test_meetings_are_those_of_a_plain_search(tokens, window):
    tokens.sort(key=lambda token: token[0])
    documents = np.array([token[0] for token in tokens], np.int64)
    ids = np.array([token[1] for token in tokens], np.int32)
    keywords, contexts = np.array([0, -1, 1, -1], np.int32), np.array([0, 1, -1, -1], np.int32)
    pairs = np.array([[-1, 0], [1, 2]], np.int64)
    found = meetings(ids, documents, keywords, contexts, pairs, window=window)
    expected = set()
    for i, j in product(range(len(ids)), repeat=2):
        is_near = 0 < abs(i - j) <= window and documents[i] == documents[j]
        if is_near and (ids[min(i, j) : max(i, j) + 1] >= 0).all():
            keyword, context = keywords[ids[i]], contexts[ids[j]]
            if min(keyword, context) >= 0 and pairs[keyword, context] >= 0:
                expected.add((i, j, int(pairs[keyword, context])))
    assert set(zip(*(part.tolist() for part in found), strict=True)) == expected
    assert (np.diff(found[0]) >= 0).all()


def test_passages_go_on_where_a_batch_ends(tmp_path, monkeypatch):
    letters = "abcdefghijklmnopqrst"
    text = " ".join(f"{x}{y}" for x in letters for y in "abcde")
    pairs = [(f"{x}e", f"{y}b") for x, y in pairwise(letters)]
    (tmp_path / "a.txt").write_text(text)
    expected = de.read_corpus(tmp_path / "a.txt").tokenize()
    monkeypatch.setattr(partitions, "MAX_ROW_IDS", 16)
    tokens = de.read_corpus(tmp_path / "a.txt").tokenize()
    monkeypatch.setattr(Tokens, "iter_partition", partial(Tokens.iter_partition, tokens, n_ids=16))
    found = find_passages(tokens, pairs, window=2)
    assert all(len(passages) == 1 for passages in found.values())
    assert [word_passages(tokens, pair[0], 2) for pair in pairs] == [
        word_passages(expected, pair[0], 2) for pair in pairs
    ]
    monkeypatch.undo()
    assert found == find_passages(expected, pairs, window=2)
