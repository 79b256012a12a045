"""Matrices of Zarr stores and HDF5 files, AnnData's among them, read by rows without loading the file.

AnnData's on-disk format: a dense matrix is one array, a CSR matrix a group of `data`, `indices` and `indptr` with
its `shape` as an attribute, and the names of the rows are the column of `obs` that the attribute `_index` names.
"""

from __future__ import annotations

import bz2
import io
import lzma
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import zarr
from zarr.abc.store import SuffixByteRequest
from zarr.storage import WrapperStore

from distembed.extras import optional
from distembed.files import damage_told
from distembed.formats.matrix import Matrix, MatrixError, check_shape, held_matrix, within_shape
from distembed.formats.names import HDF5_SUFFIXES
from distembed.formats.zarr_stores import zarr_store
from distembed.urls import opened

LISTED = 20
"""Keys shown where one is wanted."""


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open an HDF5 file or a Zarr store for reading; both answer to the same keys and attributes."""
    if not path.endswith(HDF5_SUFFIXES):
        with damage_told(path, MatrixError, "a Zarr store"):
            yield zarr.open(CheckedStore(zarr_store(path, read_only=True)), mode="r")
        return
    h5py = optional("h5py", user=f"reading {path}", extra="anndata")
    with (
        damage_told(path, MatrixError, "an HDF5 file"),
        opened(path, "rb") as file,
        h5py.File(file, "r") as root,
    ):
        yield root


def open_hierarchical(path: str, *, key: str | None) -> Matrix:
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
            whole = within_shape(sp.csc_array(parts, shape=_shape(node))).tocsr()
            return held_matrix(path, whole, None)._replace(names=names)
        raise MatrixError(
            f"{path} holds {layout} under {key!r}, and no matrix: set input.key to one of {_keys(root)}"
        )


def _node(path: str, root: Any, key: str | None) -> tuple[Any, str]:
    if hasattr(root, "dtype"):
        return _checked(path, "", root), ""
    if key is None and "X" not in root:
        raise MatrixError(f"{path} holds no array X: set input.key to one of {_keys(root)}")
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
    return _checked_array(path, key, node) if hasattr(node, "dtype") else node


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
    numbered = indices.dtype.kind in "iu"
    if not numbered or len(ends) != shape[0] + 1 or ends[-1] > min(data.shape[0], indices.shape[0]):
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
        block = within_shape(sp.csr_array(parts, shape=(stop - start, _shape(node)[1])))
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


# ---- files that a stranger may have made ----------------------------------------------------------------------
#
# Some codecs of Zarr's second format unpickle; chunks of a few megabytes unpack to gigabytes; an HDF5 file can take its
# values from another file of the reader's disk. Arrays are refused before a chunk of them is decoded.

PACKED_BYTES = 1 << 16
"""Bytes unpacked at a time where a chunk is measured."""
TEXT_BYTES = 256 << 20
"""Bytes to which a chunk of text may unpack."""
LARGEST_CHUNK = 2 << 30
"""Bytes to which a chunk of numbers may unpack: AnnData writes one chunk of what is small."""
HEADS = {"blosc": slice(4, 8), "lz4": slice(0, 4)}
"""Where a chunk of a codec says how many bytes it unpacks to."""
MEASURED = ("gzip", "zlib", "bz2", "lzma", "zstd")
"""The codecs whose chunks are unpacked piece by piece to find how many bytes they hold."""
HARMLESS = (
    "bytes",
    "vlen-utf8",
    "vlen-bytes",
    "transpose",
    "shuffle",
    "delta",
    "crc32c",
    "crc32",
    "adler32",
    "fletcher32",
)
"""The codecs whose output is about as large as their input."""
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
"""The files of a Zarr store that are no chunks."""


class Packing(NamedTuple):
    """The codec that packs the chunks of an array, the bytes one may unpack to, and how many chunks a shard has."""

    codec: str
    largest: int
    in_shard: int


class CheckedStore(WrapperStore[Any]):
    """A Zarr store that refuses a chunk which unpacks to more than its array says.

    `packings` holds the arrays that were checked, by their paths.
    """

    def __init__(self, store: Any, packings: dict[str, Packing] | None = None) -> None:
        super().__init__(store)
        self.packings: dict[str, Packing] = {} if packings is None else packings

    def _with_store(self, store: Any) -> CheckedStore:
        return CheckedStore(store, self.packings)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the bytes under a key, or refuse them."""
        value = await super().get(key, prototype, byte_range)
        found = next((self.packings[p] for p in self.packings if not p or key.startswith(f"{p}/")), None)
        if value is None or found is None or key.rpartition("/")[2] in METADATA:
            return value
        is_index = found.in_shard and isinstance(byte_range, SuffixByteRequest)
        pieces: Iterable[Any] = [value]
        if found.in_shard:
            pieces = (
                [] if is_index else [value] if byte_range is not None else _of_shard(value, found.in_shard)
            )
        for piece in pieces:
            _refuse_bomb(key, found, piece)
        return value


