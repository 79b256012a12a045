"""A look at a corpus before it is read: what each file is taken for, whether its beginning is that, and a sample.

The sample says how many tokens, words and documents a megabyte of text holds. It is the same each time: the beginnings
of a few bundles that lie evenly over the corpus. It calls no function that a tokenizer names (`module:function`): the
words of such a corpus are told apart by Unicode's rules here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from distembed.corpus.partitions import read_batches
from distembed.corpus.paths import OF_WIKIPEDIA, name_files
from distembed.corpus.readers import Corpus
from distembed.corpus.records import Batch, CorpusError, Partition, Progress
from distembed.corpus.tokenizer import INSTALL, SCRIPTS, Tokenizer, scanner, scripts_without_spaces
from distembed.dtypes import Int64s
from distembed.formats.names import TEXT_FORMATS, suffix_of
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

SCRIPT_BYTES = 1 << 14
SAMPLED_FILES = 100
SAMPLE_WORDS = 8
WORD_CHARACTERS = 30
"""What is read of each of the first files for their script, and the words that are shown, each cut."""

MAX_BAD_RECORDS = 1000
"""So many bad records at the beginning of a file that leaves bad records out, and no good one, are an error."""

MAX_FILES = 1000
"""Files whose beginnings are read, evenly over the corpus where it has more."""


SAMPLE_BYTES = 1 << 20
"""Bytes of text in a sample: a tenth of a second of plain text, half of one of a compressed dump."""

SAMPLE_PARTITIONS = 8
"""Bundles whose beginnings are read: files of one corpus may differ."""

SAMPLE_PIECE = 1 << 16
"""Bytes of text that are read at a time, few beside the share of a partition."""


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
    first, notes = files[0], list[str]()
    filled = list[Batch]()
    for partition in files[:: -(-len(files) // MAX_FILES)]:
        progress = Progress(most_bad=MAX_BAD_RECORDS)
        batch = next(read_batches(replace(partition, piece_bytes=BEGINNING_BYTES), progress), None)
        if batch is None and progress.bad_records:
            raise CorpusError(", ".join(progress.bad_records[0]) + ".")
        filled += [batch] if batch is not None and batch.data.size else []
    counts = Counter(FORMAT_NAMES[partition.format] for partition in files)
    notes.append("files: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()))
    kinds: dict[str, list[str]] = {}
    for part in files:
        if part.format == "text" and not (suffix_of(part.url) in TEXT_FORMATS or OF_WIKIPEDIA in part.url):
            kinds.setdefault(suffix_of(part.url), []).append(part.url.rsplit("/", 1)[-1])
    listed = ", ".join(
        f"{len(names):,} {suffix or 'without extension'} ({name_files(names)})"
        for suffix, names in sorted(kinds.items(), key=lambda kind: (-len(kind[1]), kind[0]))
    )
    if kinds:
        notes.append(f"no known extension, taken for text (format= sets the format): {listed}")
    if columns := [*first.carry_fields, *corpus.columns.names]:
        # With what the path of the first file gives them.
        folders = {} if corpus.columns.paths is None else corpus.columns.paths.slice(0, 1).to_pylist()[0]
        names = [f"{name} ({folders[name]})" if name in folders else name for name in columns]
        notes.append(f"columns of documents, as of {first.name}: {', '.join(names)}")
    tokenizer = corpus.tokenizer
    is_named = callable(tokenizer.pattern) or ":" in tokenizer.pattern
    if filled and not is_named:  # no function before the run
        words = scanner(replace(tokenizer, phrases_file=None, min_border_tokens=1))
        words.scan(max(filled, key=lambda batch: batch.data.size))
        rows = evenly_spaced(words.source.n_words, SAMPLE_WORDS)
        shown = ", ".join(word[:WORD_CHARACTERS] for word in words.words()["word"].take(rows).to_pylist())
        notes += [f"words: {shown}"] * bool(shown)
    if tokenizer.pattern in ("unicode", "ascii"):
        data = b"".join(batch.data[:SCRIPT_BYTES].tobytes() for batch in filled[:SAMPLED_FILES])
        notes += [
            f"{share:.0%} of the letters are {script}, which is written without spaces, so that words are whole "
            f'clauses: give pattern="icu" ({INSTALL}) or a function of a package ({SCRIPTS[script][1]})'
            for script, share in scripts_without_spaces(data.decode("utf-8", "ignore")).items()
        ]
    return [*notes, *corpus.notes]


# --- a sample --------------------------------------------------------------------------------------------------


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
    is_known = tokenizer.pattern in {"unicode", "ascii", "icu"}
    words = scanner(tokenizer if is_known else replace(tokenizer, pattern="unicode"))
    n_bytes = n_documents = 0
    for number in np.unique(numbers).tolist():
        left = SAMPLE_BYTES // len(numbers)
        for partition in bundles[number]:
            progress, n_read, n_text, n_own = Progress(), 0, 0, 0
            words.source.url = partition.url
            for batch in read_batches(replace(partition, piece_bytes=SAMPLE_PIECE), progress):
                # Documents may be empty; the bytes of the file are those of the text so far.
                if max(n_text, n_own) >= left and progress.n_bytes_read > n_read:
                    break
                n_own += len(words.scan(batch).n_tokens)
                n_read, n_text = progress.n_bytes_read, n_text + batch.n_bytes
            # beyond a range only the end of its last document is read; ranges of Parquet are of row groups
            if partition.stop is not None and partition.format != "parquet":
                n_read = min(n_read, partition.stop - partition.start)
            left, n_bytes, n_documents = left - max(n_text, n_own), n_bytes + n_read, n_documents + n_own
            if left <= 0:
                break
    counts, document_counts = (words.words()[name].to_numpy() for name in ("count", "document_count"))
    return TextSample(counts, document_counts, n_documents, n_bytes)
