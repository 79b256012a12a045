"""The line by which Excel is told how the fields of a CSV file are separated: `sep=;`."""

from __future__ import annotations

import re
from typing import NamedTuple

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
