"""A look at the files of a corpus before they are read: what each is taken for, and whether its beginning is that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from distembed.corpus.errors import BadRecord, RecordError
from distembed.corpus.partitions import read_batches
from distembed.corpus.paths import has_known_extension, name_files
from distembed.corpus.readers import Corpus
from distembed.corpus.records import Batch
from distembed.corpus.segmentation import INSTALL, scripts_without_spaces
from distembed.corpus.streams import Partition, Progress
from distembed.corpus.tokenizer import scanner
from distembed.formats.names import suffix_of
from distembed.linalg.chunks import evenly_spaced

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

SAMPLE_BYTES = 1 << 14
SAMPLED_FILES = 100
SAMPLE_WORDS = 8
WORD_CHARACTERS = 30
"""What is read of each of the first files for their script, and the words that are shown, each cut."""

MAX_BAD_RECORDS = 1000
"""So many bad records at the beginning of a file that leaves bad records out, and no good one, are an error."""

MAX_FILES = 1000
"""Files whose beginnings are read, evenly over the corpus where it has more."""


FEWEST_FILES, SHORT_BYTES = 20, 1 << 16
"""So many files, half of them no longer than that, are rather documents than lists of documents."""


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
    beginnings = [check_beginning(partition) for partition in files[::step]]
    counts = Counter(FORMAT_NAMES[partition.format] for partition in files)
    taken = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    words = [*_short_files(files, beginnings), *_words_of(corpus, beginnings)]
    return [f"files: {taken}", *_unknown_extensions(files), *_columns(corpus), *words, *corpus.notes]


def _short_files(files: Sequence[Partition], beginnings: Sequence[Batch | None]) -> list[str]:
    """Return a note on many short texts of which each line is a document."""
    size = sorted(part.n_bytes for part in files)[len(files) // 2]
    n_lines = sum(batch.documents.num_rows for batch in beginnings if batch is not None) // len(beginnings)
    are_lines = all(part.format == "text" and part.layout == "line" for part in files)
    if not are_lines or len(files) < FEWEST_FILES or size > SHORT_BYTES or n_lines < 2:
        return []
    key = files[0].option("layout", "file")
    return [f"each line of {len(files):,} short files is a document: give {key} if each file is one"]


def _words_of(corpus: Corpus, beginnings: Sequence[Batch | None]) -> list[str]:
    """Return some words of the beginnings, and a warning where the tokenizer needs spaces that their script lacks."""
    filled = [batch for batch in beginnings if batch is not None and batch.data.size]
    if not filled:
        return []
    data = b"".join(batch.data[:SAMPLE_BYTES].tobytes() for batch in filled[:SAMPLED_FILES])
    text = data.decode("utf-8", "ignore")  # but for what the cuts leave of characters
    warning = _without_spaces(corpus, text)
    if callable(corpus.tokenizer.pattern) or ":" in corpus.tokenizer.pattern:
        return []  # a function of a user is not called before the run
    words = scanner(replace(corpus.tokenizer, phrases_file=None, min_border_tokens=1))
    words.scan(max(filled, key=lambda batch: batch.data.size))
    rows = evenly_spaced(words.n_words, SAMPLE_WORDS)
    shown = ", ".join(words.texts(int(row), int(row) + 1)[0].as_py()[:WORD_CHARACTERS] for row in rows)
    return [f"words: {shown}", *warning] if shown else warning


def _without_spaces(corpus: Corpus, text: str) -> list[str]:
    """Return a warning for text without spaces, with the tokenizers that fit."""
    if corpus.tokenizer.pattern not in ("unicode", "ascii"):
        return []
    key = corpus.partitions[0].option("pattern", "icu")
    return [
        f"{share:.0%} of the letters are {script.name}, which is written without spaces, so that words are whole "
        f"clauses: give {key} ({INSTALL}) or a function of a package ({script.packages})"
        for script, share in scripts_without_spaces(text)
    ]


def _columns(corpus: Corpus) -> list[str]:
    """Return the columns that documents have of their own, with what the path of the first file gives them."""
    first = corpus.partitions[0]
    constants = dict(first.constants)
    columns = (*first.carried, *corpus.columns.names)
    names = [f"{name} ({constants[name]})" if name in constants else name for name in columns]
    return [f"columns of documents, as of {first.name}: {', '.join(names)}"] if names else []


def _unknown_extensions(files: Sequence[Partition]) -> list[str]:
    unknown = [part for part in files if part.format == "text" and not has_known_extension(part.url)]
    if not unknown:
        return []
    kinds: dict[str, list[str]] = {}
    for part in unknown:
        kinds.setdefault(suffix_of(part.url), []).append(part.url.rsplit("/", 1)[-1])
    by_count = sorted(kinds.items(), key=lambda kind: (-len(kind[1]), kind[0]))
    listed = ", ".join(
        f"{len(names):,} {suffix or 'without extension'} ({name_files(names)})" for suffix, names in by_count
    )
    key = unknown[0].option("format")
    return [f"no known extension, taken for text ({key} sets the format): {listed}"]


def check_beginning(partition: Partition) -> Batch | None:
    """Return the first documents of a file; None where it has none.

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
    return batch
