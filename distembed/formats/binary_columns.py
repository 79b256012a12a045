"""The columns of binary files as those of a text file would be: decoded, and with the index of pandas first."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

UNNAMED_INDEX = "__index_level_"
"""What pandas calls an index without a name, with its number."""


def columns_of_parquet(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a table by name, those of an index of pandas before the others.

    An index of numbers that has no name is left out: it numbers the rows.
    """
    columns = dict(zip(table.column_names, map(_decoded, table.columns), strict=True))
    index = [name for name in _index_of_pandas(table) if name in columns]
    first = {name: columns.pop(name) for name in index}
    return {
        name: column
        for name, column in (first | columns).items()
        if not (name.startswith(UNNAMED_INDEX) and pa.types.is_integer(column.type))
    }


def _index_of_pandas(table: pa.Table) -> list[str]:
    """Return the names of the columns that were an index; one that only counts, or cannot be told, is none of them."""
    try:
        described = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
        return [name for name in described["index_columns"] if isinstance(name, str)]
    except (LookupError, RecursionError, TypeError, ValueError):  # not as pandas writes it
        return []


def _decoded(column: Any) -> Any:
    """Return the values of a dictionary for their codes, times in microseconds, and text for bytes that are UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind) or str(kind) == "binary_view":
        column = column.cast(pa.binary())
    if pa.types.is_binary(column.type) or pa.types.is_null(kind) or str(kind) == "string_view":
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            return column
    return column


def decoded_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return text for bytes of an array that are UTF-8, and times in microseconds; other arrays as they are."""
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    if array.dtype.kind == "S":
        try:
            return np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            return array
    return array
