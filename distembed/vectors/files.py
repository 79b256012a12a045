"""Reads and writes files of word vectors in every format; see `distembed.vectors` for a description of each.

Every format is read as a stream of blocks, `(words, float32 array)`, and collected by one function, which is
the only place that checks duplicates and counts. In addition to the finished matrix a reader holds one block
of the file. It allocates memory for what it has read, never for what a header promises. Nothing is ever
unpickled.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.files import damage_told
from distembed.formats.heads import sniffed
from distembed.formats.names import (
    VectorFormat,
    compression_of,
    suffix_of,
    unknown_format,
    vector_format,
)
from distembed.formats.parquet import ListError, ParquetFile, is_list, is_text, matrix_of_lists, read_batches
from distembed.formats.streams import Stream, local_copy, reading, writing
from distembed.vectors.fasttext import MAGIC as FASTTEXT_MAGIC
from distembed.vectors.fasttext import read_fasttext
from distembed.vectors.rows import (
    Block,
    Source,
    VectorFileError,
    WordRows,
    check_finite,
    gather,
    row_blocks,
    shown,
    without_duplicates,
)
from distembed.vectors.safetensors import read_safetensors, write_safetensors
from distembed.vectors.subwords import SubwordTable
from distembed.vectors.word2vec import read_binary, read_text, write_binary, write_glove, write_word2vec

HEAD_BYTES = 1 << 16  # looked at to recognize a format
_LARGEST_NUMBER_DIGITS = 18  # of a header: more do not fit 64 bits
_LINES_SNIFFED = 10  # lines looked at to tell text from binary
_LIKE_A_NUMBER = re.compile(
    rb"[-+.,0-9eEaAfFiInN]+"
)  # "0,5" and "nan" as well, which the reader refuses by name
_BLANK = re.compile(r"[ \t\r\n]")


def read_vectors(
    path: str | Path,
    *,
    format: VectorFormat = "auto",  # noqa: A002 (the word every reader of files uses for this)
    max_words: int | None = None,
    encoding: str = "utf-8",
    errors: Literal["strict", "replace", "ignore"] = "strict",
    duplicates: Literal["error", "first"] = "error",
) -> WordRows:
    """Read words and vectors, and their n-grams, from a file or fsspec URL of any format of this module.

    Parameters
    ----------
    path : str or Path
        The file or URL; text and binary files are decompressed by their extension.
    format : str
        "auto" goes by the extension and the first bytes: fastText's models begin with bytes of their own, two whole
        numbers on the first line are a word2vec header, and no header means GloVe text; after a header, numbers where
        a line of text has its values mean text.
    max_words : int, optional
        Read only the first words of the file.
    encoding : str
        The encoding of the words in text and binary files: any that agrees with ASCII on spaces and digits.
    errors : {"strict", "replace"}
        Whether words that are not valid in the encoding are an error or are replaced.
    duplicates : {"error", "first"}
        "first" keeps the first of several equal words instead of refusing the file.

    Returns
    -------
    WordRows
        words, vectors float32 (n_words, n_components), and the table of n-grams of safetensors and fastText files.

    Raises
    ------
    VectorFileError
        If a line is short or long, a value is not a finite number, a word occurs twice, a header disagrees
        with the contents, the file is truncated or empty, or a word is in another encoding. The message gives
        file, line and remedy.
    FileNotFoundError
        If there is no such file.
    """
    name = str(path)
    if max_words is not None and max_words < 1:
        raise ValueError(f"max_words is {max_words}; give 1 or more")
    if (chosen := _reading_format(name, format)) == "safetensors":
        with local_copy(name, VectorFileError) as local:
            rows = read_safetensors(local, name, max_words)
        return without_duplicates(rows, Source(name, "row", 0), duplicates)
    with reading(name, VectorFileError) as file:
        if chosen == "parquet":
            with damage_told(name, VectorFileError, "a Parquet file"):
                rows = gather(_read_parquet(file, name), name, None, max_words)
            return without_duplicates(rows, Source(name, "row", 0), duplicates)
        head = file.read(HEAD_BYTES)
        if not head.strip():
            raise VectorFileError(f"{name} is empty; give a file with one word and its values per line")
        if (found := sniffed(head, name)).what:
            raise VectorFileError(f"{name} is {found.what}, not vectors: {found.remedy}")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise VectorFileError(f"{name} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {name}")
        stream = Stream(file, head.removeprefix(codecs.BOM_UTF8), name)
        if chosen == "auto":
            chosen = _sniff(stream.head, name)
        if chosen != "fasttext":
            rows, source = _read_stream(stream, name, chosen, max_words, encoding=encoding, errors=errors)
            return without_duplicates(rows, source, duplicates)
    source = Source(name, "word", 1, encoding, errors)
    with local_copy(name, VectorFileError) as local:
        return without_duplicates(read_fasttext(local, source, max_words), source, duplicates)


def _read_stream(
    stream: Stream, name: str, chosen: VectorFormat, max_words: int | None, *, encoding: str, errors: str
) -> tuple[WordRows, Source]:
    """Read word2vec text or binary, or GloVe text."""
    if chosen == "glove":
        source = Source(name, "line", 1, encoding, errors)
        return gather(read_text(stream, source, None), name, None, max_words), source
    line = stream.take_line()
    fields = line.split()
    numbers = [int(f) for f in fields if f.isdigit() and len(f) <= _LARGEST_NUMBER_DIGITS]
    if len(fields) != 2 or len(numbers) != 2 or numbers[1] == 0:
        raise VectorFileError(
            f"{name}, line 1: {shown(line)} is not a word2vec header `n_words n_components`; "
            'give format="glove" for a text file without a header'
        )
    n_words, n_components = numbers[0], numbers[1]
    if chosen == "word2vec":
        source = Source(name, "line", 2, encoding, errors)
        return gather(read_text(stream, source, n_components), name, n_words, max_words), source
    source = Source(name, "record", 1, encoding, errors)
    return gather(read_binary(stream, source, n_words, n_components), name, n_words, max_words), source


def _reading_format(name: str, chosen: VectorFormat) -> VectorFormat:
    if chosen not in get_args(VectorFormat):
        raise ValueError(f"format is {chosen!r}; give one of {', '.join(get_args(VectorFormat))}")
    by_suffix = vector_format(name)
    return by_suffix if chosen == "auto" and by_suffix in ("parquet", "safetensors") else chosen


def _sniff(head: bytes, name: str) -> VectorFormat:
    """Recognize fastText, word2vec text, word2vec binary or GloVe text by the extension and the first bytes."""
    if head.startswith(FASTTEXT_MAGIC):
        return "fasttext"
    first, _, rest = head.partition(b"\n")
    if not re.fullmatch(rb"\s*\d+[ \t]+\d+\s*", first):
        return "glove"
    n_components = int(first.split()[1][:_LARGEST_NUMBER_DIGITS])
    is_binary = suffix_of(name) == ".bin" or not _is_text(rest, n_components)
    return "word2vec-binary" if is_binary else "word2vec"


def _is_text(data: bytes, n_components: int) -> bool:
    """Return whether at least half of the fields where text has its values look like numbers.

    Those are the last `n_components` fields of a line; a word, which may hold any character, stands before
    them. The bytes of a binary value are hardly ever all digits, signs and points.
    """
    lines = [line.split() for line in data.split(b"\n")[:_LINES_SNIFFED]]
    values = [field for fields in lines for field in fields[max(1, len(fields) - n_components) :]]
    n_numbers = sum(_LIKE_A_NUMBER.fullmatch(field) is not None for field in values)
    return 2 * n_numbers >= len(values)


def write_vectors(
    path: str | Path,
    words: list[str],
    vectors: NDArray[np.float32],
    *,
    subwords: SubwordTable | None = None,
    format: VectorFormat | None = None,  # noqa: A002
    space: str | None = None,
) -> None:
    """Write words and vectors to a file or fsspec URL; a local file appears complete or not at all.

    Parameters
    ----------
    path : str or Path
        The file or URL. Text and binary files are compressed by the extension (.gz, .bz2, .xz, .zst).
    words : sequence of str
        n words.
    vectors : float32 array (n, d)
        Finite values.
    subwords : SubwordTable, optional
        The n-grams from which other strings are composed; "safetensors" keeps them, the other formats leave them out.
    format : str, optional
        By default it follows the extension: .txt .vec .w2v word2vec text, .bin word2vec binary, .glove,
        .parquet, .safetensors.
    space : str, optional
        The character written in place of spaces, tabs and line ends inside words (text and binary).

    Raises
    ------
    ValueError
        If the name does not determine the format, a word cannot be written in it, or `space` would make two words
        equal.
    """
    name = str(path)
    chosen = format or vector_format(name)
    if chosen not in WRITTEN_FORMATS:
        ends = (".txt", ".bin", ".glove", ".parquet", ".safetensors")
        raise unknown_format(name, ends, asked=format, formats=WRITTEN_FORMATS)
    if chosen in ("parquet", "safetensors") and compression_of(name):
        raise ValueError(
            f"{name}: {chosen} files are not compressed as a whole; leave out {Path(name).suffix}"
        )
    _check_unicode(words, name)
    if chosen == "safetensors":
        write_safetensors(name, words, vectors, subwords)
        return
    if chosen != "parquet":
        written = words if space is None else [_BLANK.sub(space, word) for word in words]
        bad = next((word for word in written if not word or _BLANK.search(word)), None)
        if bad is not None:
            raise ValueError(
                f"the word {bad!r} cannot be written as {chosen}, which ends words at spaces; "
                'give space="_" (--space _ on the command line), or save as .parquet or .safetensors'
            )
        first: dict[str, str] = {}
        for word, form in zip(words, written, strict=True):
            if (other := first.setdefault(form, word)) != word:
                raise ValueError(
                    f"with space={space!r} the words {other!r} and {word!r} would both be written as {form!r}; "
                    "give another space=, or save as .parquet or .safetensors"
                )
        words = written
    with writing(name) as file:
        _WRITERS[chosen](file, words, vectors)


def _check_unicode(words: list[str], name: str) -> None:
    try:
        "".join(words).encode()
    except UnicodeEncodeError as error:
        bad = next(word for word in words if any("\ud800" <= character <= "\udfff" for character in word))
        raise ValueError(
            f"{name}: the word {bad!r} holds half of a surrogate pair, which UTF-8 cannot write; "
            "replace or remove that word"
        ) from error


# ---- Parquet: the columns `word` (string) and `vector` (list of float32) ------------------------------------


def _read_parquet(file: IO[bytes], name: str) -> Iterator[Block]:
    """Yield the rows of a Parquet file in blocks; columns other than `word` and `vector` are ignored."""
    table = ParquetFile(file)
    found = {field.name: field.type for field in table.schema_arrow}
    vector = found.get("vector", pa.null())
    if not (is_text(found.get("word")) and is_list(vector) and pa.types.is_floating(vector.value_type)):
        columns = ", ".join(f"{column} ({kind})" for column, kind in found.items())
        raise VectorFileError(
            f"{name} has the columns {columns}; it needs `word` (string) and `vector` (list of float)"
        )
    n_read, width = 0, None
    for batch in read_batches(table, 1 << 12, columns=["word", "vector"]):
        rows = _with_vectors(batch)
        if not rows.num_rows:
            continue
        words, vectors = _parquet_rows(rows, name, n_read)
        width = width or vectors.shape[1]
        if vectors.shape[1] != width:
            raise VectorFileError(
                f"{name}, row {n_read}: {vectors.shape[1]} values, expected {width}; write it again"
            )
        check_finite(words, vectors, Source(name, "row", 0), n_read)
        yield words, vectors
        n_read += len(words)


def _with_vectors(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows without those of names that were left out of a job, which have neither word nor vector."""
    words, lists = batch.column("word"), batch.column("vector")
    return batch.filter(words.is_valid()) if words.is_null().equals(lists.is_null()) else batch


