"""How large the runs of pairs are that the partitions of a corpus are counted into, before they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.costs import PAIR_BYTES

if TYPE_CHECKING:
    from distembed.counting.cooccurrence_options import CooccurrenceOptions
    from distembed.pipeline.corpus.config import CountingSection
    from distembed.pipeline.corpus.sizes import PairModel

RUN_ROW_BYTES = 4
"""Bytes of a row in a file of runs, however many pairs it has."""


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
    from distembed.counting.cooccurrence_options import CooccurrenceOptions, cooccurrence_row_blocks

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
    from distembed.counting.runs import entry_bytes

    return float(np.mean([entry_bytes(n_words - 1, int(count)) for count in largest]))
