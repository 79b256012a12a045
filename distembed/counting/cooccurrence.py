"""Counts word pairs over many partitions: partial counts per partition, which are then merged per row block.

The steps are separate functions, so that a job can run, record and resume them one by one:
`cooccurrence_row_blocks` defines the row blocks, `count_partition` counts one partition into a file of sorted
runs, and `merge_row_block` adds the runs of all partitions for one row block. `count_cooccurrences` combines
the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import dask.array as da

from distembed.corpus import Corpus, Tokens, Vocabulary
from distembed.counting.cooccurrence_options import (
    CooccurrenceOptions,
    Direction,
    DistanceWeighting,
    cooccurrence_row_blocks,
)
from distembed.counting.merging import merge_partials
from distembed.counting.partial_counts import PartialCounts, count_partition
from distembed.counting.partition_rows import tokens_of
from distembed.execution import compute, delayed
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.options import NonNegativeInt, PositiveFloat, PositiveInt
from distembed.scratch import Scratch


def count_cooccurrences(
    docs: Corpus | Tokens,
    vocabulary: Vocabulary,
    *,
    window: PositiveInt = 5,
    direction: Direction = "symmetric",
    weighting: DistanceWeighting = "flat",
    draw: NonNegativeInt | None = None,
    subsample: PositiveFloat | None = None,
    seed: NonNegativeInt = 0,
    oov: Literal["keep_position", "remove"] = "keep_position",
    block_memory: int = BLOCK_MEMORY,
    scratch: str | None = None,
) -> da.Array:
    """Count how often words stand near each other.

    With direction="left", ``x_ij = sum of weight(d) over all places where word i stands d = 1..window places
    before word j``; "right" is its transpose, "symmetric" their sum. No window crosses a document or a border
    within it.

    Parameters
    ----------
    docs : Corpus or Tokens
        The corpus, or its tokens.
    vocabulary : Vocabulary
        The words to count.
    window : int
        Largest distance of two words that are counted as a pair.
    direction : {"left", "right", "symmetric"}
        Side on which the word of a row stands: "left" or "right" of the word of the column, or "symmetric" for both.
    weighting : {"flat", "harmonic", "ramp", "dynamic"}
        Weight of distance d: "flat" 1; "harmonic" 1 / d; "ramp" window + 1 - d, as in HAL; "dynamic"
        (window + 1 - d) / window, which is what word2vec's random window gives on average.
    draw : int, optional
        Seed with which weighting="dynamic" draws the window of each right-hand word from 1..window, as word2vec does.
        By default, pairs have the mean weight of such draws.
    subsample : float, optional
        Threshold t of word2vec's subsampling of frequent words: a token of a word with share f is kept with probability
        min(1, sqrt(t / f) + t / f), and otherwise treated as a word outside the vocabulary. The draw depends on `seed`,
        the partition and the token's place.
    seed : int
        Seed of the random numbers of `subsample`.
    oov : {"keep_position", "remove"}
        "keep_position": words outside the vocabulary keep their position; "remove": they are removed first, as in
        word2vec.
    block_memory : int
        Bytes a task may use; lays the grid of row blocks. It changes neither counts nor their bits.
    scratch : str, optional
        Folder or URL for partial counts, kept afterwards; all workers must see it. By default a temporary
        folder, removed when the returned array and all arrays computed from it are gone and no client of a cluster
        waits for any result.

    Returns
    -------
    dask.array.Array
        Shape (n_words, n_words), csr_array chunks of whole rows. Sums are exact multiples of 1/q, divided by
        q once at the end (window over 22 with harmonic weights: weights rounded to 2**-28 first). Integers
        (int32 where no count can outgrow it, else int64) for "flat", "ramp" and drawn windows, float32 for
        the others. Partitions are counted now, on the current scheduler; row blocks are merged when they are computed.

    Raises
    ------
    ValueError
        If an option is out of range, the vocabulary is empty, or there are no tokens.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> counts = de.count_cooccurrences(docs, vocabulary, window=3, direction="left")
    >>> counts.shape, counts.dtype
    ((11, 11), dtype('int32'))
    >>> user, computer, response = vocabulary.index(["user", "computer", "response"])
    >>> matrix = counts.compute()
    >>> int(matrix[user, computer]), int(matrix[computer, user])  # "user opinion of computer"
    (1, 0)
    >>> harmonic = de.count_cooccurrences(docs, vocabulary, window=3, weighting="harmonic").compute()
    >>> float(harmonic[computer, response])  # "computer system response": two words apart
    0.5
    """
    options = CooccurrenceOptions(
        window=window, direction=direction, weighting=weighting, draw=draw, subsample=subsample, seed=seed,
        oov=oov, block_memory=block_memory,
    )  # fmt: skip
    row_blocks = cooccurrence_row_blocks(
        vocabulary.counts, window=window, direction=direction, block_memory=block_memory
    )
    tokens = tokens_of(docs)
    folder = scratch or Scratch("distembed-counting-")
    url = folder if isinstance(folder, str) else folder.url
    partials = _count_partitions(tokens, vocabulary, options, row_blocks, url)
    return merge_partials(partials, row_blocks, block_memory=block_memory, keep_alive=folder)


def _count_partitions(
    tokens: Tokens,
    vocabulary: Vocabulary,
    options: CooccurrenceOptions,
    row_blocks: Sequence[int],
    folder: str,
) -> list[PartialCounts]:
    # What all tasks need stands once in the graph.
    shared, task = delayed(vocabulary), delayed(count_partition, pure=False)
    boundaries = delayed(tuple(row_blocks), traverse=False)
    reach = dict(tokens.storage_options)
    tasks = [
        task(
            partition,
            shared,
            options,
            boundaries,
            f"{folder}/part-{number:05d}.counts",
            number=number,
            storage_options=reach,
        )
        for number, partition in enumerate(tokens.partitions)
    ]
    # One collection: dask.compute of thousands of separate ones spends its time in a quadratic graph cull.
    partials: list[PartialCounts] = compute(delayed(list)(tasks))
    return partials
