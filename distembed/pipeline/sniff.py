"""A look at the first lines of a user's file: which keys of a section fit it.

Only the beginning of a file is read. A guess is written into the job file as a value with its comment, where its
owner sees it and corrects it.
"""

from __future__ import annotations

import csv
import glob
import io
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from distembed.corpus.paths import is_hidden
from distembed.files import read_head
from distembed.formats.delimiters import delimiter_of, separated
from distembed.formats.encodings import HEAD_BYTES, decoded, detect_encoding
from distembed.formats.names import suffix_of
from distembed.formats.parquet import ParquetFile, read_batches
from distembed.urls import opened

SAMPLE_BYTES = 1 << 20
SAMPLE_RECORDS = 50

FIELD_NAMES = {
    "text_field": ("text", "body", "content", "article", "abstract", "review", "message"),
    "id_field": ("id", "_id", "doc_id", "docid", "document_id", "uid"),
    "title_field": ("title", "headline", "subject"),
    "label_field": ("label", "class", "category", "topic", "section"),
}
"""What fields of records are mostly called."""

NUMBER = re.compile(r"[-+]?[\d.,]*\d[\d.,]*(?:[eE][-+]?\d+)?")
DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{2,4}(?!\d)")
"""A day, whatever the order of its parts; a time may follow."""

Records = Mapping[str, list[Any]]
"""The first values of each field."""


class Sample(NamedTuple):
    """The beginning of a text; `is_whole` says whether the file ends with it."""

    text: str
    encoding: str
    is_whole: bool


def first_file(path: str) -> str:
    """Return the first of the files that `files_at` finds."""
    return files_at(path)[0]


def files_at(path: str) -> list[str]:
    """Return the file itself, or those of a folder or a glob that are not empty, in order.

    Raises
    ------
    FileNotFoundError
        Nothing lies at the path, or nothing is in it.
    """
    if "://" in path:
        return [path]
    pattern = os.path.join(path, "**") if os.path.isdir(path) else path  # noqa: PTH112, PTH118
    every = sorted(one for one in glob.glob(pattern, recursive=True) if os.path.isfile(one))  # noqa: PTH113, PTH207
    found = [one for one in every if one == path or not is_hidden(os.path.basename(one))]  # noqa: PTH119
    if not found and os.path.isfile(path):  # noqa: PTH113 - a name with brackets is no glob of itself
        found = [path]
    if not found:
        raise FileNotFoundError(f"there is no file {path}: give a file, a folder or a quoted glob")
    filled = [one for one in found if os.path.getsize(one)]  # noqa: PTH202
    if not filled:
        raise FileNotFoundError(f"{path} is empty: give a file that holds text, a table or vectors")
    return filled


def is_filled(path: str) -> bool:
    """Return whether something is in a file, or may be in what is no local file."""
    return not os.path.isfile(path) or os.path.getsize(path) > 0  # noqa: PTH113, PTH202


def settings_for(names: Iterable[str], path: str) -> dict[str, Any]:
    """Return the keys of a section, of those in `names`, that fit a file.

    Parameters
    ----------
    names : iterable of str
        The keys that the section has.
    path : str
        A file, a folder, a glob or a URL.
    """
    known, file = set(names), first_file(path)
    records = records_of(file)
    if "text_field" in known:
        found = text_fields(records) if records else text_layout(sample_of(file))
    elif "name_column" in known and records:
        column = next((name for name in records if not _are_numbers(records[name])), None)
        # A table whose rows are days is one of prices.
        dates = column is not None and _are_dates(records[column])
        found = {"name_column": column, "transform": "return_correlation" if dates else None}
    else:
        found = {}
    return {name: value for name, value in found.items() if name in known and value is not None}


def text_fields(records: Records) -> dict[str, Any]:
    """Return which fields hold the text, the id, the title and the class of a document, by name or by length."""
    lowered = {name.lower(): name for name in records}
    found = {
        key: next((lowered[name] for name in usual if name in lowered), None)
        for key, usual in FIELD_NAMES.items()
    }
    longest = longest_fields(records)
    return found | {"text_field": found["text_field"] or (longest[0] if longest else None)}


def longest_fields(records: Records) -> list[str]:
    """Return the fields of text, the longest first."""
    texts = {name: sum(len(v) for v in values if isinstance(v, str)) for name, values in records.items()}
    return sorted((name for name in texts if texts[name]), key=lambda name: -texts[name])


def text_layout(sample: Sample) -> dict[str, Any]:
    """Return the layout of a text where empty lines part the documents; encodings are told file by file by the job."""
    lines = [line.strip() for line in sample.text.splitlines()]
    empty = lines.count("")
    # Where single lines stand between empty ones, each is a document: as a block it would be a title and no text.
    continued = sum(bool(line and after) for line, after in itertools.pairwise(lines))
    is_blocks = len(lines) > 3 and empty > len(lines) / 20 and 2 * continued > empty
    return {"layout": "blocks" if is_blocks else None}


def sample_of(path: str) -> Sample:
    """Return the beginning of a text file in the encoding that it seems to have."""
    data = read_head(path, SAMPLE_BYTES + 1)
    encoding = detect_encoding(data[:HEAD_BYTES])
    text = decoded(data[:SAMPLE_BYTES], encoding, errors="replace")
    return Sample(text, encoding, is_whole=len(data) <= SAMPLE_BYTES)


def word_counts(sample: Sample) -> Counter[str]:
    """Return how often each word stands in a sample, about as the tokenizer cuts it."""
    return Counter(re.findall(r"[^\W\d_]+", sample.text.lower()))


def records_of(path: str) -> Records:
    """Return the first values of each field of JSON lines, Parquet, CSV or TSV; nothing of other files."""
    suffix = suffix_of(path)
    if suffix in (".parquet", ".pq"):
        with opened(path, "rb") as file:
            batch = next(read_batches(ParquetFile(file), SAMPLE_RECORDS), None)
            return {} if batch is None else batch.to_pydict()
    if suffix not in (".jsonl", ".ndjson", ".json", ".csv", ".tsv"):
        return {}
    text = sample_of(path).text
    return _of_csv(text, path) if suffix in (".csv", ".tsv") else _of_json(text.splitlines()[:SAMPLE_RECORDS])


def _of_json(lines: list[str]) -> Records:
    found: dict[str, list[Any]] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        for name, value in record.items() if isinstance(record, dict) else ():
            found.setdefault(name, []).append(value)
    return found


def _of_csv(text: str, path: str) -> Records:
    text, named = separated(text)
    delimiter = named or delimiter_of(text, path)
    rows = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row)
    header = [name.strip() for name in next(rows, [])]
    first = itertools.islice(rows, SAMPLE_RECORDS)
    return {name: list(values) for name, values in zip(header, itertools.zip_longest(*first), strict=False)}


def _are_numbers(values: list[Any]) -> bool:
    """Return whether most values are numbers; those that are not may be marks of missing ones."""
    texts = [str(value).strip() for value in values if value not in (None, "")]
    numbers = [text for text in texts if NUMBER.fullmatch(text) and not DATE.match(text)]
    return not texts or 2 * len(numbers) > len(texts)


def _are_dates(values: list[Any]) -> bool:
    texts = [str(value).strip() for value in values if value not in (None, "")]
    return bool(texts) and all(map(DATE.match, texts))
