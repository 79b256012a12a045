"""Counts word pairs over many partitions: partial counts per partition, which are then merged per row block.

The steps are separate functions, so that a job can run, record and resume them one by one:
`cooccurrence_row_blocks` defines the row blocks, `count_partition` counts one partition into a file of sorted
runs, and `merge_row_block` adds the runs of all partitions for one row block. `count_cooccurrences` combines
the three.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.corpus import Corpus, Tokens, Vocabulary
from distembed.corpus.partitions import open_partition
from distembed.counting import blocks
from distembed.counting.blocks import Run, StreamRules, TokenRows
from distembed.counting.options import (
    CooccurrenceOptions,
    Direction,
    DistanceWeighting,
    check_sums,
    checked_sum,
)
from distembed.counting.runs import RunWriter, file_size, read_blocks, read_runs
from distembed.execution import compute, delayed, map_blocks
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.options import NonNegativeInt, PositiveFloat, PositiveInt

_CELL = {"left": blocks.LEFT, "right": blocks.RIGHT, "symmetric": blocks.UPPER}
_LARGEST_INT32 = 2**31 - 1


class PartialCounts(NamedTuple):
    """The file written by `count_partition`, with the facts that the merge needs; all of it can be stored as JSON."""

    url: str
    denominator: int
    largest_cell: int  # no cell of this partition holds more, in units of 1 / denominator
    n_tokens: int
    n_runs: int


def cooccurrence_row_blocks(
    counts: NDArray[np.int64],
    *,
    window: int,
    direction: Direction = "symmetric",
    n_tokens: int | None = None,
    block_memory: int = BLOCK_MEMORY,
) -> tuple[int, ...]:
    """Return the row boundaries of blocks with about equally many expected non-zeros.

    They depend only on the problem, never on the number of workers.

    Parameters
    ----------
    counts : int64 array (n_words,)
        The number of occurrences of each word.
    window : int
        The largest distance, in words.
    direction : {"left", "right", "symmetric"}
        See `count_cooccurrences`.
    n_tokens : int, optional
        The number of tokens of the corpus that are in the vocabulary; by default the sum of `counts`.
    block_memory : int
        The bytes a task may use. A block takes about an eighth of them, at 12 bytes per non-zero, because its
        merge also holds the partial counts that it adds.

    Returns
    -------
    tuple of int
        0 = b_0 < b_1 < ... = n_words; block k holds the rows b_k to b_{k+1} - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.counting import cooccurrence_row_blocks
    >>> counts = np.array([50_000, 20_000, 10_000, 10_000])
    >>> cooccurrence_row_blocks(counts, window=5)
    (0, 4)
    """
    counts = np.asarray(counts, np.int64)
    if len(counts) == 0:
        raise ValueError("The vocabulary is empty; build it with a smaller min_count.")
    sides = 2 if direction == "symmetric" else 1
    n_pairs = float(sides * window * (counts.sum() if n_tokens is None else n_tokens))
    return blocks.balanced_row_blocks(counts, n_pairs=n_pairs, entries_per_block=block_memory / 8 / 12)


def count_partition(
    partition: str,
    vocabulary: Vocabulary,
    options: CooccurrenceOptions,
    row_blocks: Sequence[int],
    target: str,
    *,
    number: int = 0,
    storage_options: dict[str, Any] | None = None,
) -> PartialCounts:
    """Count the co-occurrences of one partition into one file of sorted runs, divided by row block.

    The memory stays below `options.block_memory`, apart from the partition's dictionary: pairs are counted an
    eighth of it at a time, and sums that exceed a quarter of it are written to the file as a
    separate run.

    Parameters
    ----------
    partition : str
        The URL prefix of the partition's three files.
    vocabulary : Vocabulary
        The words to count.
    options : CooccurrenceOptions
        The window, its weights and the memory.
    row_blocks : sequence of int
        The row boundaries, from `cooccurrence_row_blocks`.
    target : str
        The URL of the file to write; it appears only when it is complete.
    number : int
        The place of the partition in the corpus, which with `options.seed` is the key of its random numbers.
    storage_options : dict, optional
        The options of fsspec for `partition`.

    Returns
    -------
    PartialCounts
        The file, and the facts that the merge needs.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> tokens = docs.tokenize()
    >>> from distembed.counting import CooccurrenceOptions, count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> partial.n_tokens, partial.n_runs, partial.largest_cell
    (25, 1, 9)
    """
    lookup, known_counts = partition_lookup(partition, vocabulary, storage_options)
    largest = check_sums(options, int(known_counts.max(initial=0)), f"{partition}: a count")
    rules = _stream_rules(options, vocabulary, lookup, number)
    rows = token_rows(partition, options.block_memory // 64, storage_options)
    n_words, n_runs = len(vocabulary), 0
    with RunWriter(target, len(row_blocks) - 1) as writer:
        for run in _spilled_runs(_piece_runs(rows, options, rules, n_words), options, n_words):
            _write_run(writer, run, row_blocks, mirrored=options.direction == "symmetric")
            n_runs += 1
    n_tokens, denominator = int(known_counts.sum()), options.units.denominator
    return PartialCounts(target, denominator, largest, n_tokens, n_runs)


def tokens_of(docs: Corpus | Tokens) -> Tokens:
    """Return the tokens of a corpus, tokenizing it if that has not been done."""
    tokens = docs.tokenize() if isinstance(docs, Corpus) else docs
    if not tokens.partitions:
        raise ValueError("There are no tokens to count: the corpus has no partitions.")
    return tokens


class PartitionLookup(NamedTuple):
    """The row in the vocabulary of each token id of a partition, int32, -1 for words that the vocabulary lacks.

    `counts`, int64 (n_words,), are the numbers of tokens in the partition of each word of the vocabulary.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.int64]