def _of_shard(shard: Any, n_chunks: int) -> Iterator[Any]:
    """Yield the chunks of a shard, whose index of places and lengths stands at its end, before a checksum."""
    index = np.frombuffer(shard[-16 * n_chunks - 4 : -4].to_bytes(), "<u8").reshape(-1, 2).tolist()
    for start, length in index:
        if start < len(shard):  # a chunk that is not there has the largest number as its place
            yield shard[start : start + length]


def _refuse_bomb(key: str, packing: Packing, chunk: Any) -> None:
    unpacked = _unpacked_bytes(packing.codec, chunk, packing.largest)
    if unpacked > packing.largest:
        raise MatrixError(
            f"the chunk {key} would unpack to {unpacked:,} bytes or more, and its array allows {packing.largest:,}: "
            "the file is damaged or meant to harm, do not use it"
        )


def _unpacked_bytes(codec: str, value: Any, largest: int) -> int:
    """Return how many bytes a chunk unpacks to, counted no further than past `largest`."""
    if codec in HEADS:
        return int.from_bytes(value[HEADS[codec]].to_bytes(), "little")
    if codec not in MEASURED:
        return len(value)
    data, n_bytes = io.BytesIO(value.to_bytes()), 0
    opened_as: Any = {"bz2": bz2.open, "lzma": lzma.open}.get(codec)
    # "gzip" of Arrow reads zlib too, as the head says.
    stream = (
        opened_as(data)
        if opened_as
        else pa.CompressedInputStream(data, "zstd" if codec == "zstd" else "gzip")
    )
    with stream:
        while n_bytes <= largest and (piece := stream.read(PACKED_BYTES)):
            n_bytes += len(piece)
    return n_bytes


def _checked_array(path: str, key: str, node: Any) -> Any:
    """Return an array of a Zarr store or an HDF5 file, or refuse it before a chunk of it is decoded.

    Raises
    ------
    MatrixError
        If it is packed with a codec that could run code or is not known, its chunks are too large, or its values
        lie in another file.
    """
    if hasattr(node, "metadata"):
        return _checked_zarr(path, key, node)
    if node.is_virtual or node.external:
        raise MatrixError(
            f"{path} takes {key!r} from another file: copy the values into it (h5repack, or anndata)"
        )
    if node.chunks:
        _refuse_large(path, key, math.prod(node.chunks) * node.dtype.itemsize)
    return node


def _checked_zarr(path: str, key: str, node: Any) -> Any:
    metadata, chunks, in_shard = node.metadata, node.chunks, 0
    codecs = _codecs(metadata)
    if codecs == ["sharding_indexed"] and metadata.codecs[0].index_location.value == "end":
        in_shard = math.prod(node.shards) // math.prod(chunks)
        codecs = _codec_names(metadata.codecs[0].codecs)
    packing = [name for name in codecs if name not in HARMLESS]
    if len(packing) > 1 or not set(packing) <= {*HEADS, *MEASURED}:
        raise MatrixError(
            f"{path} packs {key!r} with {', '.join(codecs)}: write it again with one of "
            f"{', '.join((*HEADS, *MEASURED))}"
        )
    n_bytes = math.prod(chunks) * node.dtype.itemsize
    _refuse_large(path, key, n_bytes)
    is_text = node.dtype.kind not in "biufc"
    # a checksum adds a few bytes to a chunk before it is packed
    largest = TEXT_BYTES if is_text else n_bytes + 64
    node.store.packings[node.path] = Packing(packing[0] if packing else "", largest, in_shard)
    return node


def _codecs(metadata: Any) -> list[str]:
    """Return the names of the codecs of an array, in the order in which they pack."""
    if metadata.zarr_format == 3:
        return _codec_names(metadata.codecs)
    return [codec.codec_id for codec in (*(metadata.filters or ()), metadata.compressor) if codec is not None]


def _codec_names(codecs: Any) -> list[str]:
    return [codec.to_dict()["name"].removeprefix("numcodecs.") for codec in codecs]


def _refuse_large(path: str, key: str, n_bytes: int) -> None:
    if n_bytes > LARGEST_CHUNK:
        raise MatrixError(
            f"{path} has chunks of {n_bytes:,} bytes in {key or 'its array'}, and one of up to {LARGEST_CHUNK:,} is "
            "read: write it again in smaller chunks"
        )
