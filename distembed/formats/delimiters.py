"""How the fields of a text file are separated: as the line `sep=;` tells Excel, or as its first lines show."""

from __future__ import annotations

import csv
import io
import re
from itertools import islice
from typing import NamedTuple

from distembed.formats.names import suffix_of

csv.field_size_limit(1 << 28)
"""A field may hold a book: Python's own limit is 128 KiB."""

DELIMITERS = ",;\t|"
SNIFFED_LINES = 50
"""Lines from which the delimiter of a file is found."""
UNNAMED = ("", "Unnamed: 0")
"""What spreadsheet programs call the column of row numbers, and what pandas calls it when it reads theirs."""

SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=(.)"?\r?\n', re.IGNORECASE)


class Separated(NamedTuple):
    """A text whose first line is empty where it named the separator, so that lines keep their numbers."""

    text: str
    separator: str | None


def separated(text: str) -> Separated:
    r"""Return a text without the line that names its separator, and that separator; None where there is no such line.

    Examples
    --------
    >>> from distembed.formats.delimiters import separated
    >>> separated("sep=;\nname;text\n")
    Separated(text='\nname;text\n', separator=';')
    >>> separated("name;text\n").separator
    """
    found = SEPARATOR_LINE.match(text)
    return Separated("\n" + text[found.end() :], found[1]) if found else Separated(text, None)


def delimiter_of(text: str, name: str) -> str:
    """Return the delimiter of a text file: a tab by its extension, else what cuts its first lines equally, the most."""
    if suffix_of(name) == ".tsv":
        return "\t"

    def score(delimiter: str) -> tuple[float, int]:
        rows = [
            row
            for row in islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), SNIFFED_LINES)
            if row
        ]
        width = len(rows[0]) if rows else 0
        even = sum(len(row) == width for row in rows) / max(len(rows), 1)
        return (even if width > 1 else 0.0, width)

    return max(DELIMITERS, key=score)