def partition_lookup(
    partition: str, vocabulary: Vocabulary, storage_options: dict[str, Any] | None = None
) -> PartitionLookup:
    """Return the rows in the vocabulary of a partition's dictionary, which is read a slice at a time."""
    rows, counts = [np.empty(0, np.int32)], np.zeros(len(vocabulary), np.int64)
    with open_partition(partition, "words", storage_options) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["word", "count"])
            found = vocabulary.index(table["word"])
            rows.append(found)
            # A partition with very many words lists a word more than once, but never twice in one row group.
            counts[found[found >= 0]] += table["count"].to_numpy()[found >= 0]
    return PartitionLookup(np.concatenate(rows), counts)


def _stream_rules(
    options: CooccurrenceOptions, vocabulary: Vocabulary, lookup: NDArray[np.int32], number: int
) -> StreamRules:
    keep = np.empty(0)
    if options.subsample is not None:
        keep = blocks.keep_probability(np.asarray(vocabulary.counts), options.subsample)
    drop_key = np.random.SeedSequence([options.seed, number, 0]).generate_state(1, np.uint64)[0]
    draw_key = np.random.SeedSequence([options.draw or 0, number, 1]).generate_state(1, np.uint64)[0]
    draw = 0 if options.draw is None else options.window
    return StreamRules(np.asarray(lookup, np.int32), options.oov == "remove", keep, drop_key, draw, draw_key)


