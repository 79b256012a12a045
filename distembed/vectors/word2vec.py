"""The text formats of word2vec and GloVe, a word and its values per line, and the binary format of word2vec.

Lines are parsed by pyarrow. A line that it cannot parse is passed to a plain Python parser, which reads unusual lines
and describes what is wrong with bad ones.

In binary a header line stands first, then for each word its bytes, a space and little-endian float32 values.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from distembed.dtypes import Float32s
from distembed.formats.streams import MAX_LINE_BYTES, Stream, writing
from distembed.vectors.rows import Block, Source, VectorFileError, WordRows, gather, row_blocks, shown

LARGEST_NUMBER_DIGITS = 18  # of a header: more do not fit 64 bits


def read_text(stream: Stream, source: Source, max_words: int | None) -> WordRows:
    """Read text: word2vec's below a line `n_words n_components`, where rows begin in line 2, or that of GloVe."""
    n_words, n_components = _take_header(stream, source.path) if source.first == 2 else (None, None)
    return gather(_text_blocks(stream, source, n_components), source, max_words, n_words)


def _take_header(stream: Stream, name: str) -> tuple[int, int]:
    line = stream.take_line()
    fields = line.split()
    numbers = [int(f) for f in fields if f.isdigit() and len(f) <= LARGEST_NUMBER_DIGITS]
    if len(fields) != 2 or len(numbers) != 2 or numbers[1] == 0:
        raise VectorFileError(
            f"{name}, line 1: {shown(line)} is not a word2vec header `n_words n_components`; "
            'name a text file without a header .glove, or in Python give format="glove"'
        )
    return numbers[0], numbers[1]


def _text_blocks(stream: Stream, source: Source, n_components: int | None) -> Iterator[Block]:
    """Yield the rows of a text file in blocks; blank lines are allowed only at its end."""
    n_read, blank = 0, False
    for data in _whole_lines(stream, source.path):
        body = data.rstrip(b" \t\r\n") + b"\n"
        if body != b"\n":
            if blank:
                raise VectorFileError(f"{source.at(n_read)} is blank; remove it")
            if n_components is None:
                first = body[: body.index(b"\n")]
                is_value = [_to_float(field) is not None for field in _fields(first)[1:]]  # behind the word
                n_components = (*reversed(is_value), False).index(False)  # the values at the end of the line
                if n_components == 0:
                    raise VectorFileError(
                        f"{source.path}, line 1: {shown(first)} is not a word and its values; check the format"
                    )
            words, vectors = _parse_block(body, source, n_components, n_read)
            yield words, vectors
            n_read += len(words)
        blank = data.count(b"\n") > body.count(b"\n") or body == b"\n"


def _whole_lines(stream: Stream, name: str) -> Iterator[bytes]:
    """Yield the stream in pieces that end with a line end, which is added to the last line if it is missing."""
    rest = b""
    for chunk in stream.chunks():
        data = rest + chunk
        end = data.rfind(b"\n") + 1
        if end:
            yield data[:end]
        rest = data[end:]
        if len(rest) > MAX_LINE_BYTES:
            raise VectorFileError(
                f"{name}: no line end within {MAX_LINE_BYTES >> 20} MiB, so it is no text file of vectors; "
                'name a binary file .bin, or in Python give format="word2vec-binary"'
            )
    if rest:
        yield rest + b"\n"


def _parse_block(data: bytes, source: Source, n_components: int, n_read: int) -> Block:
    """Parse whole lines: by pyarrow those that are plain, the others one by one."""
    data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    words, vectors, others = _parse_plain(data, n_components)
    if others:
        lines = data.split(b"\n")
        found = [_parse_line(lines[row], n_components, source.at(n_read + row)) for row in others]
        at = np.array(others) - np.arange(len(others))
        vectors = np.insert(vectors, at, np.stack([values for _, values in found]), axis=0)
        for row, (word, _) in zip(others, found, strict=True):
            words.insert(row, word)
    return [source.decode(word, row) for row, word in enumerate(words, n_read)], vectors


def _parse_plain(data: bytes, n_components: int) -> tuple[list[bytes], Float32s, list[int]]:
    """Return the words and values of lines, and the numbers of those with other numbers of fields, which they lack.

    These are all lines where a value is no number, or what divides the fields is not one space.
    """
    first, others = data[: data.index(b"\n")], list[int]()
    nothing = list[bytes](), np.empty((0, n_components), np.float32), [*range(data.count(b"\n"))]
    # Nothing is allocated for what only a header promises: the names of the columns, too, follow from a line. Pyarrow
    # takes a byte-order mark off, which begins a word here.
    is_plain = len(first.split()) > n_components and b"\r" not in data and b"\t" not in data
    if not is_plain or data.startswith(codecs.BOM_UTF8):
        return nothing
    names = [*map(str, range(n_components + 1)), *(["end"] if first.endswith(b" ") else [])]
    kinds = {name: pa.float32() for name in names} | {"0": pa.binary(), "end": pa.binary()}
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
            parse_options=pacsv.ParseOptions(
                delimiter=" ",
                quote_char=False,
                double_quote=False,
                ignore_empty_lines=False,
                invalid_row_handler=lambda row: others.append(row.number - 1) or "skip",  # type: ignore[func-returns-value]
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=kinds, null_values=[], strings_can_be_null=False
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):  # a value that is no number, or the line of such a word
        return nothing
    ends = pc.max(pc.binary_length(table["end"])).as_py() if "end" in names else 0
    if ends or pc.min(pc.binary_length(table["0"])).as_py() == 0:
        return nothing
    # Copied in one step: a column at a time into rows takes as long as the parser.
    columns = [column.to_numpy() for column in table.columns[1 : n_components + 1]]
    return table["0"].to_pylist(), np.ascontiguousarray(np.stack(columns).T), others


