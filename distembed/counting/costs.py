"""What counting takes in memory and on disk, and how many pairs of words a text holds before they are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import dask
import numpy as np
from numpy.typing import NDArray

from distembed.corpus.costs import TOKEN_BYTES, TextSizes
from distembed.corpus.growth_blocks import Repetition, expected_pairs, mean_window, repetition_of
from distembed.corpus.sample import CorpusSample
from distembed.costs import PAIR_BYTES, Cost
from distembed.counting.blocks import BORDER, OUTSIDE, keep_probability
from distembed.counting.cooccurrence_options import CooccurrenceOptions, cooccurrence_row_blocks
from distembed.counting.documents import BYTES_PER_TOKEN
from distembed.counting.partition_rows import token_ranges
from distembed.counting.runs import entry_bytes
from distembed.states import BLOCK_MEMORY

LOOKUP_BYTES = 400
"""Bytes a word of the vocabulary takes in a task that reads token ids: the words, their hashes, and row ends of runs.

Measured 310 to 370; the hash table doubles.
"""

RUN_ROW_BYTES = 4
"""Bytes of a row in a file of runs, however many pairs it has."""


class PairModel(NamedTuple):
    """What the distinct pairs of a text are estimated from."""

    counts: NDArray[np.float64]
    """The counts of its words. Float64 array (words,)."""
    window: float
    """The partners of each token."""
    n_tokens: float
    """The tokens that have a place in the text."""
    repetition: Repetition
    """How much the text repeats its pairs."""
    both_sides: bool = False
    """Whether the partners are those before and after a token."""

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


def pair_model(
    options: CooccurrenceOptions,
    counts: NDArray[Any],
    n_tokens: int,
    sample: CorpusSample,
    wanted: NDArray[np.bool_],
) -> PairModel:
    """Return what the pairs that the options count are estimated from.

    Parameters
    ----------
    options : CooccurrenceOptions
        The definition of a pair.
    counts : float64 array (words,)
        The expected count of each word of the vocabulary.
    n_tokens : int
        The tokens of the corpus.
    sample : CorpusSample
        A sample of the corpus.
    wanted : bool array (words of the sample,)
        The words of the sample that the vocabulary may hold.
    """
    n_words, mirrored = len(counts), options.direction == "symmetric"
    if options.subsample is not None:
        counts = counts * keep_probability(counts, options.subsample)
    before = mean_window(sample.lengths, options.window)
    return PairModel(
        counts,
        (1 + mirrored) * before,
        float(counts.sum()) if options.oov == "remove" else n_tokens,
        _repetition(sample, wanted.tobytes(), n_words, replace(options, block_memory=BLOCK_MEMORY)),
        mirrored,
    )


@lru_cache(maxsize=16)
def _repetition(
    sample: CorpusSample, wanted: bytes, n_words: int, options: CooccurrenceOptions
) -> Repetition:
    """Measure how much a sample repeats the pairs of the words that are counted."""
    counts = np.where(np.frombuffer(wanted, bool), sample.counts, 0)
    order = np.argsort(-counts, kind="stable")[: min(n_words, np.count_nonzero(counts))]
    numbers = np.full(len(counts) + 1, OUTSIDE, np.int32)
    numbers[order], numbers[-1] = np.arange(len(order)), BORDER
    stream = numbers[sample.ids]
    if options.subsample is not None:
        keep = np.append(keep_probability(counts[order], options.subsample), (1.0, 1.0))
        stream[np.random.default_rng(options.seed).random(len(stream)) >= keep[stream]] = OUTSIDE
    if options.oov == "remove":
        stream = stream[stream != OUTSIDE]
    return repetition_of(stream, options.window, len(order), mirrored=options.direction == "symmetric")


class RunSizes(NamedTuple):
    """The bytes on disk of the runs of all partitions together, and the row blocks that each is divided by.

    `sums_bytes` are those of the sums of a row beyond one for each word, which groups of documents take.
    There are as many files as ranges that are counted.
    """

    n_bytes: int
    n_row_blocks: int
    sums_bytes: int = 0
    n_files: int = 1


def run_sizes(
    model: PairModel, word_counts: NDArray[np.float64], n_tokens: Sequence[int], options: CooccurrenceOptions
) -> RunSizes:
    """Return about how large the runs of all partitions are, and their row blocks.

    Parameters
    ----------
    model : PairModel
        How the pairs lie.
    word_counts : float64 array (n_words,)
        How often each word occurs, by which the rows are divided into blocks.
    n_tokens : sequence of int
        The tokens of each partition of the corpus.
    options : CooccurrenceOptions
        What counts as a pair, and the bytes a task may use.
    """
    ranges = token_ranges(n_tokens)
    n_filled = max(1, sum(n_tokens[number] > 0 for number, _ in ranges))
    if not len(word_counts):
        return RunSizes(
            0, 1, n_files=len(ranges)
        )  # of a sample without a word that is frequent enough; the text may have some
    with dask.config.set({"distembed.block_memory": options.block_memory}):
        row_blocks = cooccurrence_row_blocks(
            np.maximum(np.sort(word_counts)[::-1], 1).astype(np.int64),
            window=options.window,
            direction=options.direction,
        )
    counts = np.sort(model.counts)[::-1]
    # The largest count of a row block is that of its most frequent word beside the most frequent of all.
    largest = model.window * counts[list(row_blocks[:-1])] * counts[0] / max(model.n_tokens, 1.0)
    units = largest / n_filled * options.units.weights.mean()
    of_entry = float(np.mean([entry_bytes(len(counts) - 1, int(count)) for count in units]))
    n_pairs = model.n_in_runs(n_filled, run_pairs(options))
    return RunSizes(
        round(of_entry * n_pairs) + RUN_ROW_BYTES * len(counts) * n_filled,
        len(row_blocks) - 1,
        n_files=len(ranges),
    )


def run_pairs(options: CooccurrenceOptions) -> int:
    """Return about how many pairs a run holds when it is written, which is when a quarter of a block's memory is full.

    Those of a symmetric window are held in one order, and written in both.
    """
    sides = 2 if options.direction == "symmetric" else 1
    return sides * options.block_memory // 4 // PAIR_BYTES


def document_blocks(sizes: TextSizes, block_memory: int) -> int:
    """Return about how many row blocks `document_row_blocks` makes."""
    return max(sizes.n_partitions, BYTES_PER_TOKEN * sizes.n_tokens // block_memory)


def document_terms_cost(sizes: TextSizes, n_words: int, n_terms: int, *, block_memory: int) -> Cost:
    """Return what `count_document_terms` takes for documents with so many different words in all."""
    n_blocks = document_blocks(sizes, block_memory)
    return reading_cost(sizes, n_words, n_blocks, PAIR_BYTES * n_terms, block_memory)


def reading_cost(sizes: TextSizes, n_words: int, n_tasks: int, written_bytes: int, block_memory: int) -> Cost:
    """Return what tasks take that read token ids and look each up in the vocabulary."""
    task = min(block_memory, BYTES_PER_TOKEN * sizes.n_tokens) + LOOKUP_BYTES * n_words
    return Cost(n_tasks, int(TOKEN_BYTES * sizes.n_tokens), written_bytes, task)
