"""Counts the word pairs of a partition, or a range of it, into a file of sorted runs, divided by row block.

The stream of a range is counted a piece at a time, and the sums of the pieces are written as a run whenever they no
longer fit the memory of the task.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.corpus.vocabulary import Vocabulary
from distembed.counting import blocks
from distembed.counting.blocks import Run, StreamRules
from distembed.counting.cooccurrence_options import CooccurrenceOptions, check_sums
from distembed.counting.partition_rows import (
    WHOLE,
    TokenRange,
    partition_lookup,
    range_documents,
    token_rows,
)
from distembed.counting.runs import RunWriter, run_bytes
from distembed.lift import block
from distembed.states import block_memory

Lookup = tuple[NDArray[np.int32], NDArray[np.int64]]
_CELL = {"left": blocks.LEFT, "right": blocks.RIGHT, "symmetric": blocks.UPPER}


class PartialCounts(NamedTuple):
    """The file written by `count_partition`, with the facts that the merge needs; all of it can be stored as JSON."""

    url: str
    denominator: int
    largest_cell: (
        int  # no cell of the partition holds more, in units of 1 / denominator; 0 after its first range
    )
    n_tokens: int  # those of the vocabulary in the partition; 0 after its first range
    n_runs: int


class DocumentGroups(NamedTuple):
    """Groups of the documents of a partition."""

    of: NDArray[np.int32]
    """The group of each document, from 0. Int32 array (documents,)."""
    n_groups: int
    """The groups of the whole corpus."""


ONE_GROUP = DocumentGroups(np.empty(0, np.int32), 1)
"""All documents, whose counts are added up."""


@block(temporaries=1)  # of the memory of a block: what is counted, and the words that are looked up
def count_partition(
    partition: str,
    vocabulary: Vocabulary,
    options: CooccurrenceOptions,
    row_blocks: Sequence[int],
    target: str,
    *,
    number: int = 0,
    span: TokenRange = WHOLE,
    groups: DocumentGroups = ONE_GROUP,
    memory: ThreadMemory | None = None,
) -> PartialCounts:
    """Count the co-occurrences of one partition, or of a range of it, into one file of sorted runs, by row block.

    The memory stays below that of a task, apart from the partition's dictionary: pairs are counted an eighth of it at
    a time, and sums that exceed a quarter of it are written to the file as a separate run.

    Parameters
    ----------
    partition : str
        The URL prefix of the partition's three files.
    vocabulary : Vocabulary
        The words to count.
    options : CooccurrenceOptions
        The window and its weights.
    row_blocks : sequence of int
        The row boundaries, from `cooccurrence_row_blocks`; those of all groups, where there are any.
    target : str
        The URL of the file to write; it appears only when it is complete.
    number : int
        A number that tells the partition from others: with `options.seed` it is the key of its random numbers.
    span : TokenRange
        The documents that are counted: one of the `token_ranges` of the partition.
    groups : DocumentGroups
        Groups of documents, whose counts are kept apart: word i of group g has row and column g * n_words + i.
    memory : ThreadMemory, optional
        The memory in which pairs are counted, which the next partitions of the same thread then use again. Give it
        where a task counts: the bytes of the configuration hold in the client alone.

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
    >>> from distembed.counting.cooccurrence_options import CooccurrenceOptions
    >>> from distembed.counting.partial_counts import count_partition
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> partial = count_partition(tokens.partitions[0], vocabulary, options, (0, 11), "part-0")
    >>> partial.n_tokens, partial.n_runs, partial.largest_cell
    (25, 1, 9)
    """
    n_runs = 0
    own = (memory or ThreadMemory()).of(options, groups.n_groups * len(vocabulary))
    lookup, known_counts = own.lookup(partition, vocabulary)
    largest = check_sums(options, int(known_counts.max(initial=0)), f"{partition}: a count")
    rules = _stream_rules(options, vocabulary, lookup, number)._replace(shift=groups.of * len(vocabulary))
    stream = _stream(partition, rules, own.n_bytes // 64, span)
    pieces = _pieces(stream, options.window, own.n_places)
    with RunWriter(target, len(row_blocks) - 1) as writer:
        for run in _spilled_runs(pieces, own):
            mirror = own.spare() if options.direction == "symmetric" else None
            _write_run(writer, run, row_blocks, mirror)
            n_runs += 1
    of_partition = (0, 0) if span.place else (largest, int(known_counts.sum()))
    return PartialCounts(target, options.units.denominator, *of_partition, n_runs)


class PartitionMemory:
    """What counts the pairs of a partition, and the memory of their runs.

    Runs stand in one of two rooms. Their sum is put into the other, which takes its place; the one that is then free
    also has room for the mirrored rows of a run that is written.
    """

    def __init__(self, options: CooccurrenceOptions, n_words: int, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        n_pairs = pairs_per_piece(options, n_words, n_bytes)
        self.n_places = n_pairs // options.window
        self.counter = blocks.PairCounter(n_words, options.units.weights, _CELL[options.direction], n_pairs)
        self._n_words = n_words
        self._looked_up: tuple[str, Vocabulary, Lookup] | None = None
        # What is held, at eight bytes an entry, and one piece more.
        n_entries = 3 * n_bytes // 8 // 8 + n_pairs
        self.room, self._spare = blocks.RunMemory(n_entries), blocks.RunMemory(n_entries)

    def lookup(self, partition: str, vocabulary: Vocabulary) -> Lookup:
        """Return `partition_lookup`, which the next range of the same partition then has at once."""
        kept = self._looked_up
        if kept is None or kept[0] != partition or kept[1] is not vocabulary:
            kept = partition, vocabulary, partition_lookup(partition, vocabulary)
            self._looked_up = kept
        return kept[2]

    def spare(self) -> blocks.RunMemory:
        """Return the room in which no run stands that is still needed."""
        self._spare.clear()
        return self._spare

    def merged(self, runs: Sequence[Run]) -> Run:
        """Return the sum of the runs, in the room in which the next run is to stand after it."""
        if len(runs) == 1:
            return runs[0]
        total = blocks.merge_runs(runs, self._n_words, self.spare())
        self.room, self._spare = self._spare, self.room
        return total


class ThreadMemory:
    """The memory of each thread that counts partitions; in another process it begins empty.

    Parameters
    ----------
    n_bytes : int, optional
        Of each thread; by default `distembed.block_memory` of Dask's configuration.
    """

    def __init__(self, n_bytes: int | None = None) -> None:
        self._n_bytes = block_memory() if n_bytes is None else n_bytes
        self._of_thread = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes an empty one: a task that is sent to another process takes no arrays along."""
        return ThreadMemory, (self._n_bytes,)

    def of(self, options: CooccurrenceOptions, n_words: int) -> PartitionMemory:
        """Return the memory of this thread, which was made for the same options and as many words."""
        made_for, memory = getattr(self._of_thread, "kept", (None, None))
        if memory is None or made_for != (options, n_words):
            memory = PartitionMemory(options, n_words, self._n_bytes)
            self._of_thread.kept = (options, n_words), memory
        memory.room.clear()
        return memory


