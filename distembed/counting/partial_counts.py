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

from distembed.corpus import Vocabulary
from distembed.counting import blocks
from distembed.counting.blocks import Run, StreamRules, TokenRows
from distembed.counting.cooccurrence_options import CooccurrenceOptions, check_sums
from distembed.counting.partition_rows import (
    WHOLE,
    TokenRange,
    partition_lookup,
    range_documents,
    token_rows,
)
from distembed.counting.renumbered import ALL, Part, RenumberedCounts
from distembed.counting.renumbering_blocks import Changes, select_entries
from distembed.counting.runs import RunWriter, run_bytes

Lookup = tuple[NDArray[np.int32], NDArray[np.int64]]
Piece = tuple[int, NDArray[np.int32], NDArray[np.int32]]
"""A sign, 1 where pairs are added and -1 where they are subtracted, a piece of stream, and its drawn windows."""
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
    n_positions: int = 1  # columns of each word, one for each distance that is counted apart
    sign: int = 1  # -1: they are subtracted
    source: int = -1  # the number of the earlier counts that hold the other pairs of this partition


class DocumentGroups(NamedTuple):
    """Groups of the documents of a partition."""

    of: NDArray[np.int32]
    """The group of each document, from 0. Int32 array (documents,)."""
    n_groups: int
    """The groups of the whole corpus."""


ONE_GROUP = DocumentGroups(np.empty(0, np.int32), 1)
"""All documents, whose counts are added up."""


class Counted(NamedTuple):
    """What of a partition is counted: by default all pairs of all its documents, in one group."""

    span: TokenRange = WHOLE
    """The documents: one of the `token_ranges` of the partition."""
    part: Part = ALL
    """The pairs, and whether they are to be added or subtracted."""
    earlier: RenumberedCounts | None = None
    """The counts that hold the other pairs, where `part` is not all of them."""
    groups: DocumentGroups = ONE_GROUP
    """Groups of documents, whose counts are kept apart: word i of group g has row and column g * n_words + i."""


EVERYTHING = Counted()


def count_partition(
    partition: str,
    vocabulary: Vocabulary,
    options: CooccurrenceOptions,
    row_blocks: Sequence[int],
    target: str,
    *,
    number: int = 0,
    what: Counted = EVERYTHING,
    memory: ThreadMemory | None = None,
) -> PartialCounts:
    """Count the co-occurrences of one partition, or of a range of it, into one file of sorted runs, by row block.

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
        The row boundaries, from `cooccurrence_row_blocks`; those of all groups, where there are any.
    target : str
        The URL of the file to write; it appears only when it is complete.
    number : int
        A number that tells the partition from others: with `options.seed` it is the key of its random numbers.
    what : Counted
        The documents and pairs that are counted.
    memory : ThreadMemory, optional
        The memory in which pairs are counted, which the next partitions of the same thread then use again.

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
    span, part = what.span, what.part
    n_runs, n_tokens, largest = 0, part.n_tokens, part.largest_cell
    with RunWriter(target, len(row_blocks) - 1) as writer:
        if largest < 0:  # the earlier counts do not hold every pair
            own = (memory or ThreadMemory()).of(options, what.groups.n_groups * len(vocabulary))
            lookup, known_counts = own.lookup(partition, vocabulary)
            n_tokens = int(known_counts.sum())
            largest = check_sums(options, int(known_counts.max(initial=0)), f"{partition}: a count")
            readings = _readings(partition, vocabulary, lookup, options, number, what)
            pieces = _stream_of(partition, readings, options, what, own.n_places)
            for run in _spilled_runs(pieces, options, own):
                chosen = select_entries(run, run.values != 0) if part.pairs == "changed" else run
                mirror = own.spare() if options.direction == "symmetric" else None
                _write_run(writer, chosen, row_blocks, mirror)
                n_runs += 1
    if span.place:
        largest = n_tokens = 0
    facts = (options.units.denominator, largest, n_tokens, n_runs, options.n_positions)
    return PartialCounts(target, *facts, part.sign, part.source)


class PartitionMemory:
    """What counts the pairs of a partition, and the memory of their runs.

    Runs stand in one of two rooms. Their sum is put into the other, which takes its place; the one that is then free
    also has room for the mirrored rows of a run that is written.
    """

    def __init__(self, options: CooccurrenceOptions, n_words: int) -> None:
        n_pairs = pairs_per_piece(options, n_words)
        cell, apart = _CELL[options.direction], options.positions == "apart"
        self.n_places = n_pairs // options.window
        self.counter = blocks.PairCounter(n_words, options.units.weights, cell, n_pairs, apart=apart)
        self._n_columns = n_words * options.n_positions
        self._looked_up: tuple[str, Vocabulary, Lookup] | None = None
        # What is held, at eight bytes an entry, and one piece more.
        n_entries = 3 * options.block_memory // 8 // 8 + n_pairs
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
        total = blocks.merge_runs(runs, self._n_columns, self.spare())
        self.room, self._spare = self._spare, self.room
        return total


class ThreadMemory:
    """The memory of each thread that counts partitions; in another process it begins empty."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes an empty one: a task that is sent to another process takes no arrays along."""
        return ThreadMemory, ()

    def of(self, options: CooccurrenceOptions, n_words: int) -> PartitionMemory:
        """Return the memory of this thread, which was made for the same options and as many words."""
        made_for, memory = getattr(self._of_thread, "kept", (None, None))
        if memory is None or made_for != (options, n_words):
            memory = PartitionMemory(options, n_words)
            self._of_thread.kept = (options, n_words), memory
        memory.room.clear()
        return memory


