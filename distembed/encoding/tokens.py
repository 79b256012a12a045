"""From text to the rows of a vocabulary: texts as batches, scanned by the corpus tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import records
from distembed.corpus.records import Batch, document_table
from distembed.corpus.scanners import Scanner
from distembed.corpus.texts import text_array
from distembed.corpus.tokenizer import APOSTROPHES, Tokenizer, scanner
from distembed.vectors import WordVectors

COMMON = 1e-3
"""The share of the words of a vocabulary that has to have digits, or apostrophes, before texts keep them."""


class KnownTokens(NamedTuple):
    """The tokens of some texts as rows."""

    rows: NDArray[np.int64]
    """The row of each token: of the vocabulary, of `unknown` after it, or -1. Int64 array (n_tokens,)."""
    stops: NDArray[np.int64]
    """The end of the tokens of each text that ends here. Int64 array (n_texts,)."""
    n_tokens: NDArray[np.int64]
    """The number of tokens of each text, known or not. Int64 array (n_texts,)."""
    unknown: list[str]
    """The words that the vocabulary lacks, where they were asked for."""


def tokenizer_of(words: Sequence[str]) -> Tokenizer:
    """Return the tokenizer that a vocabulary looks made by: its case, its digits and its apostrophes."""
    least = max(COMMON * len(words), 1)
    n_digits = sum(any(map(str.isdigit, word)) for word in words)
    n_apostrophes = sum(any(sign in word[1:-1] for sign in APOSTROPHES) for word in words)
    return Tokenizer(
        lowercase=all(word == word.lower() for word in words),
        numbers=n_digits >= least,
        apostrophes=n_apostrophes >= least,
    )


def text_scanner(tokenizer: Tokenizer) -> Scanner:
    """Return a scanner of texts, in which a short text counts and no window has borders."""
    return scanner(replace(tokenizer, border="document", min_border_tokens=1))


def batch_of(texts: Iterable[str], *, first: int = 0) -> Batch:
    """Return whole texts as one batch; `first` is the number of the first, for errors.

    Raises
    ------
    TypeError
        If one of them is no text.
    ValueError
        If one of them holds half a surrogate pair, which UTF-8 cannot represent.
    """
    array = text_array(texts, allow_missing=False, first=first)
    nothing = pa.nulls(len(array), pa.string())
    return records.batch_of(array, document_table(nothing, nothing))


def known_tokens(batch: Batch, words: Scanner, vectors: WordVectors, *, keep_unknown: bool) -> KnownTokens:
    """Return the tokens of a batch as rows of the vocabulary.

    Parameters
    ----------
    batch : Batch
    words : Scanner
        It has read the batches before; its dictionary is emptied, so that it holds the words of one batch only.
    vectors : WordVectors
    keep_unknown : bool
        Whether words without a row of their own get rows after those of the vocabulary.
    """
    scanned = words.scan(batch)
    distinct = [word for part in words.words() for word in part.words.to_pylist()]
    words.forget()
    rows = np.append(vectors.index(distinct), -1)  # the last one for the id -1
    unknown: list[str] = []
    if keep_unknown:
        places = np.flatnonzero(rows[:-1] < 0)
        unknown = [distinct[place] for place in places.tolist()]
        rows[places] = len(vectors) + np.arange(len(places))
    return KnownTokens(rows[scanned.ids], scanned.id_stops, scanned.n_tokens, unknown)
