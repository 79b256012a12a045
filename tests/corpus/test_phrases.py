"""Names of several words are one token, as a plain search over the tokens has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus.scanners import Scanner, gazetteer
from distembed.corpus.tokenizer import Tokenizer, gazetteer_of, words_of
from distembed.encoding.static import unreadable_words
from tests.corpus.conftest import batch_of

Name = tuple[str, ...]


def joined(tokens: Sequence[str], names: Sequence[Name]) -> list[str]:
    """Return tokens with names joined: at each place the longest, by trying every name."""
    out, at = [], 0
    while at < len(tokens):
        here = [name for name in names if len(name) > 1 and tuple(tokens[at : at + len(name)]) == name]
        name = max(here, key=len, default=(tokens[at],))
        out.append("_".join(name))
        at += len(name)
    return out


def scanner_of(names: Sequence[Name]) -> Scanner:
    data = "\n".join(" ".join(name) for name in names).encode()
    return Scanner(words_of(Tokenizer()), gazetteer(data, words_of(Tokenizer()), path="names.txt"))


words = st.sampled_from(["a", "b", "c", "bb"])


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.lists(words, max_size=30), max_size=3),
    names=st.lists(st.lists(words, min_size=1, max_size=4).map(tuple), max_size=5),
    forget=st.booleans(),
)
def test_names_are_joined_as_a_plain_search_joins_them(
    texts: list[list[str]], names: list[Name], forget: bool
) -> None:
    """Also where the dictionary is emptied after each text."""
    names = [*names, ("a", "b")]
    machine = scanner_of(names)
    for text in texts:
        ids = machine.scan(batch_of(" ".join(text).encode())).ids.tolist()
        known = machine.words()["word"].to_pylist()
        assert [known[word] for word in ids if word >= 0] == joined(text, names)
        if forget:
            machine.forget()


def test_counts_and_documents_of_names_are_exact() -> None:
    names = [("new", "york"), ("new", "york", "city"), ("york", "city", "hall")]
    texts = [
        "New York City Hall in NEW YORK",
        "the new york-city hall; new",
        "York city hall",
        "new new york",
    ]
    machine = scanner_of(names)
    found = machine.scan(batch_of(*(text.encode() for text in texts)))
    expected = [joined(text.lower().replace("-", " ").replace(";", "").split(), names) for text in texts]
    assert found.n_tokens.tolist() == [len(tokens) for tokens in expected]
    assert found.id_stops.tolist() == np.cumsum(found.n_tokens).tolist()
    counts = Counter(token for tokens in expected for token in tokens)
    documents = Counter(token for tokens in expected for token in set(tokens))
    rows = [row for row in machine.words().to_pylist() if row["count"]]
    assert {row["word"]: row["count"] for row in rows} == counts
    assert {row["word"]: row["document_count"] for row in rows} == documents


def split_words(text: str) -> list[str]:
    return text.split()


BORDERED = "It is new. York is old. But new york is both"


@pytest.mark.parametrize(
    ("options", "text", "count"),
    [
        ({}, BORDERED, 2),
        ({"border": "sentence"}, BORDERED, 1),
        ({"pattern": split_words}, "new york and new_york", 2),
    ],
)
def test_names_cross_no_border_and_a_function_may_give_them_itself(
    tmp_path: Path, options: dict[str, object], text: str, count: int
) -> None:
    (tmp_path / "names.txt").write_text("new york\n")
    tokenizer = Tokenizer(phrases_file=str(tmp_path / "names.txt"), **options)  # type: ignore[arg-type]
    vocabulary = de.build_vocabulary(de.read_texts([text], tokenizer=tokenizer))
    assert dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True))["new_york"] == count


def test_the_names_are_cut_like_the_text(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffAT&T Inc.\r\n\r\nÉcole  Normale\r\n3M\r\nat T inc\r\nFord\r\n".encode())
    lower = gazetteer_of(Tokenizer(phrases_file=str(path)))
    assert (lower.words, lower.n_single) == (["at_t_inc", "école_normale"], 2)
    exact = gazetteer_of(Tokenizer(phrases_file=str(path), lowercase=False))
    assert exact.words == ["AT_T_Inc", "École_Normale", "at_T_inc"]


@pytest.mark.filterwarnings("ignore:.*no known word")
def test_a_corpus_counts_names_and_texts_are_encoded_alike(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("New York\nNew York City\n")
    rules = Tokenizer(phrases_file=str(tmp_path / "names.txt"))
    texts = ["new york city is in new york"] * 3 + ["york is old and new"]
    vocabulary = de.build_vocabulary(de.read_texts(texts, tokenizer=rules))
    counts = dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True))
    assert (counts["new_york_city"], counts["new_york"], counts["york"], counts["new"]) == (3, 3, 1, 1)
    vectors = de.WordVectors(["new_york", "old"], [[1, 0], [0, 1]])
    encoder = de.TextEncoder(vectors, tokenizer=rules).fit()
    assert encoder.transform(["NEW york", "york"]).any(axis=1).tolist() == [True, False]
    assert unreadable_words(encoder) == ["new_york"]  # a static model joins no words
