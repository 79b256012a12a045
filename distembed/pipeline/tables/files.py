"""Files of tables: CSV (any compression), Parquet and NumPy's npz, read to named columns.

What is read here fits in memory: a row is a name, and names are few beside the words of a corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

Columns: TypeAlias = Mapping[str, NDArray[Any]]
Floats: TypeAlias = NDArray[np.floating[Any]]

TABLE_SUFFIXES = (".csv", ".tsv", ".npz")
COMPRESSIONS = (".xz", ".gz", ".bz2", ".zst")
SHOWN = 3
"""Names shown of a list that is at fault."""


class TableError(ValueError):
    """A table that does not hold what the job says."""


# ---- reading ----------------------------------------------------------------------------------------------


def read_columns(path: str) -> Columns:
    """Read the columns of a table by name; those of an npz file may be matrices, a row an entry.

    Raises
    ------
    TableError
        If two columns have one name, or the file is no table.
    """
    suffix = _suffix(path)
    with fsspec.open(path, "rb", compression=None if suffix in (".npz", ".parquet") else "infer") as file:
        if suffix == ".npz":
            with np.load(file) as arrays:
                return {name: arrays[name] for name in arrays.files}
        # Read in this thread: one of Arrow's, still at a file of Python's when the program ends, aborts it.
        table = (
            pq.read_table(file, use_threads=False, pre_buffer=False, page_checksum_verification=True)
            if suffix == ".parquet"
            else _read_csv(path, file, suffix)
        )
    refuse_twice(path, "column", table.column_names)
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}


def _read_csv(path: str, file: Any, suffix: str) -> pa.Table:
    try:
        options = pacsv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        return pacsv.read_csv(file, parse_options=options)
    except pa.ArrowInvalid as error:
        raise TableError(f"{path} is not a table of comma-separated values: {error}") from None


def _suffix(path: str) -> str:
    """Return the end of a file's name that tells its format, without the end of a compression."""
    for compression in COMPRESSIONS:
        path = path.removesuffix(compression)
    return next((end for end in (".npz", ".parquet", ".tsv") if path.endswith(end)), ".csv")


def refuse_twice(path: str, kind: str, names: Iterable[str]) -> None:
    """Refuse names of which two are equal."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TableError(f"{path} has the {kind} {name!r} twice: keep one")
        seen.add(name)


def texts_of(values: NDArray[Any]) -> list[str]:
    """Return the values of a column as text."""
    return [str(value) for value in values.tolist()]


def column_of(path: str, columns: Columns, name: str) -> NDArray[Any]:
    """Return the column of a name, or refuse a table without it."""
    if name not in columns:
        raise TableError(f"{path} has no column {name!r}; it has {some(columns)}")
    return columns[name]


def some(names: Iterable[str]) -> str:
    """Return the first few of some names in quotes, and how many more there are."""
    names = list(names)
    return ", ".join(map(repr, names[:SHOWN])) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )


def key_column(path: str, columns: Columns, name: str | None) -> str:
    """Return the column of names: the one asked for, else the first that is no matrix."""
    if name is not None:
        column_of(path, columns, name)
        return name
    plain = [name for name, values in columns.items() if values.ndim == 1]
    if not plain:
        raise TableError(f"{path} has no column of names; it has {some(columns)}")
    return plain[0]


def number_columns(path: str, columns: Columns, names: Sequence[str], wanted: Iterable[str]) -> Floats:
    """Return the wanted columns side by side, a row a name; refuse what is no number."""
    parts = [_numbers(path, columns[name], name, names) for name in wanted]
    if not parts:
        raise TableError(f"{path} has no column of numbers beside its names")
    dtype = np.result_type(*parts, np.float32)
    return np.concatenate([part.astype(dtype, copy=False) for part in parts], axis=1)


def number_names(columns: Columns, wanted: Iterable[str]) -> list[str]:
    """Return what to call each column of `number_columns`: those of a matrix are numbered."""
    widths = {name: 1 if columns[name].ndim == 1 else columns[name].shape[1] for name in wanted}
    return [
        name if columns[name].ndim == 1 else f"{name}[{i}]"
        for name, width in widths.items()
        for i in range(width)
    ]


def _numbers(path: str, values: NDArray[Any], column: str, names: Sequence[str]) -> NDArray[Any]:
    if values.dtype.kind not in "fiub" or values.ndim > 2 or len(values) != len(names):
        what = f"shape {values.shape} and type {values.dtype}"
        raise TableError(
            f"the column {column!r} of {path} has {what}, not a number for each of {len(names)} names: drop it"
        )
    matrix = values.reshape(len(values), -1)
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        first = names[int(np.flatnonzero(bad)[0])]
        raise TableError(
            f"the column {column!r} of {path} has no finite number for {bad.sum()} of {len(names)} names, first "
            f"{first!r}: drop the column, or fill in the values"
        )
    return matrix
