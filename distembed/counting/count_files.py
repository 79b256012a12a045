"""Sparse tables of counts as files of other tools, written a row block at a time, and what lies beside them.

Three kinds hold the same cells. Parquet, CSV and TSV have a row for each: the word, its context and the count. An npz
file is what ``scipy.sparse.save_npz`` writes. GloVe's ``cooccurrence.bin`` is a sequence of records: the numbers of the
word and its context, from 1 on, as int32, and the count as float64, little endian. Beside a table stand its words with
their counts, and a manifest in JSON that says what was counted and which file of words belongs to it.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.corpus import Vocabulary
from distembed.formats.names import without_compression
from distembed.urls import opened

RECORD = np.dtype([("word", "<i4"), ("context", "<i4"), ("count", "<f8")])
"""A cell of GloVe's ``cooccurrence.bin``."""

GLOVE_WORDS = "vocab.txt"
"""The words of GloVe's table, in its folder."""

MANIFEST_KEY = b"distembed"
"""The key under which a Parquet file holds its manifest."""

CELLS_AT_A_TIME = 1 << 20
"""Cells that are written together, at most."""


class Cells(NamedTuple):
    """The cells of a sparse table, as often as they are asked for."""

    blocks: Callable[[], Iterator[csr_array]]
    """Yields the row blocks in order."""
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    n_cells: int


def triples(cells: Cells) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]]:
    """Yield row, column and value of the cells, by rising row and column, so many at a time."""
    first = 0
    for block in cells.blocks():
        rows = np.repeat(np.arange(first, first + block.shape[0]), np.diff(block.indptr))
        for start in range(0, block.nnz, CELLS_AT_A_TIME):
            part = slice(start, start + CELLS_AT_A_TIME)
            yield rows[part], block.indices[part], block.data[part]
        first += block.shape[0]


def write_glove(file: IO[bytes], cells: Cells) -> None:
    """Write the records of GloVe's ``cooccurrence.bin``."""
    for rows, columns, values in triples(cells):
        records = np.empty(len(rows), RECORD)
        records["word"], records["context"], records["count"] = rows + 1, columns + 1, values
        file.write(records.tobytes())


def write_npz(file: IO[bytes], cells: Cells) -> None:
    """Write what ``scipy.sparse.load_npz`` reads as a csr_array, one array after the other."""
    is_small = max(cells.shape[1], cells.n_cells) <= np.iinfo(np.int32).max
    index = np.dtype(np.int32 if is_small else np.int64)
    starts, ends = 0, [np.zeros(1, np.int64)]
    for block in cells.blocks():
        ends.append(block.indptr[1:].astype(np.int64) + starts)
        starts += block.nnz
    indptr = np.concatenate(ends).astype(index)
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, value in (("format", np.array(b"csr")), ("_is_array", np.array(True))):
            _write_member(archive, name, value.shape, value.dtype, iter([value]))
        _write_member(archive, "shape", (2,), np.dtype(np.int64), iter([np.array(cells.shape)]))
        _write_member(archive, "indptr", indptr.shape, index, iter([indptr]))
        columns = (block.indices for block in cells.blocks())
        _write_member(archive, "indices", (cells.n_cells,), index, columns)
        values = (block.data for block in cells.blocks())
        _write_member(archive, "data", (cells.n_cells,), cells.dtype, values)


def _write_member(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    parts: Iterator[NDArray[Any]],
) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
        for part in parts:
            member.write(np.ascontiguousarray(part, dtype).tobytes())


# --- what lies beside a table -----------------------------------------------------------------------------------


def beside(path: str, ending: str) -> str:
    """Return the name of a file beside a table: its own without the last ending, and another."""
    whole = without_compression(path)
    return whole.removesuffix(PurePosixPath(whole).suffix) + ending


def words_beside(path: str) -> str:
    """Return where the words of a table lie: beside it under its own name, those of GloVe's as ``vocab.txt``."""
    if path.lower().endswith(".bin"):
        folder, slash, _ = path.rpartition("/")
        return f"{folder}{slash}{GLOVE_WORDS}"
    return beside(path, ".words.parquet" if path.lower().endswith(".parquet") else ".words.txt")


def manifest_beside(path: str) -> str:
    """Return where the manifest of a table lies."""
    return beside(path, ".manifest.json")


def read_manifest(path: str) -> Mapping[str, Any] | None:
    """Return the manifest beside a table; None where there is none.

    Raises
    ------
    ValueError
        If it is no manifest.
    """
    place = manifest_beside(path)
    try:
        with opened(place, "rb") as file:
            return parsed_manifest(place, file.read())
    except FileNotFoundError:
        return None


def parsed_manifest(place: str, text: bytes) -> Mapping[str, Any]:
    """Return what a manifest says.

    Raises
    ------
    ValueError
        If it is no manifest.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if (
        not isinstance(found, dict)
        or not {"n_cells", "total", "words_digest"} <= found.keys()
        or not isinstance(found["n_cells"], int)
    ):
        raise ValueError(f"the manifest in {place} is damaged: export the table again")
    return found


def words_digest(words: Vocabulary) -> str:
    """Return the digest of words and their counts, by which a table knows the file that belongs to it."""
    digest = hashlib.blake2b(digest_size=16)
    for word, count in zip(words.words, words.counts.tolist(), strict=True):
        digest.update(f"{word} {count}\n".encode())
    return digest.hexdigest()
