"""Document-term counts equal plain counting, for whole, ragged and single-document blocks."""

from __future__ import annotations

import dask
import numpy as np
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import partitions
from distembed.corpus.partitions import Tokens
from distembed.counting.cooccurrence import merge_row_block
from distembed.counting.document_groups import (
    sum_of_blocks,
    sum_of_groups,
    words_of_block,
    words_of_groups,
)
from distembed.counting.documents import count_document_block, count_document_terms, document_row_blocks
from distembed.execution import compute
from tests.counting.partitions import vocabulary_of, write_partition
from tests.counting.test_cooccurrence import DOCUMENTS, WORDS, documents
from tests.references import counting as plain
from tests.temporaries import assert_declared, measured


@settings(max_examples=30, deadline=None)
@given(texts=documents, row_tokens=st.integers(1, 40), limit=st.sampled_from([1, 10, 10**6]))
def test_equals_plain_counting(tmp_path_factory, texts, row_tokens, limit):
    folder = tmp_path_factory.mktemp("documents")
    given = enumerate((texts, DOCUMENTS))
    partitions = [write_partition(f"{folder}/{i}", part, row_tokens=row_tokens) for i, part in given]
    with dask.config.set({"distembed.block_memory": 32 * limit}):
        counts = count_document_terms(Tokens(tuple(partitions)), vocabulary_of(WORDS))
    found = counts.compute(scheduler="sync")
    assert found.dtype == np.int32
    assert found.indices.dtype == found.indptr.dtype == np.int32, "places take four bytes where they fit"
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), plain.document_terms([*texts, *DOCUMENTS], WORDS))


def test_a_block_reads_the_row_groups_of_its_own_documents_and_dictionaries_once(tmp_path, monkeypatch):
    """Each block read the whole partition, so that a large compressed file took time quadratic in its size."""
    prefix = write_partition(f"{tmp_path}/p", [[f"w{i}"] * 3 for i in range(64)])
    for kind in ("tokens", "words"):
        path = tmp_path / f"p.{kind}.parquet"
        pq.write_table(pq.read_table(path), path, row_group_size=1)
    read = []

    class Counted(partitions.ParquetFile):
        def read_row_group(self, group, **options):
            read.append(group)
            return super().read_row_group(group, **options)

        def iter_batches(self, size, *, row_groups, **options):
            read.extend(row_groups)
            return super().iter_batches(size, row_groups=row_groups, **options)

    monkeypatch.setattr(partitions, "ParquetFile", Counted)
    vocabulary = vocabulary_of([f"w{i}" for i in range(64)])
    with dask.config.set({"distembed.block_memory": 32 * 6}):
        first, *_, last = document_row_blocks(Tokens((prefix,)))
    count_document_block(first, vocabulary, batch_bytes=2**20)
    read.clear()
    counts = count_document_block(last, vocabulary, batch_bytes=2**20)
    assert (last.first, last.last) == (62, 64)
    np.testing.assert_array_equal(counts.toarray(), 3 * np.eye(64, dtype=int)[62:])
    assert 2 <= len(read) < 20  # of 64 groups: two, and those that a search looks at


# ---- temporaries ---------------------------------------------------------------------------------------------------


LETTERS = str.maketrans("0123456789ABCDEFGHIJKLMNOP", "abcdefghijklmnopqrstuvwxyz")


def test_the_block_functions_of_counting_declare_what_they_hold(tmp_path):
    """Of 400,000 words in documents of a hundred: in one partition, and in many, whose runs are added up."""
    ranks = np.random.default_rng(0).zipf(1.2, 600_000)
    names = np.array(["w" + np.base_repr(rank, 26).translate(LETTERS) for rank in range(3_000)])
    words, path = names[ranks[ranks < len(names)]][:400_000], tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(words[at : at + 100]) for at in range(0, len(words), 100)))
    whole = de.read_corpus(path).tokenize()
    many = de.read_corpus(path, partition_bytes=path.stat().st_size // 12).tokenize()
    vocabulary = de.build_vocabulary(whole)
    groups = (np.arange(whole.n_documents) % 2).astype(np.int32)
    with dask.config.set({"distembed.block_memory": 2**22}), measured() as found:
        counts = de.count_cooccurrences(many, vocabulary, weighting="harmonic")
        compute([counts, sum_of_groups([counts] * 3), words_of_groups(whole, vocabulary, groups, 2)])
    assert_declared(found, count_document_block, merge_row_block, words_of_block, sum_of_blocks)
