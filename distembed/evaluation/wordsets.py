"""Files of word-level evaluation sets, recognised by what stands in them.

==============
=====================================================================================================
similarity     `word1 word2 score`, tabs or blanks, `#` comments (gensim's wordsim353.tsv); CSV
`,word1,word2,similarity` analogy        `a a2 b b2`, with or without `: section` lines
(questions-words.txt);
               CSV `,type,word1,word2,word3,target`
synonym        `question | answer | distractor | ...`, the answer first
categorization CSV `,category,word`
outlier        CSV `,category,outliers,words`, both lists as Python literals; empty words are dropped
==============
=====================================================================================================
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class WordSetError(ValueError):
    """A file is not an evaluation set of a known format, or one of its lines is not."""


class SimilaritySet(NamedTuple):
    """Word pairs with human scores."""

    name: str
    pairs: list[tuple[str, str]]
    scores: NDArray[np.float64]


class AnalogySet(NamedTuple):
    """Questions `a is to a2 as b is to b2`; section i is the section of question i."""

    name: str
    questions: list[tuple[str, str, str, str]]
    sections: list[str]


class SynonymSet(NamedTuple):
    """Questions with their options, the right one first."""

    name: str
    questions: list[str]
    options: list[tuple[str, ...]]


class CategorySet(NamedTuple):
    """Words with their categories; a word may stand in several."""

    name: str
    words: list[str]
    categories: list[str]


class OutlierSet(NamedTuple):
    """Groups of words that belong together, each with words that do not."""

    name: str
    groups: list[tuple[str, ...]]
    outliers: list[tuple[str, ...]]


WordSet = SimilaritySet | AnalogySet | SynonymSet | CategorySet | OutlierSet
Lines = list[tuple[int, str]]
CsvRows = list[tuple[int, list[str]]]


def find_word_sets(sets: str | Path | Iterable[str | Path]) -> list[WordSet]:
    """Read evaluation sets from a folder and all below it, from a file, or from several of either.

    In a folder, files of other formats are passed over and so is everything in a folder named
    `crosslingual`, whose pairs need one space for two languages; a file given by name must be a set.

    Raises
    ------
    WordSetError
        A file given by name is not a set, a set holds a bad line, or a folder holds no set at all.
    FileNotFoundError
        There is no such file or folder.
    """
    paths = [sets] if isinstance(sets, str | Path) else list(sets)
    return [word_set for path in paths for word_set in _sets_at(Path(path))]


def read_word_set(path: str | Path) -> WordSet:
    """Read one evaluation set; WordSetError where it is of no known format."""
    path = Path(path)
    word_set = _recognised(path)
    if word_set is None:
        raise WordSetError(
            f"{path} is no evaluation set of a known format; distembed.evaluation.wordsets lists them"
        )
    return word_set


def _sets_at(path: Path) -> list[WordSet]:
    if not path.is_dir():
        return [read_word_set(path)]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.suffix in (".txt", ".csv", ".tsv") and "crosslingual" not in file.relative_to(path).parts
    )
    found = [word_set for file in files if (word_set := _recognised(file)) is not None]
    if not found:
        raise WordSetError(f"{path} holds no evaluation set; give a folder of .txt, .csv or .tsv word sets")
    return found


def _recognised(path: Path) -> WordSet | None:
    """Read a file by its header or its first line, or return None."""
    lines = _content_lines(path)
    if not lines:
        return None
    header = tuple(field.strip() for field in next(csv.reader([lines[0][1]])))
    if header in _CSV_READERS:
        return _CSV_READERS[header](path, _csv_rows(path, len(header)))
    first = lines[0][1]
    if "|" in first:
        return _read_synonyms(path, lines)
    n_fields = len(first.split())
    if first.startswith(":") or n_fields == 4:
        return _read_analogies(path, lines)
    return _read_similarities(path, lines) if n_fields >= 3 and _is_number(_fields(first)[-1]) else None


def _content_lines(path: Path) -> Lines:
    """Return the lines that are not blank or comments, with their numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise WordSetError(
            f"{path}: byte {error.start} is not UTF-8; convert it: iconv -f LATIN1 -t UTF-8 {path}"
        ) from error
    numbered = ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line) for number, line in numbered if line and not line.startswith("#")]


