"""Reads and writes files of word vectors in every format; see `distembed.vectors` for a description of each.

Every format is read as a stream of blocks, `(words, float32 array)`, and collected by one function, which is
the only place that checks values and counts. In addition to the finished matrix a reader holds one block
of the file. It allocates memory for what it has read, never for what a header promises. Nothing is ever
unpickled.

A safetensors file holds

=====================  ==========================================================================================
`vectors`              float32 (n, d)
`words`, `offsets`     uint8, the UTF-8 bytes of all words joined; int64 (n + 1,): word i is
                       `words[offsets[i]:offsets[i + 1]]`
`subword_options`      int64 (4,): min_n, max_n, the number of buckets (0: n-grams have rows of their own), and 1 where
                       composed vectors are divided by their lengths; this and the rest only with a table of n-grams
`subword_mean`         float32 (d,)
`subword_vectors`      float32 (rows, d)
`ngrams`               uint32 (rows,): the FNV-1a hash of the n-gram of each row; buckets have none
=====================  ==========================================================================================

Values of float16 are read, too.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from distembed.display import first_repeat
from distembed.files import damage_told, replacing
from distembed.formats.heads import sniffed
from distembed.formats.names import compression_of, suffix_of, unknown_format
from distembed.formats.parquet import ListError, ParquetFile, is_list, is_text, matrix_of_lists, read_batches
from distembed.formats.streams import Stream, check_folder, local_copy, reading, writing
from distembed.urls import url_to_fs
from distembed.vectors.fasttext import MAGIC as FASTTEXT_MAGIC
from distembed.vectors.fasttext import read_fasttext
from distembed.vectors.rows import Block, Source, VectorFileError, WordRows, check_finite, gather, row_blocks
from distembed.vectors.subwords import SubwordTable, pack
from distembed.vectors.word2vec import LARGEST_NUMBER_DIGITS, read_binary, read_text, write_binary, write_text

HEAD_BYTES = 1 << 16  # looked at to recognize a format
_LINES_SNIFFED = 10  # lines looked at to tell text from binary
# "0,5" and "nan" as well, which the reader refuses by name.
_LIKE_A_NUMBER = re.compile(rb"[-+.,0-9eEaAfFiInN]+")
_BLANK = re.compile(r"[ \t\r\n]")

VectorFormat: TypeAlias = Literal[
    "auto", "word2vec", "word2vec-binary", "glove", "parquet", "safetensors", "fasttext"
]


def read_parquet(source: Source, max_words: int | None) -> WordRows:
    """Read the columns `word` and `vector` of a Parquet file; others are ignored."""
    name = source.path
    with reading(name, VectorFileError) as file, damage_told(name, VectorFileError, "a Parquet file"):
        return gather(_parquet_blocks(ParquetFile(file), name), source, max_words)


def _parquet_blocks(table: ParquetFile, name: str) -> Iterator[Block]:
    found = {field.name: field.type for field in table.schema_arrow}
    vector = found.get("vector", pa.null())
    if not (is_text(found.get("word")) and is_list(vector) and pa.types.is_floating(vector.value_type)):
        columns = ", ".join(f"{column} ({kind})" for column, kind in found.items())
        raise VectorFileError(
            f"{name} has the columns {columns}; it needs `word` (string) and `vector` (list of float)"
        )
    n_read, width = 0, 0
    for batch in read_batches(table, 1 << 12, columns=["word", "vector"]):
        words, lists = batch.column("word"), batch.column("vector")
        if words.null_count and words.is_null().equals(lists.is_null()):  # names that were left out of a job
            words, lists = words.drop_null(), lists.drop_null()
        if not len(words):
            continue
        if words.null_count or lists.null_count or lists.flatten().null_count:
            raise VectorFileError(
                f"{name}, rows {n_read} to {n_read + len(words)}: a word or value is missing; write it again"
            )
        try:
            matrix = matrix_of_lists(lists, width)
        except ListError as error:
            raise VectorFileError(
                f"{name}, row {n_read + error.row}: {error.length} values, expected {width or len(lists[0]) or 1}; "
                "write it again"
            ) from None
        yield words.cast(pa.string()).to_pylist(), matrix.astype(np.float32, copy=False)
        n_read, width = n_read + len(words), matrix.shape[1]


def write_parquet(name: str, rows: WordRows) -> None:
    """Write both columns, with a checksum in every page."""
    n_components = rows.vectors.shape[1]
    schema = pa.schema([("word", pa.string()), ("vector", pa.list_(pa.float32(), n_components))])
    options = {"compression": "zstd", "use_dictionary": False}
    with writing(name) as file, pq.ParquetWriter(file, schema, write_page_checksum=True, **options) as out:
        for words, block in row_blocks(rows.words, rows.vectors):
            values = pa.array(np.ascontiguousarray(block).ravel())
            lists = pa.FixedSizeListArray.from_arrays(values, n_components)
            out.write_batch(pa.record_batch([pa.array(words, pa.string()), lists], schema=schema))


def read_safetensors(source: Source, max_words: int | None) -> WordRows:
    """Read the first rows of a safetensors file, and the table of n-grams where it has one; others stay on disk."""
    name = source.path
    with (
        local_copy(name, VectorFileError) as path,
        damage_told(name, VectorFileError, "a safetensors file"),
        safetensors.safe_open(path, framework="np") as file,
    ):
        names = set(file.keys())
        if missing := {"vectors", "words", "offsets"} - names:
            raise VectorFileError(
                f"{name} holds the tensors {sorted(names)} and lacks {sorted(missing)}: it has no words; "
                "load it with safetensors and give the words yourself: WordVectors(words, vectors)"
            )
        vectors, blob, bounds = file.get_slice("vectors"), file.get_slice("words"), file.get_tensor("offsets")
        shape = vectors.get_shape()
        if (
            (blob.get_dtype(), bounds.dtype.str, bounds.ndim, len(shape)) != ("U8", "<i8", 1, 2)
            or len(bounds) != shape[0] + 1
            or np.any(np.diff(bounds) < 0)
            or [bounds[0], bounds[-1]] != [0, *blob.get_shape()]
        ):
            raise VectorFileError(f"{name}: words, offsets and vectors disagree; write it again")
        spans = bounds[: None if max_words is None else max_words + 1].tolist()
        data = blob[: spans[-1]].tobytes()
        plain = Source(name, source.unit, source.first)  # in UTF-8, whatever encoding the text formats have
        words = [plain.decode(data[start:stop], row) for row, (start, stop) in enumerate(pairwise(spans))]
        if not words:
            raise VectorFileError(
                f"{name} holds no words; give a file with a word and its values in each row"
            )
        rows = np.asarray(vectors[: len(words)]).astype(np.float32, copy=False)
        check_finite(words, rows, source, 0)
        if "subword_vectors" not in names:
            return WordRows(words, rows)
        try:  # a tensor of the table that is missing or does not fit is an error
            min_n, max_n, n_buckets, normalized = file.get_tensor("subword_options").tolist()
            values, mean = (file.get_tensor(f"subword_{one}") for one in ("vectors", "mean"))
            ngrams = None if n_buckets else file.get_tensor("ngrams")
            table = SubwordTable(values, mean, min_n, max_n, ngrams, bool(normalized))
        except (safetensors.SafetensorError, ValueError) as error:
            raise VectorFileError(
                f"{name}: its table of n-grams is not whole ({error}); write it again"
            ) from error
        return WordRows(words, rows, table)


def write_safetensors(name: str, rows: WordRows) -> None:
    """Write the tensors `vectors`, `words` and `offsets`, and those of the table of n-grams."""
    joined, offsets = pack(rows.words)
    tensors: dict[str, NDArray[Any]] = {"vectors": rows.vectors, "words": joined, "offsets": offsets}
    if (table := rows.subwords) is not None:
        n_buckets = len(table) if table.ngrams is None else 0
        options = [table.min_n, table.max_n, n_buckets, int(table.normalized)]
        tensors |= {
            "subword_options": np.array(options, np.int64),
            "subword_mean": table.mean,
            "subword_vectors": table.vectors,
        }
        if table.ngrams is not None:
            tensors["ngrams"] = np.asarray(table.ngrams)
    tensors = {key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()}
    filesystem, target = url_to_fs(name)
    if not isinstance(filesystem, LocalFileSystem):
        filesystem.pipe_file(target, safetensors.numpy.save(tensors))
        return
    check_folder(name, target)
    with replacing(target) as partial:
        place = Path(partial)
        place.touch()
        mode = place.stat().st_mode  # what the umask says; the library gives its own file to the owner alone
        safetensors.numpy.save_file(tensors, partial)
        place.chmod(mode)


class Format(NamedTuple):
    """A format of word vectors.

    Attributes
    ----------
    suffixes : how the names of its files end
    unit, first : what a row is called in errors, and the number of the first
    is_stream : whether it is read as a stream, and may be compressed, or opens its file itself
    read : of a stream where it is one, of a source, and of a number of words
    write : None where it is only read
    """

    suffixes: tuple[str, ...]
    unit: str
    first: int
    is_stream: bool
    read: Callable[..., WordRows]
    write: Callable[[str, WordRows], None] | None


FORMATS: dict[str, Format] = {
    "word2vec": Format(
        (".txt", ".vec", ".w2v"), "line", 2, True, read_text, partial(write_text, has_header=True)
    ),
    "glove": Format((".glove",), "line", 1, True, read_text, partial(write_text, has_header=False)),
    "word2vec-binary": Format((".bin",), "record", 1, True, read_binary, write_binary),
    "parquet": Format((".parquet",), "row", 0, False, read_parquet, write_parquet),
    "safetensors": Format((".safetensors",), "row", 0, False, read_safetensors, write_safetensors),
    "fasttext": Format((), "word", 1, False, read_fasttext, None),
}
WRITTEN_FORMATS: tuple[str, ...] = tuple(name for name, one in FORMATS.items() if one.write)
"""The formats that vectors are written in; of these "safetensors" alone keeps the table of n-grams."""


def vector_format(name: str) -> VectorFormat | None:
    """Return the format of word vectors that the name of a file says; None for an unknown extension."""
    suffix = suffix_of(name)
    return cast(
        "VectorFormat | None", next((key for key, one in FORMATS.items() if suffix in one.suffixes), None)
    )


def promised_words(name: str) -> int | None:
    """Return how many words a file of vectors holds by its header; None where it has none, as that of GloVe.

    Raises
    ------
    VectorFileError
        If the file is damaged.
    """
    suffix = suffix_of(name)
    with reading(name, VectorFileError) as file, damage_told(name, VectorFileError, "vectors"):
        if suffix == ".parquet":
            return int(ParquetFile(file).metadata.num_rows)
        head = file.read(HEAD_BYTES)
        if suffix == ".safetensors":
            n_bytes = int.from_bytes(head[:8], "little")
            header = (head + file.read(max(0, n_bytes - HEAD_BYTES)))[8 : 8 + n_bytes]
            return int(json.loads(header)["vectors"]["shape"][0])
        found = re.match(rb"\s*(\d+)[ \t]+\d+\s*\n", head.removeprefix(codecs.BOM_UTF8))
        return int(found[1]) if found else None


def read_vectors(
    name: str, chosen: str, max_words: int | None, encoding: str, errors: str, duplicates: str
) -> WordRows:
    """Read words and vectors, and their n-grams, from a file or fsspec URL; see `WordVectors.load`.

    The format "auto" goes by the extension and the first bytes: fastText's models begin with bytes of their own, two
    whole numbers on the first line are a word2vec header, and no header means GloVe text; after a header, numbers where
    a line of text has its values mean text.

    Raises
    ------
    VectorFileError
        If a line is short or long, a value is not a finite number, a word occurs twice, a header disagrees
        with the contents, the file is truncated or empty, or a word is in another encoding. The message gives
        file, line and remedy.
    FileNotFoundError
        If there is no such file.
    """
    by_suffix = vector_format(name)
    chosen = by_suffix if chosen == "auto" and by_suffix in ("parquet", "safetensors") else chosen

    with ExitStack() as opened:
        stream = None
        if chosen not in ("parquet", "safetensors"):
            file = opened.enter_context(reading(name, VectorFileError))
            head = file.read(HEAD_BYTES)
            if not head.strip():
                raise VectorFileError(f"{name} is empty; give a file with one word and its values per line")
            what, remedy = sniffed(head, name)
            if what:
                raise VectorFileError(f"{name} is {what}, not vectors: {remedy}")
            if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise VectorFileError(f"{name} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {name}")
            stream = Stream(file, head.removeprefix(codecs.BOM_UTF8))
            chosen = _sniff(stream.head, name) if chosen == "auto" else chosen
        form = FORMATS[chosen]
        source = Source(name, form.unit, form.first, encoding, errors)
        rows = form.read(*([stream] if form.is_stream else []), source, max_words)
    seen: dict[str, int] = {}
    repeated = [row for row, word in enumerate(rows.words) if seen.setdefault(word, row) != row]
    if repeated and duplicates == "error":
        word = rows.words[repeated[0]]
        raise VectorFileError(
            f"{source.at(repeated[0])}: the word {word!r} stands already in {source.unit} "
            f'{source.first + seen[word]}; remove one of the lines (or in Python give duplicates="first")'
        )
    return rows._replace(words=list(seen), vectors=rows.vectors[[*seen.values()]]) if repeated else rows


def _sniff(head: bytes, name: str) -> VectorFormat:
    """Recognize fastText, word2vec text, word2vec binary or GloVe text by the extension and the first bytes."""
    if head.startswith(FASTTEXT_MAGIC):
        return "fasttext"
    first, _, rest = head.partition(b"\n")
    if not re.fullmatch(rb"\s*\d+[ \t]+\d+\s*", first):
        return "glove"
    # A word, which may hold any character, stands before the last fields of a line, which have its values. The bytes of
    # a binary value are hardly ever all digits, signs and points.
    n_components = int(first.split()[1][:LARGEST_NUMBER_DIGITS])
    lines = [line.split() for line in rest.split(b"\n")[:_LINES_SNIFFED]]
    values = [field for fields in lines for field in fields[max(1, len(fields) - n_components) :]]
    n_numbers = sum(_LIKE_A_NUMBER.fullmatch(field) is not None for field in values)
    is_binary = suffix_of(name) == ".bin" or 2 * n_numbers < len(values)
    return "word2vec-binary" if is_binary else "word2vec"


def write_vectors(name: str, rows: WordRows, form_name: str | None, space: str | None) -> None:
    """Write words and vectors to a file or fsspec URL; see `WordVectors.save`.

    A local file appears complete or not at all.

    Raises
    ------
    ValueError
        If the name does not determine the format, a word cannot be written in it, or `space` would make two words
        equal.
    """
    chosen = form_name or vector_format(name)
    if chosen not in WRITTEN_FORMATS:
        ends = (".txt", ".bin", ".glove", ".parquet", ".safetensors")
        raise unknown_format(name, ends, asked=form_name, formats=WRITTEN_FORMATS)
    form: Any = FORMATS[chosen]
    if not form.is_stream and compression_of(name):
        raise ValueError(
            f"{name}: {chosen} files are not compressed as a whole; leave out {Path(name).suffix}"
        )
    try:
        "".join(rows.words).encode()
    except UnicodeEncodeError as error:
        bad = next(word for word in rows.words if any("\ud800" <= sign <= "\udfff" for sign in word))
        raise ValueError(
            f"{name}: the word {bad!r} holds half of a surrogate pair, which UTF-8 cannot write; "
            "replace or remove that word"
        ) from error
    if form.is_stream:  # whose readers would divide words at spaces
        written = rows.words if space is None else [_BLANK.sub(space, word) for word in rows.words]
        divided = [word for word in written if not word or _BLANK.search(word)]
        if divided:
            raise ValueError(
                f"the word {divided[0]!r} cannot be written as {chosen}, which ends words at spaces; "
                'give space="_" (--space _ on the command line), or save as .parquet or .safetensors'
            )
        if found := first_repeat(written):
            raise ValueError(
                f"with space={space!r} the words {rows.words[found[1]]!r} and {rows.words[found[2]]!r} would both be "
                f"written as {found[0]!r}; give another space=, or save as .parquet or .safetensors"
            )
        rows = rows._replace(words=written)
    form.write(name, rows)
