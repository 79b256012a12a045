"""A sample of a corpus: the words of a few megabytes of it, before all of it is read.

The sample is the same each time: the beginnings of a few bundles that lie evenly over the corpus, or the first
tokenized partitions where there are some. It calls no function that a tokenizer names (`module:function`): the
words of such a corpus are told apart by Unicode's rules here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.partitions import Tokens, read_batches
from distembed.corpus.streams import Partition, Progress, Scanned, Scanner
from distembed.corpus.tokenizer import Tokenizer, scanner
from distembed.formats.pieces import open_url, xz_text_bytes

SAMPLE_BYTES = 8 << 20
"""Bytes of text in a sample, 1.4 million words of English: half a second of plain text, two of a compressed dump."""

SAMPLE_PARTITIONS = 8
"""Bundles whose beginnings are read: files of one corpus may differ."""

SAMPLE_TYPES = 1 << 17
"""Different words after which no more is read: where nearly every word is new, the rest is as well."""

SAMPLE_PIECE = 1 << 17
"""Bytes of text that are read at a time, few beside the share of a partition."""

SAMPLE_WORDS = 1 << 20
"""Words of the dictionaries of token partitions that are read."""

SAMPLE_DICTIONARIES = 256
"""Token partitions that are read at most: a corpus of very many small files has a small one of each."""

SAMPLE_IDS = 1 << 19
"""Token ids that are read of each of these partitions."""


@dataclass(frozen=True, eq=False)
class CorpusSample:
    """What a part of a corpus holds."""

    words: pa.StringArray
    """String array (words,), each once."""
    counts: NDArray[np.int64]
    document_counts: NDArray[np.int64]
    """Int64 arrays (words,), the tokens of each word and the documents that hold it."""
    ids: NDArray[np.int32]
    """The text: the number of each token's word, and -1 before each stretch that a window does not leave. Of token
    partitions it is their beginnings, less than the counts are of. Int32 array (tokens and borders,).
    """
    n_documents: int
    n_tokens: int
    n_bytes: int
    """Bytes of the files, as they are stored, that were read for it; 0 where token partitions were."""
    is_whole: bool
    """Whether nothing of the corpus was left out."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The tokens of each stretch of the text that a window does not leave, int64 (segments,)."""
        lengths = np.diff(np.append(np.flatnonzero(self.ids < 0), len(self.ids))) - 1
        return lengths[lengths > 0].astype(np.int64)


