"""Files of sentences: pairs with a human similarity, and texts with a label, plain or `.xz`, tab-separated.

- pairs: ``subset  score  sentence1  sentence2``, four columns without a header, as in the shared tasks on semantic
  textual similarity (STS)
- classified texts: ``label  text``, two columns without a header. Of files whose names end in ``-train``, ``-dev``
  and ``-test`` one set is made; a file alone is for cross-validation.
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.evaluation.wordsets import look_for_word_sets

SUFFIXES = (".tsv", ".tsv.xz")
PARTS = ("train", "dev", "test")

LINES_A_LABEL = 5
"""Lines that each label of a file of classified texts has on average, at least: others are no classes."""


class SentencePairs(NamedTuple):
    """Pairs of sentences with human scores, float64 (n,)."""

    name: str
    scores: NDArray[np.float64]
    first: list[str]
    second: list[str]


class ClassifiedTexts(NamedTuple):
    """Texts with labels; `parts` has "train", "dev" or "test" for each text, or is None for cross-validation."""

    name: str
    labels: list[str]
    texts: list[str]
    parts: list[str] | None


SentenceSet = SentencePairs | ClassifiedTexts


class FoundSentences(NamedTuple):
    """The sets of sentences at some paths, and the files that they were read from."""

    sets: list[SentenceSet]
    files: frozenset[Path]


def find_sentence_sets(paths: Iterable[str | Path], *, besides: Collection[Path] = ()) -> FoundSentences:
    """Read the files of sentences among some files and folders, and all below them; others are passed over.

    The files `besides` are sets of another kind, and are not read.

    Raises
    ------
    ValueError
        If a line of a file of sentences is not like its first, or a set has no training or no test part.
    """
    files = [file for path in map(Path, paths) for file in files_at(path)]
    read = {
        file: found for file in files if file not in besides and (found := read_sentences(file)) is not None
    }
    pairs = [found for found in read.values() if isinstance(found, SentencePairs)]
    texts = [found for found in read.values() if isinstance(found, ClassifiedTexts)]
    return FoundSentences([*pairs, *_joined(texts)], frozenset(read))


def with_word_sets(paths: Iterable[str | Path], besides: Collection[Path]) -> list[Path]:
    """Return the paths at which there are word sets too, beside files that are sets of another kind.

    Raises
    ------
    WordSetError, FileNotFoundError
        As `look_for_word_sets`, which passes over the files `besides`.
    """
    return [path for path in map(Path, paths) if look_for_word_sets(path, besides=besides).sets]


def read_sentences(path: Path) -> SentenceSet | None:
    """Return the sentences of a file, None where it is of another format."""
    if not path.name.endswith(SUFFIXES):
        return None
    rows = [line.split("\t") for line in _text(path).splitlines() if line.strip()]
    width = len(rows[0]) if rows else 0
    name = path.name.removesuffix(".xz").removesuffix(".tsv")
    if width == 4 and math.isfinite(_number(rows[0][1])):
        _check(path, rows, 4)
        scores = np.array([_number(row[1]) for row in rows])
        return SentencePairs(name, scores, [row[2] for row in rows], [row[3] for row in rows])
    if width == 2 and LINES_A_LABEL * len({row[0] for row in rows}) <= len(rows):
        _check(path, rows, 2)
        return ClassifiedTexts(name, [row[0] for row in rows], [row[1] for row in rows], None)
    return None


def files_at(path: Path) -> list[Path]:
    """Return a file itself, or the files of a folder and of all below it that are not hidden, in order."""
    if not path.is_dir():
        return [path] if path.is_file() else []
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name[0] != ".")


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8-sig")


def _number(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan


def _check(path: Path, rows: list[list[str]], width: int) -> None:
    for number, row in enumerate(rows, start=1):
        if len(row) != width or (width == 4 and not math.isfinite(_number(row[1]))):
            expected = "subset, score and two sentences" if width == 4 else "a label and a text"
            raise ValueError(
                f"{path}, row {number}: {' | '.join(row)[:60]!r}, expected {expected} between tabs; correct the line"
            )


def _joined(texts: list[ClassifiedTexts]) -> list[ClassifiedTexts]:
    """Return the sets whose parts are in several files as one each, the others as they are."""
    found: dict[str, list[tuple[str, ClassifiedTexts]]] = {}
    for each in texts:
        stem, _, part = each.name.rpartition("-")
        name, part = (stem, part) if part in PARTS and stem else (each.name, "")
        found.setdefault(name, []).append((part, each))
    return [_of_parts(name, parts) for name, parts in found.items()]


def _of_parts(name: str, parts: list[tuple[str, ClassifiedTexts]]) -> ClassifiedTexts:
    if parts[0][0] == "":
        return parts[0][1]
    names = [part for part, _ in parts]
    if not {"train", "test"} <= set(names):
        raise ValueError(
            f"the set {name} has the parts {', '.join(names)}: give its files {name}-train.tsv and {name}-test.tsv both"
        )
    labels = [label for _, each in parts for label in each.labels]
    texts = [text for _, each in parts for text in each.texts]
    return ClassifiedTexts(name, labels, texts, [part for part, each in parts for _ in each.texts])