def _parse_line(line: bytes, n_components: int, place: str) -> tuple[bytes, Float32s]:
    """Parse one line that pyarrow cannot parse, or raise an error that describes what is wrong with it."""
    fields = _fields(line)
    if not fields:
        raise VectorFileError(f"{place} is blank; remove it")
    word, numbers = fields[:-n_components], [_to_float(field) for field in fields]
    values = numbers[-n_components:]
    if not word or (None not in values and len(word) > 1 and numbers[len(word) - 1] is not None):
        raise VectorFileError(
            f"{place}: {len(fields) - 1} values after the word {shown(fields[0])}, expected {n_components}; "
            f"{'correct' if word else 'complete'} or remove the line"
        )
    if None in values:
        raise VectorFileError(
            f"{place}: {shown(fields[values.index(None) - n_components])} is not a number; "
            "correct or remove the line"
        )
    with np.errstate(over="ignore"):
        return b" ".join(word), np.array(values, dtype=np.float32)


def _fields(line: bytes) -> list[bytes]:
    stripped = line.strip(b" \t\r")
    return re.split(rb"[ \t\r]+", stripped) if stripped else []


def _to_float(field: bytes) -> float | None:
    try:
        return float(field) if b"_" not in field else None
    except ValueError:
        return None


def write_text(name: str, rows: WordRows, *, has_header: bool) -> None:
    """Write text, each value with the fewest digits that are read back as the same float32.

    Without a header a first word that begins like a byte-order mark has one before it, which readers take off.
    """
    with writing(name) as file:
        if has_header:
            file.write("{} {}\n".format(*rows.vectors.shape).encode())
        elif rows.words[0].startswith("\ufeff"):
            file.write(codecs.BOM_UTF8)
        for words, block in row_blocks(rows.words, rows.vectors):
            columns = [pa.array(np.ascontiguousarray(column)).cast(pa.string()) for column in block.T]
            lines = pc.binary_join_element_wise(pa.array(words, pa.string()), *columns, " ")
            file.write("\n".join([*lines.to_pylist(), ""]).encode())


# ---- binary -----------------------------------------------------------------------------------------------

MAX_WORD_BYTES = 1 << 16  # a longer word means that the header is wrong


def read_binary(stream: Stream, source: Source, max_words: int | None) -> WordRows:
    """Read the binary records below a line `n_words n_components`."""
    n_words, n_components = _take_header(stream, source.path)
    return gather(_binary_blocks(stream, source, n_words, n_components), source, max_words, n_words)


def _binary_blocks(stream: Stream, source: Source, n_words: int, n_components: int) -> Iterator[Block]:
    """Yield the records in blocks; a file that is cut short or too long is an error."""
    size, rest, n_read = 4 * n_components, b"", 0
    for chunk in stream.chunks():
        data, words, values, place = rest + chunk, list[str](), list[bytes](), 0
        while n_read < n_words:
            while data.startswith(b"\n", place):
                place += 1
            stop = data.find(b" ", place)
            if stop < 0 or stop + 1 + size > len(data):
                break
            words.append(source.decode(data[place:stop], n_read))
            place, n_read = stop + 1 + size, n_read + 1
            values.append(data[stop + 1 : place])
        if words:
            raw = np.frombuffer(b"".join(values), "<f4").reshape(-1, n_components)
            yield words, raw.astype(np.float32, copy=False)
        rest = data[place:]
        if n_read == n_words and rest.strip(b"\n"):
            raise VectorFileError(
                f"{source.path}: bytes are left over after the {n_words} words of {n_components} values that "
                f"its header promises; correct the header, or give max_words={n_words} to read those"
            )
        if len(rest) > MAX_WORD_BYTES + min(size, MAX_LINE_BYTES):
            raise VectorFileError(
                f"{source.at(n_read)}: no word of {MAX_WORD_BYTES} bytes with its {n_components} values; correct the "
                "header's number of components, or name another format="
            )
    if n_read < n_words:
        remedy = f", or give max_words={n_read} to read what is whole" if n_read else ""
        raise VectorFileError(
            f"{source.at(n_read)} of the {n_words} that the header promises is cut short; it begins at byte "
            f"{stream.position - len(rest)} and the file ends at byte {stream.position}: "
            f"download the file again{remedy}"
        )


def write_binary(name: str, rows: WordRows) -> None:
    """Write records as gensim does, without a line end after each."""
    with writing(name) as file:
        file.write("{} {}\n".format(*rows.vectors.shape).encode())
        for words, block in row_blocks(rows.words, rows.vectors):
            values = np.ascontiguousarray(block, dtype="<f4")
            records = (word.encode() + b" " + row.tobytes() for word, row in zip(words, values, strict=True))
            file.write(b"".join(records))
