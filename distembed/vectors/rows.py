"""Rows of word vectors: blocks between a file and a matrix, the checks of all formats, lengths and cosines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from distembed.dtypes import Float32s
from distembed.vectors.subwords import SubwordTable

Block = tuple[list[str], Float32s]

BLOCK_VALUES = 1 << 21  # float32 values handled at a time: 8 MiB


class VectorFileError(ValueError):
    """An error in a file of word vectors, which holds something else."""


class Neighbor(NamedTuple):
    """A word and its similarity to the query."""

    word: str
    similarity: float


class UnknownWordError(KeyError):
    """An error for a word that has no vector; the message names it and words of similar spelling."""

    def __str__(self) -> str:
        return str(self.args[0])


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


def gather(
    blocks: Iterable[Block], source: Source, max_words: int | None, n_promised: int | None = None
) -> WordRows:
    """Collect blocks of finite values into one matrix and check the promised number of rows.

    The matrix grows by `ndarray.resize`, which the allocator does in place for large arrays, so that no
    second copy is held: by a quarter at least, and not above the number of words that is wanted.
    """
    words: list[str] = []
    vectors = np.empty((0, 0), dtype=np.float32)
    wanted = n_promised if max_words is None else max_words
    for block_words, block in blocks:
        check_finite(block_words, block, source, len(words))
        n = len(words) + (len(block) if max_words is None else min(len(block), max_words - len(words)))
        try:
            if n > len(vectors):
                room = n + n // 4 if wanted is None else max(n, min(n + n // 4, wanted))
                vectors.resize((room, block.shape[1]), refcheck=False)
        except MemoryError as error:
            raise MemoryError(
                f"{source.path}: no memory is left after {len(words)} words of {block.shape[1]} values; "
                f"give max_words={len(words)} or fewer to read the first ones"
            ) from error
        vectors[len(words) : n] = block[: n - len(words)]
        words.extend(block_words[: n - len(words)])
        if n == max_words:
            break
    if n_promised is not None and len(words) != min(n_promised, max_words or n_promised):
        raise VectorFileError(
            f"{source.path}, line 1: the header promises {n_promised} words and the file holds {len(words)}; "
            "download it again, correct the header, or give "
            f"max_words={min(n_promised, len(words))} to read those"
        )
    if not words:
        raise VectorFileError(
            f"{source.path} holds no words; give a file with a word and its values in each row"
        )
    vectors.resize((len(words), vectors.shape[1]), refcheck=False)
    return WordRows(words, vectors)


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


def row_blocks(words: Sequence[str], vectors: Float32s) -> Iterator[Block]:
    """Cut words and their vectors into blocks of `BLOCK_VALUES` values."""
    step = max(1, BLOCK_VALUES // max(vectors.shape[1], 1))
    for start in range(0, len(words), step):
        yield list(words[start : start + step]), vectors[start : start + step]


def shown(line: bytes) -> str:
    """Return the beginning of a line, for an error message."""
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")


# ---- words --------------------------------------------------------------------------------------------------------

MAX_SPELLINGS = 20_000
"""Words compared by spelling when one is not found: a tenth of a second."""


def unknown_word(word: str, words: Sequence[str]) -> str:
    """Return the sentence on a word without a vector, with those of similar spelling."""
    begin = word[:1].lower()
    similar = [one for one in words if one[:1].lower() == begin and abs(len(one) - len(word)) <= 2]
    cases = [form for form in other_cases(word) if form in similar]
    close = list(dict.fromkeys([*cases, *get_close_matches(word, similar[:MAX_SPELLINGS])]))[:3]
    advice = f"did you mean {' or '.join(map(repr, close))}?" if close else "no known word is spelled like it"
    return f"the word {word!r} has no vector among {len(words)} words; {advice}"


def other_cases(word: str) -> tuple[str, str, str]:
    """Return the forms of a word in lower case, with a capital, and in capitals."""
    return word.lower(), word.capitalize(), word.upper()


# ---- lengths and cosines ------------------------------------------------------------------------------------------


def rows_by_lower_case(words: Sequence[str]) -> dict[str, int]:
    """Return the row of the first word for each lower-case form."""
    return {words[row].lower(): row for row in reversed(range(len(words)))}


def row_norms(words: Sequence[str], vectors: Float32s) -> Float32s:
    """Return the length of each row, summed in float64; refuse NaN and infinity, naming the word."""
    blocks = (block for _, block in row_blocks(words, vectors))
    squares = (np.einsum("ij,ij->i", block, block, dtype=np.float64) for block in blocks)
    norms = np.sqrt(np.concatenate([np.zeros(0), *squares]))
    bad = np.flatnonzero(~np.isfinite(norms))
    if bad.size:
        raise ValueError(
            f"row {bad[0]}, the vector of {words[bad[0]]!r}, holds NaN or infinity; remove or impute it first"
        )
    with np.errstate(over="ignore"):  # a length past float32 is inf, and the cosines of such a vector are 0
        return norms.astype(np.float32)


def divisors(norms: Float32s) -> Float32s:
    """Return norms as a column, with 1 for 0 so that a zero vector stays zero."""
    return np.where(norms > 0, norms, np.float32(1))[:, None]
