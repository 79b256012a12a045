"""A sample of a corpus: the words of a few megabytes of it, before all of it is read.

The sample is the same each time: the beginnings of a few partitions that lie evenly over the corpus, or the first
tokenized partitions where there are some. It calls no function that a tokenizer names (`module:function`): the
words of such a corpus are told apart by Unicode's rules here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.partitions import Tokens, read_batches
from distembed.corpus.scanning import Scanned
from distembed.corpus.streams import Partition, Progress
from distembed.corpus.tokenizer import Tokenizer, scanner

SAMPLE_BYTES = 8 << 20
"""Bytes of text in a sample, 1.4 million words of English: half a second of plain text, two of a compressed dump."""

SAMPLE_PARTITIONS = 8
"""Splits whose beginnings are read: files of one corpus may differ."""

SAMPLE_TYPES = 1 << 17
"""Different words after which no more is read: where nearly every word is new, the rest is as well."""

SAMPLE_PIECE = 1 << 17
"""Bytes of text that are read at a time, few beside the share of a partition."""

SAMPLE_WORDS = 1 << 20
"""Words of the dictionaries of token partitions that are read."""

SAMPLE_IDS = 1 << 21
"""Token ids whose segments are measured."""


class CorpusSample(NamedTuple):
    """What a part of a corpus holds.

    Attributes
    ----------
    words : string array (words,), each once.
    counts, document_counts : int64 arrays (words,), the tokens of each word and the documents that hold it.
    lengths : int64 array (segments,), the tokens of each stretch of text that a window does not leave.
    n_documents, n_tokens : int
    n_bytes : int
        Bytes of the files, as they are stored, that were read for it; 0 where token partitions were.
    is_whole : bool
        Whether nothing of the corpus was left out.
    """

    words: pa.StringArray
    counts: NDArray[np.int64]
    document_counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    n_documents: int
    n_tokens: int
    n_bytes: int
    is_whole: bool


def sample_splits(
    partitions: Sequence[Partition], tokenizer: Tokenizer, *, max_bytes: int = SAMPLE_BYTES
) -> CorpusSample:
    """Read the beginnings of some partitions of a corpus.

    Parameters
    ----------
    partitions : sequence of Split
        All partitions of the corpus.
    tokenizer : Tokenizer
    max_bytes : int
        Bytes of text to read in all, in equal shares of the partitions that are read.

    Raises
    ------
    CorpusError
        A partition cannot be read.
    """
    numbers = np.unique(
        np.linspace(0, len(partitions) - 1, min(SAMPLE_PARTITIONS, len(partitions))).round().astype(int)
    )
    named = tokenizer.pattern in {"unicode", "ascii"}
    rules = tokenizer if named else replace(tokenizer, pattern="unicode")
    found = [
        _beginning(partitions[number], rules, max_bytes // len(numbers), SAMPLE_TYPES // len(numbers))
        for number in numbers.tolist()
    ]
    # A range of a compressed file in which no stream begins holds nothing: another partition reads its documents.
    samples = [sample for sample in found if sample.n_tokens] or found
    whole = named and len(numbers) == len(partitions) and all(sample.is_whole for sample in found)
    return _together(samples, is_whole=whole)


def _beginning(partition: Partition, tokenizer: Tokenizer, max_bytes: int, max_words: int) -> CorpusSample:
    """Read the beginning of a partition, up to a place where the bytes read are those of the text that came."""
    words, progress = (
        scanner(tokenizer, url=partition.url, errors=partition.errors, section=partition.section),
        Progress(),
    )
    n_bytes = n_text = n_documents = 0
    segments, is_whole = [np.zeros(0, np.int64)], True
    for batch in read_batches(replace(partition, piece_bytes=SAMPLE_PIECE), progress):
        enough = n_text >= max_bytes or words.n_words >= max_words
        if enough and progress.n_bytes_read > n_bytes:
            is_whole = False
            break
        scanned = words.scan(batch)
        n_bytes, n_text = progress.n_bytes_read, n_text + int((batch.stops - batch.starts).sum())
        n_documents += len(scanned.n_tokens)
        segments.append(_segments(scanned))
    slices = list(words.words())
    return CorpusSample(
        pa.chunked_array([each.words for each in slices]).combine_chunks(),
        np.concatenate([each.counts for each in slices]),
        np.concatenate([each.document_counts for each in slices]),
        np.concatenate(segments),
        max(n_documents, int(n_text > 0)),
        sum(int(each.counts.sum()) for each in slices),
        min(progress.n_bytes_read if is_whole else n_bytes, _own_bytes(partition)),
        is_whole,
    )


def _own_bytes(partition: Partition) -> int:
    """Return the bytes of the range of a partition, beyond which only the end of its last document is read."""
    if partition.stop is None or partition.format == "parquet":  # whose ranges are of row groups
        return sys.maxsize
    return partition.stop - partition.start


def _segments(scanned: Scanned) -> NDArray[np.int64]:
    """Return the tokens of each segment of some scanned text; one that goes on in the next text counts as two."""
    borders = np.flatnonzero(scanned.ids < 0)
    stops = np.unique(np.concatenate([borders, scanned.id_stops, [len(scanned.ids)]]))
    # a border takes a place among the ids, and is no token
    lengths = np.diff(stops, prepend=0) - np.isin(np.append(0, stops[:-1]), borders)
    return lengths[lengths > 0].astype(np.int64)


def _together(partitions: Sequence[CorpusSample], *, is_whole: bool) -> CorpusSample:
    """Return several samples as one, with each word once."""
    columns = ("words", "counts", "document_counts")
    tables = [pa.table({name: getattr(partition, name) for name in columns}) for partition in partitions]
    added = [("counts", "sum"), ("document_counts", "sum")]
    table = pa.concat_tables(tables).group_by("words", use_threads=False).aggregate(added)
    return CorpusSample(
        table["words"].combine_chunks(),
        table["counts_sum"].to_numpy(),
        table["document_counts_sum"].to_numpy(),
        np.concatenate([partition.lengths for partition in partitions]),
        sum(partition.n_documents for partition in partitions),
        sum(partition.n_tokens for partition in partitions),
        sum(partition.n_bytes for partition in partitions),
        is_whole,
    )


def sample_parts(tokens: Tokens, *, max_words: int = SAMPLE_WORDS) -> CorpusSample:
    """Read the first dictionaries of a tokenized corpus, as many as hold so many words, and one at least."""
    found, n_words = list[CorpusSample](), 0
    for partition in tokens.partitions:
        if found and n_words >= max_words:
            break
        words, documents = tokens.words(partition), tokens.documents(partition)
        counts, document_counts = (words[name].to_numpy() for name in ("count", "document_count"))
        lengths = np.concatenate([np.zeros(0, np.int64), *_part_segments(tokens, partition)])
        n_tokens, n_words = int(counts.sum()), n_words + words.num_rows
        found.append(
            CorpusSample(
                words["word"],
                counts,
                document_counts,
                lengths,
                documents.num_rows,
                n_tokens,
                0,
                is_whole=True,
            )
        )
    return _together(found, is_whole=len(found) == len(tokens.partitions))


def _part_segments(tokens: Tokens, partition: str) -> Iterator[NDArray[np.int64]]:
    """Yield the tokens of the segments at the beginning of a partition."""
    n_ids = 0
    for batch in tokens.iter_partition(partition):
        stops = np.flatnonzero(np.diff(batch.document)) + 1
        yield _segments(Scanned(batch.ids, stops, stops))
        n_ids += len(batch.ids)
        if n_ids >= SAMPLE_IDS:
            return
