"""The counts of groups of documents, apart in one array, add up to those of the text."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.counting.cooccurrence import CooccurrenceOptions, merge_partials
from distembed.counting.document_groups import (
    counts_of_groups,
    group_row_blocks,
    own_columns,
    sum_of_groups,
    words_of_groups,
)
from tests.counting.partitions import count_partition

N_DOCUMENTS, N_GROUPS = 80, 3


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = [f"w{'abcdefghijklmnopqrst'[int(20 * rng.random() ** 2)]}" for _ in range(30 * N_DOCUMENTS)]
    lines = [" ".join(words[first : first + 30]) for first in range(0, len(words), 30)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    return de.read_corpus("text.txt", partition_bytes=3000).tokenize()


@pytest.mark.parametrize(
    "options",
    [
        {"window": 4, "direction": "symmetric"},
        {"window": 2, "direction": "left", "weighting": "dynamic", "subsample": 1e-2},
        {"window": 2, "direction": "left", "oov": "remove"},
    ],
)
def test_groups_add_up_to_the_text_and_each_is_its_documents(tokens, tmp_path, options):
    vocabulary = de.build_vocabulary(tokens, min_count=40)
    counting = CooccurrenceOptions(**options)
    own = (0, 5, len(vocabulary))
    groups = np.random.default_rng(1).integers(0, N_GROUPS, N_DOCUMENTS).astype(np.int32)
    apart, together, first = [], [], 0
    for number, partition in enumerate(tokens.partitions):
        of = groups[first : first + tokens.documents(partition).num_rows]
        first += len(of)
        blocks = group_row_blocks(own, N_GROUPS)
        apart.append(
            count_partition(
                partition, vocabulary, counting, blocks, f"apart-{number}", key=number,
                groups={partition: of},
            )
        )  # fmt: skip
        together.append(
            count_partition(partition, vocabulary, counting, own, f"together-{number}", key=number)
        )
    assert len(tokens.partitions) > 1
    blocks = group_row_blocks(own, N_GROUPS)
    found = counts_of_groups(own_columns(merge_partials(apart, blocks), N_GROUPS), N_GROUPS)
    total = sum_of_groups(found).compute().toarray()
    np.testing.assert_allclose(total, merge_partials(together, own).compute().toarray(), rtol=1e-6)
    assert [one.chunks for one in found] == [((5, len(vocabulary) - 5), (len(vocabulary),))] * N_GROUPS
    if "subsample" not in options and "oov" not in options:
        lines = np.array((tmp_path / "text.txt").read_text().splitlines())
        (tmp_path / "one.txt").write_text("\n".join(lines[groups == 1]) + "\n")
        alone = de.count_cooccurrences(de.read_corpus("one.txt"), vocabulary, **options)
        np.testing.assert_array_equal(found[1].compute().toarray(), alone.compute().toarray())


def test_words_are_counted_in_each_group(tokens):
    vocabulary = de.build_vocabulary(tokens, min_count=2)
    groups = np.random.default_rng(1).integers(0, N_GROUPS, N_DOCUMENTS).astype(np.int32)
    counts, documents = words_of_groups(tokens, vocabulary, groups, N_GROUPS).compute()
    terms = de.count_document_terms(tokens, vocabulary).compute()
    for group in range(N_GROUPS):
        np.testing.assert_array_equal(counts[group], terms[groups == group].sum(axis=0))
    np.testing.assert_array_equal(documents.sum(axis=0), vocabulary.document_counts)
