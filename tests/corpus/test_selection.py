"""Documents left out of token partitions: by label, by content; what stays is as if the others had never been."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import partitions
from distembed.corpus import selection as module
from distembed.corpus.partitions import Tokens
from distembed.corpus.parts import (
    NO_PART,
    chosen_parts,
    deal_groups,
    even_edges,
    parts_by_date,
    parts_by_value,
)
from distembed.corpus.records import CorpusError
from distembed.corpus.selection import choose_documents, document_digests, select_documents
from distembed.counting.cooccurrence import CooccurrenceOptions
from distembed.counting.documents import count_document_terms
from tests.corpus.conftest import counted_tokens
from tests.counting.partitions import count_partition

RECORDS = [
    {"text": "one two two", "kind": "a"},
    {"text": "two one two", "kind": "b"},  # the same words in another order
    {"text": "One two, two!", "kind": "b"},  # the first again
    {"text": "...", "kind": "a"},
    {"text": "three three four", "kind": None},
]


def tokens_of(folder, *files):
    return counted_tokens(folder, *files, label_field="kind")


def selected(tokens, folder, **options):
    masks = choose_documents(tokens, **options)
    targets = [str(folder / f"chosen-{number}") for number in range(len(masks))]
    for partition, mask, target in zip(tokens.partitions, masks, targets, strict=True):
        select_documents(tokens, partition, mask, target)
    return Tokens(tuple(targets))


def test_labels_and_duplicates(tmp_path):
    tokens = tokens_of(tmp_path, RECORDS, [RECORDS[0], {"text": "five", "kind": "a"}])
    for options, masks in (
        ({}, ["11111", "11"]),
        ({"labels": ["a"]}, ["10010", "11"]),
        ({"drop_duplicates": True}, ["11001", "01"]),
        ({"labels": ["b"], "drop_duplicates": True}, ["01100", "00"]),
    ):
        found = choose_documents(tokens, **options)
        assert ["".join(map(str, mask.astype(int))) for mask in found] == masks
    with pytest.raises(CorpusError, match="labeled z; the labels of the collection are a, b"):
        choose_documents(tokens, labels=["z"])


def test_what_stays_counts_as_if_the_others_had_never_been(tmp_path):
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


def test_what_stays_of_a_part_with_several_dictionaries_has_whole_counts(tmp_path, monkeypatch):
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


def in_batches(n_ids):
    """Return what yields the ids of a partition `n_ids` at a time, also within a document."""

    def batches(tokens, partition):
        for batch in whole_batches(tokens, partition):
            for start in range(0, len(batch.ids), n_ids):
                cut = slice(start, start + n_ids)
                yield partitions.TokenBatch(batch.document[cut], batch.ids[cut])

    return batches


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=12), st.integers(1, 5))
def test_digests_tell_texts_apart_and_batches_of_any_size_hold_what_stays(tmp_path_factory, documents, n_ids):
    folder = tmp_path_factory.mktemp("digests")
    tokens = tokens_of(folder, [{"text": " ".join(words) or ".", "kind": "k"} for words in documents])
    digests = document_digests(tokens, tokens.partitions[0])
    keep = np.arange(len(documents)) % 3 < 2
    select_documents(tokens, tokens.partitions[0], keep, str(folder / "whole"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tokens, "iter_partition", in_batches(n_ids))
        patch.setattr(partitions, "MAX_ROW_IDS", n_ids)
        np.testing.assert_array_equal(document_digests(tokens, tokens.partitions[0]), digests)
        select_documents(tokens, tokens.partitions[0], keep, str(folder / "cut"))
    for i, one in enumerate(documents):
        assert (digests[i] == 0) == (not one)
        for j, other in enumerate(documents):
            assert (digests[i] == digests[j]) == (one == other)
    whole, cut = (Tokens((str(folder / name),)) for name in ("whole", "cut"))
    if any(words for words, stays in zip(documents, keep, strict=True) if stays):
        vocabulary = de.build_vocabulary(whole)
        assert de.build_vocabulary(cut).to_pandas().equals(vocabulary.to_pandas())
        found = count_document_terms(cut, vocabulary).compute().toarray()
        kept = [words for words, stays in zip(documents, keep, strict=True) if stays]
        assert found.tolist() == [[words.count(word) for word in vocabulary.words] for words in kept]


WHERE = list("abcdef")


def test_bins_take_their_first_day_and_not_their_last():
    values = ["1799-12-31", "1800", "1849-12-31", "1850-01-01", "1900", None]
    parts = parts_by_date(values, ["1800", "1850", "1900"], WHERE)
    assert parts.names == ("1800-1849", "1850-1899")
    assert parts.of.tolist() == [NO_PART, 0, 0, 1, NO_PART, NO_PART]
    days = parts_by_date(["1914-09-01", "-44"], ["1914-08-01", "1918-11-12"], WHERE[:2])
    assert (days.names, days.of.tolist()) == (("1914-08-01 to before 1918-11-12",), [0, NO_PART])
    once = parts_by_date(["1913", "1914-08-01T10:00:00", None], ["1914-08-01"], WHERE[:3])
    assert once.names == ("before 1914-08-01", "from 1914-08-01 on")
    assert once.of.tolist() == [0, 1, NO_PART]
    assert even_edges(["1843", "1869"], 10, WHERE[:2]) == ["1840", "1850", "1860", "1870"]
    chosen = chosen_parts(parts_by_value(["x", "y", "z", "x", ""]), ["z", "x"])
    assert (chosen.names, chosen.of.tolist()) == (("x", "z"), [0, NO_PART, 1, 0, NO_PART])


def test_groups_depend_on_names_and_not_on_their_order_and_a_file_is_in_one():
    rng = np.random.default_rng(0)
    names = [f"d{number}" for number in range(50)]
    labels = ["x" if number % 3 else "y" for number in range(49)] + [None]
    order = rng.permutation(50)
    groups, sizes = deal_groups(parts_by_value(labels), names, 8, 0)
    mixed = parts_by_value([labels[row] for row in order])
    np.testing.assert_array_equal(deal_groups(mixed, [names[row] for row in order], 8, 0)[0], groups[order])
    assert (sizes, groups[49]) == ([8, 8], 16)
    assert np.ptp(np.bincount(groups[:49])[:8]) <= 1
    assert (deal_groups(parts_by_value(labels), names, 8, 1)[0] != groups).any()
    parts = parts_by_value(["x"] * 6 + ["y"] * 4)
    groups, sizes = deal_groups(parts, list("aabbcc") + list("ddee"), 20, 0)
    assert sizes == [3, 2]
    assert (groups[::2] == groups[1::2]).all()
