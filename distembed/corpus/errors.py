"""Errors of a corpus, and of one of its records."""

from __future__ import annotations

from typing import NamedTuple


class CorpusError(ValueError):
    """An error in a file of the corpus, which cannot be read in the format that was given or guessed."""


class BadRecord(NamedTuple):
    """A record that could not be read: its file, its place in the file, and the reason."""

    file: str
    place: str
    reason: str


class RecordError(CorpusError):
    """An error in one record of a file whose other records can be read."""

    def __init__(self, record: BadRecord):
        super().__init__(f"{record.file}, {record.place}, {record.reason}.")
        self.record = record

    def __reduce__(self) -> tuple[type[RecordError], tuple[BadRecord]]:
        return RecordError, (self.record,)
