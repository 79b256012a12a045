"""Reads tokens: the bundles of documents that tasks count, rows of ids, and the row in the vocabulary of each id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.corpus.partitions import Tokens, document_lengths, naming_damage, open_partition
from distembed.corpus.readers import Corpus
from distembed.corpus.texts import Texts, tokenized
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.blocks import BORDER
from distembed.dtypes import Int32s
from distembed.formats.parquet import read_batches
from distembed.urls import url_to_fs

BUNDLE_TOKENS = 1 << 20
"""Fewest tokens for which a corpus is divided: they take a tenth of a second, and their sums fill about a run."""
MOST_BUNDLES = 256
"""Bundles that a whole corpus is divided into, at most: so many files of runs each task of the merge reads."""


class TokenSpan(NamedTuple):
    """Documents of a partition: those whose first token is one of the tokens first..stop-1 of the partition."""

    partition: str
    first: int
    stop: int
    key: int = 0  # tells the partition from others: the key of its random numbers


def n_bundles(n_tokens: int) -> int:
    """Return the number of bundles of a corpus."""
    return min(max(round(n_tokens / BUNDLE_TOKENS), 1), MOST_BUNDLES)


def token_bundles(partitions: Sequence[str], n_tokens: Sequence[int]) -> list[list[TokenSpan]]:
    """Return bundles of about equally many tokens of partitions of so many tokens; a task counts each of them.

    They follow from the corpus alone. One file, which only one task can unpack, may be most of a corpus.
    """
    ends = list(accumulate(n_tokens, initial=0))
    edges = [ends[-1] * number // n_bundles(ends[-1]) for number in range(n_bundles(ends[-1]) + 1)]
    places = list(enumerate(pairwise(ends)))
    return [
        [
            TokenSpan(partitions[number], max(first - begin, 0), min(stop, end) - begin, number)
            for number, (begin, end) in places[
                max(bisect_right(ends, first) - 1, 0) : bisect_left(ends, stop)
            ]
        ]
        for first, stop in pairwise(edges)
    ]


def span_documents(span: TokenSpan) -> tuple[range, int]:
    """Return the documents of a span, and the tokens of the partition before them; no document is divided."""
    lengths = document_lengths(span.partition)
    starts = np.cumsum(lengths) - lengths
    first, stop = np.searchsorted(starts, [span.first, span.stop])
    return range(first, stop), int(lengths[:first].sum())


def tokens_of(docs: Corpus | Tokens | Texts) -> Tokens:
    """Return the tokens of a corpus or of texts, tokenizing them if that has not been done."""
    tokens = tokenized(docs)
    if not tokens.partitions:
        raise ValueError("There are no tokens to count: the corpus has no partitions.")
    return tokens


def partition_lookup(partition: str, vocabulary: Vocabulary) -> Int32s:
    """Return the row in the vocabulary of each token id of a partition.

    The row of a word that the vocabulary lacks is -1, and that of the id -1, the last, `BORDER`. The tasks of a process
    that count documents of the same partition look its words up once.
    """
    filesystem, path = url_to_fs(f"{partition}.words.parquet")
    version = filesystem.ukey(path) if filesystem.exists(path) else ""
    return _lookup(partition, version, vocabulary)


@lru_cache(maxsize=4)
def _lookup(partition: str, version: str, vocabulary: Vocabulary) -> Int32s:  # noqa: ARG001
    with open_partition(partition, "words") as file, naming_damage(partition, "words"):
        groups = (
            file.read_row_group(group, columns=["word"], use_threads=False)["word"]
            for group in range(file.num_row_groups)
        )
        return np.concatenate([*map(vocabulary.index, groups), np.array([BORDER], np.int32)])


def token_rows(
    partition: str, batch_bytes: int, documents: range
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Int32s]]:
    """Yield the rows of some documents, about `batch_bytes` at a time: row r is ids[offsets[r]:offsets[r + 1]].

    They are (documents, offsets, ids), where documents[r] is the document of row r.
    """
    with open_partition(partition, "tokens") as table, naming_damage(partition, "tokens"):

        def number(group: int, row: int) -> int:
            found = table.read_row_group(group, columns=["document"], use_threads=False)["document"]
            return int(found[row].as_py())

        # The numbers of documents rise from group to group.
        groups = [one for one in range(table.num_row_groups) if table.metadata.row_group(one).num_rows]
        first = bisect_left(groups, documents.start, key=lambda group: number(group, -1))
        stop = bisect_left(groups, documents.stop, lo=first, key=lambda group: number(group, 0))
        for group in groups[first:stop]:
            rows = rows_of_batch(table.metadata.row_group(group), batch_bytes)
            for batch in read_batches(table, rows, row_groups=[group], columns=["document", "ids"]):
                numbers, ids = batch.column("document").to_numpy(), batch.column("ids")
                begin, end = np.searchsorted(numbers, [documents.start, documents.stop])
                yield numbers[begin:end], ids.offsets.to_numpy()[begin : end + 1], ids.values.to_numpy()


def rows_of_batch(group: pq.RowGroupMetaData, batch_bytes: int) -> int:
    """Return the rows of a row group that are read at a time."""
    return max(1, int(batch_bytes * group.num_rows / max(group.total_byte_size, 1)))
