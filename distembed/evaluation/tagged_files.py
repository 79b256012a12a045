"""Files of tagged words: one word per line, its tag of a named entity or a chunk in the last column.

The format is that of the shared tasks of CoNLL: columns between blanks or tabs, the same number in every line, a blank
line between sentences; lines that begin with ``-DOCSTART-`` are passed over. The first column is the word, the last one
the tag (IOB1, IOB2, BIOES or BILOU, see `distembed.evaluation.spans`), and those between are tags that are given, such
as parts of speech::

    Rockwell       NNP  B-NP
    International  NNP  I-NP
    said           VBD  B-VP

Files whose names differ only in the part are one set: `train`, `test` or `testb`, and, if there is one, `dev`, `valid`
or `testa` (`conll2000/train.txt` and `test.txt`, `eng.train` and `eng.testb`).
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable
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
        If a line has another number of columns than the first one, or its last column is no tag.
    """
    rows, starts = list[list[str]](), [0]
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        row = line.split()
        if not row or row[0] == "-DOCSTART-":
            starts += [len(rows)] if len(rows) > starts[-1] else []
            continue
        _check(f"{path}, line {number}", line, row, rows[0] if rows else row)
        rows.append(row)
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
