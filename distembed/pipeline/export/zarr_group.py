"""The numbers of a table, and the names of its rows, as a Zarr group, written some rows at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import zarr
from numpy.typing import NDArray

from distembed.files import partial_name
from distembed.pipeline.export.tables import PIECE_VALUES, Piece, Table


def write_zarr(target: str, table: Table, *, names: str) -> None:
    """Write a Zarr group with the arrays ``vectors`` and ``ids``, which appears whole or not at all.

    Parameters
    ----------
    target : str
        A local folder. A Zarr group that is there is replaced.
    table : Table
        Its numbers become ``vectors``, float32 (rows, width).
    names : str
        The column that becomes ``ids``, text (rows,).

    Raises
    ------
    ValueError
        If the target is a URL.
    FileExistsError
        If there is something at the target that is no Zarr group.
    """
    place = Path(target)
    if "://" in target:
        raise ValueError(f"{target}: a Zarr group is written to a local folder; name one, or write .parquet")
    if place.exists() and not (place / "zarr.json").exists():
        raise FileExistsError(f"{target} is there and is no Zarr group; name another place")
    partial = Path(partial_name(str(place)))
    try:
        _write(partial, table, names)
        if place.exists():
            shutil.rmtree(place)
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(place: Path, table: Table, names: str) -> None:
    assert table.numbers is not None
    n, width = table.n_rows, table.numbers.width
    step = max(1, PIECE_VALUES // width)
    group = zarr.open_group(place, mode="w-")
    vectors = group.create_array(
        "vectors", shape=(n, width), chunks=(step, width), dtype="f4", dimension_names=("text", "component")
    )
    ids = group.create_array("ids", shape=(n,), chunks=(step,), dtype=str, dimension_names=("text",))
    first = 0
    for labels, numbers in _chunks(table.pieces, names, step):
        rows = slice(first, first + len(labels))
        vectors[rows], ids[rows] = numbers, np.array(labels, dtype=object)
        first += len(labels)


def _chunks(
    pieces: Iterable[Piece], names: str, step: int
) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
    """Yield names and numbers by `step` rows, the last time by fewer."""
    labels: list[str] = []
    held: list[NDArray[np.float32]] = []
    for piece in pieces:
        assert piece.numbers is not None
        labels += piece.columns[names].to_pylist()
        held.append(piece.numbers)
        while len(labels) >= step:
            rows = np.concatenate(held)
            yield labels[:step], rows[:step]
            labels, held = labels[step:], [rows[step:].copy()]
    if labels:
        yield labels, np.concatenate(held)