def _fields(line: str) -> list[str]:
    return [field.strip() for field in line.split("\t")] if "\t" in line else line.split()


def _is_number(field: str) -> bool:
    try:
        return bool(np.isfinite(float(field)))
    except ValueError:
        return False


def _bad_line(path: Path, number: int, line: str, expected: str) -> WordSetError:
    return WordSetError(
        f"{path}, line {number}: {line[:60]!r}, expected {expected}; correct or remove the line"
    )


def _read_similarities(path: Path, lines: Lines) -> SimilaritySet:
    pairs, scores = [], []
    for number, line in lines:
        fields = _fields(line)
        if len(fields) != 3 or not _is_number(fields[2]):
            raise _bad_line(path, number, line, "two words and a score")
        pairs.append((fields[0], fields[1]))
        scores.append(float(fields[2]))
    return SimilaritySet(path.stem, pairs, np.array(scores))


def _read_analogies(path: Path, lines: Lines) -> AnalogySet:
    questions, sections, section = [], [], ""
    for number, line in lines:
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        fields = _fields(line)
        if len(fields) != 4:
            raise _bad_line(path, number, line, "four words")
        questions.append((fields[0], fields[1], fields[2], fields[3]))
        sections.append(section)
    return AnalogySet(path.stem, questions, sections)


def _read_synonyms(path: Path, lines: Lines) -> SynonymSet:
    questions, options = [], []
    for number, line in lines:
        question, *choices = (" ".join(field.split()) for field in line.split("|"))
        if len(choices) < 2 or not all([question, *choices]):
            raise _bad_line(path, number, line, "question | answer | distractor ...")
        questions.append(question)
        options.append(tuple(choices))
    return SynonymSet(path.stem, questions, options)


def _csv_rows(path: Path, width: int) -> CsvRows:
    """Return the rows below the header, without the index column, each with its line."""
    rows = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        for row in reader:
            if len(row) != width:
                raise _bad_line(path, reader.line_num, ",".join(row), f"{width} columns")
            rows.append((reader.line_num, [field.strip() for field in row[1:]]))
    return rows


def _csv_similarities(path: Path, rows: CsvRows) -> SimilaritySet:
    for number, row in rows:
        if not _is_number(row[2]):
            raise _bad_line(path, number, ",".join(row), "two words and a score")
    return SimilaritySet(path.stem, [(r[0], r[1]) for _, r in rows], np.array([float(r[2]) for _, r in rows]))


def _csv_analogies(path: Path, rows: CsvRows) -> AnalogySet:
    return AnalogySet(path.stem, [(r[1], r[2], r[3], r[4]) for _, r in rows], [r[0] for _, r in rows])


def _csv_categories(path: Path, rows: CsvRows) -> CategorySet:
    distinct = list(dict.fromkeys((row[1], row[0]) for _, row in rows))
    return CategorySet(path.stem, [word for word, _ in distinct], [category for _, category in distinct])


def _csv_outliers(path: Path, rows: CsvRows) -> OutlierSet:
    outliers = [_word_list(path, number, row[1]) for number, row in rows]
    return OutlierSet(path.stem, [_word_list(path, number, row[2]) for number, row in rows], outliers)


def _word_list(path: Path, number: int, literal: str) -> tuple[str, ...]:
    try:
        words = ast.literal_eval(literal)
    except (ValueError, SyntaxError) as error:
        raise _bad_line(path, number, literal, "a Python list of words") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _bad_line(path, number, literal, "a Python list of words")
    return tuple(word for word in words if word)


_CSV_READERS: dict[tuple[str, ...], Callable[[Path, CsvRows], WordSet]] = {
    ("", "word1", "word2", "similarity"): _csv_similarities,
    ("", "type", "word1", "word2", "word3", "target"): _csv_analogies,
    ("", "category", "word"): _csv_categories,
    ("", "category", "outliers", "words"): _csv_outliers,
}
