"""Counts word pairs over many partitions: partial counts per partition, which are then merged per row block.

The steps are separate functions, so that a job can run, record and resume them one by one:
`cooccurrence_row_blocks` defines the row blocks, `count_partition` counts one partition into a file of sorted
runs, and `merge_row_block` adds the runs of all partitions for one row block. `count_cooccurrences` combines
the three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.corpus.partitions import Tokens
from distembed.corpus.readers import Corpus
from distembed.corpus.texts import Texts
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting import blocks
from distembed.counting.blocks import Run
from distembed.counting.cooccurrence_options import (
    CooccurrenceOptions,
    Direction,
    DistanceWeighting,
    check_bound,
    cooccurrence_row_blocks,
)
from distembed.counting.partial_counts import PartialCounts, ThreadMemory, count_partition
from distembed.counting.partition_rows import token_ranges, tokens_of
from distembed.counting.runs import RunWriter, file_size, read_blocks, read_runs, run_bytes
from distembed.execution import compute, delayed
from distembed.lift import block, lift
from distembed.options import NonNegativeInt, PositiveFloat, PositiveInt
from distembed.scratch import Scratch
from distembed.states import block_memory

MERGED_FILES = 256
"""Files of runs that one task reads: more are merged in groups first, each file read once from end to end."""


def count_cooccurrences(
    docs: Corpus | Tokens | Texts,
    vocabulary: Vocabulary,
    *,
    window: PositiveInt = 5,
    direction: Direction = "symmetric",
    weighting: DistanceWeighting = "flat",
    subsample: PositiveFloat | None = None,
    seed: NonNegativeInt = 0,
    oov: Literal["keep_position", "remove"] = "keep_position",
    scratch: str | None = None,
) -> da.Array:
    """Count how often words stand near each other.

    With direction="left", ``x_ij = sum of weight(d) over all places where word i stands d = 1..window places
    before word j``; "right" is its transpose, "symmetric" their sum. No window crosses a document or a border
    within it.

    Parameters
    ----------
    docs : Corpus, Tokens, column or sequence of texts
        The corpus, its tokens, or the text of each document.
    vocabulary : Vocabulary
        The words to count.
    window : int
        Largest distance of two words that are counted as a pair.
    direction : {"left", "right", "symmetric"}
        Side on which the word of a row stands: "left" or "right" of the word of the column, or "symmetric" for both.
    weighting : {"flat", "harmonic", "ramp", "dynamic"}
        Weight of distance d: "flat" 1; "harmonic" 1 / d; "ramp" window + 1 - d, as in HAL; "dynamic"
        (window + 1 - d) / window, which is what word2vec's random window gives on average.
    subsample : float, optional
        Threshold t of word2vec's subsampling of frequent words: a token of a word with share f is kept with probability
        min(1, sqrt(t / f) + t / f), and otherwise treated as a word outside the vocabulary. The draw depends on `seed`,
        the partition and the token's place.
    seed : int
        Seed of the random numbers of `subsample`.
    oov : {"keep_position", "remove"}
        "keep_position": words outside the vocabulary keep their position; "remove": they are removed first, as in
        word2vec.
    scratch : str, optional
        Folder or URL for partial counts, kept afterwards; all workers must see it. By default a temporary
        folder, removed when the returned array and all arrays computed from it are gone and no client of a cluster
        waits for any result.

    Returns
    -------
    dask.array.Array
        Shape (n_words, n_words); csr_array chunks of whole rows.
        Sums are exact multiples of 1/q, divided by q once at the end (window over 22 with harmonic weights: weights
        rounded to 2**-28 first). Integers (int32 where no count can outgrow it, else int64) for "flat" and "ramp",
        float32 for the others. Partitions are counted now, on the current scheduler; row blocks are
        merged when they are computed.

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
        window=window, direction=direction, weighting=weighting, subsample=subsample, seed=seed, oov=oov
    )  # fmt: skip
    row_blocks = cooccurrence_row_blocks(vocabulary.counts, window=window, direction=direction)
    tokens = tokens_of(docs)
    folder = scratch or Scratch("distembed-counting-")
    url = folder if isinstance(folder, str) else folder.url
    partials = _count_partitions(tokens, vocabulary, options, row_blocks, url)
    return merge_partials(partials, row_blocks, keep_alive=folder)


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
    memory = ThreadMemory(block_memory())
    # Where these are not known, each partition is one range.
    n_tokens = [summary.n_tokens for summary in tokens.summaries] or [0] * len(tokens.partitions)
    tasks = [
        task(
            tokens.partitions[number],
            shared,
            options,
            boundaries,
            f"{folder}/part-{file:05d}.counts",
            number=number,
            span=span,
            memory=memory,
        )
        for file, (number, span) in enumerate(token_ranges(n_tokens))
    ]
    # One collection: dask.compute of thousands of separate ones spends its time in a quadratic graph cull.
    partials: list[PartialCounts] = compute(delayed(list)(tasks))
    return partials


# --- the sums over all partitions --------------------------------------------------------------------------

_LARGEST_INT32 = 2**31 - 1


def largest_cell(partials: Sequence[PartialCounts]) -> int:
    """Return the bound of a count over all partitions; raise OverflowError if it does not fit the exact sums."""
    return check_bound(sum(partial.largest_cell for partial in partials), "A count over all partitions")


def count_type(partials: Sequence[PartialCounts]) -> np.dtype[Any]:
    """Return the type of merged counts: float32 for fractions, otherwise int32 if no cell can exceed it."""
    largest = largest_cell(partials)
    if partials[0].denominator > 1:
        return np.dtype(np.float32)
    return np.dtype(np.int32 if largest <= _LARGEST_INT32 else np.int64)


