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
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from distembed.corpus.paths import files_below
from distembed.evaluation.wordsets import EvaluationSet, stem, text_of
from distembed.files import read_head
from distembed.formats.encodings import HEAD_BYTES
from distembed.formats.names import suffix_of

PARTS = ("train", "dev", "test")

SPLIT_FIELDS = ("split", "lewissplit")
"""The fields of JSON lines that name the part of a text."""

TITLE_FIELDS = ("title", "subject")
"""The fields of JSON lines that are part of the text."""

LINES_A_LABEL = 5
"""Lines that each label of a file of classified texts has on average, at least: others are no classes."""


class FoundSentences(NamedTuple):
    """The sets of sentences at some paths, and the files that they were read from."""

    sets: list[EvaluationSet]
    files: frozenset[Path]


def find_sentence_sets(paths: Iterable[str | Path]) -> FoundSentences:
    """Read the files of sentences among some files and folders, and all below them; others are passed over.

    Raises
    ------
    ValueError
        If a line of a file of sentences is not like its first, or a set has no training or no test part.
    """
    files = [file for path in map(Path, paths) for file in files_below(path)]
    read = {file: found for file in files if (found := read_sentences(file)) is not None}
    pairs = [found for found in read.values() if found.task == "sentences"]
    texts = [found for found in read.values() if found.task == "classification"]
    return FoundSentences([*pairs, *_join_parts(texts)], frozenset(read))


def read_sentences(path: Path) -> EvaluationSet | None:
    """Return the sentences of a file, None where it is of another format.

    Raises
    ------
    ValueError
        If a line is not like the first.
    """
    suffix = suffix_of(path.name)
    if suffix == ".jsonl":
        return _classified_documents(path)
    if suffix != ".tsv":
        return None
    rows = [line.split("\t") for line in text_of(path).splitlines() if line.strip()]
    width = len(rows[0]) if rows else 0
    name = stem(path)
    if width == 4 and math.isfinite(_number(rows[0][1])):
        _check(path, rows, 4)
        scores = np.array([_number(row[1]) for row in rows])
        return EvaluationSet(name, "sentences", [(row[2], row[3]) for row in rows], scores)
    if width == 2 and LINES_A_LABEL * len({row[0] for row in rows}) <= len(rows):
        _check(path, rows, 2)
        groups = [(label, "") for label, _ in rows]
        return EvaluationSet(name, "classification", [(text,) for _, text in rows], groups=groups)
    return None


def _classified_documents(path: Path) -> EvaluationSet | None:
    """Return the texts of a file of JSON lines that have a label, and a part where the file has parts."""
    first = next(filter(None, map(bytes.strip, read_head(path, HEAD_BYTES).split(b"\n"))), b"")
    if b'"label"' not in first.replace(b"\0", b""):  # of UTF-16
        return None
    lines = [(number, line) for number, line in enumerate(text_of(path).split("\n"), start=1) if line.strip()]
    records = [_record(path, number, line) for number, line in lines]
    field = next((name for name in SPLIT_FIELDS if name in records[0]), "")
    parts = [str(record.get(field, "")).lower() for record in records]
    kept = [
        (record, part)
        for record, part in zip(records, parts, strict=True)
        if record.get("label") is not None and (not field or part in PARTS)
    ]
    if not kept:
        return None
    texts = [(_whole_text(record),) for record, _ in kept]
    groups = [(str(record["label"]), part) for record, part in kept]
    return EvaluationSet(stem(path), "classification", texts, groups=groups)


def _record(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}, line {number}: {line[:60]!r} is no JSON ({error}); correct the line"
        ) from error
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError(  # noqa: TRY004 - what is wrong is a line, not an argument
            f"{path}, line {number}: {line[:60]!r} has no field 'text' that is a string; give every line one"
        )
    return record


def _whole_text(record: dict[str, Any]) -> str:
    return "\n".join(str(record[name]) for name in (*TITLE_FIELDS, "text") if record.get(name))


def _number(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan


def _check(path: Path, rows: list[list[str]], width: int) -> None:
    for number, row in enumerate(rows, start=1):
        if len(row) != width or (width == 4 and not math.isfinite(_number(row[1]))):
            expected = "subset, score and two sentences" if width == 4 else "a label and a text"
            raise ValueError(
                f"{path}, row {number}: {' | '.join(row)[:60]!r}, expected {expected} between tabs; correct the line"
            )


def _join_parts(texts: list[EvaluationSet]) -> list[EvaluationSet]:
    """Return the sets whose parts are in several files as one each, the others as they are."""
    found: dict[str, list[EvaluationSet]] = {}
    for each in texts:
        stem, _, part = each.name.rpartition("-")
        is_part = part in PARTS and bool(stem)
        groups = [(label, own or part) for label, own in each.groups] if is_part else each.groups
        name = stem if is_part else each.name
        found.setdefault(name, []).append(each._replace(name=name, groups=groups))
    return [_joined(parts) for parts in found.values()]


def _joined(parts: list[EvaluationSet]) -> EvaluationSet:
    one = parts[0]._replace(
        items=[item for each in parts for item in each.items],
        groups=[group for each in parts for group in each.groups],
    )
    names = sorted({part for _, part in one.groups})
    if names != [""] and not {"train", "test"} <= set(names):
        raise ValueError(
            f"the set {one.name} has the parts {', '.join(names)}: give its files {one.name}-train and "
            f"{one.name}-test both, or texts of both parts in one file of JSON lines"
        )
    return one