def _readings(
    partition: str,
    vocabulary: Vocabulary,
    lookup: NDArray[np.int32],
    options: CooccurrenceOptions,
    number: int,
    what: Counted,
) -> list[StreamRules]:
    """Return how a partition is read now, before that how it was read for earlier counts, or the one that is needed."""
    shift = what.groups.of * len(vocabulary)
    now = _stream_rules(options, vocabulary, lookup, lookup, number)._replace(shift=shift)
    if what.earlier is None:
        return [now]
    earlier = what.earlier
    rows = np.where(lookup < 0, np.int32(-1), earlier.rows[lookup])
    words = np.where(rows < 0, np.int32(blocks.OUTSIDE), lookup)
    if options.oov == "remove" and earlier.n_lost:  # a word that is lost kept others apart
        rows, _ = partition_lookup(partition, earlier.old)
        words = np.where((rows >= 0) & (words < 0), np.int32(blocks.LOST), words)
    old = _stream_rules(options, earlier.old, rows, words, number)
    return [old] if what.part.pairs == "had" else [old, now]


def _stream_rules(
    options: CooccurrenceOptions,
    vocabulary: Vocabulary,
    rows: NDArray[np.int32],
    words: NDArray[np.int32],
    number: int,
) -> StreamRules:
    """Return how ids are read that have rows in a vocabulary, by which they are drawn, and are counted as words."""
    keep = np.empty(0)
    if options.subsample is not None:
        keep = np.append(blocks.keep_probability(np.asarray(vocabulary.counts), options.subsample), 1.0)[rows]
    drop_key = np.random.SeedSequence([options.seed, number, 0]).generate_state(1, np.uint64)[0]
    draw_key = np.random.SeedSequence([options.draw or 0, number, 1]).generate_state(1, np.uint64)[0]
    draw = 0 if options.draw is None else options.window
    no_shift = np.empty(0, np.int32)
    return StreamRules(words, options.oov == "remove", keep, drop_key, draw, draw_key, no_shift)


def pairs_per_piece(options: CooccurrenceOptions, n_words: int) -> int:
    """Return the most pairs that are counted at a time: those of an eighth of the memory, or of 64 tokens."""
    pair_bytes = blocks.key_type(n_words, options.window).itemsize
    return max(options.block_memory // 8 // pair_bytes, 64 * options.window)


def _stream_of(
    partition: str,
    readings: Sequence[StreamRules],
    options: CooccurrenceOptions,
    what: Counted,
    n_places: int,
) -> Iterable[Piece]:
    """Return the stream of what is counted of a partition, `n_places` at a time, as `_pieces` gives it."""
    *old, now = readings
    if old and np.array_equal(old[0].lookup, now.lookup) and np.array_equal(old[0].keep, now.keep):
        return ()
    is_whole = what.span.n_ranges == 1
    documents, before = (None, 0) if is_whole else range_documents(partition, what.span)
    rows = token_rows(partition, options.block_memory // 64, documents=documents)
    streams = (
        _changed_streams(rows, Changes(old[0], now, options.window, before))
        if old
        else _whole_stream(rows, now, before)
    )
    return _pieces(streams, options.window, n_places, is_drawn=now.draw > 0)


def _whole_stream(batches: Iterable[TokenRows], rules: StreamRules, position: int) -> Iterator[Piece]:
    """Yield the stream of a range before which there are `position` tokens of the partition."""
    document = -1
    for rows in batches:
        stream = blocks.translate_rows(rows, rules, document, position)
        document, position = stream.document, stream.position
        yield 1, stream.words, stream.reach


def _changed_streams(batches: Iterable[TokenRows], changes: Changes) -> Iterator[Piece]:
    """Yield the streams to subtract and to add where the new rules read a partition differently."""
    for rows in batches:
        for sign, stream in zip((-1, 1), changes.of(rows), strict=True):
            yield sign, stream.words, stream.reach


def _pieces(streams: Iterable[Piece], window: int, n_positions: int, *, is_drawn: bool) -> Iterator[Piece]:
    """Yield the streams of each sign, `n_positions` at a time, each piece after the last `window` of the one before."""
    nothing = np.full(window, blocks.BORDER, np.int32), np.zeros(window if is_drawn else 0, np.int32)
    held = {1: nothing, -1: nothing}
    for sign, *stream in streams:
        words, reach = map(np.concatenate, zip(held[sign], stream, strict=True))
        while len(words) >= window + n_positions:
            yield sign, words[: window + n_positions], reach[: window + n_positions]
            words, reach = words[n_positions:], reach[n_positions:]
        held[sign] = words, reach
    for sign, (words, reach) in held.items():
        if len(words) > window:
            yield sign, words, reach


def _spilled_runs(
    pieces: Iterable[Piece], options: CooccurrenceOptions, memory: PartitionMemory
) -> Iterator[Run]:
    """Add the counts of pieces together while they fit in memory, and yield the sum whenever it no longer fits.

    A run is valid until the next is asked for.
    """
    held: list[Run] = []
    for sign, words, reach in pieces:
        run = memory.counter.count(words, reach, memory.room)
        if sign < 0:
            np.negative(run.values, out=run.values)
        held.append(run)
        if run_bytes(held) > 3 * options.block_memory // 8:
            held = [memory.merged(held)]
            if run_bytes(held) > options.block_memory // 4:
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
