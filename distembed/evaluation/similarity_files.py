"""Lists of word pairs with scores as people write them: any delimiter, with or without a header, decimal commas.

A list has two words and a score per line, separated by tabs, semicolons, commas or blanks. Without a header, the
words are the first two fields and the score is the first number after them, so that SimVerb-3500 (words, part of
speech, score, relation) and the Stanford rare words (words, mean, ten ratings) are read as their authors wrote them.
With a header, the words are in two columns whose names differ only in the numbers 1 and 2 (``word1``, ``word2``), and
the score is in the column with a name of `SCORE_NAMES`, or else in the only column of numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DELIMITERS = ("\t", ";", ",", " ")

SCORE_NAMES = (
    "score", "similarity", "rating", "relatedness", "mean", "average", "human (mean)", "human", "gold", "simlex999",
    "wert", "bewertung", "ähnlichkeit", "note",
)  # fmt: skip
"""Names of a column of scores; of several, the first one counts."""


INDEX_NAMES = ("", "index", "id", "nr", "no", "unnamed: 0")
"""Names of columns of numbers that are no scores."""


class PairsError(ValueError):
    """An error in a list of pairs whose columns or lines cannot be read; `line` is the number of the line."""

    def __init__(self, line: int, text: str, expected: str):
        super().__init__(f"line {line}: {text[:60]!r}, expected {expected}")
        self.line, self.text, self.expected = line, text, expected


class Columns(NamedTuple):
    """The places of the first word, the second word and the score in a row of `width` fields."""

    first: int
    second: int
    score: int
    width: int


class ScoredPairs(NamedTuple):
    """Word pairs and their scores."""

    pairs: list[tuple[str, str]]
    scores: list[float]


def parse_number(field: str) -> float | None:
    """Return a finite number, written with a point or a comma; None for anything else."""
    text = field.strip()
    if re.fullmatch(r"[-+]?\d*,\d+", text):
        text = text.replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def read_scored_pairs(lines: Sequence[tuple[int, str]]) -> ScoredPairs | None:
    """Return the pairs of a delimited list; None if the lines are not such a list.

    Parameters
    ----------
    lines : sequence of (int, str)
        The lines that are not empty, with their numbers.

    Raises
    ------
    PairsError
        If a line does not have the columns of the first one, or the column of scores is ambiguous.
    """
    for delimiter in DELIMITERS:
        rows = _rows(lines[:2], delimiter)
        if len(rows[0]) < 3:
            continue
        if len(rows) == 2 and (columns := _columns(lines[0], rows[0], rows[1])) is not None:
            return _pairs(lines[1:], delimiter, columns)
        if (columns := _plain_columns(rows[0])) is not None:
            return _pairs(lines, delimiter, columns)
    return None


def _plain_columns(row: list[str]) -> Columns | None:
    """Return the columns of a list without a header: two words, and the first number after them."""
    numbers = [place for place, field in enumerate(row) if parse_number(field) is not None]
    words_first = numbers and numbers[0] >= 2 and row[0] and row[1]
    return Columns(0, 1, numbers[0], len(row)) if words_first else None


def _rows(lines: Sequence[tuple[int, str]], delimiter: str) -> list[list[str]]:
    texts = [line for _, line in lines]
    if delimiter == " ":
        return [text.split() for text in texts]
    # Quotes are ordinary characters between tabs.
    tabs = csv.reader(texts, delimiter="\t", quoting=csv.QUOTE_NONE)
    reader = tabs if delimiter == "\t" else csv.reader(texts, delimiter=delimiter)
    return [[field.strip() for field in row] for row in reader]


def _columns(line: tuple[int, str], header: list[str], row: list[str]) -> Columns | None:
    """Return the columns that a header and the first row below it describe; None if there are no such columns."""
    if len(row) != len(header) or all(parse_number(name) is not None for name in header[2:]):
        return None
    numbers = [place for place, field in enumerate(row) if parse_number(field) is not None]
    words = _word_columns(header) or ((0, 1) if len(header) == 3 and numbers == [2] else None)
    if words is None or set(words) & set(numbers):
        return None
    names = {name.lower(): place for place, name in enumerate(header) if place not in words}
    named = [names[name] for name in SCORE_NAMES if name in names]
    others = [place for name, place in names.items() if place in numbers and name not in INDEX_NAMES]
    if not named and len(others) > 1:
        asked = ", ".join(header[place] for place in others)
        raise PairsError(*line, f"one column of scores; rename one of {asked} to score")
    return Columns(*words, (named or others)[0], len(header)) if named or others else None


def _word_columns(header: list[str]) -> tuple[int, int] | None:
    """Return the first two columns whose names differ only in the numbers 1 and 2."""
    stems = {
        name.lower()[:-1]: place for place, name in reversed(list(enumerate(header))) if name.endswith("1")
    }
    for place, name in enumerate(header):
        if name.endswith("2") and name.lower()[:-1] in stems:
            return stems[name.lower()[:-1]], place
    return None


def _pairs(lines: Sequence[tuple[int, str]], delimiter: str, columns: Columns) -> ScoredPairs:
    found = ScoredPairs([], [])
    for (number, line), row in zip(lines, _rows(lines, delimiter), strict=False):
        score = parse_number(row[columns.score]) if len(row) == columns.width else None
        if score is None or not (row[columns.first] and row[columns.second]):
            raise PairsError(number, line, "two words and a score")
        found.pairs.append((row[columns.first], row[columns.second]))
        found.scores.append(score)
    return found