def _stream_rules(
    options: CooccurrenceOptions, vocabulary: Vocabulary, lookup: NDArray[np.int32], number: int
) -> StreamRules:
    """Return how the ids of a partition are read, each of which has a row in the vocabulary or is outside."""
    keep = np.empty(0)
    if options.subsample is not None:
        every = blocks.keep_probability(np.asarray(vocabulary.counts), options.subsample)
        keep = np.append(every, 1.0)[lookup]
    key = np.random.SeedSequence([options.seed, number, 0]).generate_state(1, np.uint64)[0]
    return StreamRules(lookup, options.oov == "remove", keep, key, np.empty(0, np.int32))


def pairs_per_piece(options: CooccurrenceOptions, n_words: int, n_bytes: int) -> int:
    """Return the most pairs that are counted at a time: those of an eighth of the memory, or of 64 tokens."""
    pair_bytes = blocks.key_type(n_words, options.window).itemsize
    return max(n_bytes // 8 // pair_bytes, 64 * options.window)


def _stream(
    partition: str, rules: StreamRules, batch_bytes: int, span: TokenRange
) -> Iterator[NDArray[np.int32]]:
    """Yield the stream of a range of a partition."""
    documents, position = None, 0
    if span.n_ranges > 1:
        documents, position = range_documents(partition, span)
    document = -1
    for rows in token_rows(partition, batch_bytes, documents=documents):
        stream = blocks.translate_rows(rows, rules, document, position)
        document, position = stream.document, stream.position
        yield stream.words


def _pieces(stream: Iterable[NDArray[np.int32]], window: int, n_places: int) -> Iterator[NDArray[np.int32]]:
    """Yield a stream `n_places` at a time, each piece after the last `window` of the one before."""
    held = np.full(window, blocks.BORDER, np.int32)
    for words in stream:
        held = np.concatenate([held, words])
        while len(held) >= window + n_places:
            yield held[: window + n_places]
            held = held[n_places:]
    if len(held) > window:
        yield held


def _spilled_runs(pieces: Iterable[NDArray[np.int32]], memory: PartitionMemory) -> Iterator[Run]:
    """Add the counts of pieces together while they fit in memory, and yield the sum whenever it no longer fits.

    A run is valid until the next is asked for.
    """
    held: list[Run] = []
    for words in pieces:
        held.append(memory.counter.count(words, memory.room))
        if run_bytes(held) > 3 * memory.n_bytes // 8:
            held = [memory.merged(held)]
            if run_bytes(held) > memory.n_bytes // 4:
                yield held.pop()
                memory.room.clear()
    if held:
        yield memory.merged(held)


def _write_run(
    writer: RunWriter, run: Run, row_blocks: Sequence[int], mirror: blocks.RunMemory | None
) -> None:
    """Write a run by row blocks, with its mirrored rows if there is memory for them."""
    # An eighth of the blocks together: mirroring goes over all rows above, and has twice the run's size in all.
    step = -(-(len(row_blocks) - 1) // 8)
    bounds = [*row_blocks[:-1:step], row_blocks[-1]]
    slices = (blocks.slice_rows(run, first, last) for first, last in itertools.pairwise(bounds))
    groups = slices if mirror is None else blocks.mirror_rows(run, bounds, mirror)
    block = 0
    for first, rows in zip(bounds[:-1], groups, strict=True):
        for begin, end in itertools.pairwise(row_blocks[block : block + step + 1]):
            writer.append(block, blocks.slice_rows(rows, begin - first, end - first))
            block += 1
