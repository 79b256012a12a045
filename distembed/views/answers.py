"""What a command that reads answers: sentences, tables and passages, as text, and in a file by the end of its name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from distembed.formats.names import suffix_of
from distembed.formats.streams import writing
from distembed.job.tables import table_of
from distembed.job.terminal import shown
from distembed.vectors.rows import rows_by_lower_case
from distembed.views.export import table_format, write_table
from distembed.views.report.page import Page, Passages, ShownTable, cell_text, is_number

ENDS = (".json", ".html", ".csv", ".tsv", ".parquet")
"""How the names of files end that hold an answer; the last three hold its first table."""


class Answer(NamedTuple):
    """What a command answers.

    Attributes
    ----------
    title : str
    sentences : sequence of str
    facts : mapping
        The numbers of the sentences, for programs.
    tables : sequence of ShownTable
    passages : sequence of Passages
    places : mapping of str to str
        The file and the line of documents of the passages.
    """

    title: str
    sentences: Sequence[str] = ()
    facts: Mapping[str, Any] = MappingProxyType({})
    tables: Sequence[ShownTable] = ()
    passages: Sequence[Passages] = ()
    places: Mapping[str, str] = MappingProxyType({})


def known_words(
    names: Sequence[str], words: Sequence[str], in_table: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[str], list[str]]:
    """Return the words that a user means, and a sentence on each that is another one than was typed.

    A name is looked up as it is typed, as a table spells it (`in_table`), and then without regard to case. One that is
    not known stays as it is.
    """
    every, found, notes = set(words), list[str](), list[str]()
    lowered: dict[str, int] = {}
    for name in names:
        word = name if name in every else in_table.get(name, name)
        if word not in every:
            lowered = lowered or rows_by_lower_case(words)
            if (row := lowered.get(word.lower())) is not None:
                word = words[row]
                notes.append(f"{name} has no vector, and {word} is taken for it")
        found.append(word)
    return found, notes


LEFT_TOKENS = 9
"""Tokens before the first word that is marked in a passage on a terminal."""


def as_text(answer: Answer) -> str:
    """Return an answer as lines of text: sentences, aligned tables, passages with the words in brackets."""
    parts = [answer.title, *answer.sentences]
    for one in answer.tables:
        parts += ["", one.text()]
    for group in answer.passages:
        parts += ["", f"{group.title}:"]
        for passage in group.lines:
            first = max(min(passage.marked, default=0) - LEFT_TOKENS, 0)
            words = [f"[{w}]" if place in passage.marked else w for place, w in enumerate(passage.words)]
            parts.append(f"  {' '.join(words[first:])}  ({passage.title or passage.document})")
    if answer.places:
        parts += ["", "their files:", *(f"  {name}: {place}" for name, place in answer.places.items())]
    return "\n".join(shown(line) for part in parts for line in part.split("\n"))


def _known(cell: Any) -> Any:
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def _arrow_column(cells: list[Any]) -> pa.Array:
    """Return the values of a column, as text where they are of several kinds, or lists."""
    known = [cell for cell in cells if cell is not None]
    if not (all(map(is_number, known)) or all(isinstance(cell, (str, bool)) for cell in known)):
        cells = [None if cell is None else cell_text(cell, str) for cell in cells]
    return pa.array(cells)


def save(answer: Answer, path: str) -> None:
    """Write an answer to a file or URL whose name ends in one of `ENDS`: whole, or its first table."""
    form = table_format(path)
    if form is not None:
        passages = [
            {"of": group.title, "document": one.document, "title": one.title, "text": " ".join(one.words)}
            for group in answer.passages
            for one in group.lines
        ]
        columns = (answer.tables[0] if answer.tables else ShownTable("", passages)).columns
        if not columns:
            raise ValueError(
                ". ".join([f"{path} is not written, because it would have no rows", *answer.sentences])
            )
        table = pa.table({name: _arrow_column(list(map(_known, column))) for name, column in columns.items()})
        write_table(path, table_of(table, ""), format=form)
        return
    if suffix_of(path) == ".json":
        record = {
            "title": answer.title,
            "sentences": list(answer.sentences),
            **answer.facts,
            "tables": {
                one.title: [{name: _known(cell) for name, cell in row.items()} for row in one.rows]
                for one in answer.tables
            },
            "passages": {group.title: [p._asdict() for p in group.lines] for group in answer.passages},
        }
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    else:
        text = as_page(answer)
    with writing(path) as file:
        file.write(text.encode())


def as_page(answer: Answer) -> str:
    """Return an answer as one HTML page."""
    return Page(answer.title, " ".join(answer.sentences), [*answer.tables, *answer.passages]).html()
