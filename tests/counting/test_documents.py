"""Document-term counts equal plain counting, for whole, ragged and single-document blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.corpus import Tokens
from distembed.counting import count_document_block, count_document_terms, document_row_blocks
from tests.counting.partitions import vocabulary_of, write_partition
from tests.counting.test_cooccurrence import DOCUMENTS, WORDS, documents
from tests.references import counting as plain


@settings(max_examples=30, deadline=None)
@given(texts=documents, row_tokens=st.integers(1, 40), limit=st.sampled_from([1, 10, 10**6]))
def test_equals_plain_counting(tmp_path_factory, texts, row_tokens, limit):
    folder = tmp_path_factory.mktemp("documents")
    partitions = [
        write_partition(f"{folder}/{i}", partition, row_tokens=row_tokens)
        for i, partition in enumerate((texts, DOCUMENTS))
    ]
    counts = count_document_terms(Tokens(tuple(partitions)), vocabulary_of(WORDS), block_memory=32 * limit)
    found = counts.compute(scheduler="sync")
    assert found.dtype == np.int32
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), plain.document_terms([*texts, *DOCUMENTS], WORDS))


def test_blocks_are_parts_cut_at_documents(tmp_path):
    tokens = Tokens((write_partition(f"{tmp_path}/p", DOCUMENTS),))
    [block] = document_row_blocks(tokens)
    assert (block.first, block.last) == (0, 6)
    counts = count_document_block(block, vocabulary_of(WORDS))
    assert counts.indices.dtype == counts.indptr.dtype == np.int32, "places take four bytes where they fit"
    assert [(b.first, b.last) for b in document_row_blocks(tokens, block_memory=32 * 7)][-1] == (5, 6)


def test_same_under_threads_and_processes(tmp_path, process_pool):
    tokens = Tokens((write_partition(f"{tmp_path}/p", DOCUMENTS),))
    counts = count_document_terms(tokens, vocabulary_of(WORDS), block_memory=32 * 6)
    one = counts.compute(scheduler="threads", num_workers=2)
    other = counts.compute(scheduler="processes", pool=process_pool)
    np.testing.assert_array_equal(one.toarray(), other.toarray())


def test_empty_input_is_named(tmp_path):
    with pytest.raises(ValueError, match="vocabulary is empty"):
        count_document_terms(Tokens(("x",)), vocabulary_of([]))
    with pytest.raises(ValueError, match="no documents"):
        count_document_terms(Tokens((write_partition(f"{tmp_path}/p", []),)), vocabulary_of(WORDS))
