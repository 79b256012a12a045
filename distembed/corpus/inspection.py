"""A look at the files of a corpus before they are read: what each is taken for, and whether its beginning is that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from distembed.corpus.documents import not_utf8_in
from distembed.corpus.errors import BadRecord, RecordError
from distembed.corpus.partitions import read_batches
from distembed.corpus.paths import has_known_extension, name_files
from distembed.corpus.readers import Corpus
from distembed.corpus.streams import Partition, Progress, option_text

FORMAT_NAMES = {
    "mediawiki": "MediaWiki export",
    "text": "text",
    "jsonl": "JSON lines",
    "csv": "CSV",
    "tsv": "TSV",
    "parquet": "Parquet",
}

BEGINNING_BYTES = 1 << 16
"""Bytes of text of each file that are read."""

MAX_BAD_RECORDS = 1000
"""So many bad records at the beginning of a file that leaves bad records out, and no good one, are an error."""

MAX_FILES = 1000
"""Files whose beginnings are read, evenly over the corpus where it has more."""


def inspect_corpus(corpus: Corpus) -> list[str]:
    """Return what the files of a corpus are taken for, in sentences, after the beginning of each was read.

    Parameters
    ----------
    corpus : Corpus
        The corpus. Of more than 1,000 files, 1,000 that lie evenly over the corpus are read.

    Raises
    ------
    CorpusError
        A file cannot be read as what it is taken for, or its first records have no text field.
    """
    files = list({partition.url: partition for partition in reversed(corpus.partitions)}.values())[::-1]
    step = -(-len(files) // MAX_FILES)
    for partition in files[::step]:
        check_beginning(partition)
    counts = Counter(FORMAT_NAMES[partition.format] for partition in files)
    taken = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    return [f"files: {taken}", *_unknown_extensions(files), *_columns(files[0]), *corpus.notes]


def _columns(first: Partition) -> list[str]:
    """Return the columns that documents have of their own, with what the path of the first file gives them."""
    constants = dict(first.constants)
    names = [f"{name} ({constants[name]})" if name in constants else name for name in first.columns]
    return [f"columns of documents, as of {first.name}: {', '.join(names)}"] if names else []


def _unknown_extensions(files: Sequence[Partition]) -> list[str]:
    unknown = [part for part in files if part.format == "text" and not has_known_extension(part.url)]
    if not unknown:
        return []
    names = name_files(part.url.rsplit("/", 1)[-1] for part in unknown)
    key = option_text(unknown[0].section, "format")
    return [f"{names}: no known extension, taken for text ({key} sets the format)"]


def check_beginning(partition: Partition) -> None:
    """Read the first documents of a file.

    Raises
    ------
    CorpusError
        They cannot be read, or no record of the first is good.
    """
    seen: list[BadRecord] = []

    def note(record: BadRecord) -> None:
        seen.append(record)
        if len(seen) >= MAX_BAD_RECORDS:
            raise RecordError(seen[0])

    batch = next(read_batches(replace(partition, piece_bytes=BEGINNING_BYTES), Progress(note)), None)
    if batch is None and seen:
        raise RecordError(seen[0])
    if batch is not None and partition.errors == "strict":
        try:
            batch.data.tobytes().decode()
        except UnicodeDecodeError as error:
            place, byte = batch.offset + error.start, int(batch.data[error.start])
            raise not_utf8_in(partition, place, byte) from error
