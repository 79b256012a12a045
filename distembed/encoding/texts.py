"""The texts of files with their vectors, some at a time, whatever the length of a text or of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from distembed.corpus.partitions import read_batches
from distembed.corpus.streams import Batch, Partition
from distembed.encoding.encoder import EncodedTexts, TextEncoder

SNIPPET_CHARACTERS = 160
"""Characters of the beginning of a text that are kept beside its vector: two lines of a terminal."""

HELD_VALUES = 1 << 21
"""Numbers of the vectors that are made at a time, at most: 8 MiB of float32."""

HEADS = ("id", "title", "label", "snippet")


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
    stream = encoder.stream(url=partition.url, errors=partition.errors)
    most = max(1, HELD_VALUES // encoder.n_features_out_)
    held: list[list[str | None]] = [[] for _ in HEADS]
    for batch in small_batches(read_batches(partition), most):
        extend_heads(held, batch)
        encoded = stream.add(batch)
        n = len(encoded.n_known)
        if n:
            columns = [pa.array(column[:n], pa.string()) for column in held]
            yield TextRows(pa.record_batch(columns, names=list(HEADS)), encoded)
            held = [column[n:] for column in held]


def small_batches(batches: Iterable[Batch], most: int) -> Iterator[Batch]:
    """Yield batches of at most `most` spans; a text that begins in one may go on in the next."""
    continues = 0
    for batch in batches:
        for first in range(0, len(batch.starts), most):
            spans = slice(first, first + most)
            heads = slice(max(first - continues, 0), first + most - continues)
            n_closed = int(np.clip(batch.n_closed - first, 0, len(batch.starts[spans])))
            ids, titles, labels = (text[heads] for text in (batch.ids, batch.titles, batch.labels))
            starts, stops = batch.starts[spans], batch.stops[spans]
            yield Batch(batch.data, starts, stops, n_closed, ids, titles, labels, offset=batch.offset)
        if len(batch.starts):
            continues = int(batch.n_closed < len(batch.starts))


def extend_heads(held: list[list[str | None]], batch: Batch) -> None:
    """Append id, title, label and snippet of the texts that begin in a batch; a snippet that is open is continued."""
    snippets = snippets_of(batch)
    ids, titles, labels, shown = held
    if len(snippets) > len(batch.ids):  # the first span continues a text
        shown[-1] = f"{shown[-1]}{snippets.pop(0)}"[:SNIPPET_CHARACTERS]
    ids += batch.ids.to_pylist()
    titles += batch.titles.to_pylist()
    labels += batch.labels.to_pylist()
    shown += snippets


def snippets_of(batch: Batch) -> list[str]:
    """Return the first characters of each span of a batch, white space as it is."""
    most = 4 * SNIPPET_CHARACTERS
    stops = np.minimum(batch.stops, batch.starts + most).tolist()
    pieces = (
        batch.data[start:stop].tobytes() for start, stop in zip(batch.starts.tolist(), stops, strict=True)
    )
    return [piece.decode("utf-8", "ignore")[:SNIPPET_CHARACTERS] for piece in pieces]
