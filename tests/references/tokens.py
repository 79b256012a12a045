"""The tokeniser written plainly with Python's `re`: the oracle of the compiled scanner."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache


@lru_cache
def character_classes() -> tuple[str, str, str]:
    """Return letters, numbers and marks as the inside of a regular expression's brackets."""
    letters, numbers, marks = [], [], []
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if character.isalpha():
            letters.append(character)
        elif character.isalnum():
            numbers.append(character)
        elif unicodedata.category(character)[0] == "M":
            marks.append(character)
    return "".join(letters), "".join(numbers), "".join(marks)


@lru_cache
def word_pattern(pattern: str, numbers: bool, apostrophes: bool) -> re.Pattern[str]:
    """Return the regular expression of a word."""
    if pattern == "ascii":
        word = "[A-Za-z0-9]+" if numbers else "[A-Za-z]+"
        return re.compile(f"{word}(?:'{word})*" if apostrophes else word)
    letters, digits, marks = character_classes()
    first = f"[{letters}{digits if numbers else ''}]"
    word = f"{first}[{letters}{digits if numbers else ''}{marks}]*"
    return re.compile(f"{word}(?:['’]{word})*" if apostrophes else word)


def tokens_of(
    text: str,
    *,
    pattern: str = "unicode",
    lowercase: bool = True,
    numbers: bool = False,
    apostrophes: bool = False,
) -> list[str]:
    """Return the words of a text."""
    found = word_pattern(pattern, numbers, apostrophes).findall(text)
    if lowercase:
        found = ["".join(character.lower()[0] for character in word) for word in found]
    return [word.replace("’", "'") for word in found]


def segments_of(text: str, border: str) -> list[str]:
    """Return the pieces of a text that a window does not leave."""
    if border == "document":
        return [text]
    lines = text.split("\n")
    if border == "line":
        return lines
    sentence = re.compile(r"(?<![^\W\d_][.])(?<=[.!?…])[\"'’”»)\]}]*\s+(?![a-z])")
    return [piece for line in lines for piece in sentence.split(line)]


def ids_of(documents: list[str], *, border: str = "document", minimum: int = 1, **options: object) -> tuple:
    """Return (ids of each document with -1 at borders, words, counts, document counts)."""
    index: dict[str, int] = {}
    counts: list[int] = []
    seen: list[set[int]] = []
    result = []
    for number, text in enumerate(documents):
        ids: list[int] = []
        for segment in segments_of(text, border):
            words = tokens_of(segment, **options)
            if len(words) < minimum or not words:
                continue
            if ids:
                ids.append(-1)
            for word in words:
                if word not in index:
                    index[word] = len(index)
                    counts.append(0)
                    seen.append(set())
                counts[index[word]] += 1
                seen[index[word]].add(number)
                ids.append(index[word])
        result.append(ids)
    return result, list(index), counts, [len(documents) for documents in seen]
