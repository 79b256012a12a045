"""Tables of counts that others made, read a piece at a time: Parquet, npz, GloVe's records, PSDVec's bigram files.

A piece yields its cells with the numbers that the words have in the table; those of Parquet are looked up. What is
damaged, negative, NaN or unknown is an error of one sentence. The formats that are also written are described in
`distembed.counting.count_files`.

The bigram files of PSDVec's authors are text. The first line is ``# N words, M occurrences``; after the line ``Words:``
follow items ``word,count,log-probability``, several in a line and parted by tabs, up to an empty line; after
``Bigrams:`` there is a line ``number,word,neighbors,total,cut-off`` for each word, and after it lines that begin with a
tab and hold items ``neighbor,count,log-probability``. The word of the first line stands on the left.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import Vocabulary
from distembed.counting.count_files import (
    MANIFEST_KEY,
    RECORD,
    manifest_beside,
    parsed_manifest,
    read_manifest,
    words_beside,
    words_digest,
)
from distembed.counting.given_blocks import GivenCells, first_fault
from distembed.files import damage_told, refuse_bomb
from distembed.formats.parquet import ParquetFile, read_batches
from distembed.formats.streams import reading
from distembed.formats.tables import npy_header
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.urls import opened, url_to_fs

COLUMNS = ("word", "context", "count")
"""The columns of a Parquet file of counts."""

CELL_BYTES = 64
"""Bytes that a cell takes in a task that reads, sorts and writes it."""

PIECE_CELL_BYTES = 16
"""Bytes of the memory of a task for each cell of a piece, which is sorted in four parts or more."""

LINE_BYTES = 1 << 24
"""No line of a bigram file is longer."""

Kind = Literal["parquet", "npz", "glove", "bigrams"]
KINDS: dict[str, Kind] = {".parquet": "parquet", ".npz": "npz", ".bin": "glove", ".txt": "bigrams"}
"""The formats of a table by the ends of file names; a bigram file may also be compressed."""


class CountTableError(ValueError):
    """An error in a table of counts."""


class CountTable(NamedTuple):
    """A table of counts that can be read.

    Attributes
    ----------
    path : str
    kind : Kind
    n_bytes : int
    n_cells : int
        Its cells; of a bigram file an upper bound.
    pieces : tuple
        Where each piece begins and ends: cells, or row groups of a Parquet file.
    manifest : mapping
        What its manifest says; empty where it has none.
    """

    path: str
    kind: Kind
    n_bytes: int
    n_cells: int
    pieces: tuple[tuple[int, int], ...]
    manifest: Mapping[str, Any]


def kind_of(path: str) -> Kind:
    """Return the format of a table that its name says.

    Raises
    ------
    CountTableError
        If it says none.
    """
    name = path.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz").removesuffix(".zst")
    kind = next((kind for end, kind in KINDS.items() if name.endswith(end)), None)
    if kind is None or (kind != "bigrams" and name != path.lower()):
        raise CountTableError(
            f"{path} is no table of counts by its name: it should end in .parquet (columns word, context, count), "
            ".npz (SciPy), .bin (GloVe) or .txt (a bigram file of PSDVec's authors)"
        )
    return kind


def open_table(path: str, *, block_memory: int = BLOCK_MEMORY) -> CountTable:
    """Look at the head of a table of counts.

    Parameters
    ----------
    path : str
    block_memory : int
        The memory of a task; the pieces of a table that can be read from any place follow from it.

    Raises
    ------
    CountTableError
        If it cannot be read.
    """
    kind, (fs, inner) = kind_of(path), url_to_fs(path)
    if not fs.isfile(inner):
        raise FileNotFoundError(f"there is no table of counts {path}")
    n_bytes, piece_cells = int(fs.size(inner)), max(1, block_memory // PIECE_CELL_BYTES)
    if kind == "parquet":
        return _open_parquet(path, n_bytes, piece_cells)
    manifest = read_manifest(path) or {}
    if kind == "glove":
        n_cells, rest = divmod(n_bytes, RECORD.itemsize)
        if rest:
            raise CountTableError(
                f"{path} ends within a record: it has {n_bytes:,} bytes, each record {RECORD.itemsize}; copy it again"
            )
        pieces = tuple((first, min(first + piece_cells, n_cells)) for first in range(0, n_cells, piece_cells))
        table = CountTable(path, kind, n_bytes, n_cells, pieces, manifest)
    elif kind == "npz":
        with _archive(path) as archive:
            n_cells = _npz_shapes(path, archive)[1]
        table = CountTable(path, kind, n_bytes, n_cells, ((0, n_cells),), manifest)
    else:
        # An item is a word of a letter, a digit, its logarithm, two commas and a tab.
        table = CountTable(path, kind, n_bytes, n_bytes // 6, ((0, n_bytes),), manifest)
    _check_manifest(table)
    return table


def _check_manifest(table: CountTable) -> None:
    expected = table.manifest.get("n_cells", table.n_cells)
    if not table.n_cells:
        raise CountTableError(f"{table.path} holds no cell: export or copy it again")
    if expected != table.n_cells:
        raise CountTableError(
            f"{table.path} has {table.n_cells:,} cells, and {manifest_beside(table.path)} says {expected:,}: copy both "
            "again"
        )


def table_words(table: CountTable, path: str | None) -> Vocabulary | None:
    """Return the words of a table with their counts, in its order; None where only its cells know them.

    Parameters
    ----------
    table : CountTable
    path : str, optional
        The file of words; by default the one that the table itself says.

    Raises
    ------
    ValueError
        If the file is not there or damaged, or not that of the table.
    """
    if table.kind == "bigrams":
        return _bigram_words(table.path)
    digest = table.manifest.get("words_digest")
    if path is None and digest is None and table.kind == "parquet":
        return None
    place = path or words_beside(table.path)
    try:
        words = Vocabulary.load(place)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no file {place} with the words of {table.path}: copy it, or name it by counts.words"
        ) from None
    if digest is not None and words_digest(words) != digest:
        raise CountTableError(
            f"{place} does not hold the words that {table.path} was written with: copy or export both again"
        )
    return words


def read_cells(
    table: CountTable, piece: int, words: Vocabulary, n_cells: int, *, closed: bool
) -> Iterator[GivenCells]:
    """Yield the cells of a piece, so many at a time, with the numbers of their words in `words`.

    A word of a Parquet file that is not among them is refused where they are `closed`, and has the number -1 else.

    Raises
    ------
    CountTableError
        If a value is NaN, infinite or negative, or a number is that of no word, or the file is damaged.
    """
    first, last = table.pieces[piece]
    readers = {"parquet": _parquet_cells, "npz": _npz_cells, "glove": _glove_cells, "bigrams": _bigram_cells}
    for cells in readers[table.kind](table.path, first, last, words, n_cells, closed):
        place = first_fault(cells.values)
        if place is not None:
            pair = _pair(words, int(cells.rows[place]), int(cells.columns[place]))
            raise CountTableError(
                f"{table.path}, cell {cells.first + place:,}: the count of {pair} is {cells.values[place]:g}; give "
                "counts that are 0 or more"
            )
        yield cells


def _pair(words: Vocabulary, row: int, column: int) -> str:
    names = [words.array[number].as_py() if number >= 0 else "another word" for number in (row, column)]
    return f"{names[0]!r} with {names[1]!r}"


def _check_numbers(path: str, numbers: NDArray[Any], first: int, n: int, least: int = 0) -> None:
    """Refuse numbers of words that are not there; `least` is that of the first word."""
    wrong = (numbers < least) | (numbers >= n + least)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise CountTableError(
            f"{path}, cell {first + place:,}: there is no word of the number {numbers[place]}, only {least} to "
            f"{n + least - 1}; it is damaged, or belongs to another list of words"
        )


# --- Parquet ------------------------------------------------------------------------------------------------------


def _open_parquet(path: str, n_bytes: int, piece_cells: int) -> CountTable:
    with _parquet(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        missing = [name for name in COLUMNS if name not in schema.names]
        if missing:
            raise CountTableError(
                f"{path} has no column {missing[0]!r}, only {', '.join(schema.names)}: name its columns "
                f"{', '.join(COLUMNS)}"
            )
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        stored = (schema.metadata or {}).get(MANIFEST_KEY)
    manifest = {} if stored is None else parsed_manifest(path, stored)
    table = CountTable(path, "parquet", n_bytes, sum(sizes), _bundled(sizes, piece_cells), manifest)
    _check_manifest(table)
    return table


def _bundled(sizes: list[int], most: int) -> tuple[tuple[int, int], ...]:
    """Return ranges of row groups with up to so many rows together."""
    found, first, held = [], 0, 0
    for group, size in enumerate(sizes):
        if held and held + size > most:
            found.append((first, group))
            first, held = group, 0
        held += size
    return (*found, (first, len(sizes)))


@contextmanager
def _parquet(path: str) -> Iterator[ParquetFile]:
    with damage_told(path, CountTableError, "a Parquet file"), opened(path, "rb") as file:
        yield ParquetFile(file)


def _parquet_cells(
    path: str, first: int, last: int, words: Vocabulary, n_cells: int, closed: bool
) -> Iterator[GivenCells]:
    with _parquet(path) as file:
        start = 1 + sum(file.metadata.row_group(group).num_rows for group in range(first))
        for batch in read_batches(file, n_cells, columns=COLUMNS, row_groups=range(first, last)):
            rows, columns = (_looked_up(path, batch, name, start, words, closed) for name in COLUMNS[:2])
            yield GivenCells(start, rows, columns, _numbers(path, batch["count"], start))
            start += batch.num_rows


def _looked_up(
    path: str, batch: pa.RecordBatch, name: str, start: int, words: Vocabulary, closed: bool
) -> NDArray[np.int32]:
    column = _texts(path, batch, name, start)
    numbers = words.index(column)
    unknown = np.flatnonzero(numbers < 0)
    if closed and unknown.size:
        word = column[int(unknown[0])].as_py()
        raise CountTableError(
            f"{path}, row {start + int(unknown[0]):,}: {word!r} is not among the words of the table; add it with its "
            "count to them, or remove the row"
        )
    return numbers


def _texts(path: str, batch: pa.RecordBatch, name: str, start: int) -> pa.Array:
    column = batch[name]
    if column.null_count:
        place = column.is_null().index(True).as_py()
        raise CountTableError(f"{path}, row {start + place:,} has no {name}: give it one, or remove the row")
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise CountTableError(
            f"{path}: the column {name} holds no texts ({error}); write words in it"
        ) from error


def _numbers(path: str, column: pa.Array, start: int) -> NDArray[np.float64]:
    """Return the counts of a column; one that is missing is NaN."""
    try:
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise CountTableError(
            f"{path}, row {start:,}: the column count holds no numbers ({error}); write counts of 0 or more in it"
        ) from error
    return np.asarray(values, np.float64)


def parquet_sums(table: CountTable, n_cells: int) -> tuple[pa.Array, NDArray[np.float64]]:
    """Return the words of a Parquet file in falling order of their counts, and these: the sums of row and column.

    Raises
    ------
    CountTableError
        If the file is damaged, or a count is missing, NaN, infinite or negative.
    """
    found = pa.table({"word": pa.array([], pa.string()), "count": pa.array([], pa.float64())})
    with _parquet(table.path) as file:
        start = 1
        for batch in read_batches(file, n_cells, columns=COLUMNS):
            values = _numbers(table.path, batch["count"], start)
            place = first_fault(values)
            if place is not None:
                raise CountTableError(
                    f"{table.path}, row {start + place:,}: the count is {values[place]:g}; give counts of 0 or more"
                )
            sides = [
                pa.table({"word": _texts(table.path, batch, name, start), "count": values})
                for name in COLUMNS[:2]
            ]
            found = pa.concat_tables([found, *sides]).group_by("word").aggregate([("count", "sum")])
            found = pa.table({"word": found["word"], "count": found["count_sum"]})
            start += batch.num_rows
    return found["word"].combine_chunks(), found["count"].to_numpy()


# --- GloVe --------------------------------------------------------------------------------------------------------


def _glove_cells(
    path: str, first: int, last: int, words: Vocabulary, n_cells: int, closed: bool
) -> Iterator[GivenCells]:
    del closed  # a number is that of a word, or damaged
    with reading(path, CountTableError) as file:
        file.seek(first * RECORD.itemsize)
        for start in range(first, last, n_cells):
            n = min(n_cells, last - start)
            records = np.frombuffer(_whole(path, file, n * RECORD.itemsize), RECORD)
            for name in ("word", "context"):
                _check_numbers(path, records[name], start + 1, len(words), least=1)
            rows, columns = (records[name] - np.int32(1) for name in ("word", "context"))
            yield GivenCells(start + 1, rows, columns, records["count"].astype(np.float64))


def _whole(path: str, file: IO[bytes], n_bytes: int) -> bytes:
    data = file.read(n_bytes)
    if len(data) != n_bytes:
        raise CountTableError(f"{path} ends too early: copy it again")
    return data


# --- npz ----------------------------------------------------------------------------------------------------------


@contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    with (
        damage_told(path, CountTableError, "a file of scipy.sparse.save_npz"),
        reading(path, CountTableError) as file,
        zipfile.ZipFile(file) as archive,
    ):
        yield archive


def _npz_shapes(path: str, archive: zipfile.ZipFile) -> tuple[tuple[int, int], int]:
    """Return the shape of the matrix and its cells."""
    names = {name.removesuffix(".npy") for name in archive.namelist()}
    kind = bytes(_member(path, archive, "format")).decode() if "format" in names else "no"
    if kind != "csr":
        raise CountTableError(
            f"{path} holds a matrix of {kind} format: save it as scipy.sparse.save_npz(path, matrix.tocsr())"
        )
    n_rows, n_columns = _member(path, archive, "shape").tolist()
    lengths = {}
    for name, kinds in (("indices", "iu"), ("data", "iuf")):
        with archive.open(f"{name}.npy") as member:
            shape, _, dtype = npy_header(member)
        if len(shape) != 1 or dtype.kind not in kinds:
            raise CountTableError(
                f"{path}: {name} is {dtype} of shape {shape}, and no vector of numbers; save it again"
            )
        lengths[name] = shape[0]
    if n_rows != n_columns or lengths["indices"] != lengths["data"]:
        raise CountTableError(
            f"{path} holds a matrix of {n_rows} x {n_columns} with {lengths['indices']} columns and "
            f"{lengths['data']} values: give a square one, row and column i for word i"
        )
    return (n_rows, n_columns), lengths["data"]


def _member(path: str, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return a small array of an archive."""
    info = archive.getinfo(f"{name}.npy")
    refuse_bomb(f"{path} ({name})", info.compress_size, info.file_size)
    with archive.open(info) as member:
        shape, _, dtype = npy_header(member)
    if math.prod(shape) * dtype.itemsize > info.file_size:
        raise CountTableError(f"{path} ends before its member {name} does: copy or save it again")
    with archive.open(info) as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _npz_cells(
    path: str, first: int, last: int, words: Vocabulary, n_cells: int, closed: bool
) -> Iterator[GivenCells]:
    del first, closed
    with _archive(path) as archive, _archive(path) as other:
        (n_rows, _), n = _npz_shapes(path, archive)
        indptr = _npz_indptr(path, archive, n_rows, n, len(words))
        with archive.open("indices.npy") as indices, other.open("data.npy") as data:
            kinds = [npy_header(member)[2] for member in (indices, data)]
            for start in range(0, last, n_cells):
                stop = min(start + n_cells, last)
                columns, values = (
                    np.frombuffer(_whole(path, member, (stop - start) * kind.itemsize), kind)
                    for member, kind in zip((indices, data), kinds, strict=True)
                )
                _check_numbers(path, columns, start + 1, n_rows)
                rows = np.searchsorted(indptr, np.arange(start, stop), side="right") - 1
                yield GivenCells(
                    start + 1, rows.astype(np.int32), columns.astype(np.int32), values.astype(np.float64)
                )
            if indices.read(1) or data.read(1):  # to the end, where the checksum of a member is compared
                raise CountTableError(f"{path} is longer than its head says: save it again")


