"""Arrays on disk, one row block at a time: written, read, and opened lazily as a Dask array.

A dense output is one Zarr array of which each chunk is a row block; a sparse one is a group of row blocks, each a CSR
matrix as AnnData stores it. Chunks are written and read here by the specification of Zarr 3, and not by its library,
whose event loop all threads of a process share: a block goes to the disk without a copy, and a thread waits for no
other. Every chunk ends in a crc32c. An opened array carries those of its manifest, so that it never returns the block
of another run. Floats have the fill value NaN, so that other readers do not take a deleted chunk for zeros.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import dask.array as da
import google_crc32c
import llvmlite.binding
import numpy as np
from dask.base import tokenize
from numcodecs import Blosc, blosc
from scipy import sparse
from threadpoolctl import threadpool_info

from distembed.files import RefusedError, failures_told
from distembed.storage import records
from distembed.storage.folder import Folder
from distembed.storage.tasks import boxed, boxed_all

PACKING = {"cname": "lz4", "clevel": 5, "blocksize": 0}
"""Shuffled bytes of sorted column numbers shrink four times at the speed of copying; vectors of floats by 8 %."""
BLOSC_SIZE = slice(4, 8)
"""Where the head of a chunk of Blosc says how many bytes it unpacks to."""
CHUNK_ELEMENTS = 4 << 20
"""Elements of one Zarr chunk of a CSR part: 16 MiB of 32-bit integers."""
PARTS = ("data", "indices", "indptr")

Array = np.ndarray[Any, np.dtype[Any]]


class StoredBlock(NamedTuple):
    """What a task needs to read a block, or to write it where it has no files yet."""

    number: int
    rows: int
    files: Mapping[str, records.FileRecord]
    summary: Mapping[str, Any]


@cache
def kernel() -> str:
    """Return the processor and the BLAS kernels of this process, which decide the last bits of what it computes."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    kernels = sorted({str(pool.get("architecture") or pool["internal_api"]) for pool in pools})
    return " ".join([llvmlite.binding.get_host_cpu_name(), *kernels])


# --- what Zarr says of arrays ----------------------------------------------------------------------------------


def group_text(attributes: Mapping[str, Any] | None = None) -> bytes:
    """Return the ``zarr.json`` of a group."""
    body = {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes or {})}
    return json.dumps(body, indent=2).encode()


def _array_text(
    shape: tuple[int, ...], chunk_rows: int, dtype: np.dtype[Any], dims: Sequence[str] = (), **attributes: str
) -> bytes:
    """Return the ``zarr.json`` of an array in chunks of rows."""
    no_number: Any = {"f": "NaN", "c": ["NaN", "NaN"], "b": False}.get(dtype.kind, 0)
    packing = {"typesize": dtype.itemsize, "shuffle": "shuffle", **PACKING}
    chunk = [max(1, size) for size in (chunk_rows, *shape[1:])]
    body = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": no_number,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            *([] if dtype.kind in "fc" else [{"name": "blosc", "configuration": packing}]),
            {"name": "crc32c"},
        ],
        **({"dimension_names": list(dims)} if dims else {}),
        "attributes": attributes,
        "storage_transformers": [],
    }
    return json.dumps(body, indent=2).encode()


def zarr_texts(output: records.Output) -> dict[str, bytes]:
    """Return each ``zarr.json`` of an array that lasts: of its groups, and its own."""
    if not output.is_array or output.temporary:
        return {}
    parts = output.location.split("/")
    above = ["/".join([*parts[:n], "zarr.json"]) for n in range(1, len(parts))]
    return {**dict.fromkeys(above, group_text()), f"{output.location}/zarr.json": _attributes(output)}


def _attributes(output: records.Output) -> bytes:
    """Return the ``zarr.json`` of an output: of its array, or of the group of its row blocks."""
    said = {"units": output.units, "long_name": output.meaning}
    if output.kind == "dense":
        return _array_text(output.shape, output.chunk_rows, np.dtype(output.dtype), output.dims, **said)
    own = output.model_dump(mode="json", include={"kind", "shape", "row_blocks", "dtype", "dims"})
    return group_text({**own, **({"constant": output.constant} if output.constant else {}), **said})


# --- written ---------------------------------------------------------------------------------------------------


