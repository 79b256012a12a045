"""Tiny token partitions in the layout of distembed.corpus, written by the tests themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.cooccurrence import PartialCounts, count_bundle, merge_row_block
from distembed.counting.partition_rows import TokenSpan

Document = Sequence[str | None]  # None is a border


def vocabulary_of(words: Sequence[str], counts: Sequence[int] | None = None) -> Vocabulary:
    counts_array = np.array([1] * len(words) if counts is None else counts, np.int64)
    return Vocabulary(list(words), counts_array, counts_array)


def write_partition(prefix: str, documents: Sequence[Document], *, row_tokens: int = 2**16) -> str:
    words: dict[str, int] = {}
    rows = []
    for number, document in enumerate(documents):
        ids = [-1 if word is None else words.setdefault(word, len(words)) for word in document]
        rows += [(number, ids[start : start + row_tokens]) for start in range(0, len(ids), row_tokens)]
    counts = Counter(word for document in documents for word in document)
    write_tables(
        prefix,
        documents=[number for number, _ in rows],
        rows=[ids for _, ids in rows],
        words=list(words),
        counts=[counts[word] for word in words],
        lengths=[sum(word is not None for word in document) for document in documents],
    )
    return prefix


def count_partition(partition, vocabulary, options, row_blocks, target, *, key=0, **more) -> PartialCounts:
    """Count all documents of a partition in the memory that a task has by default."""
    bundle = [TokenSpan(str(partition), 0, 2**40, key)]
    return count_bundle(bundle, vocabulary, options, row_blocks, target, block_memory=2**26, **more)


def merged_block(partials: Sequence[PartialCounts], row_blocks: Sequence[int], block: int) -> csr_array:
    """Return the counts of a row block, added up in the memory that a task has by default."""
    return merge_row_block(np.array([block]), partials, row_blocks, block_memory=2**26)


def write_tables(prefix, *, documents, rows, words, counts, lengths) -> None:
    if not isinstance(rows, pa.Array):
        rows = pa.array(rows, pa.list_(pa.int32()))
    pq.write_table(
        pa.table({"document": pa.array(documents, pa.int32()), "ids": rows}), prefix + ".tokens.parquet"
    )
    table = {"word": pa.array(words, pa.string()), "count": pa.array(counts, pa.int64())}
    pq.write_table(pa.table({**table, "document_count": table["count"]}), prefix + ".words.parquet")
    names = pa.array([str(i) for i in range(len(lengths))])
    columns = {"id": names, "title": names, "label": names, "n_tokens": pa.array(lengths, pa.int64())}
    columns["source_file"] = names
    pq.write_table(pa.table(columns), prefix + ".documents.parquet")
