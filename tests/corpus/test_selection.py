"""Documents left out of token partitions: by label, by content; what stays is as if the others had never been."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import partitions
from distembed.corpus import selection as module
from distembed.corpus.partitions import Tokens
from distembed.corpus.records import CorpusError
from distembed.corpus.selection import choose_documents, document_digests, select_documents
from distembed.counting.cooccurrence import CooccurrenceOptions
from distembed.counting.documents import count_document_terms
from tests.corpus.conftest import counted_tokens
from tests.counting.partitions import count_partition

Record = dict[str, str | None]
RECORDS: list[Record] = [
    {"text": "one two two", "kind": "a"},
    {"text": "two one two", "kind": "b"},  # the same words in another order
    {"text": "One two, two!", "kind": "b"},  # the first again
    {"text": "...", "kind": "a"},
    {"text": "three three four", "kind": None},
]


def tokens_of(folder: Path, *files: list[Record]) -> Tokens:
    return counted_tokens(folder, *files, label_field="kind")


def selected(tokens: Tokens, folder: Path, **options: object) -> Tokens:
    masks = choose_documents(tokens, **options)  # type: ignore[arg-type]
    targets = [str(folder / f"chosen-{number}") for number in range(len(masks))]
    for partition, mask, target in zip(tokens.partitions, masks, targets, strict=True):
        select_documents(tokens, partition, mask, target)
    return Tokens(tuple(targets))


def test_labels_and_duplicates(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path, RECORDS, [RECORDS[0], {"text": "five", "kind": "a"}])
    for options, masks in (
        ({}, ["11111", "11"]),
        ({"labels": ["a"]}, ["10010", "11"]),
        ({"drop_duplicates": True}, ["11001", "01"]),
        ({"labels": ["b"], "drop_duplicates": True}, ["01100", "00"]),
    ):
        found = choose_documents(tokens, **options)  # type: ignore[arg-type]
        assert ["".join(map(str, mask.astype(int))) for mask in found] == masks
    with pytest.raises(CorpusError, match="labeled z; the labels of the collection are a, b"):
        choose_documents(tokens, labels=["z"])


def test_what_stays_counts_as_if_the_others_had_never_been(tmp_path: Path) -> None:
    """Also in a partition of which nothing stays."""
    every = tokens_of(tmp_path, RECORDS, [{"text": "x", "kind": "z"}])
    chosen = selected(every, tmp_path, labels=["a", "b"], drop_duplicates=True)
    (tmp_path / "alone").mkdir()
    alone = tokens_of(tmp_path / "alone", RECORDS[:2])
    vocabulary = de.build_vocabulary(alone)
    assert de.build_vocabulary(chosen).to_pandas().equals(vocabulary.to_pandas())
    for count in (count_document_terms, lambda t, v: de.count_cooccurrences(t, v, window=2)):
        found, there = (count(tokens, vocabulary).compute().toarray() for tokens in (chosen, alone))
        np.testing.assert_array_equal(found, there)
    first, second = (tokens.documents(tokens.partitions[0]).to_pylist() for tokens in (chosen, alone))
    assert first == second


def test_what_stays_of_a_part_with_several_dictionaries_has_whole_counts(tmp_path, monkeypatch) -> None:
    """A word has an id in each dictionary of its part; the bound of a count is that of all of them together."""
    monkeypatch.setattr(partitions, "DICTIONARY_WORDS", 2)
    monkeypatch.setattr(module, "DICTIONARY_WORDS", 30)
    tokens_of(tmp_path, [{"text": f"one two {letter}", "kind": "a"} for letter in ascii_lowercase[:25]])
    docs = de.read_corpus(str(tmp_path / "0.jsonl"), label_field="kind")
    part = replace(docs.partitions[0], piece_bytes=200)
    partitions.tokenize_partition(part, docs.tokenizer, str(tmp_path / "part"))
    chosen = selected(Tokens((str(tmp_path / "part"),)), tmp_path, labels=["a"])
    vocabulary = de.build_vocabulary(chosen, min_count=2)
    [prefix] = chosen.partitions
    assert chosen.words(prefix)["word"].to_pylist().count("one") > 2
    options = CooccurrenceOptions(window=1)
    partial = count_partition(prefix, vocabulary, options, (0, 2), str(tmp_path / "counts"))
    assert partial.largest_cell == 2 * 25
    with partitions.open_partition(prefix, "words") as file:
        groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    assert max(groups) <= 30, "a reader holds one row group at a time"


whole_batches = Tokens.iter_partition


def in_batches(n_ids: int):
    """Return what yields the ids of a partition `n_ids` at a time, also within a document."""

    def batches(tokens: Tokens, partition: str):
        for batch in whole_batches(tokens, partition):
            for start in range(0, len(batch.ids), n_ids):
                cut = slice(start, start + n_ids)
                yield partitions.TokenBatch(batch.document[cut], batch.ids[cut])

    return batches


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=12), st.integers(1, 5))
def test_digests_tell_texts_apart_in_batches_of_any_size(tmp_path_factory, documents, n_ids) -> None:
    folder = tmp_path_factory.mktemp("digests")
    tokens = tokens_of(folder, [{"text": " ".join(words) or ".", "kind": "k"} for words in documents])
    digests = document_digests(tokens, tokens.partitions[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tokens, "iter_partition", in_batches(n_ids))
        np.testing.assert_array_equal(document_digests(tokens, tokens.partitions[0]), digests)
    for i, one in enumerate(documents):
        assert (digests[i] == 0) == (not one)
        for j, other in enumerate(documents):
            assert (digests[i] == digests[j]) == (one == other)


def test_a_document_over_many_batches_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tokens_of(tmp_path, RECORDS)
    monkeypatch.setattr(Tokens, "iter_partition", in_batches(2))
    monkeypatch.setattr(partitions, "MAX_ROW_IDS", 2)
    first_and_last = np.array([1, 0, 0, 0, 1], dtype=bool)
    select_documents(tokens, tokens.partitions[0], first_and_last, str(tmp_path / "chosen"))
    monkeypatch.undo()
    chosen = Tokens((str(tmp_path / "chosen"),))
    vocabulary = de.build_vocabulary(chosen)
    assert vocabulary.words == ["three", "two", "four", "one"]
    assert vocabulary.counts.tolist() == [2, 2, 1, 1]
    assert vocabulary.document_counts.tolist() == [1, 1, 1, 1]
    terms = count_document_terms(chosen, vocabulary).compute().toarray()
    assert terms.tolist() == [[0, 2, 0, 1], [2, 0, 1, 0]]