def write_block(folder: Folder, output: records.Output, index: int, rows: int, block: Any) -> records.Block:
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
    what, dtype, place = (
        f"Block {index} of {output.name!r}",
        np.dtype(output.dtype),
        output.block_location(index),
    )
    if sparse.issparse(block) != (output.kind == "csr"):
        kind = "sparse" if output.kind == "csr" else "dense"
        raise TypeError(f"{what} is {type(block).__name__}, its array's meta says {kind}.")
    if tuple(block.shape) != (rows, *output.shape[1:]):
        expected = (rows, *output.shape[1:])
        raise ValueError(f"{what} has shape {block.shape}, its array says {expected}.")
    files: dict[str, records.FileRecord] = {}
    summary: dict[str, Any] = {}
    try:
        with failures_told(folder.path(place)):
            if folder.is_local:
                folder.remove(place)
            else:  # each file of the block replaces its own; to ask takes as long as to write a small one
                folder.check()
                folder = Folder(folder.url)
            if output.kind == "csr":
                csr = canonical_csr(block, dtype)
                head = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(csr.shape)}
                files[f"{place}/zarr.json"] = folder.write(f"{place}/zarr.json", group_text(head))
                for part in PARTS:
                    files |= _write_part(folder, f"{place}/{part}", np.ascontiguousarray(getattr(csr, part)))
                summary = {"n_values": int(csr.nnz), "index_dtype": csr.indices.dtype.str}
            elif block.size:
                whole = np.ascontiguousarray(block, dtype=dtype)
                files[place] = folder.write(
                    place, *_encoded(_padded(whole, rows if output.temporary else output.chunk_rows))
                )
    except (ConnectionError, RefusedError, records.LockedError):
        raise
    except OSError as error:
        reason = str(error.strerror or error).rstrip(".")
        message = (
            f"Cannot write block {index} of {output.name!r} in {folder.url}: {reason}. "
            "Blocks stored before are kept; correct this and run again."
        )
        raise OSError(error.errno or 0, message) from error
    return records.Block(index=index, files=files, summary=summary, kernel=kernel())


def _write_part(folder: Folder, place: str, values: Array) -> dict[str, records.FileRecord]:
    """Write a part of a CSR block as a Zarr array."""
    size, chunks = _chunks(place, len(values))
    files = {
        f"{place}/zarr.json": folder.write(
            f"{place}/zarr.json", _array_text(values.shape, size, values.dtype)
        )
    }
    for name, start, stop in chunks:
        files[name] = folder.write(name, *_encoded(_padded(values[start:stop], size)))
    return files


