"""Counts that another vocabulary has numbered, as runs of this one: rows and columns renumbered, lost words left out.

The counts of a corpus are a sum over its parts. A corpus that has grown keeps the sum of the parts that it had: only
the new parts are counted, those that are gone are counted and subtracted, and in those that stay only pairs near a
word that is now read otherwise: one that enters or leaves the vocabulary, or that is drawn by another probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.corpus import Vocabulary
from distembed.counting.blocks import Run
from distembed.counting.cooccurrence_options import CooccurrenceOptions, check_sums
from distembed.counting.renumbering_blocks import renumber_rows

EXACT_UNITS = 2**23
"""Limit below which rounding a float32 fraction gives its number of units; the relative error is at most 2**-24."""


class RenumberedCounts(NamedTuple):
    """A stored matrix of counts, and where its words stand in another vocabulary.

    `read` returns a row block by its number, and the blocks begin at the rows `starts`, of which the last is the number
    of rows. `rows` has the old row of each new word, -1 for a word that is new; `columns` the new column of each old
    word, -1 for a word that is lost. `old` is the vocabulary of the matrix. A count is a number of units of
    1 / `denominator`.
    """

    read: Callable[[int], csr_array]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    old: Vocabulary
    denominator: int

    @property
    def gained(self) -> NDArray[np.bool_]:
        """Which new words the old vocabulary did not have."""
        return self.rows < 0

    @property
    def has_same_words(self) -> bool:
        """Whether no word is new and none is lost."""
        return bool((self.rows >= 0).all()) and self.n_lost == 0

    @property
    def n_lost(self) -> int:
        """How many old words the new vocabulary does not have."""
        return int((self.columns < 0).sum())

    def is_exact(self, options: CooccurrenceOptions) -> bool:
        """Return whether every stored count determines its number of units; large fractions are rounded.

        Only the blocks are read whose words occur so often that a count could be too large.
        """
        if self.denominator == 1:
            return True
        most = np.maximum.reduceat(self.old.counts, self.starts[:-1])
        large = (check_sums(options, int(count), "a count") >= EXACT_UNITS for count in most)
        blocks = (self.read(block) for block, is_large in enumerate(large) if is_large)
        return all(block.data.max(initial=0) * float(self.denominator) < EXACT_UNITS for block in blocks)

    def runs(self, first: int, last: int) -> Iterator[Run]:
        """Yield the counts of the new rows first..last-1 in units, those of one old row block at a time.

        The columns of a row are in the order of their old numbers.
        """
        wanted = self.rows[first:last]
        block_of = np.searchsorted(self.starts, wanted, side="right") - 1
        for block in np.unique(block_of[wanted >= 0]).tolist():
            here = np.where(block_of == block, wanted - self.starts[block], -1)
            matrix = self.read(block)
            n_positions = matrix.shape[1] // len(self.columns)
            columns = [
                np.where(self.columns < 0, -1, self.columns + n * len(self.rows)) for n in range(n_positions)
            ]
            values = matrix.data
            if self.denominator > 1:
                values = np.rint(np.multiply(values, self.denominator, dtype=np.float64)).astype(np.int32)
            run = Run(matrix.indptr, matrix.indices, values)
            yield renumber_rows(run, here, np.concatenate(columns, dtype=np.int32))


def renumbered(
    read: Callable[[int], csr_array],
    row_blocks: Sequence[int],
    old: Vocabulary,
    new: Vocabulary,
    denominator: int = 1,
) -> RenumberedCounts:
    """Return the counts of a vocabulary, stored in blocks of so many rows, as counts of another.

    Examples
    --------
    >>> import distembed as de
    >>> from scipy.sparse import csr_array
    >>> from distembed.counting.renumbered import renumbered
    >>> old, new = de.Vocabulary(["cat", "dog"], [3, 2], [1, 1]), de.Vocabulary(["dog", "owl"], [4, 3], [1, 1])
    >>> counts = renumbered(lambda block: csr_array([[1, 2], [3, 4]]), (2,), old, new)
    >>> counts.gained.tolist(), counts.n_lost
    ([False, True], 1)
    >>> [run] = counts.runs(0, 2)
    >>> run.indptr.tolist(), run.indices.tolist(), run.values.tolist()
    ([0, 1, 1], [0], [4])
    """
    starts = np.concatenate([[0], np.cumsum(row_blocks, dtype=np.int64)])
    return RenumberedCounts(read, starts, old.index(new.array), new.index(old.array), old, denominator)


class Part(NamedTuple):
    """How a partition is counted: all its pairs, or those that change, or those that earlier counts had; and its sign.

    `source` is the number of the counts, among those that are added up, which hold the other pairs already. Where these
    have the same words, `largest_cell` and `n_tokens` of the partition are known, and nothing of it is read.
    """

    pairs: str = "all"  # "all", "changed" or "had"
    source: int = -1
    sign: int = 1
    largest_cell: int = -1
    n_tokens: int = 0


ALL = Part()
"""A partition all of whose pairs are counted and added."""
