"""Documents and files that must not be read again, known by digests only.

A digest of an id or a name is keyed by the salt of its withdrawal, so that equal ids have other digests elsewhere. A
document that bears an id in its file is known by that; one whose id is only its place in a file is known by its text,
wherever it comes to stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.streams import Batch, Partition

DIGEST_BYTES = 16


class DocumentDigest(NamedTuple):
    """The digest of a document's id, and that of its text where the id is only its place, "" where it is not."""

    id: str
    text: str


class FileDigest(NamedTuple):
    """The digest of the name of a file, and the version of its content."""

    name: str
    content: str


@dataclass(frozen=True)
class Withdrawal:
    """What was withdrawn together: when, and the digests, which are keyed by a salt.

    Examples
    --------
    >>> from distembed.corpus.withdrawn import DocumentDigest, Withdrawal, digest
    >>> made = Withdrawal("2026-01-01T00:00:00+00:00", "salt", (DocumentDigest(digest("salt", "7"), ""),))
    >>> made.holds_id("7"), made.holds_id("8")
    (True, False)
    """

    time: str
    salt: str
    documents: tuple[DocumentDigest, ...] = ()
    files: tuple[FileDigest, ...] = ()

    def holds_id(self, ident: str) -> bool:
        """Return whether a document of this id was withdrawn."""
        return any(document.id == digest(self.salt, ident) for document in self.documents)

    def holds_document(self, ident: str, text: bytes, *, has_id: bool) -> bool:
        """Return whether a document was withdrawn, by its id if it has one of its own, else by its text."""
        found = digest(self.salt, ident if has_id else text)
        return any(found == (document.id if has_id else document.text) for document in self.documents)

    def holds_file(self, name: str, content: str = "") -> bool:
        """Return whether a file of this name, without its folder, or of this content was withdrawn."""
        last = digest(self.salt, name.rstrip("/").rsplit("/", 1)[-1])
        return any(last == file.name or (content and content == file.content) for file in self.files)


def digest(salt: str, text: str | bytes) -> str:
    """Return the digest of a text under a salt."""
    data = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
    return blake2b(data, digest_size=DIGEST_BYTES, key=salt.encode()[:64]).hexdigest()


def has_own_ids(partition: Partition) -> bool:
    """Return whether the documents of a partition bear ids in their file, and not only places."""
    return partition.format == "mediawiki" or (partition.format != "text" and partition.fields[1] is not None)


def document_texts(batches: Iterable[Batch]) -> Iterator[tuple[str, bytes]]:
    """Yield the id and the text of each document."""
    held: list[bytes] = []
    ident = ""
    for batch in batches:
        ids = iter(batch.ids.to_pylist())
        for span, (start, stop) in enumerate(zip(batch.starts, batch.stops, strict=True)):
            if not held:
                ident = next(ids)
            held.append(batch.data[start:stop].tobytes())
            if span < batch.n_closed:
                yield ident, b"".join(held)
                held = []


def withdrawn_numbers(
    partition: Partition, batches: Iterable[Batch], withdrawals: Iterable[Withdrawal]
) -> frozenset[int]:
    """Return the numbers of the documents of a partition that were withdrawn."""
    has_id, every = has_own_ids(partition), tuple(withdrawals)
    return frozenset(
        number
        for number, (ident, text) in enumerate(document_texts(batches))
        if any(one.holds_document(ident, text, has_id=has_id) for one in every)
    )


def without(batches: Iterable[Batch], numbers: frozenset[int]) -> Iterator[Batch]:
    """Yield batches without the documents of some numbers."""
    first, is_open = 0, False
    for batch in batches:
        n_spans = len(batch.starts)
        documents = np.arange(first - is_open, first - is_open + n_spans)
        stays = np.array([number not in numbers for number in documents.tolist()], bool)
        first = int(documents[-1]) + 1 if n_spans else first
        begins = stays[int(is_open) :]
        is_open = n_spans > batch.n_closed if n_spans else is_open
        if stays.any():
            yield _taken(batch, stays, begins)


def _taken(batch: Batch, stays: NDArray[np.bool_], begins: NDArray[np.bool_]) -> Batch:
    mask = pa.array(begins)
    return batch._replace(
        starts=batch.starts[stays],
        stops=batch.stops[stays],
        n_closed=int(stays[: batch.n_closed].sum()),
        ids=batch.ids.filter(mask),
        titles=batch.titles.filter(mask),
        labels=batch.labels.filter(mask),
        carried=tuple(column.filter(mask) for column in batch.carried),
    )
