"""Document-term counts equal plain counting, for whole, ragged and single-document blocks."""

from __future__ import annotations

import dask
import numpy as np
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.corpus import partitions
from distembed.corpus.partitions import Tokens
from distembed.counting.documents import count_document_block, count_document_terms, document_row_blocks
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
    with dask.config.set({"distembed.block_memory": 32 * limit}):
        counts = count_document_terms(Tokens(tuple(partitions)), vocabulary_of(WORDS))
    found = counts.compute(scheduler="sync")
    assert found.dtype == np.int32
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), plain.document_terms([*texts, *DOCUMENTS], WORDS))


def test_blocks_are_parts_cut_at_documents(tmp_path):
    tokens = Tokens((write_partition(f"{tmp_path}/p", DOCUMENTS),))
    [block] = document_row_blocks(tokens)
    assert (block.first, block.last) == (0, 6)
    counts = count_document_block(block, vocabulary_of(WORDS), batch_bytes=2**20)
    assert counts.indices.dtype == counts.indptr.dtype == np.int32, "places take four bytes where they fit"
    with dask.config.set({"distembed.block_memory": 32 * 7}):
        assert [(b.first, b.last) for b in document_row_blocks(tokens)][-1] == (5, 6)


def test_a_block_reads_the_row_groups_of_its_own_documents_and_dictionaries_once(tmp_path, monkeypatch):
    """Each block read the whole partition, so that a large compressed file took time quadratic in its size."""
    prefix = write_partition(f"{tmp_path}/p", [[f"w{i}"] * 3 for i in range(64)])
    for kind in ("tokens", "words"):
        path = tmp_path / f"p.{kind}.parquet"
        pq.write_table(pq.read_table(path), path, row_group_size=1)
    read: list[int] = []

    class Counted(partitions.ParquetFile):
        def read_row_group(self, group, **options):
            read.append(group)
            return super().read_row_group(group, **options)

        def iter_batches(self, size, *, row_groups, **options):
            read.extend(row_groups)
            return super().iter_batches(size, row_groups=row_groups, **options)

    monkeypatch.setattr(partitions, "ParquetFile", Counted)
    with dask.config.set({"distembed.block_memory": 32 * 6}):
        blocks = document_row_blocks(Tokens((prefix,)))
    vocabulary = vocabulary_of([f"w{i}" for i in range(64)])
    count_document_block(blocks[0], vocabulary, batch_bytes=2**20)
    read.clear()
    counts = count_document_block(blocks[-1], vocabulary, batch_bytes=2**20)
    assert (blocks[-1].first, blocks[-1].last) == (62, 64)
    np.testing.assert_array_equal(counts.toarray(), 3 * np.eye(64, dtype=int)[62:])
    assert 2 <= len(read) < 20  # of 64 groups: two, and those that a search looks at
