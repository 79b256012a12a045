"""Files of tagged words, one word per line with its tag in the last column, and the spans that tags stand for.

The format is that of the shared tasks of CoNLL: columns between spaces or tabs, the same number in every line, a blank
line between sentences; lines that begin with ``-DOCSTART-`` are passed over. The first column is the word, the last one
the tag, and those between are tags that are given, such as parts of speech::

    Rockwell       NNP  B-NP
    International  NNP  I-NP
    said           VBD  B-VP

Files whose names differ only in the part are one set: `train`, `test` or `testb`, and, if there is one, `dev`, `valid`
or `testa` (`conll2000/train.txt` and `test.txt`, `eng.train` and `eng.testb`).

A tag is O, or a position in a span and the kind of span. I continues a span of its kind and begins one otherwise, B and
S (U in BILOU) begin one, E and S (L and U in BILOU) end one. So IOB1, where B stands only between two spans of one
kind, IOB2, BIOES and BILOU are read by one rule, and sequences of tags that no such scheme allows are read too. Spans
and their F1 are counted as the program `conlleval` of the shared tasks counts them.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.corpus.paths import files_below
from distembed.evaluation.wordsets import text_of
from distembed.files import read_head
from distembed.formats.names import without_compression

TAG = re.compile("O|[BIESLU]-.+")
"""A tag: O for a word outside of all spans, or a position in a span and the kind of span."""

PARTS = {"train": "train", "dev": "dev", "valid": "dev", "testa": "dev", "test": "test", "testb": "test"}
"""The parts of a set by what the names of its files say."""

ENDINGS = {"conll", "txt", "tsv", "iob", "iob2", "bio"}
"""The last parts of names that say nothing of a set."""

SNIFFED_BYTES = 1 << 16
"""Bytes at the beginning of a file by which it is recognized."""

BEGINS = frozenset("BSU")
ENDS = frozenset("ESLU")


class TaggedWords(NamedTuple):
    """The words of some sentences with their tags."""

    words: list[str]
    tags: list[str]
    """List of str, (n_words,) each."""
    given: list[list[str]]
    """The columns between the word and its tag, each (n_words,)."""
    starts: NDArray[np.int64]
    """The first word of each sentence, and the number of words. Int64 array (n_sentences + 1,)."""


class TaggedSet(NamedTuple):
    """A set of tagged sentences: a part that models are fitted to, one that chooses among them or None, one to test."""

    name: str
    train: TaggedWords
    dev: TaggedWords | None
    test: TaggedWords


class FoundTags(NamedTuple):
    """The sets of tagged sentences at some paths, and the files that they were read from."""

    sets: list[TaggedSet]
    files: frozenset[Path]


def find_tagged_sets(paths: Iterable[str | Path]) -> FoundTags:
    """Read the files of tagged words among some files and folders, and all below them; others are passed over.

    Raises
    ------
    ValueError
        If a line of such a file is not like its first or has no tag, or a set lacks a part.
    """
    every = [file for path in map(Path, paths) for file in files_below(path)]
    files = [file for file in every if is_tagged(file)]
    found: dict[str, dict[str, Path]] = {}
    for file in files:
        name, part = _set_and_part(file)
        if part in found.setdefault(name, {}):
            raise ValueError(
                f"{file} and {found[name][part]} are both the part {part} of {name}: give one of them"
            )
        found[name][part] = file
    for file in every:  # one that should be a part is read, and its bad line named
        name, part = _set_and_part(file)
        if part and name in found:
            found[name].setdefault(part, file)
    return FoundTags([_set_of(name, parts) for name, parts in found.items()], frozenset(files))


def is_tagged(path: Path) -> bool:
    """Return whether a file is one of tagged words, by its first lines: the first sentences have a tag of a span."""
    try:
        lines = read_head(path, SNIFFED_BYTES).decode("utf-8-sig", "ignore").splitlines()[:-1]
    except (OSError, lzma.LZMAError, EOFError):
        return False
    rows = [line.split() for line in lines if line.strip() and not line.startswith("-DOCSTART-")]
    wide = bool(rows) and all(len(row) == len(rows[0]) > 1 for row in rows[:20])
    return wide and all(TAG.fullmatch(row[-1]) for row in rows[:20]) and any(row[-1] != "O" for row in rows)


def read_tagged(path: Path) -> TaggedWords:
    """Return the words and tags of a file.

    Raises
    ------
    ValueError
        If there is no line with a word, one has another number of columns than the first, or its last is no tag.
    """
    rows, starts = list[list[str]](), [0]
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        row = line.split()
        if not row or row[0] == "-DOCSTART-":
            starts += [len(rows)] if len(rows) > starts[-1] else []
            continue
        _check(f"{path}, line {number}", line, row, rows[0] if rows else row)
        rows.append(row)
    if not rows:
        raise ValueError(f"{path} has no words: give a word with its tag on each line")
    columns = [list(column) for column in zip(*rows, strict=True)]
    bounds = np.array(starts if starts[-1] == len(rows) else [*starts, len(rows)], np.int64)
    return TaggedWords(columns[0], columns[-1], columns[1:-1], bounds)


def sentences_of(tagged: TaggedWords) -> list[list[str]]:
    """Return the tags of each sentence."""
    return [tagged.tags[start:stop] for start, stop in pairwise(tagged.starts.tolist())]


def _check(where: str, line: str, row: list[str], first: list[str]) -> None:
    if len(row) != len(first):
        raise ValueError(
            f"{where}: {line[:60]!r} has {len(row)} columns and the first line has {len(first)}; give every word the "
            "same columns, and a blank line between sentences"
        )
    if not TAG.fullmatch(row[-1]):
        raise ValueError(
            f"{where}: the last column is {row[-1]!r}, which is no tag; write O, or B-, I-, E-, S-, L- or U- and a kind"
        )


def _set_and_part(path: Path) -> tuple[str, str]:
    """Return the set and the part that the name of a file says; the folder names the set where the file does not."""
    words = re.split("[-_.]", without_compression(path.name))
    words = words[:-1] if words[-1].lower() in ENDINGS and len(words) > 1 else words
    part = next((word for word in words if word.lower() in PARTS), "")
    rest = "-".join(word for word in words if word != part)
    return rest or path.resolve().parent.name, PARTS.get(part.lower(), "")


def _set_of(name: str, parts: dict[str, Path]) -> TaggedSet:
    if not {"train", "test"} <= parts.keys():
        found = ", ".join(path.name for path in parts.values())
        raise ValueError(
            f"the set {name} of tagged words has the files {found}: a part for training and one for testing are "
            "needed, with names such as NAME-train.conll and NAME-test.conll"
        )
    dev = read_tagged(parts["dev"]) if "dev" in parts else None
    found_set = TaggedSet(name, read_tagged(parts["train"]), dev, read_tagged(parts["test"]))
    widths = {
        part: len(each.given)
        for part, each in zip(("train", "dev", "test"), found_set[1:], strict=True)
        if each
    }
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{width + 2} in {parts[part].name}" for part, width in widths.items())
        raise ValueError(
            f"the parts of {name} have different numbers of columns, {listed}: give all of them the same"
        )
    return found_set


# ---- spans ------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """A span of words of a sentence: its first word, the one after its last, and its kind."""

    start: int
    stop: int
    kind: str


def spans(tags: Sequence[str]) -> list[Span]:
    """Return the spans of the tags of one sentence, in their order.

    >>> from distembed.evaluation.tagged_files import spans
    >>> spans(["B-NP", "I-NP", "O", "I-VP", "B-VP"])
    [Span(start=0, stop=2, kind='NP'), Span(start=3, stop=4, kind='VP'), Span(start=4, stop=5, kind='VP')]
    """
    found, start, open_kind = list[Span](), 0, ""
    for place, tag in enumerate([*tags, "O"]):
        position, _, kind = tag.partition("-")
        if open_kind and (position in BEGINS or kind != open_kind):
            found.append(Span(start, place, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = place, kind
        if kind and position in ENDS:
            found.append(Span(start, place + 1, kind))
            open_kind = ""
    return found


def iob2(tags: Sequence[str]) -> list[str]:
    """Return the tags of one sentence in the scheme IOB2: B at the beginning of every span, I within.

    >>> from distembed.evaluation.tagged_files import iob2
    >>> iob2(["I-NP", "I-NP", "B-NP", "O", "U-VP"])
    ['B-NP', 'I-NP', 'B-NP', 'O', 'B-VP']
    """
    written = ["O"] * len(tags)
    for span in spans(tags):
        written[span.start : span.stop] = [f"B-{span.kind}"] + [f"I-{span.kind}"] * (
            span.stop - span.start - 1
        )
    return written


def span_counts(true: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> NDArray[np.int64]:
    """Return the numbers of right, found and true spans of each sentence, int64 (n_sentences, 3)."""
    counts = list[tuple[int, int, int]]()
    for gold, guess in zip(true, found, strict=True):
        gold_spans, guessed = set(spans(gold)), set(spans(guess))
        counts.append((len(gold_spans & guessed), len(guessed), len(gold_spans)))
    return np.array(counts, np.int64).reshape(-1, 3)


def f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the harmonic mean of precision and recall of counts (..., 3), 0 where there is no span at all."""
    right, found, true = np.moveaxis(counts, -1, 0).astype(np.float64)
    return np.asarray(2 * right / np.maximum(found + true, 1))
