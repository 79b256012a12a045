"""What cuts text into words."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.records import Batch


class Words(Protocol):
    """What cuts batches of text into words, and holds their dictionary."""

    @property
    def n_long(self) -> int:
        """Return the number of overlong tokens left out so far."""
        ...

    def begin(self, url: str) -> None:
        """Go on with another file, which errors then name."""
        ...

    def scan(self, batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of the next batch, -1 at borders, and the end of the ids of each document that ends in it."""
        ...

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        ...

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        ...

    def intern(self, word: str) -> int:
        """Return the id of a word, a new one where the dictionary lacks it."""
        ...

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again."""
        ...
