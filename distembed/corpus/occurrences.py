"""Where a word stands in the files of a corpus: as it is written, with what is around it, its file and its line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from distembed.corpus.documents import line_of
from distembed.corpus.readers import Corpus, Document, documents_of
from distembed.corpus.segmentation import scripts_without_spaces
from distembed.corpus.streams import Partition, Progress, pieces_of
from distembed.corpus.tokenizer import Tokenizer

AROUND = 80
"""Characters before and after the word that a line of a concordance shows."""


class Occurrence(NamedTuple):
    """A line of a concordance.

    Attributes
    ----------
    document, title, label : str
        The document's.
    file, place : str
        The file, and where in it the word stands, as "line 3"; "" where no line is known, as in a page.
    left, word, right : str
        The word as it is written, and the text around it with each white space as a space.
    """

    document: str
    title: str
    label: str
    file: str
    place: str
    left: str
    word: str
    right: str


def word_pattern(word: str, tokenizer: Tokenizer) -> re.Pattern[str]:
    """Return the pattern of a word, or of several with spaces between them, as a tokenizer tells words apart.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.corpus.occurrences import word_pattern
    >>> [match[0] for match in word_pattern("new_york", de.Tokenizer()).finditer("New York, newyorker, NEW YORK")]
    ['New York', 'NEW YORK']
    """
    parts = [re.escape(part) for part in re.split(r"[_\s]+", word.strip()) if part]
    if not parts:
        raise ValueError("no word is given: give one, or several with spaces between them")
    letter = r"[^\W_]" if tokenizer.numbers else r"[^\W\d_]"
    # without spaces, a word has no border that a pattern could tell
    before, after = ("", "") if scripts_without_spaces(word) else (f"(?<!{letter})", f"(?!{letter})")
    return re.compile(before + r"[\s_]+".join(parts) + after, re.IGNORECASE if tokenizer.lowercase else 0)


def occurrences(corpus: Corpus, word: str) -> Iterator[Occurrence]:
    """Yield every place of a word in the files of a corpus, in order; each document is held whole.

    Raises
    ------
    CorpusError
        If a file cannot be read.
    """
    pattern = word_pattern(word, corpus.tokenizer)
    for partition in corpus.partitions:
        found = [
            (document, place, text, match.span())
            for document, place, text in _documents(partition, corpus.tokenizer)
            for match in pattern.finditer(text)
        ]
        places = _places(partition, [(place, text, span[0]) for _, place, text, span in found])
        for (document, _, text, (begin, end)), where in zip(found, places, strict=True):
            yield Occurrence(
                document.id,
                document.title,
                document.label or "",
                partition.url,
                where,
                _flat(text[max(begin - AROUND, 0) : begin]),
                _flat(text[begin:end]),
                _flat(text[end : end + AROUND]),
            )


def _documents(partition: Partition, tokenizer: Tokenizer) -> Iterator[tuple[Document, str, str]]:
    """Yield each document, the id that it would have by its place, and its text in the form that is searched."""
    text_fields, id_field, title, label = partition.fields
    named = documents_of(partition)
    by_place = named
    if id_field is not None:
        by_place = documents_of(replace(partition, fields=(text_fields, None, title, label)))
    for document in named:
        place = document.id if by_place is named else next(by_place).id
        form = tokenizer.normalization.upper()
        yield document, place, document.text if form == "NONE" else unicodedata.normalize(form, document.text)  # type: ignore[arg-type]


def _flat(text: str) -> str:
    return re.sub(r"\s", " ", text)


def _places(partition: Partition, hits: Sequence[tuple[str, str, int]]) -> list[str]:
    """Return where each hit is: the id of its document by its place, the text, and where the word begins in it."""
    if partition.format == "text" and partition.layout == "file":
        return [f"line {1 + text.count(chr(10), 0, begin)}" for _, text, begin in hits]
    numbers = [place.rpartition(":")[2] for place, _, _ in hits]
    if partition.format in ("csv", "tsv"):
        return [f"row {number}" for number in numbers]
    if partition.format == "parquet":
        return ["row group {}, row {}".format(*number.split(".")) for number in numbers]
    if partition.format not in ("text", "jsonl"):
        return [""] * len(hits)
    lines = _lines(partition, sorted({int(number) for number in numbers}))
    is_line = partition.format == "jsonl" or partition.layout == "line"
    inside = [0 if is_line else 1 + text.lstrip("\n").count("\n", 0, begin) for _, text, begin in hits]
    return [f"line {lines[int(number)] + more}" for number, more in zip(numbers, inside, strict=True)]


def _lines(partition: Partition, offsets: Sequence[int]) -> dict[int, int]:
    """Return the number of the line at each offset of the text of a file, rising, in one reading."""
    lines: dict[int, int] = {}
    left, before, n_lines = list(offsets), 0, 1
    if not left:
        return lines
    for piece in pieces_of(replace(partition, start=0, stop=None), Progress()):
        while left and left[0] < before + len(piece.data):
            lines[left[0]] = n_lines + piece.data.count(b"\n", 0, left[0] - before)
            del left[0]
        if not left:
            break
        n_lines += piece.data.count(b"\n")
        before += len(piece.data)
    return lines | dict.fromkeys(left, n_lines)


def place_of(corpus: Corpus, document: str) -> str:
    """Return the file and the line of a document by its id; "" where the id is not made of them.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.corpus.occurrences import place_of
    >>> from distembed.demos import titles
    >>> place_of(de.read_corpus(titles()), "titles.txt:58").rpartition("/")[2]
    'titles.txt, line 2'
    """
    name, sign, number = document.rpartition(":")
    for partition in corpus.partitions:
        if partition.is_one_document and partition.name == document:
            return partition.url
        if not sign or partition.name != name or not number.isdecimal():
            continue
        if partition.format in ("csv", "tsv"):
            return f"{partition.url}, row {number}"
        if partition.format in ("text", "jsonl") and (partition.stop is None or int(number) < partition.stop):
            return f"{partition.url}, line {line_of(partition, int(number))}"
    return ""
