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
from distembed.corpus.scanners import Gazetteer, Scanner, gazetteer
from distembed.corpus.tokenizer import Tokenizer, gazetteer_of, scanner, words_of
from distembed.encoding.static import unreadable_words
from tests.corpus.conftest import batch_of


def joined(tokens: Sequence[str], names: Sequence[tuple[str, ...]]) -> list[str]:
    """Return tokens with names joined: at each place the longest, by trying every name."""
    out, at = [], 0
    while at < len(tokens):
        here = [name for name in names if len(name) > 1 and tuple(tokens[at : at + len(name)]) == name]
        name = max(here, key=len, default=(tokens[at],))
        out.append("_".join(name))
        at += len(name)
    return out


def scanned(machine: Scanner, texts: Sequence[str], *, forget: bool = False) -> list[list[str]]:
    """Return the tokens of each text, after each of which the dictionary may be emptied."""
    found = []
    for text in texts:
        ids = machine.scan(batch_of(text.encode())).ids
        words = machine.words()["word"].to_pylist()
        found.append([words[word] for word in ids.tolist() if word >= 0])
        if forget:
            machine.forget()
    return found


words = st.sampled_from(["a", "b", "c", "bb"])
names = st.lists(st.lists(words, min_size=1, max_size=4).map(tuple), min_size=1, max_size=6)


def plain(names: Sequence[tuple[str, ...]]) -> Gazetteer:
    data = "\n".join(" ".join(name) for name in names).encode()
    return gazetteer(data, words_of(Tokenizer()), path="names.txt")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(words, max_size=30), max_size=3), names, st.booleans())
def test_names_are_joined_as_a_plain_search_joins_them(
    texts: list[list[str]], names: list[tuple[str, ...]], forget: bool
) -> None:
    if not any(len(name) > 1 for name in names):
        names = [*names, ("a", "b")]
    machine = Scanner(words_of(Tokenizer()), plain(names))
    expected = [joined(text, names) for text in texts]
    assert scanned(machine, [" ".join(text) for text in texts], forget=forget) == expected


def test_counts_and_documents_of_names_are_exact() -> None:
    names = [("new", "york"), ("new", "york", "city"), ("york", "city", "hall")]
    texts = [
        "New York City Hall in NEW YORK",
        "the new york-city hall; new",
        "York city hall",
        "new new york",
    ]
    machine = Scanner(words_of(Tokenizer()), plain(names))
    found = machine.scan(batch_of(*(text.encode() for text in texts)))
    expected = [joined(text.lower().replace("-", " ").replace(";", "").split(), names) for text in texts]
    assert found.n_tokens.tolist() == [len(tokens) for tokens in expected]
    assert found.id_stops.tolist() == np.cumsum(found.n_tokens).tolist()
    counts = Counter(token for tokens in expected for token in tokens)
    documents = Counter(token for tokens in expected for token in set(tokens))
    rows = zip(*machine.words().to_pydict().values(), strict=True)
    assert {word: (n, n_documents) for word, n, n_documents in rows if n} == {
        word: (n, documents[word]) for word, n in counts.items()
    }


def test_names_cross_no_border(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("new york\n")
    path = str(tmp_path / "names.txt")
    text = "It is new. York is old. But New York is both."
    by_border = {}
    for border in ("document", "sentence"):
        machine = scanner(Tokenizer(phrases_file=path, border=border))
        scanned(machine, [text])
        counts = machine.words().to_pydict()
        by_border[border] = dict(zip(counts["word"], counts["count"], strict=True))["new_york"]
    assert by_border == {"document": 2, "sentence": 1}


def test_the_names_are_cut_like_the_text(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffAT&T Inc.\r\n\r\nÉcole  Normale\r\n3M\r\nat T inc\r\nFord\r\n".encode())
    lower = gazetteer_of(Tokenizer(phrases_file=str(path)))
    assert (lower.words, lower.n_single) == (["at_t_inc", "école_normale"], 2)
    exact = gazetteer_of(Tokenizer(phrases_file=str(path), lowercase=False))
    assert exact.words == ["AT_T_Inc", "École_Normale", "at_T_inc"]


def split_words(text: str) -> list[str]:
    return text.split()


def test_a_function_of_the_user_may_give_joined_names_itself(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("new york\n")
    machine = scanner(Tokenizer(pattern=split_words, phrases_file=str(tmp_path / "names.txt")))
    assert scanned(machine, ["New york and new_york"]) == [["new_york", "and", "new_york"]]
    table = machine.words().to_pydict()
    found = dict(zip(table["word"], table["document_count"], strict=True))
    assert found == {"new_york": 1, "and": 1, "new": 0, "york": 0}


@pytest.mark.filterwarnings("ignore:.*no known word")
def test_a_corpus_counts_names_and_texts_are_encoded_alike(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("New York\nNew York City\n")
    (tmp_path / "a.txt").write_text("new york city is in new york\n" * 3 + "york is old and new\n")
    rules = Tokenizer(phrases_file=str(tmp_path / "names.txt"))
    docs = de.read_corpus(str(tmp_path / "a.txt"), layout="line", tokenizer=rules)
    vocabulary = de.build_vocabulary(docs)
    counts = dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True))
    assert (counts["new_york_city"], counts["new_york"], counts["york"], counts["new"]) == (3, 3, 1, 1)
    vectors = de.WordVectors(["new_york", "old"], [[1, 0], [0, 1]])
    encoder = de.TextEncoder(vectors, tokenizer=rules).fit()
    assert encoder.transform(["NEW york", "york"]).any(axis=1).tolist() == [True, False]
    assert unreadable_words(encoder) == ["new_york"]  # a static model joins no words
