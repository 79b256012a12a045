"""What a scanner is: it turns batches of text into the token ids of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.records import Batch


class Scanned(NamedTuple):
    """The ids of a batch (int32, -1 at borders), and the end of the ids and the tokens of each closed document."""

    ids: NDArray[np.int32]
    id_stops: NDArray[np.int64]
    n_tokens: NDArray[np.int64]


class DictionarySlice(NamedTuple):
    """Consecutive words of a dictionary, in order of first appearance, with int64 counts of tokens and of documents."""

    words: pa.Array
    counts: NDArray[np.int64]
    document_counts: NDArray[np.int64]


class Scanner(Protocol):
    """A scanner turns batches of text into ids and keeps the dictionary of its partition."""

    def begin(self, url: str) -> None:
        """Go on with another file, which errors then name."""
        ...

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        ...

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        ...

    def words(self) -> Iterator[DictionarySlice]:
        """Yield the dictionary in slices of bounded size."""
        ...

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        ...

    def forget(self) -> None:
        """Empty the dictionary, at the end of a document; ids begin at 0 again."""
        ...

    def skipped(self) -> tuple[int, int]:
        """Return the numbers of short segments and of overlong tokens left out."""
        ...
