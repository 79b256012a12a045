"""A sample of a corpus before all of it is read: how many tokens, words and documents a megabyte of its text holds.

The sample is the same each time: the beginnings of a few bundles that lie evenly over the corpus. It calls no function
that a tokenizer names (`module:function`): the words of such a corpus are told apart by Unicode's rules here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from distembed.corpus.partitions import read_batches
from distembed.corpus.scanners import Scanner
from distembed.corpus.streams import Partition, Progress
from distembed.corpus.tokenizer import Tokenizer, scanner
from distembed.dtypes import Int64s

SAMPLE_BYTES = 1 << 20
"""Bytes of text in a sample: a tenth of a second of plain text, half of one of a compressed dump."""

SAMPLE_PARTITIONS = 8
"""Bundles whose beginnings are read: files of one corpus may differ."""

SAMPLE_PIECE = 1 << 16
"""Bytes of text that are read at a time, few beside the share of a partition."""


class TextSample(NamedTuple):
    """What a part of a corpus holds."""

    counts: Int64s
    document_counts: Int64s
    """The tokens of each different word, and the documents that hold it. Int64 arrays (words,)."""
    n_documents: int
    n_bytes: int
    """Bytes of the files, as they are stored, that were read for it."""

    @property
    def n_tokens(self) -> int:
        """The tokens of all words."""
        return int(self.counts.sum())


def sample_text(bundles: Sequence[Sequence[Partition]], tokenizer: Tokenizer) -> TextSample:
    """Read the beginnings of some bundles of a corpus, each an equal share of `SAMPLE_BYTES` of text.

    Raises
    ------
    CorpusError
        A partition cannot be read.
    """
    numbers = np.linspace(0, len(bundles) - 1, min(SAMPLE_PARTITIONS, len(bundles))).round().astype(int)
    rules = (
        tokenizer
        if tokenizer.pattern in {"unicode", "ascii", "icu"}
        else replace(tokenizer, pattern="unicode")
    )
    words, n_bytes, n_documents = scanner(rules), 0, 0
    for number in np.unique(numbers).tolist():
        left = SAMPLE_BYTES // len(numbers)
        for partition in bundles[number]:
            read = _read(partition, words, left)
            left, n_bytes, n_documents = left - read[0], n_bytes + read[1], n_documents + read[2]
            if left <= 0:
                break
    slices = list(words.words())
    return TextSample(
        np.concatenate([each.counts for each in slices]),
        np.concatenate([each.document_counts for each in slices]),
        n_documents,
        n_bytes,
    )


def _read(partition: Partition, words: Scanner, max_bytes: int) -> tuple[int, int, int]:
    """Scan the beginning of a partition; return the bytes of its text, those of its file, and its documents."""
    progress, n_bytes, n_text, n_documents = Progress(), 0, 0, 0
    words.begin(partition.url)
    for batch in read_batches(replace(partition, piece_bytes=SAMPLE_PIECE), progress):
        if n_text >= max_bytes and progress.n_bytes_read > n_bytes:  # they are the bytes of the text so far
            break
        n_documents += len(words.scan(batch).n_tokens)
        n_bytes, n_text = progress.n_bytes_read, n_text + batch.n_bytes
    # beyond the range of a partition only the end of its last document is read; ranges of Parquet are of row groups
    if partition.stop is not None and partition.format != "parquet":
        n_bytes = min(n_bytes, partition.stop - partition.start)
    return n_text, n_bytes, max(n_documents, int(n_text > 0))