@block(temporaries=6)  # of a row block of the sum
def merge_files(
    index: int,
    prefix: str,
    *,
    groups: Sequence[Sequence[PartialCounts]],
    row_blocks: Sequence[int],
    block_memory: int,
) -> dict[str, Any]:
    """Add the runs of a group of files into one file, which a later merge reads in place of them.

    Each file is opened once for as many row blocks as fit a quarter of the memory together, so that of many files
    not many small pieces have to be read.

    Parameters
    ----------
    index : int
        The number of the group.
    prefix : str
        The URL of the file to write, without its ending; it appears only when it is complete.
    groups : sequence of sequences of PartialCounts
        The files of each group, and the facts of each.
    row_blocks : sequence of int
        The row boundaries with which they were written.
    block_memory : int
        The bytes a task may use.

    Returns
    -------
    dict
        What `PartialCounts` says of the file but its place.
    """
    partials = groups[index]
    sizes = [file_size(partial.url) for partial in partials]
    n_blocks = len(row_blocks) - 1
    # In memory a run takes up to twice its bytes on disk.
    step = max(1, int(n_blocks * (block_memory // 8) / max(sum(sizes), 1)))
    with RunWriter(f"{prefix}.counts", n_blocks) as writer:
        for first in range(0, n_blocks, step):
            last = min(first + step, n_blocks)
            runs: list[list[Run]] = [[] for _ in range(first, last)]
            for partial in partials:
                for block, run in read_blocks(partial.url, first, last):
                    runs[block - first].append(run)
            for block, of_block in enumerate(runs, first):
                if of_block:
                    writer.append(block, blocks.merge_runs(of_block, row_blocks[-1]))
    n_tokens = sum(partial.n_tokens for partial in partials)
    return PartialCounts("", partials[0].denominator, largest_cell(partials), n_tokens, 1)._asdict()


@block(temporaries=6)  # of the row block: the runs that are added, and their sum, twice
def merge_row_block(
    number: NDArray[np.int64],
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    *,
    block_memory: int,
    keep_alive: object = None,  # noqa: ARG001 - the graph owns it
) -> csr_array:
    """Add the counts of all partitions for the row block of a number.

    Returns
    -------
    csr_array
        Shape (rows of the block, columns), of `count_type`. The sums are exact, and are divided once by the
        denominator.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> tokens = docs.tokenize()
    >>> from distembed.counting.cooccurrence_options import CooccurrenceOptions
    >>> from distembed.counting.partial_counts import count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> from distembed.counting.cooccurrence import merge_row_block
    >>> import numpy as np
    >>> merge_row_block(np.zeros(1, int), [partial], (0, 11), block_memory=2**26).shape
    (11, 11)
    """
    block = int(number.item())
    first, last = row_blocks[block : block + 2]
    runs = (run for partial in partials if partial.n_runs for run in read_runs(partial.url, block))
    total = _fold(runs, row_blocks[-1], last - first, block_memory // 4)
    index = np.int32 if len(total.indices) <= _LARGEST_INT32 else np.int64
    partitions = (
        _counts_of_units(total.values, partials[0].denominator, count_type(partials)),
        total.indices.astype(index, copy=False),
        total.indptr.astype(index),
    )
    return csr_array(partitions, shape=(last - first, row_blocks[-1]))


def _counts_of_units(values: NDArray[Any], denominator: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return sums in units of 1 / denominator as counts; of fractions, quotients in float64 are rounded one by one."""
    if denominator == 1:
        if values.dtype.itemsize > kind.itemsize and values.max(initial=0) > _LARGEST_INT32:
            raise OverflowError(
                f"a count is {values.max()}, above the largest that the partial counts say they hold: delete them "
                "and count again."
            )
        return values.astype(kind)
    counts = np.empty(len(values), kind)
    return np.divide(values, denominator, out=counts, dtype=np.float64, casting="same_kind")


def _fold(runs: Iterable[Run], n_columns: int, n_rows: int, limit_bytes: int) -> Run:
    """Add runs, a group of `limit_bytes` at a time (or as large as the sum so far, if that is larger)."""
    empty = Run(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    total, fresh = empty, list[Run]()
    for run in runs:
        fresh.append(run)
        if run_bytes(fresh) > max(limit_bytes, run_bytes([total])):
            total, fresh = blocks.merge_runs([total, *fresh], n_columns), []
    return blocks.merge_runs([total, *fresh], n_columns)


def merge_partials(
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    *,
    keep_alive: object = None,
) -> da.Array:
    """Return the lazy array of merged row blocks, which keeps a reference to `keep_alive`.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> tokens = docs.tokenize()
    >>> from distembed.counting.cooccurrence_options import CooccurrenceOptions
    >>> from distembed.counting.partial_counts import count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> from distembed.counting.cooccurrence import merge_partials
    >>> int(merge_partials([partial], (0, 11)).compute().sum())
    16
    """
    sizes = {"w": tuple(np.diff(row_blocks).tolist()), "c": int(row_blocks[-1])}
    return lift(
        merge_row_block, "w->wc", da.from_array(np.arange(len(row_blocks) - 1), chunks=1),
        dtype=count_type(partials), sparse=True, sizes=sizes,
        # Once in the graph: with every task they would make a graph as large as their product.
        partials=delayed(tuple(partials), pure=True, traverse=False),
        row_blocks=delayed(tuple(row_blocks), pure=True, traverse=False),
        block_memory=block_memory(), keep_alive=keep_alive,
    )  # fmt: skip
