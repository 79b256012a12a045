"""Workbooks of spreadsheet programs: a sheet of an .xlsx file as the text of a table."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime, time
from typing import IO, Any, NamedTuple

from distembed.extras import optional
from distembed.files import damage_told, refuse_bomb

SUFFIXES = (".xlsx", ".xlsm")
"""How the names of workbooks end that are read."""

MIDNIGHT = time()


class WorkbookError(ValueError):
    """A file that is no workbook."""


class Sheet(NamedTuple):
    """A sheet as comma-separated text in UTF-8, and what to say of it."""

    text: bytes
    notes: list[str]


def read_sheet(file: IO[bytes], path: str) -> Sheet:
    """Return the sheet that was open when a workbook was saved; formulas are their last values.

    Parameters
    ----------
    file : binary file
    path : str
        Its name, for messages.

    Raises
    ------
    ImportError
        If openpyxl is not installed.
    WorkbookError, BombError
        If the file is no workbook, or unpacks to far more than it stores.
    """
    openpyxl = optional("openpyxl", user=path, extra="excel")
    with damage_told(path, WorkbookError, "a workbook", "save it again, or as CSV"):
        with zipfile.ZipFile(file) as parts:
            sizes = parts.infolist()
        refuse_bomb(path, sum(part.compress_size for part in sizes), sum(part.file_size for part in sizes))
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        names, sheet = book.sheetnames, book.active
        if not hasattr(sheet, "iter_rows"):
            raise WorkbookError(
                f"{path} was saved with a sheet open that has no cells: open another, and save it"
            )
        others = f"{path}: the sheet {sheet.title!r} was read, of {', '.join(map(repr, names))}"
        return Sheet(_as_csv(sheet.iter_rows(values_only=True)), [others] if len(names) > 1 else [])


def _as_csv(rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as comma-separated text, without empty columns at their ends."""
    texts = [[cell_text(value) for value in row] for row in rows]
    width = max((place + 1 for row in texts for place, text in enumerate(row) if text), default=0)
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    writer.writerows([*row[:width], *[""] * (width - len(row))] if any(row) else [] for row in texts)
    return written.getvalue().encode()


def cell_text(value: Any) -> str:
    """Return a value as it is written in a text file: whole numbers without a point, dates without a midnight."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, datetime):
        return str(value.date() if value.time() == MIDNIGHT else value.replace(tzinfo=None))
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
