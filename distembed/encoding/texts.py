"""The texts of files with their vectors, some at a time, whatever the length of a text or of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.partitions import read_batches
from distembed.corpus.streams import Batch, Partition, Progress
from distembed.encoding import blocks
from distembed.encoding.encoder import EncodedTexts, TextEncoder
from distembed.execution import compute, delayed

SNIPPET_CHARACTERS = 160
"""Characters of the beginning of a text that are kept beside its vector: two lines of a terminal."""

HELD_VALUES = 1 << 21
"""Numbers of the vectors that are made at a time, at most: 8 MiB of float32."""

HEADS = ("id", "title", "label", "snippet")


class TextRows(NamedTuple):
    """Some texts: a record batch of id, title, label and snippet, and their vectors."""

    heads: pa.RecordBatch
    encoded: EncodedTexts


class FoundText(NamedTuple):
    """A text that a search has found: its cosine with the query, its id, its title and its beginning."""

    cosine: float
    id: str
    title: str
    snippet: str


def encode_texts(
    encoder: TextEncoder, partition: Partition, progress: Progress | None = None
) -> Iterator[TextRows]:
    """Yield the texts of a partition in their order, with their vectors; a few MiB are in memory.

    Raises
    ------
    CorpusError
        If the partition cannot be read.
    """
    stream = encoder.stream(url=partition.url, errors=partition.errors)
    most = max(1, HELD_VALUES // encoder.n_features_out_)
    held: list[list[str | None]] = [[] for _ in HEADS]
    for batch in small_batches(read_batches(partition, progress), most):
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


def query_vector(encoder: TextEncoder, query: str) -> NDArray[np.float32]:
    """Return the vector (d,) of a text to search for.

    Raises
    ------
    ValueError
        If none of its words is known.
    """
    encoded = encoder.encode([query])
    if not encoded.n_known[0]:
        raise ValueError(f"the query {query!r:.80} has no known word: choose words of the vocabulary")
    return np.asarray(encoded.vectors[0])


def nearest(rows: Iterable[TextRows], query: NDArray[np.float32], n: int) -> list[FoundText]:
    """Return the n texts with the largest cosine to a query, the nearest first; texts without words are left out."""
    found: list[FoundText] = []
    for some in rows:
        cosines = blocks.cosines(some.encoded.vectors, query)
        places = np.flatnonzero(some.encoded.n_known)
        top = blocks.best(cosines[places], places, n)
        heads = some.heads.take(pa.array(top.rows)).to_pylist()
        found += [
            FoundText(float(cosine), head["id"], head["title"] or "", head["snippet"])
            for cosine, head in zip(top.cosines, heads, strict=True)
        ]
        found = sorted(found, key=lambda text: -text.cosine)[:n]
    return found


def search_texts(
    encoder: TextEncoder, partitions: Iterable[Partition], query: str, n: int
) -> list[FoundText]:
    """Return the n texts of files that are nearest to a query, encoded as they are read, a task per partition.

    Among equal cosines the text that is read first comes first.

    Raises
    ------
    ValueError
        If the query has no known word.
    CorpusError
        If a file cannot be read.
    """
    vector = query_vector(encoder, query)
    tasks = [delayed(_nearest_of)(encoder, partition, vector, n) for partition in partitions]
    found = [text for part in compute(tasks, scheduler="threads") for text in part]
    return sorted(found, key=lambda text: -text.cosine)[:n]


def _nearest_of(
    encoder: TextEncoder, partition: Partition, vector: NDArray[np.float32], n: int
) -> list[FoundText]:
    return nearest(encode_texts(encoder, partition), vector, n)
