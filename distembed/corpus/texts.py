"""Texts that are in memory, as a file that a corpus reads like any other: columns of data frames, and lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from distembed.scratch import Scratch


@runtime_checkable
class TextColumn(Protocol):
    """A column of texts, as pandas and Polars have it."""

    def to_numpy(self) -> Any:
        """Return the values."""
        ...

    def to_list(self) -> list[Any]:
        """Return the values."""
        ...


Texts: TypeAlias = TextColumn | Sequence[str]
"""One text for each document; an empty cell is an empty document."""

TEXT_FILE = "texts.parquet"


def write_texts(path: str | Path, texts: Texts) -> None:
    """Write texts as Parquet with the columns id, which is the index of a column or else its number, and text.

    Raises
    ------
    TypeError
        If a value is no text.
    """
    if isinstance(texts, str):
        raise TypeError("one text was given where a list of texts is needed: put it into brackets")
    values = texts.to_list() if isinstance(texts, TextColumn) else list(texts)
    index = getattr(texts, "index", None)
    ids = range(len(values)) if index is None or callable(index) else index
    table = pa.table({"id": pa.array(map(str, ids), pa.string()), "text": _cells(values)})
    pq.write_table(table, str(path), row_group_size=1 << 14, write_page_checksum=True)


def _cells(values: list[Any]) -> pa.Array:
    """Return texts as an array; what stands for a missing value in a data frame is null."""
    try:
        return pa.array(values, pa.string(), from_pandas=True)
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        known = ((place, one) for place, one in enumerate(values) if not isinstance(one, str))
        place, value = next(found for found in known if pa.scalar(found[1], from_pandas=True).is_valid)
    raise TypeError(
        f"the document with the number {place} is {value!r}, of the type {type(value).__name__}: give texts, such as "
        'the column of a data frame with .astype("string")'
    )


def texts_on_disk(texts: Texts, scratch: str | Path | None) -> Scratch:
    """Return a temporary folder that holds texts in `TEXT_FILE`."""
    folder = Scratch("distembed-texts-", scratch)
    write_texts(Path(folder.url) / TEXT_FILE, texts)
    return folder
