"""What an array in a file of NumPy says of its size, before it is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib import format as npy

from distembed.files import refuse_bomb


def npy_header(file: Any) -> tuple[Any, bool, np.dtype[Any]]:
    """Read the head of an npy file: its shape, whether it is stored by columns, and its dtype."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(file)


def member_header(arrays: Any, name: str) -> tuple[Any, np.dtype[Any]]:
    """Return the shape and the dtype of an array of an npz file."""
    with arrays.zip.open(_member(arrays, name)) as file:
        shape, _, dtype = npy_header(file)
    return shape, dtype


def refuse_large_member(path: str, arrays: Any, name: str) -> None:
    """Refuse an array of an npz file whose head promises far more than the file holds.

    Raises
    ------
    BombError
        If it does.
    """
    shape, dtype = member_header(arrays, name)
    stored = arrays.zip.getinfo(_member(arrays, name)).compress_size
    refuse_bomb(f"{path} ({name})", stored, math.prod(shape) * dtype.itemsize)


def _member(arrays: Any, name: str) -> str:
    return name if name in arrays.zip.namelist() else f"{name}.npy"
