"""The texts of files with their vectors, some at a time, whatever the length of a text or of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from distembed.corpus.partitions import read_batches
from distembed.corpus.records import HEADS, Batch
from distembed.corpus.streams import Partition
from distembed.encoding.encoder import EncodedTexts, TextEncoder

SNIPPET_CHARACTERS = 160
"""Characters of the beginning of a text that are kept beside its vector: two lines of a terminal."""

HELD_VALUES = 1 << 21
"""Numbers of the vectors that are made at a time, at most: 8 MiB of float32."""


class TextRows(NamedTuple):
    """Some texts: a record batch of id, title, label and snippet, and their vectors."""

    heads: pa.RecordBatch
    encoded: EncodedTexts


def encode_texts(encoder: TextEncoder, partition: Partition) -> Iterator[TextRows]:
    """Yield the texts of a partition in their order, with their vectors; a few MiB are in memory.

    Raises
    ------
    CorpusError
        If the partition cannot be read.
    """
    stream = encoder.stream()
    most = max(1, HELD_VALUES // encoder.n_features_out_)
    for batch in small_batches(read_batches(partition), most):
        if not batch.continues:
            heads = batch.documents.select(HEADS)
            heads = heads.append_column("snippet", pa.array(snippets_of(batch), pa.string()))
        encoded = stream.add(batch)
        if not batch.is_open:
            yield TextRows(heads.combine_chunks().to_batches()[0], encoded)


def small_batches(batches: Iterable[Batch], most: int) -> Iterator[Batch]:
    """Yield batches of at most `most` texts, and each piece of a longer text."""
    for batch in batches:
        for first in range(0, len(batch.starts), most):
            last = first + most
            documents = batch.documents.slice(first, most)
            yield batch._replace(
                starts=batch.starts[first:last], stops=batch.stops[first:last], documents=documents
            )


def snippets_of(batch: Batch) -> list[str]:
    """Return the first characters of each span of a batch, white space as it is."""
    most = 4 * SNIPPET_CHARACTERS
    stops = np.minimum(batch.stops, batch.starts + most).tolist()
    pieces = (
        batch.data[start:stop].tobytes() for start, stop in zip(batch.starts.tolist(), stops, strict=True)
    )
    return [piece.decode("utf-8", "ignore")[:SNIPPET_CHARACTERS] for piece in pieces]
