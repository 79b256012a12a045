"""Arrays on disk, one row block at a time: written, read, and opened lazily as a Dask array.

Every row block is a separate Zarr array (dense) or a group of three (CSR). Row blocks may have different
sizes, which a Zarr array with a regular grid cannot represent, and a block can be removed and written without
touching its neighbors. Every chunk ends in a crc32c, because Zarr otherwise returns a flipped byte as data.
All-zero chunks are written, because Zarr otherwise returns a deleted chunk as zeros.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import dask.array as da
import numpy as np
from scipy import sparse
from zarr.api import asynchronous as zarr_async
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec
from zarr.storage import WrapperStore

from distembed.files import RefusedError, failures_told
from distembed.storage.files import Folder
from distembed.storage.schema import (
    ARRAYS,
    BlockRecord,
    DamagedError,
    FileRecord,
    LockedError,
    Output,
    new_digest,
)
from distembed.storage.tasks import boxed, boxed_all
from distembed.storage.zarr_stores import wait_for, zarr_store_in

CHUNK_BYTES = 16 << 20
"""Bytes of one Zarr chunk of a dense block: the fastest size measured for float32 with crc32c."""

CODECS = ((BytesCodec, Crc32cCodec), (BytesCodec, BloscCodec, Crc32cCodec))
"""What chunks are written with. A stranger may name others, and some unpack a thousandfold."""
BLOSC_SIZE = slice(4, 8)
"""Where the head of a chunk of Blosc says how many bytes it unpacks to."""

_CHUNK = re.compile(r"/c(/\d+)+$")

Array = np.ndarray[Any, np.dtype[Any]]


CHUNK_ELEMENTS = 4 << 20
"""Elements of one Zarr chunk of a CSR part: 16 MiB of 32-bit integers."""

PARTS = ("data", "indices", "indptr")

INDEX_DTYPES = (np.dtype(np.int32), np.dtype(np.int64))
"""The types of column numbers and of the positions where rows begin."""


class _BlockStore(WrapperStore[Any]):
    """A Zarr store that computes the digest of what is written and refuses to read a missing chunk as zeros.

    In a local folder every write asks whether it is allowed. In an object store, where the question takes as long as
    a small write, only every block does. `packed` holds the bytes to which the chunks of an array may unpack, by its
    path.
    """

    def __init__(self, folder: Folder, *, read_only: bool) -> None:
        super().__init__(zarr_store_in(folder, ARRAYS, read_only=read_only))
        self.folder = folder
        self.written: dict[str, FileRecord] = {}
        self.packed: dict[str, int] = {}

    def _with_store(self, store: Any) -> _BlockStore:
        other = copy(self)
        other._store = store
        return other

    async def set(self, key: str, value: Any) -> None:
        if self.folder.is_local:
            self.folder.check()
        data = value.as_numpy_array()
        self.written[f"{ARRAYS}/{key}"] = FileRecord(data.nbytes, new_digest(data).hexdigest())
        await super().set(key, value)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        value = await super().get(key, prototype, byte_range)
        chunk = _CHUNK.search(key)
        if chunk is None:
            return value
        if value is None:
            raise DamagedError(f"{ARRAYS}/{key} is missing.")
        allowed = self.packed.get(key[: chunk.start()])
        if allowed is not None:
            says = int.from_bytes(value[BLOSC_SIZE].to_bytes(), "little")
            if says > allowed:
                raise DamagedError(f"{ARRAYS}/{key} would unpack to {says:,} bytes in place of {allowed:,}.")
        return value


def write_attributes(folder: Folder, output: Output) -> dict[str, FileRecord]:
    """Write the Zarr group of an array with shape, dims, units, meaning and constant; return the record of its file."""
    name = f"{output.location}/zarr.json"
    folder.remove(name)
    store = _BlockStore(folder, read_only=False)
    attributes = {
        "kind": output.kind,
        "shape": list(output.shape),
        "row_blocks": list(output.row_blocks),
        "dtype": output.dtype,
        "dims": list(output.dims),
        "units": output.units,
        "meaning": output.meaning,
        **({"constant": output.constant} if output.constant else {}),
    }
    wait_for(folder, zarr_async.create_group(store=store, path=output.name, attributes=attributes))
    # Zarr also writes the groups above; those belong to no output.
    return {name: store.written[name]}


def write_block(folder: Folder, output: Output, index: int, rows: int, block: Any) -> BlockRecord:
    """Write one row block, replacing the remains of an interrupted run, and return its record.

    Raises
    ------
    TypeError
        If a sparse block was announced and a dense one is given, or the reverse.
    ValueError
        If the block has another shape than was announced.
    OSError
        If the disk refuses it (full, no permission); the message names the block.
    ConnectionError, RefusedError
        If its object store failed, or refused it; the message names the place.
    LockedError
        If another run has taken the workspace over; nothing is written or removed.
    """
    checked = _check_block(output, index, rows, block)
    try:
        with failures_told(folder.path(output.block_location(index))):
            folder.remove(output.block_location(index))
            files = wait_for(folder, _write(folder, output, index, checked))
    except (ConnectionError, RefusedError, LockedError):
        raise
    except OSError as error:
        message = (
            f"Cannot write block {index} of {output.name!r} in {folder.url}: {error.strerror or error}. "
            "Blocks stored before are kept; correct this and run again."
        )
        raise OSError(error.errno or 0, message) from error
    return BlockRecord(index, content_digest(checked), files)


def read_block(folder: Folder, output: Output, index: int, rows: int) -> Any:
    """Read one row block: a NumPy array, or a canonical `scipy.sparse.csr_array`.

    Raises
    ------
    DamagedError
        If a file of it is missing or does not decode.
    ConnectionError, PermissionError
        If its store failed or may not be read: that says nothing of the block.
    """
    with _naming_damage(folder, output, index):
        return wait_for(folder, _read(folder, output, index, rows))


@contextmanager
def _naming_damage(folder: Folder, output: Output, index: int) -> Iterator[None]:
    try:
        with failures_told(folder.path(output.block_location(index))):
            yield
    except (ConnectionError, PermissionError):
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise DamagedError(
            f"Block {index} of {output.name!r} in {folder.url} cannot be read ({error}): "
            "'distembed verify' names the file, 'distembed run' writes it again."
        ) from error


def open_array(
    folder: Folder, output: Output, token: str, *, digests: Sequence[str] | None = None
) -> da.Array:
    """Open a stored array lazily: each chunk is one row block, read in the worker that needs it.

    With `digests`, one per block, a block that does not hold its own is a `DamagedError`.
    """
    dtype, ndim = np.dtype(output.dtype), len(output.shape)
    numbers = numbered(
        range(len(output.row_blocks)), output, name=f"{output.name}-number-{token}", digests=digests
    )
    return da.map_blocks(
        _read_chunk,
        numbers,
        chunks=(output.row_blocks, *((size,) for size in output.shape[1:])),
        dtype=dtype,
        meta=empty(output.kind, dtype, ndim),
        name=f"{output.name}-read-{token}",
        folder=folder,
        stored=output.without_rows,
    )


def open_row_nonzeros(folder: Folder, output: Output, token: str) -> da.Array:
    """Open the number of stored values of each row of a sparse array, int64 (rows,); its values are not read."""
    numbers = numbered(range(len(output.row_blocks)), output, name=f"{output.name}-place-{token}")
    return da.map_blocks(
        _read_row_nonzeros,
        numbers,
        drop_axis=1,
        chunks=(output.row_blocks,),
        dtype=np.int64,
        meta=np.empty(0, np.int64),
        name=f"{output.name}-nonzeros-{token}",
        folder=folder,
        stored=output.without_rows,
    )


def store_blocks(folder: Folder, output: Output, array: da.Array, indices: Sequence[int]) -> da.Array:
    """Return a lazy object array of one `BlockRecord` per row block; computing a chunk writes its block."""
    # New keys each time, so that no scheduler reuses an earlier result for a write.
    new = uuid.uuid4().hex
    numbers = numbered(indices, output, name=f"{output.name}-number-{new}")
    return da.map_blocks(
        _write_chunk,
        array.blocks[list(indices)],
        numbers,
        name=f"{output.name}-write-{new}",
        chunks=numbers.chunks,
        dtype=object,
        meta=numbers._meta,
        folder=folder,
        stored=output.without_rows,
    )


def numbered(
    indices: Iterable[int],
    output: Output,
    *,
    name: str,
    digests: Sequence[str] | None = None,
) -> da.Array:
    """Return an object array with one chunk per row block, which holds its index, number of rows and digest or ""."""
    of_blocks = [(i, output.row_blocks[i], "" if digests is None else digests[i]) for i in indices]
    boxes = boxed_all(of_blocks).reshape(-1, *(1,) * (len(output.shape) - 1))
    return da.from_array(boxes, chunks=1, name=name, meta=np.empty((0,) * boxes.ndim, dtype=object))


def empty(kind: str, dtype: np.dtype[Any], ndim: int) -> Any:
    """Return the empty block that describes the chunks of an array to Dask."""
    return sparse.csr_array((0, 0), dtype=dtype) if kind == "csr" else np.empty((0,) * ndim, dtype=dtype)


def content_digest(block: Any) -> str:
    """Return the digest of the type, shape and content of a block, independent of the codec that stores it."""
    parts = csr_parts(block) if sparse.issparse(block) else {"values": block}
    digest = new_digest(repr(tuple(block.shape)).encode())
    for name, part in parts.items():
        digest.update(f"{name} {part.dtype.str} {part.shape}".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _read_chunk(number: Array, *, folder: Folder, stored: Output) -> Any:
    index, rows, digest = number.flat[0]
    block = read_block(folder, stored, index, rows)
    if digest and content_digest(block) != digest:
        raise DamagedError(
            f"Block {index} of {stored.name!r} in {folder.url} is not the block that stage {stored.stage!r} wrote: "
            "'distembed run' writes it again."
        )
    return block


def _read_row_nonzeros(number: Array, *, folder: Folder, stored: Output) -> Array:
    index, rows, _ = number.flat[0]
    with _naming_damage(folder, stored, index):
        store = _BlockStore(folder, read_only=True)
        starts = wait_for(
            folder, _read_values(store, f"{stored.name}/{index:06d}/indptr", (rows + 1,), INDEX_DTYPES)
        )
        return np.diff(starts).astype(np.int64)


def _write_chunk(block: Any, number: Array, *, folder: Folder, stored: Output) -> Array:
    index, rows, _ = number.flat[0]
    return boxed(write_block(folder, stored, index, rows, block), len(stored.shape))


def _check_block(output: Output, index: int, rows: int, block: Any) -> Any:
    expected = (rows, *output.shape[1:])
    if sparse.issparse(block) != (output.kind == "csr"):
        kind = "sparse" if output.kind == "csr" else "dense"
        raise TypeError(
            f"Block {index} of {output.name!r} is {type(block).__name__}, its array's meta says {kind}."
        )
    if tuple(block.shape) != expected:
        raise ValueError(
            f"Block {index} of {output.name!r} has shape {block.shape}, its array says {expected}."
        )
    dtype = np.dtype(output.dtype)
    return canonical_csr(block, dtype) if output.kind == "csr" else np.ascontiguousarray(block, dtype=dtype)


async def _write(folder: Folder, output: Output, index: int, block: Any) -> dict[str, FileRecord]:
    store = _BlockStore(folder, read_only=False)
    path = f"{output.name}/{index:06d}"
    if output.kind == "csr":
        attributes = {"kind": "csr", "shape": list(block.shape)}
        await zarr_async.create_group(store=store, path=path, attributes=attributes)
        for part, values in csr_parts(block).items():
            await _write_values(store, f"{path}/{part}", values, CHUNK_ELEMENTS, None)
    else:
        row_bytes = max(1, block[:1].nbytes)
        await _write_values(store, path, block, max(1, CHUNK_BYTES // row_bytes), output.dims)
    below = f"{output.block_location(index)}/"
    return {name: record for name, record in store.written.items() if name.startswith(below)}


async def _write_values(
    store: Any, path: str, values: Array, rows: int, dims: tuple[str, ...] | None
) -> None:
    # Shuffled bytes of sorted column numbers shrink four times at the speed of copying (zstd: less, in five times
    # the time); vectors of floats by 8 % at a third of it.
    shuffled = BloscCodec(cname="lz4", shuffle="shuffle")
    compressors = [Crc32cCodec()] if values.dtype.kind in "fc" else [shuffled, Crc32cCodec()]
    target = await zarr_async.create_array(
        store,
        name=path,
        shape=values.shape,
        chunks=(max(1, min(rows, values.shape[0])), *(max(1, size) for size in values.shape[1:])),
        dtype=values.dtype,
        compressors=compressors,
        fill_value=0,
        dimension_names=dims,
        config={"write_empty_chunks": True},
    )
    for piece in _pieces(values.shape[0], rows):
        await target.setitem(piece, values[piece])


async def _read(folder: Folder, output: Output, index: int, rows: int) -> Any:
    store = _BlockStore(folder, read_only=True)
    path = f"{output.name}/{index:06d}"
    shape = (rows, *output.shape[1:])
    dtype = np.dtype(output.dtype)
    if output.kind == "csr":
        return join_csr(await _read_csr_parts(store, path, rows, dtype), (shape[0], shape[1]), dtype)
    return await _read_values(store, path, shape, (dtype,))


async def _read_csr_parts(store: Any, path: str, rows: int, dtype: np.dtype[Any]) -> dict[str, Array]:
    starts = await _read_values(store, f"{path}/indptr", (rows + 1,), INDEX_DTYPES)
    stored = (int(starts[-1]),)
    indices = await _read_values(store, f"{path}/indices", stored, INDEX_DTYPES)
    return {
        "data": await _read_values(store, f"{path}/data", stored, (dtype,)),
        "indices": indices,
        "indptr": starts,
    }


async def _read_values(
    store: Any, path: str, shape: tuple[int, ...], dtypes: tuple[np.dtype[Any], ...]
) -> Array:
    source = await zarr_async.open_array(store=store, path=path, mode="r", zarr_format=3)
    _check_layout(source, shape, dtypes)
    if len(source.metadata.codecs) == len(CODECS[1]):
        store.packed[path] = math.prod(source.chunks) * source.dtype.itemsize
    values = np.empty(source.shape, dtype=source.dtype)
    for piece in _pieces(source.shape[0], source.chunks[0]):
        values[piece] = await source.getitem(piece)
    return values


def _check_layout(source: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype[Any], ...]) -> None:
    """Refuse an array that is not laid out as `_write_values` does, before a chunk of it is decoded."""
    if source.shape != shape or source.dtype not in dtypes:
        raise ValueError(f"it holds {source.dtype} {source.shape} in place of {dtypes[0]} {shape}")
    codecs = tuple(type(codec) for codec in source.metadata.codecs)
    if codecs not in CODECS:
        raise ValueError(f"it is packed with {', '.join(codec.__name__ for codec in codecs)}")
    row = math.prod(source.shape[1:]) * source.dtype.itemsize
    largest = max(CHUNK_BYTES, CHUNK_ELEMENTS * source.dtype.itemsize, row)
    if math.prod(source.chunks) * source.dtype.itemsize > largest:
        raise ValueError(f"its chunks are {source.chunks}, of more than {largest:,} bytes")


def _pieces(length: int, step: int) -> Iterator[slice]:
    # One chunk at a time: Zarr encodes all chunks of one assignment together, a second copy of the block.
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def output_of(
    stage: str,
    name: str,
    array: da.Array,
    *,
    dims: tuple[str, ...],
    units: str,
    meaning: str,
    temporary: bool,
    constant: float,
) -> Output:
    """Return the output that a Dask array is stored as, one block per row block.

    Raises
    ------
    ValueError
        If chunk sizes are unknown, the array has no axis, dims do not fit, or it is not of numbers.
    """
    if array.ndim == 0 or len(dims) != array.ndim:
        raise ValueError(
            f"Array {name!r} with {array.ndim} axes needs at least one axis and a name for each: {dims}."
        )
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"Array {name!r} has chunks of unknown size: call compute_chunk_sizes() before storing it."
        )
    kind = "csr" if sparse.issparse(array._meta) else "dense"
    rows = tuple(int(size) for size in array.chunks[0])
    shape = tuple(int(size) for size in array.shape)
    dtype = np.dtype(array.dtype).newbyteorder("<")
    if dtype.kind not in "biufc":
        raise ValueError(f"Array {name!r} has dtype {array.dtype}: only numbers and booleans are stored.")
    return Output(
        stage, name, kind, rows, shape, dtype.str, dims, units, meaning, temporary, constant=constant
    )


def is_held(array: da.Array) -> bool:
    """Return whether this process holds an array whole: a graph that took it to a cluster would be as large."""
    layers = list(array.dask.layers.values())
    return len(layers) == 1 and all(isinstance(value, np.ndarray) for value in layers[0].values())


def canonical_csr(block: Any, dtype: np.dtype[Any]) -> sparse.csr_array:
    """Return a sparse block with sorted, unique indices, in 32 bits if they suffice; `block` is not changed."""
    csr = sparse.csr_array(block).astype(dtype, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    index = index_dtype(csr.shape, csr.nnz)
    parts = (csr.data, csr.indices.astype(index, copy=False), csr.indptr.astype(index, copy=False))
    return sparse.csr_array(parts, shape=csr.shape)


def index_dtype(shape: tuple[int, ...], nnz: int) -> np.dtype[Any]:
    """Return int32 if column numbers and positions fit, else int64."""
    largest = max(shape[1], nnz)
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)


def csr_parts(block: sparse.csr_array) -> dict[str, Array]:
    """Return the three arrays of a CSR block by name, in the order they are digested."""
    return {part: np.asarray(getattr(block, part)) for part in PARTS}


def join_csr(parts: Mapping[str, Array], shape: tuple[int, int], dtype: np.dtype[Any]) -> sparse.csr_array:
    """Build a CSR block of `shape` from its three arrays.

    Raises
    ------
    ValueError
        If the arrays are not consistent.
    """
    data, indices, indptr = (parts[part] for part in PARTS)
    block = sparse.csr_array((data.astype(dtype, copy=False), indices, indptr), shape=shape)
    # Written canonical, so neither flag has to be found out again by a pass over the indices.
    block.has_sorted_indices = True
    block.has_canonical_format = True
    return block
