"""Arrays of Zarr stores and HDF5 files that a stranger may have made, refused before a chunk of them is decoded.

Some codecs of Zarr's second format unpickle; chunks of a few megabytes unpack to gigabytes; an HDF5 file can take its
values from another file of the reader's disk.
"""

from __future__ import annotations

import bz2
import lzma
import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from zarr.abc.store import SuffixByteRequest
from zarr.storage import WrapperStore

from distembed.formats.matrix import MatrixError

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


METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
"""The files of a Zarr store that are no chunks."""


def _unpacked_bytes(codec: str, value: Any, largest: int) -> int:
    """Return how many bytes a chunk unpacks to, counted no further than past `largest`."""
    if codec in HEADS:
        return int.from_bytes(value[HEADS[codec]].to_bytes(), "little")
    if codec not in MEASURED:
        return len(value)
    data = value.to_bytes()
    if codec == "zstd":
        n_bytes = 0
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while n_bytes <= largest and (piece := stream.read(PACKED_BYTES)):
                n_bytes += len(piece)
        return n_bytes
    return _measured(codec, data, largest)


def _measured(codec: str, data: bytes, largest: int) -> int:
    n_bytes = 0
    while data and n_bytes <= largest:  # a chunk of gzip may be several streams
        unpacker: Any = {"bz2": bz2.BZ2Decompressor, "lzma": lzma.LZMADecompressor}.get(codec, _inflater)()
        rest = data
        while not unpacker.eof and n_bytes <= largest:
            piece = unpacker.decompress(rest, PACKED_BYTES)
            rest = unpacker.unconsumed_tail if codec in ("gzip", "zlib") else b""
            n_bytes += len(piece)
            if not piece and not rest:
                break
        data = unpacker.unused_data if unpacker.eof else b""
    return n_bytes


def _inflater() -> Any:
    return zlib.decompressobj(wbits=47)  # gzip or zlib, as the head says


def checked_array(path: str, key: str, node: Any) -> Any:
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
        codecs = _names(metadata.codecs[0].codecs)
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
        return _names(metadata.codecs)
    return [codec.codec_id for codec in (*(metadata.filters or ()), metadata.compressor) if codec is not None]


def _names(codecs: Any) -> list[str]:
    return [codec.to_dict()["name"].removeprefix("numcodecs.") for codec in codecs]


def _refuse_large(path: str, key: str, n_bytes: int) -> None:
    if n_bytes > LARGEST_CHUNK:
        raise MatrixError(
            f"{path} has chunks of {n_bytes:,} bytes in {key!r}, and one of up to {LARGEST_CHUNK:,} is read: write it "
            "again in smaller chunks"
        )
