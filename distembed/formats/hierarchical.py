"""Matrices of Zarr stores and HDF5 files, AnnData's among them, read by rows without loading the file.

AnnData's on-disk format: a dense matrix is one array, a CSR matrix a group of `data`, `indices` and `indptr` with
its `shape` as an attribute, and the names of the rows are the column of `obs` that the attribute `_index` names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr

from distembed.formats.matrix import HDF5_SUFFIXES, Matrix, MatrixError, check_shape, held_matrix
from distembed.formats.untrusted import CheckedStore, checked_array
from distembed.formats.zarr_stores import zarr_store
from distembed.urls import opened

LISTED = 20
"""Keys shown where one is wanted."""


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open an HDF5 file or a Zarr store for reading; both answer to the same keys and attributes."""
    if not path.endswith(HDF5_SUFFIXES):
        yield zarr.open(CheckedStore(zarr_store(path, read_only=True)), mode="r")
        return
    try:
        import h5py  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise ImportError(f"reading {path} needs h5py: pip install 'distembed[anndata]'") from error
    with opened(path, "rb") as file:
        try:
            root = h5py.File(file, "r")
        except OSError as error:
            raise MatrixError(
                f"{path} is not a whole HDF5 file ({error}): copy or download it again"
            ) from error
        with root:
            yield root


def open_hierarchical(path: str, key: str | None) -> Matrix:
    """Open the matrix under a key: by default the only array of a Zarr store, or the `X` of AnnData.

    Raises
    ------
    MatrixError
        If there is nothing under the key, or what is there is no matrix of numbers.
    """
    with _opened(path) as root:
        node, key = _node(path, root, key)
        names = partial(_names, path, key)
        if hasattr(node, "dtype"):
            check_shape(path, node.shape, node.dtype)
            return Matrix(
                path, tuple(node.shape), np.dtype(node.dtype), partial(_dense_rows, path, key), names
            )
        layout = _text(node.attrs.get("encoding-type") or node.attrs.get("h5sparse_format") or "nothing")
        if layout.startswith("csr"):
            return _csr(path, key, node)
        if layout.startswith("csc"):  # by columns: its rows can only be read all at once
            parts = tuple(_member(path, node, part)[:] for part in ("data", "indices", "indptr"))
            whole = sp.csc_array(parts, shape=_shape(node)).tocsr()
            return held_matrix(path, whole, None)._replace(names=names)
        raise MatrixError(
            f"{path} holds {layout} under {key!r}, and no matrix: set input.key to one of {_keys(root)}"
        )


def _node(path: str, root: Any, key: str | None) -> tuple[Any, str]:
    if hasattr(root, "dtype"):
        return _checked(path, "", root), ""
    if key is None and "X" not in root:
        raise MatrixError(f"{path} holds several arrays: set input.key to one of {_keys(root)}")
    key = key or "X"
    if key not in root:
        raise MatrixError(f"{path} holds nothing under {key!r}: set input.key to one of {_keys(root)}")
    return _member(path, root, key), key


def _member(path: str, group: Any, key: str) -> Any:
    """Return what lies under a key of a group, an array only once it is checked."""
    for step in key.strip("/").split("/"):
        if _is_external(group, step):
            raise MatrixError(f"{path} takes {key!r} from another file: copy the values into it")
        group = group[step]
    return _checked(path, key, group)


def _is_external(group: Any, name: str) -> bool:
    """Return whether a name in a group of an HDF5 file leads to another file."""
    # Zarr has no links, and of those of HDF5 only one to another file names one.
    return hasattr(group, "file") and hasattr(group.get(name, getlink=True), "filename")


def _checked(path: str, key: str, node: Any) -> Any:
    return checked_array(path, key, node) if hasattr(node, "dtype") else node


def _keys(root: Any) -> str:
    """Return the keys of the matrices that a file may hold, two levels deep."""
    found = []
    for name in root:
        node = root[name]
        inner = (
            [] if hasattr(node, "dtype") or "indptr" in node or name in ("obs", "var", "uns") else list(node)
        )
        found += [f"{name}/{key}" for key in inner] or ([name] if name not in ("obs", "var", "uns") else [])
    return ", ".join(sorted(found)[:LISTED]) or "none"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _shape(node: Any) -> tuple[int, int]:
    n_rows, n_columns = node.attrs["shape"] if "shape" in node.attrs else node.attrs["h5sparse_shape"]
    return int(n_rows), int(n_columns)


def _csr(path: str, key: str, node: Any) -> Matrix:
    data, indices, starts = (_member(path, node, part) for part in ("data", "indices", "indptr"))
    shape, dtype = _shape(node), np.dtype(data.dtype)
    check_shape(path, shape, dtype)
    ends = starts[:].astype(np.int64) if starts.shape == (shape[0] + 1,) else np.zeros(0, np.int64)
    if len(ends) != shape[0] + 1 or ends[-1] > min(data.shape[0], indices.shape[0]):
        raise MatrixError(
            f"{path}, {key!r}: data, indices and indptr do not belong together: write the file again"
        )
    return Matrix(
        path, shape, dtype, partial(_csr_rows, path, key), partial(_names, path, key), np.diff(ends)
    )


def _dense_rows(path: str, key: str, start: int, stop: int) -> Any:
    with _opened(path) as root:
        node = _member(path, root, key) if key else _checked(path, key, root)
        return np.asarray(node[start:stop])


def _csr_rows(path: str, key: str, start: int, stop: int) -> sp.csr_array:
    with _opened(path) as root:
        node = _member(path, root, key)
        data, indices, starts = (_member(path, node, part) for part in ("data", "indices", "indptr"))
        ends = starts[start : stop + 1].astype(np.int64)
        inside = slice(int(ends[0]), int(ends[-1]))
        parts = (data[inside], indices[inside], ends - ends[0])
        block = sp.csr_array(parts, shape=(stop - start, _shape(node)[1]))
    block.sum_duplicates()
    return block


def _names(path: str, key: str) -> Sequence[str] | None:
    """Return the names of the rows of a matrix of AnnData: of its variables for `varm`, else of its observations."""
    axis = "var" if key.startswith("var") else "obs"
    with _opened(path) as root:
        if hasattr(root, "dtype") or axis not in root:
            return None
        frame = _member(path, root, axis)
        if hasattr(frame, "dtype"):  # the table of files written before AnnData 0.7
            return [_text(name) for name in frame[frame.dtype.names[0]]]
        return _column(path, _member(path, frame, _text(frame.attrs.get("_index", "_index"))))


def _column(path: str, node: Any) -> list[str]:
    """Return a column of text: an array, or a group of codes and categories, or of values and a mask."""
    if not hasattr(node, "dtype"):
        if "codes" in node:
            categories = _column(path, _member(path, node, "categories"))
            return [categories[code] for code in _member(path, node, "codes")[:]]
        node = _member(path, node, "values")
    return [_text(value) for value in node[:]]
