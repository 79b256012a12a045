"""How many pairs a text holds, and how large the runs are that its partitions are counted into, before they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.corpus.growth_blocks import Repetition, expected_pairs
from distembed.costs import PAIR_BYTES
from distembed.counting.cooccurrence_options import CooccurrenceOptions, cooccurrence_row_blocks
from distembed.counting.runs import entry_bytes
from distembed.pipeline.corpus.config import CountingSection

RUN_ROW_BYTES = 4
"""Bytes of a row in a file of runs, however many pairs it has."""


class PairModel(NamedTuple):
    """What the distinct pairs of a text are estimated from.

    Attributes
    ----------
    counts : float64 array (words,)
        The counts of its words.
    window : float
        The partners of each token.
    n_tokens : float
        The tokens that have a place in the text.
    repetition : Repetition
        How much the text repeats its pairs.
    both_sides : bool
        Whether the partners are those before and after a token.
    """

    counts: NDArray[np.float64]
    window: float
    n_tokens: float
    repetition: Repetition
    both_sides: bool = False

    def most_frequent(self, n_words: int) -> PairModel:
        """Return the model of the pairs of so many of the most frequent words."""
        return self._replace(counts=np.sort(self.counts)[::-1][:n_words])

    def mirrored(self) -> PairModel:
        """Return the model of the pairs that occur in one order or the other, each counted in both."""
        return self if self.both_sides else self._replace(window=2 * self.window, both_sides=True)

    def n_pairs(self, share: float = 1.0) -> int:
        """Return about how many distinct pairs a share of the text holds."""
        n_tokens = self.n_tokens * share
        return expected_pairs(
            self.counts * share, self.window, n_tokens=n_tokens, spread=self.repetition.at(n_tokens)
        )

    def n_in_runs(self, n_partitions: int, run_pairs: int) -> int:
        """Return about how many pairs the runs of all partitions hold together, each written at so many pairs.

        A pair that is found in several partitions, or several times in a large one, stands in as many runs.
        """
        share = 1 / n_partitions
        if self.n_pairs(share) <= run_pairs:
            return n_partitions * self.n_pairs(share)
        n_full, rest = divmod(share, self._share_of(run_pairs, share))
        return n_partitions * (int(n_full) * run_pairs + self.n_pairs(rest))

    def _share_of(self, n_pairs: int, most: float) -> float:
        """Return the share of the text that holds so many distinct pairs, which is at most `most`, by bisection."""
        least = 0.0
        for _ in range(12):
            middle = (least + most) / 2
            least, most = (least, middle) if self.n_pairs(middle) > n_pairs else (middle, most)
        return most


class RunSizes(NamedTuple):
    """The bytes on disk of the runs of all partitions together, and the row blocks that each is divided by."""

    n_bytes: int
    n_row_blocks: int


def run_sizes(
    model: PairModel,
    word_counts: NDArray[np.float64],
    n_partitions: int,
    counting: CountingSection,
    block_memory: int,
) -> RunSizes:
    """Return about how large the runs of all partitions are, and their row blocks.

    Parameters
    ----------
    model : PairModel
        How the pairs lie.
    word_counts : float64 array (n_words,)
        How often each word occurs, by which the rows are divided into blocks.
    n_partitions : int
        The partitions of the corpus.
    counting : CountingSection
        What counts as a pair.
    block_memory : int
        The bytes a task may use.
    """
    if not len(word_counts):
        return RunSizes(0, 1)  # of a sample without a word that is frequent enough; the text may have some
    options = CooccurrenceOptions(**counting.model_dump(), block_memory=block_memory)
    row_blocks = cooccurrence_row_blocks(
        np.maximum(np.sort(word_counts)[::-1], 1).astype(np.int64),
        window=options.window,
        direction=options.direction,
        block_memory=block_memory,
    )
    counts = np.sort(model.counts)[::-1]
    expected = model.window * counts[list(row_blocks[:-1])] * counts[0] / max(model.n_tokens, 1.0)
    entry_bytes = _entry_bytes(len(counts), expected / n_partitions * options.units.weights.mean())
    n_pairs = model.n_in_runs(n_partitions, run_pairs(options))
    return RunSizes(
        round(entry_bytes * n_pairs) + RUN_ROW_BYTES * len(counts) * n_partitions, len(row_blocks) - 1
    )


def run_pairs(options: CooccurrenceOptions) -> int:
    """Return about how many pairs a run holds when it is written, which is when a quarter of a block's memory is full.

    Those of a symmetric window are held in one order, and written in both.
    """
    sides = 2 if options.direction == "symmetric" else 1
    return sides * options.block_memory // 4 // PAIR_BYTES


def _entry_bytes(n_words: int, largest: NDArray[np.float64]) -> float:
    """Return the bytes of a pair in a file of runs, where the largest count of each row block is about so large.

    That is the count of its most frequent word beside the most frequent of all. The row blocks have about as many pairs
    each.
    """
    return float(np.mean([entry_bytes(n_words - 1, int(count)) for count in largest]))
