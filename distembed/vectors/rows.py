"""Rows of word vectors between a file and a matrix: blocks, and the checks that all formats share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from distembed.dtypes import Float32s
from distembed.vectors.subwords import SubwordTable

Block = tuple[list[str], Float32s]

BLOCK_VALUES = 1 << 21  # float32 values handled at a time: 8 MiB


class VectorFileError(ValueError):
    """An error in a file of word vectors, which holds something else."""


class WordRows(NamedTuple):
    """The rows of a file of word vectors, and the vectors of character n-grams where it has them."""

    words: list[str]
    vectors: Float32s
    subwords: SubwordTable | None = None


class Source(NamedTuple):
    """The name of a file, the name of its rows in errors, and the encoding of its words."""

    path: str
    unit: str
    first: int
    encoding: str = "utf-8"
    errors: str = "strict"

    def at(self, row: int) -> str:
        """Return the file and the place of a row, for an error message."""
        return f"{self.path}, {self.unit} {self.first + row}"

    def decode(self, word: bytes, row: int) -> str:
        """Return the word of a row as text; raise VectorFileError if it is not in the encoding."""
        try:
            return word.decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            raise VectorFileError(
                f"{self.at(row)}: the word {word!r} is not {self.encoding}; "
                'name the encoding (encoding="latin-1") or replace what cannot be read (errors="replace")'
            ) from error


def gather(blocks: Iterable[Block], name: str, n_promised: int | None, max_words: int | None) -> WordRows:
    """Collect blocks into one matrix and check the promised number of rows.

    The matrix grows by `ndarray.resize`, which the allocator does in place for large arrays, so that no
    second copy is held.
    """
    words: list[str] = []
    vectors = np.empty((0, 0), dtype=np.float32)
    wanted = n_promised if max_words is None else max_words
    for block_words, block in blocks:
        n_kept = len(block) if max_words is None else min(len(block), max_words - len(words))
        try:
            vectors = extended(vectors, len(words), block[:n_kept], wanted)
        except MemoryError as error:
            raise MemoryError(
                f"{name}: no memory is left after {len(words)} words of {block.shape[1]} values; "
                f"give max_words={len(words)} or fewer to read the first ones"
            ) from error
        words.extend(block_words[:n_kept])
        if len(words) == max_words:
            break
    if n_promised is not None and len(words) != (
        n_promised if max_words is None else min(n_promised, max_words)
    ):
        raise VectorFileError(
            f"{name}, line 1: the header promises {n_promised} words and the file holds {len(words)}; "
            "download it again, correct the header, or give "
            f"max_words={min(n_promised, len(words))} to read those"
        )
    if not words:
        raise VectorFileError(f"{name} holds no words; give a file with a word and its values in each row")
    vectors.resize((len(words), vectors.shape[1]), refcheck=False)
    return WordRows(words, vectors)


def extended(vectors: Float32s, n_filled: int, block: Float32s, n_wanted: int | None) -> Float32s:
    """Append a block to the filled rows, making room for a quarter more (not above the number wanted)."""
    n_needed = n_filled + len(block)
    if vectors.shape[1] == 0:
        vectors = np.empty((0, block.shape[1]), dtype=np.float32)
    if n_needed > len(vectors):
        room = n_needed + n_needed // 4
        n_rows = room if n_wanted is None else max(n_needed, min(room, n_wanted))
        vectors.resize((n_rows, block.shape[1]), refcheck=False)
    vectors[n_filled:n_needed] = block
    return vectors


def check_finite(words: list[str], block: Float32s, source: Source, n_read: int) -> None:
    """Refuse a block that contains NaN or infinity; the error names the first word concerned."""
    bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
    if bad.size:
        row = int(bad[0])
        value = block[row][~np.isfinite(block[row])][0]
        raise VectorFileError(
            f"{source.at(n_read + row)}: the vector of {words[row]!r} holds {value}; "
            "remove that word or train it again"
        )


def without_duplicates(rows: WordRows, source: Source, duplicates: str) -> WordRows:
    """Return the rows if no word occurs twice; otherwise keep the first of each word, or refuse the file."""
    seen: dict[str, int] = {}
    repeated = [row for row, word in enumerate(rows.words) if seen.setdefault(word, row) != row]
    if not repeated:
        return rows
    if duplicates == "first":
        kept = rows.vectors[np.fromiter(seen.values(), dtype=np.int64)]
        return rows._replace(words=list(seen), vectors=kept)
    word = rows.words[repeated[0]]
    raise VectorFileError(
        f"{source.at(repeated[0])}: the word {word!r} stands already in {source.unit} "
        f'{source.first + seen[word]}; give duplicates="first" to keep the first of each'
    )


def row_blocks(words: list[str], vectors: Float32s) -> Iterator[Block]:
    """Cut words and their vectors into blocks of `BLOCK_VALUES` values."""
    step = max(1, BLOCK_VALUES // vectors.shape[1])
    for start in range(0, len(words), step):
        yield words[start : start + step], vectors[start : start + step]


def shown(line: bytes) -> str:
    """Return the beginning of a line, for an error message."""
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