def _parquet_rows(batch: pa.RecordBatch, name: str, first: int) -> Block:
    words, lists = batch.column("word"), batch.column("vector")
    if words.null_count or lists.null_count or lists.flatten().null_count:
        raise VectorFileError(
            f"{name}, rows {first} to {first + len(batch)}: a word or value is missing; write it again"
        )
    try:
        matrix = matrix_of_lists(lists)
    except ListError as error:
        raise VectorFileError(
            f"{name}, row {first + error.row}: {error.length} values, expected {len(lists[0]) or 1}; write it again"
        ) from None
    return words.cast(pa.string()).to_pylist(), matrix.astype(np.float32, copy=False)


def _write_parquet(file: IO[bytes], words: list[str], vectors: NDArray[np.float32]) -> None:
    """Write both columns, with a checksum in every page."""
    kind = pa.list_(pa.float32(), vectors.shape[1])
    schema = pa.schema([("word", pa.string()), ("vector", kind)])
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True
    ) as writer:
        for block_words, block in row_blocks(words, vectors):
            values = pa.array(np.ascontiguousarray(block).ravel())
            lists = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])
            writer.write_batch(pa.record_batch([pa.array(block_words, pa.string()), lists], schema=schema))


_WRITERS: dict[str, Callable[[IO[bytes], list[str], NDArray[np.float32]], None]] = {
    "word2vec": write_word2vec,
    "glove": write_glove,
    "word2vec-binary": write_binary,
    "parquet": _write_parquet,
}

WRITTEN_FORMATS: tuple[str, ...] = (*_WRITERS, "safetensors")
"""The formats that vectors are written in; of these "safetensors" alone keeps the table of n-grams."""