def _chunks(place: str, length: int) -> tuple[int, list[tuple[str, int, int]]]:
    """Return the elements of each chunk of a part of a CSR block, and its file, its first element and its last.

    The chunks are as equal as can be, for Zarr wants all of one size.
    """
    size = -(-length // max(1, -(-length // CHUNK_ELEMENTS)))
    starts = range(0, length, max(1, size))
    return size, [(f"{place}/c/{i}", start, min(start + size, length)) for i, start in enumerate(starts)]


def _padded(values: Array, chunk_rows: int) -> Array:
    """Return the rows of a chunk, the last of an array filled up: Zarr demands whole chunks also at its end."""
    if len(values) == chunk_rows:
        return values
    whole = np.full((chunk_rows, *values.shape[1:]), np.nan if values.dtype.kind in "fc" else 0, values.dtype)
    whole[: len(values)] = values
    return whole


def _encoded(values: Array) -> tuple[Any, bytes]:
    """Return the bytes of a chunk, floats as they are and whole numbers packed, and their checksum."""
    data: Any = values.reshape(-1)
    is_float = data.dtype.kind in "fc"
    blosc.use_threads = False  # the order in which threads end decides the bytes
    data = data.view(np.uint8) if is_float else Blosc(shuffle=Blosc.SHUFFLE, **PACKING).encode(data)
    return data, google_crc32c.value(data).to_bytes(records.TAIL_BYTES, "little")


# --- read ------------------------------------------------------------------------------------------------------


def read_block(folder: Folder, output: records.Output, block: StoredBlock) -> Any:
    """Read one row block: a NumPy array, or a canonical `scipy.sparse.csr_array`.

    Raises
    ------
    DamagedError
        If a file of it is missing, or not the one that its record names.
    ConnectionError, PermissionError
        If its store failed or may not be read: that says nothing of the block.
    """
    dtype, place = np.dtype(output.dtype), output.block_location(block.number)
    shape = (block.rows, *output.shape[1:])
    with _naming_damage(folder, output, block.number):
        if output.kind == "dense":
            if not math.prod(shape):
                return np.empty(shape, dtype)
            whole = (block.rows if output.temporary else output.chunk_rows, *shape[1:])
            return _read_chunk(folder, place, block.files, whole, dtype)[: block.rows]
        length = block.summary["n_values"]
        data = _read_part(folder, f"{place}/data", block, length, dtype)
        indices = _read_part(folder, f"{place}/indices", block, length)
        starts = _read_part(folder, f"{place}/indptr", block, block.rows + 1)
        found = sparse.csr_array((data, indices, starts), shape=shape)
    # Written canonical, so neither flag has to be found out again by a pass over the indices.
    found.has_sorted_indices = True
    found.has_canonical_format = True
    return found


def _read_part(
    folder: Folder, place: str, block: StoredBlock, length: int, dtype: np.dtype[Any] | None = None
) -> Array:
    """Return a part of a CSR block, by default of the type of its indices."""
    kind = np.dtype(block.summary["index_dtype"]) if dtype is None else dtype
    size, chunks = _chunks(place, length)
    if len(chunks) == 1:
        return _read_chunk(folder, chunks[0][0], block.files, (size,), kind)
    values = np.empty(length, kind)
    for name, start, stop in chunks:
        values[start:stop] = _read_chunk(folder, name, block.files, (size,), kind)[: stop - start]
    return values


def _read_chunk(
    folder: Folder,
    name: str,
    files: Mapping[str, records.FileRecord],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Array:
    """Return the values of a chunk, which is the one of its record and holds its own checksum."""
    expected = files[name]
    if folder.is_local:
        with open(folder.readable(name), "rb", buffering=0) as file:  # noqa: PTH123 (of the path of a URL)
            # Of a longer file one byte more; aligned for any type. A stranger's record may say any size.
            data = np.empty(min(expected.size, os.fstat(file.fileno()).st_size) + 1, np.uint8)
            n_bytes = 0
            while more := file.readinto(data[n_bytes:].data):
                n_bytes += more
    else:
        data = np.frombuffer(folder.read(name, most=expected.size), np.uint8).copy()
        n_bytes = len(data)
    data = data[:n_bytes]
    body = data[: -records.TAIL_BYTES]
    if n_bytes != expected.size or data[-records.TAIL_BYTES :].tobytes().hex() != expected.tail:
        raise records.DamagedError(
            f"{name} is not what stood there when this array was opened: open it again"
        )
    if google_crc32c.value(body).to_bytes(records.TAIL_BYTES, "little").hex() != expected.tail:
        raise records.DamagedError(f"{name} does not fit its checksum")
    n_bytes, is_packed = math.prod(shape) * dtype.itemsize, dtype.kind not in "fc"
    # Before it is unpacked: a stranger's chunk may say that it takes terabytes.
    unpacked = int.from_bytes(body[BLOSC_SIZE].tobytes(), "little") if is_packed else len(body)
    if unpacked != n_bytes:
        raise records.DamagedError(f"{name} holds {unpacked:,} bytes in place of {n_bytes:,}")
    if not is_packed:
        return body.view(dtype).reshape(shape)
    values = np.empty(shape, dtype)
    Blosc().decode(body, out=values)
    return values


@contextmanager
def _naming_damage(folder: Folder, output: records.Output, index: int) -> Iterator[None]:
    try:
        with failures_told(folder.path(output.block_location(index))):
            yield
    except (ConnectionError, PermissionError):
        raise
    except (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise records.DamagedError(
            f"Block {index} of {output.name!r} in {folder.url} cannot be read ({error}): "
            "'distembed verify' names the file, 'distembed run' writes it again."
        ) from error


# --- as Dask arrays --------------------------------------------------------------------------------------------


def open_array(folder: Folder, record: records.OutputRecord, *, row_nonzeros: bool = False) -> da.Array:
    """Open a stored array lazily: each chunk is one row block, read in the worker that needs it.

    With `row_nonzeros` it is the number of stored values of each row of a sparse array, int64 (rows,), whose values
    are not read. A block that is no longer the one of the record is a `DamagedError`.

    Tasks that read equal content have equal names. Of what is temporary they name the workspace too: of two equal runs
    on one cluster the first to end removes its own, and the other's tasks have to read theirs.
    """
    output, rows = record.spec, record.spec.row_blocks
    token = tokenize(record.digest, folder.url) if output.temporary else record.digest
    dtype, ndim = np.dtype(output.dtype), len(output.shape)
    blocks = [StoredBlock(b.index, rows[b.index], b.files, b.summary) for b in record.blocks]
    boxes = _boxes(output, blocks, name=f"{output.name}-number-{token}")
    given: dict[str, Any] = {"folder": folder, "stored": output.without_rows}
    if row_nonzeros:
        given |= {"dtype": np.int64, "meta": np.empty(0, np.int64), "name": f"{output.name}-nonzeros-{token}"}
        return da.map_blocks(_read_row_nonzeros, boxes, drop_axis=1, chunks=(rows,), **given)
    given |= {"dtype": dtype, "meta": empty(output.kind, dtype, ndim), "name": f"{output.name}-read-{token}"}
    return da.map_blocks(_read_boxed, boxes, chunks=(rows, *((n,) for n in output.shape[1:])), **given)


def store_blocks(folder: Folder, output: records.Output, array: da.Array, indices: Sequence[int]) -> da.Array:
    """Return a lazy object array of one `Block` per row block; computing a chunk writes its block."""
    # New keys each time, so that no scheduler reuses an earlier result for a write.
    new = uuid.uuid4().hex
    todo = [StoredBlock(index, output.row_blocks[index], {}, {}) for index in indices]
    numbers = _boxes(output, todo, name=f"{output.name}-number-{new}")
    return da.map_blocks(
        _write_boxed,
        array.blocks[list(indices)],
        numbers,
        name=f"{output.name}-write-{new}",
        chunks=numbers.chunks,
        dtype=object,
        meta=numbers._meta,
        folder=folder,
        stored=output.without_rows,
    )


def _boxes(output: records.Output, blocks: Iterable[StoredBlock], *, name: str) -> da.Array:
    """Return an object array with one chunk per row block."""
    boxes = boxed_all(list(blocks)).reshape(-1, *(1,) * (len(output.shape) - 1))
    return da.from_array(boxes, chunks=1, name=name, meta=np.empty((0,) * boxes.ndim, dtype=object))


def empty(kind: str, dtype: np.dtype[Any], ndim: int) -> Any:
    """Return the empty block that describes the chunks of an array to Dask."""
    return sparse.csr_array((0, 0), dtype=dtype) if kind == "csr" else np.empty((0,) * ndim, dtype=dtype)


def _read_boxed(box: Array, *, folder: Folder, stored: records.Output) -> Any:
    return read_block(folder, stored, box.flat[0])


def _read_row_nonzeros(box: Array, *, folder: Folder, stored: records.Output) -> Array:
    block: StoredBlock = box.flat[0]
    with _naming_damage(folder, stored, block.number):
        place = f"{stored.block_location(block.number)}/indptr"
        return np.diff(_read_part(folder, place, block, block.rows + 1)).astype(np.int64)


def _write_boxed(block: Any, box: Array, *, folder: Folder, stored: records.Output) -> Array:
    index, rows, *_ = box.flat[0]
    return boxed(write_block(folder, stored, index, rows, block), len(stored.shape))


def output_of(
    stage: str, name: str, array: da.Array, *, dims: tuple[str, ...], temporary: bool, **said: Any
) -> records.Output:
    """Return the output that a Dask array is stored as, one block per row block.

    The row blocks of a dense array that lasts are of one size but for the last, as Zarr has them: its own where they
    are so, else as many as it has.

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
    kind: Literal["csr", "dense"] = "csr" if sparse.issparse(array._meta) else "dense"
    rows = tuple(int(size) for size in array.chunks[0])
    if kind == "dense" and not temporary:
        rows = regular_rows(rows)
    dtype = np.dtype(array.dtype).newbyteorder("<")
    if dtype.kind not in "biufc":
        raise ValueError(f"Array {name!r} has dtype {array.dtype}: only numbers and booleans are stored.")
    shape = tuple(int(size) for size in array.shape)
    return records.Output(
        stage=stage, name=name, kind=kind, row_blocks=rows, shape=shape, dtype=dtype.str, dims=dims,
        temporary=temporary, **said,
    )  # fmt: skip


def regular_rows(rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return row blocks of one size but for the last: these, or as many with the same rows together.

    Examples
    --------
    >>> from distembed.storage.blocks import regular_rows
    >>> regular_rows((3, 3, 1)), regular_rows((2, 5, 1))
    ((3, 3, 1), (3, 3, 2))
    """
    n_rows = sum(rows)
    if len(set(rows[:-1])) <= 1 and all(before >= after > 0 for before, after in pairwise(rows)):
        return rows
    size = max(1, -(-n_rows // len(rows)))
    return tuple(min(size, n_rows - start) for start in range(0, n_rows, size)) or (0,)


def canonical_csr(block: Any, dtype: np.dtype[Any]) -> sparse.csr_array:
    """Return a sparse block with sorted, unique indices, in 32 bits if they suffice; `block` is not changed."""
    csr = sparse.csr_array(block).astype(dtype, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    index = sparse.get_index_dtype(maxval=max(csr.shape[1], csr.nnz))
    parts = (csr.data, csr.indices.astype(index, copy=False), csr.indptr.astype(index, copy=False))
    return sparse.csr_array(parts, shape=csr.shape)
