"""Delimited evaluation sets as people write them: any delimiter, with or without a header, decimal commas.

A table whose header has the columns of one of `READERS` is read by it, and any other as a list of pairs.

A list has two words and a score per line, separated by tabs, semicolons, bars, commas or spaces. Without a header, the
words are the first two fields and the score is the first number after them, so that SimVerb-3500 (words, part of
speech, score, relation) and the Stanford rare words (words, mean, ten ratings) are read as their authors wrote them.
With a header, the words are in two columns whose names differ only in 1 and 2 or A and B (``word1``, ``word2``), or
else in the only two columns of words, and the score is in the column with a name of `SCORE_NAMES`, or else in the only
column of numbers that is no index, spread or count. `guess_columns` does the same for tables.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from distembed.formats.delimited import UNNAMED

DELIMITERS = ("\t", ";", "|", ",", " ")
DIGITS_AROUND = re.compile(r"(?<=\d),(?=\d)")
"""A comma that may be that of a number."""
NEITHER = "write scores with points, or semicolons between the fields"
"""What helps where a comma separates fields and may stand in numbers."""

SCORE_NAMES = (
    "score", "similarity", "rating", "relatedness", "mean", "average", "human (mean)", "human", "gold", "simlex999",
    "wert", "bewertung", "ähnlichkeit", "note", "mittelwert", "mittel", "durchschnitt", "moyenne", "similarité",
    "media", "promedio", "similitud", "somiglianza", "média", "gemiddelde", "średnia", "среднее", "оценка",
)  # fmt: skip
"""Names of a column of scores; of several, the first one counts."""


PAIR_NAMES = (("prime", "target"), ("cue", "target"), ("stimulus", "response"), ("reiz", "antwort"))
"""Names of two columns of words, in lower case, with the ending "word" or without."""

INDEX_NAMES = (
    *map(str.lower, UNNAMED), "index", "id", "nr", "nr.", "no", "no.", "#", "num", "item",
    "sd", "std", "stdev", "stddev", "se", "sem", "var", "variance", "n", "count", "anzahl", "raters", "streuung",
)  # fmt: skip
"""Names of columns of numbers that are no scores: of the row, of the spread, of how many were asked."""

WORD_BLANKS = 2
"""Blanks, at most, in a cell of a word: of longer ones the column holds sentences."""

Roles = dict[str, str]
"""What columns of a table are taken for: "word1", "word2" and "score", each with the name of a column."""


CLOSED = "quotes on both sides of a field, or none"


Lines = Sequence[tuple[int, str]]
"""Lines that are not empty, with their numbers."""

Row = tuple[tuple[str, ...], Any, Any]
"""The words or texts of an item, its value, and its group; None where a task has none."""
Rows = tuple[str, list[Row]]
"""The name of a task, and its items."""


class Reader(NamedTuple):
    """What a table of some columns is for: the task, what a row holds, and the function of its fields.

    The function returns None for a row to leave out, and raises ValueError for a bad one.
    """

    task: str
    expected: str
    row: Callable[..., Row | None]


class LineError(ValueError):
    """An error in a line of an evaluation set; `line` is its number, and `expected` what it should hold."""

    def __init__(self, line: int, text: str, expected: str):
        super().__init__(f"line {line}: {text[:60]!r}, expected {expected}")
        self.line, self.text, self.expected = line, text, expected


def parse_number(field: str) -> float | None:
    """Return a finite number, written with a point or a comma; None for anything else."""
    text = field.strip()
    if re.fullmatch(r"[-+]?\d*,\d+", text):
        text = text.replace(",", ".")
    try:
        number = float("" if "_" in text else text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def filled(field: str) -> str:
    """Return a field; ValueError where it is empty."""
    if not field:
        raise ValueError
    return field


def number(field: str, least: float = -np.inf, most: float = np.inf) -> float:
    """Return the number of a field; ValueError where it is none, or out of bounds."""
    if (found := parse_number(field)) is None or not least <= found <= most:
        raise ValueError
    return found


PAIRS = Reader(
    "similarity",
    "two words and a score",
    lambda first, second, score: ((filled(first), filled(second)), number(score), None),
)


RELATION_SPELLINGS = {
    "fpa": "forward phrasal",
    "bpa": "backward phrasal",
    "antonymn": "antonym",
    "unclassifed": "unclassified",
}
"""As written in the file of the Semantic Priming Project: its short names, and its misprints."""


def _priming(prime: str, target: str, first: str, second: str, *times: str) -> Row:
    names = [field.lower() for field in (first, second) if field] or ["unclassified"]
    relations = tuple(dict.fromkeys(RELATION_SPELLINGS.get(name, name) for name in names))
    milliseconds = [number(field) if field else np.nan for field in times]
    return (filled(prime), filled(target)), milliseconds, relations


READERS: dict[tuple[str, ...], Reader] = {
    ("CUE", "TARGET", "FSG"): Reader(
        "normed priming",
        "cue, target and a share between 0 and 1",
        # The norms have an answer that was no word.
        lambda cue, target, share: ((filled(cue), target), number(share, 0, 1), None) if target else None,
    ),
    ("word", "antonym"): Reader(
        "antonyms", "a word and its antonym", lambda *words: (tuple(map(filled, words)), None, None)
    ),
    (
        "Prime",
        "TargetWord",
        "Relation1",
        "Relation2",
        "LDT 200ms RT Priming",
        "LDT 1200ms RT Priming",
    ): Reader("priming", "prime, target and priming in milliseconds", _priming),
    ("", "type", "word1", "word2", "word3", "target"): Reader(
        "analogy", "four words", lambda _, section, *words: (words, None, section)
    ),
    ("", "category", "word"): Reader(
        "categorization", "a category and a word", lambda _, category, word: ((word,), None, category)
    ),
}
"""By the columns of a table."""


def read_delimited(lines: Lines) -> Rows | None:
    """Return the items of delimited lines: of a table that has the columns of a reader, or of pairs with scores.

    Parameters
    ----------
    lines : sequence of (int, str)
        The lines that are not empty, with their numbers.

    Returns
    -------
    (str, list) or None
        The task and its items; None if the lines are neither.

    Raises
    ------
    LineError
        If a line does not have the columns of the first one, or the column of scores is ambiguous.
    """
    if lines[0][1].startswith(":"):  # a section of analogies
        return None
    for delimiter in DELIMITERS:
        rows = [row or [""] for row in rows_of(lines[:2], delimiter)]
        header, width = rows[0], len(rows[0])
        for columns, reader in READERS.items():
            if set(columns) <= set(header):
                items = read_rows(
                    lines[1:], delimiter, [header.index(name) for name in columns], width, reader
                )
                return reader.task, list(dict.fromkeys(items)) if reader.task == "categorization" else items
        if delimiter == "," and "," not in DIGITS_AROUND.sub("", lines[0][1]):
            continue  # all commas are those of numbers
        if width < 3 or (delimiter == "|" and width > 3):  # a question and its answers
            continue
        if len(rows) == 2 and (found := _columns(lines, header, rows[1], delimiter)) is not None:
            return PAIRS.task, read_rows(lines[1:], delimiter, *found, PAIRS)
        if (score := _plain_score(lines, rows, delimiter)) is not None:
            return PAIRS.task, read_rows(lines, delimiter, (0, 1, score), width, PAIRS)
    if lines[0][1].count('"') % 2:
        unquoted = [(number, line.replace('"', "")) for number, line in lines[:2]]
        if read_delimited(unquoted) is not None:
            raise LineError(*lines[0], CLOSED)
    return None


def read_rows(lines: Lines, delimiter: str, places: Sequence[int], width: int, reader: Reader) -> list[Row]:
    """Return what a reader makes of the fields at some places of each line; lines of empty fields are left out."""
    rows = list[Row | None]()
    for (place, line), fields in zip(lines, rows_of(lines, delimiter), strict=True):
        if len(fields) == width or (fields and not any(fields)):
            with suppress(ValueError):
                rows.append(reader.row(*(fields[place] for place in places)) if any(fields) else None)
                continue
        remedy = "" if fields else f", {CLOSED}"
        if reader is PAIRS and delimiter == "," and len(fields) > width:
            remedy = f"; where scores have commas, {NEITHER}"
        raise LineError(place, line, f"{reader.expected}{remedy}")
    return [row for row in rows if row]


def _numbers(row: list[str]) -> list[int]:
    return [place for place, field in enumerate(row) if parse_number(field) is not None]


def _plain_score(lines: Lines, rows: list[list[str]], delimiter: str) -> int | None:
    """Return the column of the score in a list without a header, the first number after two words."""
    numbers = _numbers(rows[0])
    if len(numbers) > 1 and numbers[0] == 0 and numbers[-1] == len(rows[0]) - 1 == len(numbers) + 1:
        raise LineError(*lines[0], "a header that names the columns, such as word1, word2 and score")
    if not (numbers and numbers[0] >= 2 and rows[0][0] and rows[0][1]):
        return None
    if delimiter == " " and numbers[0] > 2:
        if all(found and found[0] > 2 for found in map(_numbers, rows)):
            raise LineError(
                *lines[0], "two words and a score, with tabs between them where a word has spaces"
            )
        return None
    # Where the field of the score and the next are whole numbers in each row, 7,5 may be one number.
    ends = (
        [row[numbers[0] : numbers[0] + 2] for row in rows_of(lines, delimiter)] if delimiter == "," else [[]]
    )
    if all(len(end) == 2 and all(re.fullmatch(r"-?\d+", field) for field in end) for end in ends):
        raise LineError(
            *lines[0],
            f"scores whose commas are unambiguous: {NEITHER}, or a header such as word1,word2,score,rating",
        )
    return numbers[0]


def rows_of(lines: Lines, delimiter: str) -> list[list[str]]:
    """Return the fields of each line, without the quotes of a program that quotes all text; none of a bad line."""
    if delimiter in " \t" and not all(line.lstrip().startswith('"') for _, line in lines):
        # Between tabs, quotes are characters like others.
        return [[field.strip() for field in line.split(delimiter.strip(" ") or None)] for _, line in lines]

    def fields_of(line: str) -> list[str]:
        reader = csv.reader([line], delimiter=delimiter, skipinitialspace=delimiter == " ", strict=True)
        with suppress(csv.Error):
            return [field.strip() for row in reader for field in row]
        return []

    return [fields_of(line) for _, line in lines]


def _columns(
    lines: Lines, header: list[str], row: list[str], delimiter: str
) -> tuple[tuple[int, ...], int] | None:
    """Return the places of the words and the score, and the number of columns, by a header and the first row below."""
    if all(parse_number(name) is not None for name in header[2:]):
        return None
    if len(row) == len(header) + 1 and lines[0][1].startswith('"'):
        header = ["", *header]  # R gives the names of rows no header
    if len(row) != len(header):
        if _word_columns(header) is None:
            return None
        remedy = f"; where scores have commas, {NEITHER}" if delimiter == "," else ""
        raise LineError(*lines[1], f"{len(header)} fields as in the header{remedy}")
    words, scores = _words_and_scores(header, [row])
    if words is None or set(words) & set(_numbers(row)):
        return None
    if len(scores) > 1 and _word_columns(header) is not None:
        asked = ", ".join(header[place] for place in scores)
        raise LineError(*lines[0], f"one column of scores; rename one of {asked} to score")
    return ((*words, scores[0]), len(header)) if len(scores) == 1 else None


def _words_and_scores(
    names: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[int, int] | None, list[int]]:
    """Return the places of the two columns of words, None where there are none, and those that may be the score.

    A column with a name of `SCORE_NAMES` is the score, else any column of numbers but those of `INDEX_NAMES`.
    """
    numbers = [
        place
        for place in range(len(names))
        if (cells := [row[place] for row in rows if row[place]])
        and all(parse_number(cell) is not None for cell in cells)
    ]
    words = _word_columns(names)
    if words is None:  # the only two columns of texts, if none of them holds sentences
        texts = [
            (place, cell)
            for place, cell in enumerate(rows[0] if rows else [])
            if cell and place not in numbers
        ]
        if len(texts) == 2 and all(cell.count(" ") <= WORD_BLANKS for _, cell in texts):
            words = texts[0][0], texts[1][0]
    places = {name.lower(): place for place, name in enumerate(names) if place not in (words or ())}
    named = [places[name] for name in SCORE_NAMES if name in places]
    others = [place for name, place in places.items() if place in numbers and name not in INDEX_NAMES]
    return words, named[:1] or others


def _word_columns(header: Sequence[str]) -> tuple[int, int] | None:
    """Return the first two columns whose names differ only in 1 and 2, or in A and B, or are a pair of `PAIR_NAMES`."""
    for one, two in (("1", "2"), (" a", " b"), ("_a", "_b")):
        lowered = [name.lower() for name in header]
        stems = {
            name.removesuffix(one): place
            for place, name in reversed(list(enumerate(lowered)))
            if name.endswith(one)
        }
        for place, name in enumerate(lowered):
            if name.endswith(two) and name.removesuffix(two) in stems:
                return stems[name.removesuffix(two)], place
    places = {name.lower().removesuffix("word"): place for place, name in enumerate(header)}
    return next(((places[one], places[two]) for one, two in PAIR_NAMES if {one, two} <= places.keys()), None)


def guess_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Roles:
    """Return which columns of a table hold the words of a pair and, where there is one, their score.

    Parameters
    ----------
    names : sequence of str
        The names of the columns.
    rows : sequence of sequences of str
        The first rows.

    Raises
    ------
    ValueError
        If no two columns of words are found.

    Examples
    --------
    >>> from distembed.evaluation.similarity_files import guess_columns
    >>> names = ["Nr", "Wort A", "Wort B", "Mittelwert", "SD", "N"]
    >>> guess_columns(names, [["1", "Hund", "Katze", "7,2", "1,1", "20"]])
    {'word1': 'Wort A', 'word2': 'Wort B', 'score': 'Mittelwert'}
    """
    words, scores = _words_and_scores(names, rows)
    if words is None:
        raise ValueError(
            f"the words of a pair are in no two of the columns {', '.join(names)}: give --columns word1=NAME,word2=NAME"
        )
    roles = {"word1": names[words[0]], "word2": names[words[1]]}
    return {**roles, **({"score": names[scores[0]]} if len(scores) == 1 else {})}