def _piece_runs(
    rows: Iterable[TokenRows], options: CooccurrenceOptions, rules: StreamRules, n_words: int
) -> Iterator[Run]:
    """Yield the counts of the stream, one piece at a time."""
    window, n_pairs = options.window, _pairs_per_piece(options, n_words)
    counter = blocks.PairCounter(n_words, options.units.weights, _CELL[options.direction], n_pairs)
    for words, reach in _windowed_stream(rows, rules, window, n_pairs // window):
        yield counter.count(words, reach)


def _pairs_per_piece(options: CooccurrenceOptions, n_words: int) -> int:
    pair_bytes = blocks.key_type(n_words, options.window).itemsize
    return max(options.block_memory // 8 // pair_bytes, 64 * options.window)


def _windowed_stream(
    batches: Iterable[TokenRows], rules: StreamRules, window: int, n_positions: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Yield the partition's stream, `n_positions` at a time, each piece after the last `window` of the one before."""
    words = np.full(window, blocks.BORDER, np.int32)
    reach = np.zeros(window if rules.draw else 0, np.int32)
    document, position = -1, 0
    for rows in batches:
        stream = blocks.translate_rows(rows, rules, document, position)
        document, position = stream.document, stream.position
        words, reach = np.concatenate([words, stream.words]), np.concatenate([reach, stream.reach])
        while len(words) >= window + n_positions:
            yield words[: window + n_positions], reach[: window + n_positions]
            words, reach = words[n_positions:], reach[n_positions:]
    if len(words) > window:
        yield words, reach


def token_rows(
    partition: str, batch_bytes: int, storage_options: dict[str, Any] | None = None
) -> Iterator[TokenRows]:
    """Yield the token rows of a partition, about `batch_bytes` at a time."""
    with open_partition(partition, "tokens", storage_options) as table:
        for group in range(table.num_row_groups):
            rows = _row_batch(table.metadata.row_group(group), batch_bytes)
            for batch in table.iter_batches(rows, row_groups=[group], columns=["document", "ids"]):
                documents, ids = batch.column("document"), batch.column("ids")
                yield TokenRows(documents.to_numpy(), ids.offsets.to_numpy(), ids.values.to_numpy())


def _row_batch(group: pq.RowGroupMetaData, batch_bytes: int) -> int:
    return max(1, int(batch_bytes * group.num_rows / max(group.total_byte_size, 1)))


def _spilled_runs(runs: Iterable[Run], options: CooccurrenceOptions, n_words: int) -> Iterator[Run]:
    """Add runs together while they fit in memory, and yield the sum whenever it no longer fits."""
    held: list[Run] = []
    for run in runs:
        held.append(run)
        del run
        if _nbytes(held) > 3 * options.block_memory // 8:
            held = [blocks.merge_runs(held, n_words)]
            if _nbytes(held) > options.block_memory // 4:
                yield held.pop()
    if held:
        yield blocks.merge_runs(held, n_words)


def _nbytes(runs: Iterable[Run]) -> int:
    return sum(array.nbytes for run in runs for array in run)


def _write_run(writer: RunWriter, run: Run, row_blocks: Sequence[int], *, mirrored: bool) -> None:
    rows = blocks.mirror_rows if mirrored else blocks.slice_rows
    numbered = list(enumerate(itertools.pairwise(row_blocks)))
    # An eighth of the blocks together: mirroring goes over all rows above, and has twice the run's size in all.
    step = -(-len(numbered) // 8)
    for group in (numbered[start : start + step] for start in range(0, len(numbered), step)):
        first, last = group[0][1][0], group[-1][1][1]
        partition = rows(run, first, last)
        for block, (begin, end) in group:
            writer.append(block, blocks.slice_rows(partition, begin - first, end - first))


def count_type(partials: Sequence[PartialCounts]) -> np.dtype[Any]:
    """Return the type of merged counts: float32 for fractions, otherwise int32 if no cell can exceed it."""
    largest = checked_sum(sum(partial.largest_cell for partial in partials), "A count over all partitions")
    if partials[0].denominator > 1:
        return np.dtype(np.float32)
    return np.dtype(np.int32 if largest <= _LARGEST_INT32 else np.int64)


def merge_files(
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    target: str,
    *,
    block_memory: int = BLOCK_MEMORY,
) -> PartialCounts:
    """Add the runs of several files into one file, which a later merge reads in place of them.

    Each file is opened once for as many row blocks as fit a quarter of the memory together, so that of many files
    not many small pieces have to be read.

    Parameters
    ----------
    partials : sequence of PartialCounts
        The files, and the facts of each.
    row_blocks : sequence of int
        The row boundaries with which they were written.
    target : str
        The URL of the file to write; it appears only when it is complete.
    block_memory : int
        The bytes a task may use.
    """
    sizes = [file_size(partial.url) for partial in partials]
    n_blocks, n_words = len(row_blocks) - 1, row_blocks[-1]
    # In memory a run takes up to twice its bytes on disk.
    step = max(1, int(n_blocks * (block_memory // 8) / max(sum(sizes), 1)))
    with RunWriter(target, n_blocks) as writer:
        for first in range(0, n_blocks, step):
            last = min(first + step, n_blocks)
            runs: list[list[Run]] = [[] for _ in range(first, last)]
            for partial in partials:
                for block, run in read_blocks(partial.url, first, last):
                    runs[block - first].append(run)
            for block, of_block in enumerate(runs, first):
                if of_block:
                    writer.append(block, blocks.merge_runs(of_block, n_words))
    return PartialCounts(
        target,
        partials[0].denominator,
        checked_sum(sum(partial.largest_cell for partial in partials), "A count over all partitions"),
        sum(partial.n_tokens for partial in partials),
        1,
    )


def merge_row_block(
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    block: int,
    *,
    block_memory: int = BLOCK_MEMORY,
) -> csr_array:
    """Add the counts of all partitions for one row block.

    Returns
    -------
    csr_array
        Shape (rows of the block, n_words), of `count_type`. The sums are exact, and are divided once by the
        denominator.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> tokens = docs.tokenize()
    >>> from distembed.counting import CooccurrenceOptions, count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> from distembed.counting import merge_row_block
    >>> merge_row_block([partial], (0, 11), 0).shape
    (11, 11)
    """
    first, last = row_blocks[block : block + 2]
    n_words = row_blocks[-1]
    runs = (run for partial in partials for run in read_runs(partial.url, block))
    total = _folded(runs, n_words, last - first, block_memory // 4)
    values = total.values / partials[0].denominator if partials[0].denominator > 1 else total.values
    index = np.int32 if len(total.indices) <= _LARGEST_INT32 else np.int64
    partitions = (
        values.astype(count_type(partials)),
        total.indices.astype(index, copy=False),
        total.indptr.astype(index),
    )
    return csr_array(partitions, shape=(last - first, n_words))


def _folded(runs: Iterable[Run], n_words: int, n_rows: int, limit_bytes: int) -> Run:
    """Add runs, a group of `limit_bytes` at a time (or as large as the sum so far, if that is larger)."""
    empty = Run(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    total, fresh = empty, list[Run]()
    for run in runs:
        fresh.append(run)
        if _nbytes(fresh) > max(limit_bytes, _nbytes([total])):
            total, fresh = blocks.merge_runs([total, *fresh], n_words), []
    return blocks.merge_runs([total, *fresh], n_words)


class _Scratch:
    """A folder that is removed when the last graph that reads it is gone; copies sent to workers do not own it."""

    def __init__(self, folder: str | None) -> None:
        self.url = folder or tempfile.mkdtemp(prefix="distembed-counting-")
        if folder is None:
            weakref.finalize(self, shutil.rmtree, self.url, ignore_errors=True)

    def __reduce__(self) -> tuple[type[_Scratch], tuple[str]]:
        return _Scratch, (self.url,)

    def __dask_tokenize__(self) -> str:
        return self.url


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
        Largest distance, in words.
    direction : {"left", "right", "symmetric"}
        Where the word of a row stands: to the "left" of the word of the column, to its "right", or on either side.
    weighting : {"flat", "harmonic", "ramp", "dynamic"}
        Weight of distance d: "flat" 1; "harmonic" 1 / d; "ramp" window + 1 - d, as in HAL; "dynamic"
        (window + 1 - d) / window, which is what word2vec's random window gives on average.
    draw : int, optional
        Seed: with weighting="dynamic", draw the window of each right-hand word from 1..window instead.
    subsample : float, optional
        word2vec's t: a token of a word with share f is kept with probability min(1, sqrt(t / f) + t / f). A
        dropped token is treated as one outside the vocabulary. The draw depends on `seed`, the partition
        and the token's place.
    seed : int
        The key of the random numbers of `subsample`.
    oov : {"keep_position", "remove"}
        "keep_position": words outside the vocabulary keep their position; "remove": they are removed first, as in
        word2vec.
    block_memory : int
        Bytes a task may use; lays the grid of row blocks. It changes neither counts nor their bits.
    scratch : str, optional
        Folder or URL for partial counts, kept afterwards; all workers must see it. By default a temporary
        folder, removed when the returned array and all arrays computed from it are gone.

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
    folder = _Scratch(scratch)
    partials = _count_partitions(tokens, vocabulary, options, row_blocks, folder.url)
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


def merge_partials(
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    *,
    block_memory: int = BLOCK_MEMORY,
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
    >>> from distembed.counting import CooccurrenceOptions, count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> from distembed.counting import merge_partials
    >>> int(merge_partials([partial], (0, 11)).compute().sum())
    16
    """
    kind = count_type(partials)
    return map_blocks(
        _merged_chunk,
        chunks=(tuple(int(rows) for rows in np.diff(row_blocks)), (int(row_blocks[-1]),)),
        dtype=kind,
        meta=csr_array((0, 0), dtype=kind),
        # Once in the graph: with every task it would make a graph as large as their product.
        merge=delayed((tuple(partials), tuple(row_blocks)), traverse=False),
        block_memory=block_memory,
        keep_alive=keep_alive,
    )


def _merged_chunk(
    *,
    merge: tuple[Sequence[PartialCounts], Sequence[int]],
    block_memory: int,
    keep_alive: object,
    block_id: tuple[int, int],
) -> csr_array:
    del keep_alive  # it is here so that the graph owns it
    return merge_row_block(*merge, block_id[0], block_memory=block_memory)
