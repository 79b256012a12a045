"""Reads and writes files of word vectors in every format; see `distembed.vectors` for a description of each.

Every format is read as a stream of blocks, `(words, float32 array)`, and collected by one function, which is
the only place that checks values and counts. In addition to the finished matrix a reader holds one block
of the file. It allocates memory for what it has read, never for what a header promises. Nothing is ever
unpickled.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from distembed.formats.heads import sniffed
from distembed.formats.names import compression_of, suffix_of, unknown_format
from distembed.formats.streams import Stream, reading
from distembed.vectors.fasttext import MAGIC as FASTTEXT_MAGIC
from distembed.vectors.fasttext import read_fasttext
from distembed.vectors.parquet import read_parquet, write_parquet
from distembed.vectors.rows import Source, VectorFileError, WordRows, without_duplicates
from distembed.vectors.safetensors import read_safetensors, write_safetensors
from distembed.vectors.word2vec import (
    LARGEST_NUMBER_DIGITS,
    read_binary,
    read_glove,
    read_word2vec,
    write_binary,
    write_glove,
    write_word2vec,
)

HEAD_BYTES = 1 << 16  # looked at to recognize a format
_LINES_SNIFFED = 10  # lines looked at to tell text from binary
_LIKE_A_NUMBER = re.compile(
    rb"[-+.,0-9eEaAfFiInN]+"
)  # "0,5" and "nan" as well, which the reader refuses by name
_BLANK = re.compile(r"[ \t\r\n]")

VectorFormat: TypeAlias = Literal[
    "auto", "word2vec", "word2vec-binary", "glove", "parquet", "safetensors", "fasttext"
]


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
    "word2vec": Format((".txt", ".vec", ".w2v"), "line", 2, True, read_word2vec, write_word2vec),
    "glove": Format((".glove",), "line", 1, True, read_glove, write_glove),
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
    if format not in ("auto", *FORMATS):
        raise ValueError(f"format is {format!r}; give one of {', '.join(('auto', *FORMATS))}")
    by_suffix = vector_format(name)
    chosen = by_suffix if format == "auto" and by_suffix in ("parquet", "safetensors") else format

    def source() -> Source:
        return Source(name, *FORMATS[chosen][1:3], encoding, errors)

    if chosen not in ("parquet", "safetensors"):
        with reading(name, VectorFileError) as file:
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
            if FORMATS[chosen].is_stream:
                rows = FORMATS[chosen].read(stream, source(), max_words)
                return without_duplicates(rows, source(), duplicates)
    return without_duplicates(FORMATS[chosen].read(source(), max_words), source(), duplicates)


def _sniff(head: bytes, name: str) -> VectorFormat:
    """Recognize fastText, word2vec text, word2vec binary or GloVe text by the extension and the first bytes."""
    if head.startswith(FASTTEXT_MAGIC):
        return "fasttext"
    first, _, rest = head.partition(b"\n")
    if not re.fullmatch(rb"\s*\d+[ \t]+\d+\s*", first):
        return "glove"
    n_components = int(first.split()[1][:LARGEST_NUMBER_DIGITS])
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
    rows: WordRows,
    *,
    format: VectorFormat | None = None,  # noqa: A002
    space: str | None = None,
) -> None:
    """Write words and vectors to a file or fsspec URL; a local file appears complete or not at all.

    Parameters
    ----------
    path : str or Path
        The file or URL. Text and binary files are compressed by the extension (.gz, .bz2, .xz, .zst).
    rows : WordRows
        Words, and finite values. "safetensors" keeps the table of n-grams, the other formats leave it out.
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
    form.write(name, _without_spaces(rows, chosen, space) if form.is_stream else rows)


def _without_spaces(rows: WordRows, chosen: str, space: str | None) -> WordRows:
    """Return words that no reader divides, with another character for their spaces where one is given."""
    written = rows.words if space is None else [_BLANK.sub(space, word) for word in rows.words]
    bad = next((word for word in written if not word or _BLANK.search(word)), None)
    if bad is not None:
        raise ValueError(
            f"the word {bad!r} cannot be written as {chosen}, which ends words at spaces; "
            'give space="_" (--space _ on the command line), or save as .parquet or .safetensors'
        )
    first: dict[str, str] = {}
    for word, form in zip(rows.words, written, strict=True):
        if (other := first.setdefault(form, word)) != word:
            raise ValueError(
                f"with space={space!r} the words {other!r} and {word!r} would both be written as {form!r}; "
                "give another space=, or save as .parquet or .safetensors"
            )
    return rows._replace(words=written)
