"""The tokenizer written plainly with Python's `re`: the oracle of the compiled scanner."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from functools import lru_cache

# Format characters: those that stay in a word, and those that are left out of it. (Others are rare.)
JOINERS = "\u200c\u200d\u180e\u05f3"
INVISIBLE = dict.fromkeys([0xAD, 0x61C, 0x200E, 0x200F, 0xFEFF, *range(0x202A, 0x202F)])
INVISIBLE |= dict.fromkeys([*range(0x2060, 0x2065), *range(0x2066, 0x2070)])
MIDDLES = "\u00b7\u0387\u2027\u05f4"
HEBREW = "\u05d0-\u05ea\u05ef-\u05f2\ufb1d\ufb1f-\ufb28\ufb2a-\ufb4f"


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
        elif unicodedata.category(character)[0] == "M" or character in JOINERS:
            marks.append(character)
    return ranges(letters), ranges(numbers), ranges(marks)


def ranges(characters: list[str]) -> str:
    """Return sorted characters as ranges, which `re` compiles many times as fast as a list of them."""
    points = [ord(character) for character in characters]
    first = [point for k, point in enumerate(points) if k == 0 or points[k - 1] != point - 1]
    last = [point for k, point in enumerate(points) if k + 1 == len(points) or points[k + 1] != point + 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(first, last, strict=True))


@lru_cache
def word_pattern(pattern: str, numbers: bool, apostrophes: bool) -> re.Pattern[str]:
    """Return the regular expression of a word."""
    if pattern == "ascii":
        word = "[A-Za-z0-9]+" if numbers else "[A-Za-z]+"
        return re.compile(f"{word}(?:'{word})*" if apostrophes else word)
    letters, digits, marks = character_classes()
    first = f"{letters}{digits if numbers else ''}"
    quoted = f"[{HEBREW}][{marks}]*[\"'’](?=[{HEBREW}])"
    word = f"(?:{quoted}|[{first}])(?:{quoted}|[{first}{marks}])*"
    middles = MIDDLES + ("'’" if apostrophes else "")
    return re.compile(f"{word}(?:[{middles}]{word})*")


def tokens_of(
    text: str,
    *,
    pattern: str = "unicode",
    lowercase: bool = True,
    numbers: bool = False,
    apostrophes: bool = False,
    normalization: str = "nfc",
) -> list[str]:
    """Return the words of a text."""
    text = unicodedata.normalize(normalization.upper(), text) if normalization != "none" else text
    if pattern != "ascii":
        text = text.translate(INVISIBLE)
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
    counts: Counter[int] = Counter()
    held: Counter[int] = Counter()
    result = []
    for text in documents:
        ids: list[int] = []
        for segment in segments_of(text, border):
            words = tokens_of(segment, **options)
            if len(words) >= max(minimum, 1):
                ids += [-1] * bool(ids) + [index.setdefault(word, len(index)) for word in words]
        known = [number for number in ids if number >= 0]
        counts.update(known)
        held.update(set(known))
        result.append(ids)
    return result, list(index), [counts[i] for i in range(len(index))], [held[i] for i in range(len(index))]
