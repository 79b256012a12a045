"""Files of sentences: pairs with a human similarity, and texts with a label, plain or `.xz`.

- pairs: ``subset  score  sentence1  sentence2``, four columns between tabs without a header, as in the shared tasks on
  semantic textual similarity (STS)
- classified texts: ``label  text``, two columns between tabs without a header; or JSON lines with the fields `label`
  and `text`, to which a field `title` or `subject` is added. Of files whose names end in ``-train``, ``-dev`` and
  ``-test`` one set is made, and so of a file of JSON lines whose field `split` (`lewissplit` of Reuters-21578) names
  the part of each text; another file is for cross-validation. Texts without a label, or of no part, are left out.
"""

from __future__ import annotations

import json
from typing import Any

from distembed.evaluation.similarity_files import LineError, Lines, Rows, parse_number

PARTS = ("train", "dev", "test")

SPLIT_FIELDS = ("split", "lewissplit")
"""The fields of JSON lines that name the part of a text."""

TITLE_FIELDS = ("title", "subject")
"""The fields of JSON lines that are part of the text."""

LINES_A_LABEL = 5
"""Lines that each label of a file of classified texts has on average, at least: others are no classes."""


def sentence_rows(lines: Lines) -> Rows | None:
    """Return the pairs of sentences or the classified texts in lines of tabs, None where they are others.

    Raises
    ------
    LineError
        If a line is not like the first.
    """
    rows = [line.split("\t") for _, line in lines]
    if len(rows[0]) == 4 and parse_number(rows[0][1]) is not None:
        expected = "subset, score and two sentences between tabs"
        is_bad = [len(row) != 4 or parse_number(row[1]) is None for row in rows]
    elif len(rows[0]) == 2 and LINES_A_LABEL * len({row[0] for row in rows}) <= len(rows):
        expected, is_bad = "a label and a text between tabs", [len(row) != 2 for row in rows]
    else:
        return None
    if any(is_bad):
        raise LineError(*lines[is_bad.index(True)], expected)
    if len(rows[0]) == 4:
        return "sentences", [((first, second), parse_number(score), None) for _, score, first, second in rows]
    return "classification", [((text,), None, (label, "")) for label, text in rows]


def json_rows(lines: Lines) -> Rows | None:
    """Return the texts of JSON lines that have a label, and a part where the lines have parts.

    Raises
    ------
    LineError
        If a line is no JSON, or has no text.
    """
    records = [_record(number, line) for number, line in lines]
    field = next((name for name in SPLIT_FIELDS if name in records[0]), "")
    parts = [str(record.get(field, "")).lower() for record in records]
    return "classification", [
        ((_whole_text(record),), None, (str(record["label"]), part if field else ""))
        for record, part in zip(records, parts, strict=True)
        if record.get("label") is not None and (not field or part in PARTS)
    ]


def _record(number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(number, line, f"JSON ({error})") from error
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise LineError(number, line, "a field 'text' that is a string")
    return record


def _whole_text(record: dict[str, Any]) -> str:
    return "\n".join(str(record[name]) for name in (*TITLE_FIELDS, "text") if record.get(name))
