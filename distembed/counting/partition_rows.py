"""Reads the tokens of one partition: its rows of ids, and the row in the vocabulary of each id."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.corpus.partitions import Tokens, open_partition
from distembed.corpus.readers import Corpus
from distembed.corpus.texts import Texts, tokenized
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.blocks import TokenRows
from distembed.formats.parquet import ParquetFile, read_batches

RANGE_TOKENS = 1 << 20
"""Fewest tokens for which a partition is divided: they take a tenth of a second, and their sums fill about a run."""
MOST_RANGES = 64
"""Ranges of about as many tokens that a whole corpus is divided into, beside those that its partitions make."""


class TokenRange(NamedTuple):
    """Documents of a partition that one task counts: those of one of `n_ranges` ranges of about as many tokens."""

    place: int = 0
    n_ranges: int = 1
    n_tokens: int = 0  # of the partition

    @property
    def limits(self) -> tuple[float, float]:
        """The tokens of the partition before the first document, and before the first of the next range, at least."""
        first, last = (self.n_tokens * place // self.n_ranges for place in (self.place, self.place + 1))
        return first, last if self.place + 1 < self.n_ranges else math.inf


WHOLE = TokenRange()
"""All documents of a partition."""


def token_ranges(n_tokens: Sequence[int]) -> list[tuple[int, TokenRange]]:
    """Return the ranges in which partitions of so many tokens are counted, each after the number of its partition.

    They follow from the corpus alone. One file, which only one task can unpack, may be most of a corpus.
    """
    most = max(RANGE_TOKENS, sum(n_tokens) // MOST_RANGES)
    return [
        (number, TokenRange(place, n_ranges, tokens))
        for number, tokens in enumerate(n_tokens)
        for n_ranges in [max(1, round(tokens / most))]
        for place in range(n_ranges)
    ]


def range_documents(partition: str, part: TokenRange) -> tuple[range, int]:
    """Return the documents of a range, and the tokens of the partition before them; no document is divided."""
    first = last = before = n_tokens = 0
    begin, end = part.limits
    with open_partition(partition, "documents") as file:
        for group in range(file.num_row_groups):
            lengths = file.read_row_group(group, columns=["n_tokens"], use_threads=False)[
                "n_tokens"
            ].to_numpy()
            starts = n_tokens + np.cumsum(lengths) - lengths
            first, last = first + int((starts < begin).sum()), last + int((starts < end).sum())
            before, n_tokens = before + int(lengths[starts < begin].sum()), n_tokens + int(lengths.sum())
    return range(first, last), before


def tokens_of(docs: Corpus | Tokens | Texts) -> Tokens:
    """Return the tokens of a corpus or of texts, tokenizing them if that has not been done."""
    tokens = tokenized(docs)
    if not tokens.partitions:
        raise ValueError("There are no tokens to count: the corpus has no partitions.")
    return tokens


def partition_lookup(partition: str, vocabulary: Vocabulary) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the row in the vocabulary of each token id of a partition, and how often it has each word.

    The dictionary is read a slice at a time. The row of a word that the vocabulary lacks is -1.
    """
    rows, counts = [np.empty(0, np.int32)], np.zeros(len(vocabulary), np.int64)
    with open_partition(partition, "words") as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["word", "count"], use_threads=False)
            found = vocabulary.index(table["word"])
            rows.append(found)
            known = found >= 0
            # A partition with very many words lists some of them more than once, of which `counts[rows] +=` adds one.
            np.add.at(counts, found[known], table["count"].to_numpy()[known])
    return np.concatenate(rows), counts


class DictionaryRows:
    """The row in the vocabulary of the token ids of a partition, of which only the words that are asked for are read.

    A partition with very many words has several dictionaries, and a document uses the words of one.
    """

    def __init__(self, words: ParquetFile, vocabulary: Vocabulary) -> None:
        self._words, self._vocabulary = words, vocabulary
        sizes = [words.metadata.row_group(group).num_rows for group in range(words.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])
        self._is_read = np.zeros(len(sizes), bool)
        self._rows = np.full(self._starts[-1], -1, np.int32)

    def of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the row of each word of the partition, right for the given ids; -1 for words without one."""
        first, last = np.min(ids, where=ids >= 0, initial=len(self._rows)), np.max(ids, initial=-1)
        low, high = np.searchsorted(self._starts, [first, last], side="right") - 1
        for group in range(low, min(high + 1, len(self._is_read))):
            if not self._is_read[group]:
                words = self._words.read_row_group(group, columns=["word"], use_threads=False)["word"]
                self._rows[self._starts[group] : self._starts[group + 1]] = self._vocabulary.index(words)
                self._is_read[group] = True
        return self._rows


def token_rows(
    partition: str,
    batch_bytes: int,
    *,
    documents: range | None = None,
) -> Iterator[TokenRows]:
    """Yield the token rows of a partition, about `batch_bytes` at a time.

    Only those of the `documents`, by default all, are yielded.
    """
    with open_partition(partition, "tokens") as table:
        groups = range(table.num_row_groups) if documents is None else _groups_of(table, documents)
        for group in groups:
            rows = _row_batch(table.metadata.row_group(group), batch_bytes)
            for batch in read_batches(table, rows, row_groups=[group], columns=["document", "ids"]):
                numbers, ids = batch.column("document"), batch.column("ids")
                found = TokenRows(numbers.to_numpy(), ids.offsets.to_numpy(), ids.values.to_numpy())
                yield found if documents is None else _rows_of(found, documents)


def _rows_of(rows: TokenRows, documents: range) -> TokenRows:
    first, last = np.searchsorted(rows.documents, [documents.start, documents.stop])
    return TokenRows(rows.documents[first:last], rows.offsets[first : last + 1], rows.ids)


def _groups_of(table: ParquetFile, documents: range) -> list[int]:
    """Return the row groups that hold rows of some documents; the numbers of documents rise from group to group."""

    def number(group: int, row: int) -> int:
        found = table.read_row_group(group, columns=["document"], use_threads=False)["document"]
        return int(found[row].as_py())

    groups = [group for group in range(table.num_row_groups) if table.metadata.row_group(group).num_rows]
    first = bisect_left(groups, documents.start, key=lambda group: number(group, -1))
    return groups[first : bisect_left(groups, documents.stop, lo=first, key=lambda group: number(group, 0))]


def _row_batch(group: pq.RowGroupMetaData, batch_bytes: int) -> int:
    return max(1, int(batch_bytes * group.num_rows / max(group.total_byte_size, 1)))