def _npz_indptr(
    path: str, archive: zipfile.ZipFile, n_rows: int, n_cells: int, n_words: int
) -> NDArray[np.int64]:
    if n_rows != n_words:
        raise CountTableError(
            f"{path} has {n_rows:,} rows, and there are {n_words:,} words: give the list of its words"
        )
    indptr = _member(path, archive, "indptr").astype(np.int64)
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != n_cells or (np.diff(indptr) < 0).any():
        raise CountTableError(f"{path}: its indptr does not fit its rows; save it again")
    return indptr


# --- bigram files of PSDVec's authors -----------------------------------------------------------------------------


def _lines(path: str, file: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, without its end."""
    for number, line in enumerate(iter(partial(file.readline, LINE_BYTES), b""), 1):
        try:
            yield number, line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise CountTableError(
                f"{path}, line {number} is not UTF-8 ({error}): convert the file"
            ) from error


def _item(path: str, number: int, item: str, n: int) -> list[str]:
    """Return the parts of an item: what stands before the last commas may hold commas, too."""
    parts = item.rsplit(",", n - 1)
    if len(parts) != n:
        raise CountTableError(
            f"{path}, line {number}: {item[:80]!r} has not {n} parts; it is damaged, or no bigram file"
        )
    return parts


COUNT_DIGITS = 18
"""Numbers of more digits may not fit 64 bits."""


def _count(path: str, number: int, text: str) -> int:
    if not text.isdecimal() or len(text) > COUNT_DIGITS:
        raise CountTableError(f"{path}, line {number}: {text[:80]!r} is no count; give whole numbers")
    return int(text)


def _bigram_words(path: str) -> Vocabulary:
    words, counts = list[str](), list[int]()
    with reading(path, CountTableError) as file:
        lines = _lines(path, file)
        head = re.match(r"# (\d{1,18}) words, \d+ occurrences", next(lines, (1, ""))[1])
        if head is None or not any(text.startswith("Words:") for _, text in islice(lines, 4)):
            raise CountTableError(
                f'{path} is no bigram file of PSDVec: its first line should be "# N words, M occurrences", and '
                '"Words:" follow'
            )
        for number, text in lines:
            if not text:
                break
            for item in text.split("\t"):
                word, count, _ = _item(path, number, item, 3)
                words.append(word)
                counts.append(_count(path, number, count))
    if len(words) != int(head[1]):
        raise CountTableError(f"{path} announces {head[1]} words and lists {len(words)}: copy it again")
    unknown = np.full(len(words), -1, np.int64)
    return Vocabulary(words, np.array(counts, np.int64), unknown)


def _bigram_cells(
    path: str, first: int, last: int, words: Vocabulary, n_cells: int, closed: bool
) -> Iterator[GivenCells]:
    del first, last, closed
    places = {word: number for number, word in enumerate(words.words)}
    rows, columns, values = list[int](), list[int](), list[int]()
    start, row = 1, -1
    with reading(path, CountTableError) as file:
        lines = _lines(path, file)
        if not any(text.startswith("Bigrams:") for _, text in lines):
            raise CountTableError(f'{path} has no line "Bigrams:": it is cut off, copy it again')
        for number, text in lines:
            if not text or text.startswith("#"):
                continue
            if not text.startswith("\t"):
                row = _place(path, number, _item(path, number, text, 4)[0].partition(",")[2], places)
                continue
            for item in text[1:].split("\t"):
                word, count, _ = _item(path, number, item, 3)
                rows.append(row)
                columns.append(_place(path, number, word, places))
                values.append(_count(path, number, count))
            if len(rows) >= n_cells:
                yield _cells(start, rows, columns, values)
                start, rows, columns, values = start + len(rows), [], [], []
    yield _cells(start, rows, columns, values)


def _place(path: str, number: int, word: str, places: Mapping[str, int]) -> int:
    if word not in places:
        raise CountTableError(f"{path}, line {number}: {word[:80]!r} is not among its words: copy it again")
    return places[word]


def _cells(start: int, rows: list[int], columns: list[int], values: list[int]) -> GivenCells:
    return GivenCells(
        start, np.array(rows, np.int32), np.array(columns, np.int32), np.array(values, np.float64)
    )