def sample_bundles(
    bundles: Sequence[Sequence[Partition]], tokenizer: Tokenizer, *, max_bytes: int = SAMPLE_BYTES
) -> CorpusSample:
    """Read the beginnings of some bundles of a corpus.

    Parameters
    ----------
    bundles : sequence of sequences of Partition
        All bundles of the corpus.
    tokenizer : Tokenizer
    max_bytes : int
        Bytes of text to read in all, in equal shares of the bundles that are read.

    Raises
    ------
    CorpusError
        A partition cannot be read.
    """
    numbers = np.unique(
        np.linspace(0, len(bundles) - 1, min(SAMPLE_PARTITIONS, len(bundles))).round().astype(int)
    )
    named = tokenizer.pattern in {"unicode", "ascii", "icu"}
    rules = tokenizer if named else replace(tokenizer, pattern="unicode")
    found = [
        _beginning(bundles[number], rules, max_bytes // len(numbers), SAMPLE_TYPES // len(numbers))
        for number in numbers.tolist()
    ]
    # A range of a compressed file in which no stream begins holds nothing: another partition reads its documents.
    samples = [sample for sample in found if sample.n_tokens] or found
    whole = named and len(numbers) == len(bundles) and all(sample.is_whole for sample in found)
    return _together(samples, is_whole=whole)


def _beginning(
    bundle: Sequence[Partition], tokenizer: Tokenizer, max_bytes: int, max_words: int
) -> CorpusSample:
    """Read the first files of a bundle, and the beginning of the last of them."""
    words = scanner(tokenizer, errors=bundle[0].errors, section=bundle[0].section)
    n_bytes = n_text = n_documents = n_read = 0
    ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    is_whole = True
    for partition in bundle:
        if n_read and (n_text >= max_bytes or words.n_words >= max_words):
            break
        words.begin(partition.url)
        read = _read(partition, words, max_bytes - n_text, max_words)
        n_bytes, n_text, n_read = n_bytes + read.n_bytes, n_text + read.n_text, n_read + 1
        n_documents, is_whole = n_documents + read.n_documents, is_whole and read.is_whole
        ids += read.ids
    slices = list(words.words())
    return CorpusSample(
        pa.chunked_array([each.words for each in slices]).combine_chunks(),
        np.concatenate([each.counts for each in slices]),
        np.concatenate([each.document_counts for each in slices]),
        np.concatenate(ids),
        n_documents,
        sum(int(each.counts.sum()) for each in slices),
        n_bytes,
        is_whole and n_read == len(bundle),
    )


class _Read(NamedTuple):
    """The beginning of a partition: its bytes as they are stored, those of its text, and its ids."""

    n_bytes: int
    n_text: int
    n_documents: int
    ids: list[NDArray[np.int32]]
    is_whole: bool


def _read(partition: Partition, words: Scanner, max_bytes: int, max_words: int) -> _Read:
    """Scan the beginning of a partition, up to a place where the bytes read are those of the text that came."""
    progress = Progress()
    n_bytes = n_unpacked = n_text = n_documents = 0
    ids: list[NDArray[np.int32]] = []
    is_whole = True
    for batch in read_batches(replace(partition, piece_bytes=SAMPLE_PIECE), progress):
        enough = n_text >= max_bytes or words.n_words >= max_words
        if enough and progress.n_bytes_read > n_bytes:
            is_whole = False
            break
        scanned = words.scan(batch)
        n_bytes, n_unpacked = progress.n_bytes_read, progress.n_bytes_unpacked
        n_text += int((batch.stops - batch.starts).sum())
        n_documents += len(scanned.n_tokens)
        ids.append(_with_borders(scanned))
    stored = progress.n_bytes_read if is_whole else _stored_bytes(partition, n_unpacked, n_bytes)
    n_documents = max(n_documents, int(n_text > 0))
    return _Read(min(stored, _own_bytes(partition)), n_text, n_documents, ids, is_whole)


def _stored_bytes(partition: Partition, n_unpacked: int, n_read: int) -> int:
    """Return the bytes of a file that stand for its first unpacked ones, of which so many were read.

    The beginning of an .xz file is compressed less than what follows, because it can refer to nothing before it: of
    512 KiB there came 1.6 MiB of English, of the whole file 1.9 MiB for as many bytes.
    """
    if partition.compression != "xz":
        return n_read
    with closing(open_url(partition.url)) as raw:
        whole = xz_text_bytes(raw)
        return round(n_unpacked / whole * raw.seek(0, os.SEEK_END)) if whole else n_read


def _own_bytes(partition: Partition) -> int:
    """Return the bytes of the range of a partition, beyond which only the end of its last document is read."""
    if partition.stop is None or partition.format == "parquet":  # whose ranges are of row groups
        return sys.maxsize
    return partition.stop - partition.start


def _with_borders(scanned: Scanned) -> NDArray[np.int32]:
    """Return the ids of scanned text with a border before each document; what goes on from before counts as one."""
    starts = np.unique(np.append(0, scanned.id_stops[scanned.id_stops < len(scanned.ids)]))
    return np.insert(scanned.ids, starts, np.int32(-1)).astype(np.int32)


def _together(partitions: Sequence[CorpusSample], *, is_whole: bool) -> CorpusSample:
    """Return several samples as one, with each word once."""
    encoded = pa.concat_arrays([partition.words for partition in partitions]).dictionary_encode()
    number, n_words = encoded.indices.to_numpy().astype(np.int32), len(encoded.dictionary)
    sums = {"counts": np.zeros(n_words, np.int64), "document_counts": np.zeros(n_words, np.int64)}
    ids, first = [np.zeros(0, np.int32)], 0
    for partition in partitions:
        numbers = number[first : first + len(partition.words)]
        first += len(numbers)
        for name, total in sums.items():
            np.add.at(total, numbers, getattr(partition, name))
        ids.append(np.append(numbers, np.int32(-1))[partition.ids])
    return CorpusSample(
        words=encoded.dictionary,
        ids=np.concatenate(ids),
        n_documents=sum(partition.n_documents for partition in partitions),
        n_tokens=sum(partition.n_tokens for partition in partitions),
        n_bytes=sum(partition.n_bytes for partition in partitions),
        is_whole=is_whole,
        **sums,
    )


def sample_parts(tokens: Tokens, *, max_words: int = SAMPLE_WORDS) -> CorpusSample:
    """Read the first dictionaries of a tokenized corpus until they hold so many words; one is read at least."""
    found, n_words = list[CorpusSample](), 0
    for partition in tokens.partitions[:SAMPLE_DICTIONARIES]:
        if found and n_words >= max_words:
            break
        words, documents = tokens.words(partition), tokens.documents(partition)
        counts, document_counts = (words[name].to_numpy() for name in ("count", "document_count"))
        n_tokens, n_words = int(counts.sum()), n_words + words.num_rows
        found.append(
            CorpusSample(
                words["word"].combine_chunks(),
                counts,
                document_counts,
                np.concatenate([np.zeros(0, np.int32), *_beginning_of_part(tokens, partition)]),
                documents.num_rows,
                n_tokens,
                0,
                is_whole=True,
            )
        )
    return _together(found, is_whole=len(found) == len(tokens.partitions))


def _beginning_of_part(tokens: Tokens, partition: str) -> Iterator[NDArray[np.int32]]:
    """Yield `SAMPLE_IDS` ids at the beginning of a partition, with a border before each document."""
    left = SAMPLE_IDS
    for batch in tokens.iter_partition(partition):
        ids, documents = batch.ids[:left], batch.document[:left]
        stops = np.flatnonzero(np.diff(documents)) + 1
        yield _with_borders(Scanned(ids, stops, stops))
        left -= len(ids)
        if not left:
            return
