"""Matrices of NumPy's files: npy files are read by rows, and arrays of npz files whole."""

from __future__ import annotations

import zipfile
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from distembed.files import BombError
from distembed.formats.matrix import Matrix, MatrixError, check_shape, held_matrix
from distembed.formats.npz import member_header, npy_header, refuse_large_member
from distembed.formats.tables import some, texts_of
from distembed.urls import opened, url_to_fs


def open_npy(path: str) -> Matrix:
    """Open an npy file, which is read by rows where it is stored by rows."""
    with opened(path, "rb") as file:
        try:
            shape, fortran, dtype = npy_header(file)
        except ValueError as error:
            raise MatrixError(f"{path} is not an npy file ({error}): save it with numpy.save") from error
        first = file.tell()
    check_shape(path, shape, dtype)
    fs, inner = url_to_fs(path)
    missing = first + dtype.itemsize * shape[0] * shape[1] - fs.size(inner)
    if missing > 0:
        raise MatrixError(
            f"{path} ends {missing:,} bytes before its {shape[0]:,} rows do: copy or save it again"
        )
    if fortran:
        with opened(path, "rb") as file:
            return held_matrix(path, np.ascontiguousarray(np.load(file)), None)
    return Matrix(path, shape, dtype, partial(_npy_rows, path, first, shape[1], dtype), lambda: None)


def _npy_rows(path: str, first: int, width: int, dtype: np.dtype[Any], start: int, stop: int) -> Any:
    with opened(path, "rb") as file:
        file.seek(first + start * width * dtype.itemsize)
        data = file.read((stop - start) * width * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(stop - start, width)


def read_npz(path: str, key: str | None, name_key: str | None) -> Matrix:
    """Read a matrix that scipy.sparse.save_npz wrote, or one array of an npz file."""
    try:
        with opened(path, "rb") as file, np.load(file) as arrays:
            if "format" in arrays.files:
                for name in arrays.files:
                    refuse_large_member(path, arrays, name)
                file.seek(0)
                return held_matrix(path, sp.csr_array(sp.load_npz(file)), None)
            names = None if name_key is None else texts_of(_array_of(path, arrays, name_key))
            return held_matrix(path, _array_of(path, arrays, key or _only_matrix(path, arrays)), names)
    except (BombError, MatrixError):
        raise
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise MatrixError(f"{path} cannot be read as an npz file ({error}): copy or save it again") from error


def _array_of(path: str, arrays: Any, name: str) -> Any:
    if name not in arrays.files:
        raise MatrixError(f"{path} holds no array {name!r}; it holds {some(arrays.files)}")
    refuse_large_member(path, arrays, name)
    return arrays[name]


def _only_matrix(path: str, arrays: Any) -> str:
    matrices = [name for name in arrays.files if len(member_header(arrays, name)[0]) == 2]
    if len(matrices) != 1:
        raise MatrixError(f"{path} holds {some(arrays.files)}: set input.key to the one that is the matrix")
    return matrices[0]
