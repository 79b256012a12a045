"""Counts word pairs: bundles of documents into files of sorted runs, which are then added up per row block.

The steps are separate functions, so that a job can run, record and resume them one by one:
`cooccurrence_row_blocks` defines the row blocks, `count_bundle` counts the documents of a bundle into a file of sorted
runs, and `merge_row_block` adds the runs of all bundles for one row block. `count_cooccurrences` combines the three.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.corpus.partitions import Tokens, document_lengths
from distembed.corpus.readers import Corpus
from distembed.corpus.texts import Texts
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting import blocks
from distembed.counting.blocks import Run
from distembed.counting.partition_rows import (
    TokenSpan,
    partition_lookup,
    span_documents,
    token_bundles,
    token_rows,
    tokens_of,
)
from distembed.counting.runs import read_runs, writing_runs
from distembed.dtypes import Int32s, Int64s
from distembed.execution import compute, delayed
from distembed.lift import block, lift
from distembed.options import NonNegativeInt, Places, PositiveFloat, check_options
from distembed.scratch import Scratch
from distembed.states import block_memory

Direction = Literal["symmetric", "left", "right"]

DistanceWeighting = Literal["flat", "harmonic", "ramp", "dynamic"]

_CELL = {"left": blocks.LEFT, "right": blocks.RIGHT, "symmetric": blocks.UPPER}
_LARGEST_INT32 = 2**31 - 1

GROUPS_PER_OCTAVE = 8
"""Groups of words by frequency, for each factor of two."""


@dataclass(frozen=True, kw_only=True)
class CooccurrenceOptions:
    """The definition of a co-occurrence; see `count_cooccurrences`.

    Raises
    ------
    ValueError
        If a value is outside its range or is not one of its names.

    Examples
    --------
    >>> from distembed.counting.cooccurrence import CooccurrenceOptions
    >>> options = CooccurrenceOptions(window=3, weighting="harmonic")
    >>> options.window, options.direction
    (3, 'symmetric')
    """

    window: Places = 5
    direction: Direction = "symmetric"
    weighting: DistanceWeighting = "flat"
    subsample: PositiveFloat | None = None
    seed: NonNegativeInt = 0
    oov: Literal["keep_position", "remove"] = "keep_position"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def units(self) -> tuple[Int64s, int]:
        """Return the weights of the distances as exact integers, and the number that divides their sums."""
        return blocks.distance_units(self.window, self.weighting)


def cooccurrence_row_blocks(
    counts: NDArray[np.int64], *, window: int, direction: Direction = "symmetric"
) -> tuple[int, ...]:
    """Return the row boundaries of blocks with about equally many expected non-zeros.

    They depend only on the problem and on the memory of a task, never on the number of workers. A block takes about an
    eighth of `distembed.block_memory`, at 12 bytes per non-zero, because its merge also holds the partial counts that
    it adds.

    Parameters
    ----------
    counts : int64 array (n_words,)
        The number of occurrences of each word.
    window : int
        The largest distance, in words.
    direction : {"left", "right", "symmetric"}
        See `count_cooccurrences`.

    Returns
    -------
    tuple of int
        0 = b_0 < b_1 < ... = n_words; block k holds the rows b_k to b_{k+1} - 1.

    Raises
    ------
    ValueError
        If the vocabulary is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.counting.cooccurrence import cooccurrence_row_blocks
    >>> counts = np.array([50_000, 20_000, 10_000, 10_000])
    >>> cooccurrence_row_blocks(counts, window=5)
    (0, 4)
    """
    counts = np.asarray(counts, np.int64)
    if len(counts) == 0:
        raise ValueError("The vocabulary is empty; build it with a smaller min_count.")
    n_tokens = int(counts.sum())
    n_pairs = (2.0 if direction == "symmetric" else 1.0) * window * n_tokens
    # Of pairs that fall on the words independently, cell (i, j) would be non-zero with probability
    # 1 - exp(-n_pairs p_i p_j). Occurrences in real text are clustered, so this overestimates. Words of about the same
    # frequency are one group, so that the sum over pairs of words is small.
    group = np.floor(np.log2(np.maximum(counts, 1)) * GROUPS_PER_OCTAVE).astype(np.int64)
    _, group, size = np.unique(group, return_inverse=True, return_counts=True)
    share = np.bincount(group, counts) / size / max(n_tokens, 1)
    expected = (-np.expm1(-n_pairs * np.outer(share, share)) @ size)[group]
    # Frequent words alone may exceed a block's share: a block has at least one row.
    n_blocks = min(max(1, math.ceil(expected.sum() / (block_memory() / 8 / 12))), len(counts))
    shares = np.cumsum(expected) / max(expected.sum(), 1e-300) * n_blocks
    inner = np.searchsorted(shares, np.arange(1, n_blocks)) + 1
    return tuple(sorted({0, *(int(row) for row in inner if row < len(counts)), len(counts)}))


def count_cooccurrences(
    docs: Corpus | Tokens | Texts,
    vocabulary: Vocabulary,
    *,
    window: Places = 5,
    direction: Direction = "symmetric",
    weighting: DistanceWeighting = "flat",
    subsample: PositiveFloat | None = None,
    seed: NonNegativeInt = 0,
    oov: Literal["keep_position", "remove"] = "keep_position",
    scratch: str | None = None,
) -> da.Array:
    """Count how often words occur near each other.

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
    n_tokens = [summary.n_tokens for summary in tokens.summaries]
    if not n_tokens:
        n_tokens = [int(document_lengths(one).sum()) for one in tokens.partitions]
    # What all tasks need stands once in the graph.
    shared, count = delayed(vocabulary), delayed(count_bundle, pure=False)
    boundaries = delayed(tuple(row_blocks), traverse=False)
    tasks = [
        count(
            bundle,
            shared,
            options,
            boundaries,
            f"{url}/part-{number:05d}.counts",
            block_memory=block_memory(),
        )
        for number, bundle in enumerate(token_bundles(tokens.partitions, n_tokens))
    ]
    # One collection: dask.compute of thousands of separate ones spends its time in a quadratic graph cull.
    return merge_partials(compute(delayed(list)(tasks)), row_blocks, keep_alive=folder)


# --- a bundle of documents ---------------------------------------------------------------------------------------


class PartialCounts(NamedTuple):
    """The file written by `count_bundle`, with the facts that the merge needs; all of it can be stored as JSON."""

    url: str
    denominator: int
    largest_cell: int  # no cell of the bundle holds more, in units of 1 / denominator


@block(temporaries=0.5)  # of the memory of a block, where all pairs of a piece are distinct
def count_bundle(
    bundle: Sequence[TokenSpan],
    vocabulary: Vocabulary,
    options: CooccurrenceOptions,
    row_blocks: Sequence[int],
    target: str,
    *,
    block_memory: int,
    groups: Mapping[str, Int32s] | None = None,
) -> PartialCounts:
    """Count the co-occurrences of a bundle of documents into one file of sorted runs, by row block.

    The memory stays below that of a task, apart from the partitions' dictionaries and where nearly all pairs are
    distinct: pairs that take three eighths of it are counted at a time, each time into a run of the file.

    Parameters
    ----------
    bundle : sequence of TokenSpan
        The documents, one of `token_bundles`.
    vocabulary : Vocabulary
        The words to count.
    options : CooccurrenceOptions
        The window and its weights.
    row_blocks : sequence of int
        The row boundaries, from `cooccurrence_row_blocks`; those of all groups, where there are any.
    target : str
        The URL of the file to write; it appears only when it is complete.
    block_memory : int
        The bytes a task may use.
    groups : mapping of partition to int32 array (documents,), optional
        The group of each document, from 0: counts of groups are kept apart. Word i of group g has row and column
        g * n_words + i.

    Returns
    -------
    PartialCounts
        The file, and the facts that the merge needs.

    Raises
    ------
    OverflowError
        If a count could outgrow the exact sums.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> from distembed.counting.cooccurrence import CooccurrenceOptions, count_bundle
    >>> from distembed.counting.partition_rows import token_bundles
    >>> [bundle] = token_bundles(docs.tokenize().partitions, [69])
    >>> options = CooccurrenceOptions(window=3, direction="left")
    >>> count_bundle(bundle, vocabulary, options, (0, 11), "part-0", block_memory=2**26).largest_cell
    2
    """
    (units, denominator), window, n_words = options.units, options.window, row_blocks[-1]
    largest = 0
    n_places = places_per_piece(n_words, window, block_memory)
    keys = np.empty(n_places * window, blocks.key_type(n_words, window))
    sums = blocks.row_of_sums(n_words)
    # An eighth of the row blocks together: mirroring goes over all rows above, and has twice a run's size in all.
    step = -(-(len(row_blocks) - 1) // 8)
    bounds = [*row_blocks[:-1:step], row_blocks[-1]]
    with writing_runs(target) as append:
        for words in _pieces(bundle, vocabulary, options, groups, n_places, block_memory // 64):
            run = blocks.count_pairs(words, units, _CELL[options.direction], keys, sums)
            largest += int(run.values.max(initial=0))
            if options.direction == "symmetric":
                parts = blocks.mirror_rows(run, bounds)
            else:
                parts = (blocks.slice_rows(run, first, last) for first, last in pairwise(bounds))
            number = 0
            for begin, rows in zip(bounds[:-1], parts, strict=True):
                for first, last in pairwise(row_blocks[number : number + step + 1]):
                    append(number, blocks.slice_rows(rows, first - begin, last - begin))
                    number += 1
    # A mirrored cell of the diagonal is added to itself.
    return PartialCounts(target, denominator, largest * (2 if options.direction == "symmetric" else 1))


def places_per_piece(n_words: int, window: int, block_memory: int) -> int:
    """Return the tokens that are counted at a time: those whose pairs take three eighths of the memory, or 64."""
    return max(block_memory * 3 // 8 // blocks.key_type(n_words, window).itemsize // window, 64)


def _pieces(
    bundle: Sequence[TokenSpan],
    vocabulary: Vocabulary,
    options: CooccurrenceOptions,
    groups: Mapping[str, Int32s] | None,
    n_places: int,
    batch_bytes: int,
) -> Iterator[Int32s]:
    """Yield the stream of a bundle `n_places` words at a time, each piece after the last `window` of the one before."""
    held, keep, none = np.full(options.window, blocks.BORDER, np.int32), np.empty(0), np.empty(0, np.int32)
    for span in bundle:
        lookup = partition_lookup(span.partition, vocabulary)
        documents, position = span_documents(span)
        if options.subsample is not None:
            # word2vec's rule (word2vec.c: -sample), of the share of the word among all counted tokens.
            counts = np.asarray(vocabulary.counts)
            ratio = options.subsample * counts.sum() / np.maximum(counts, 1)
            keep = np.minimum(np.sqrt(ratio) + ratio, 1.0)
        key = np.random.SeedSequence([options.seed, span.key, 0]).generate_state(1, np.uint64)[0]
        shift = none if groups is None else groups[span.partition] * np.int32(len(vocabulary))
        rules, last = (lookup, options.oov == "remove", keep, key, shift), -1
        for numbers, offsets, ids in token_rows(span.partition, batch_bytes, documents):
            words = np.empty(int(offsets[-1] - offsets[0]) + len(numbers), np.int32)
            n, position = blocks.translate_rows(numbers, offsets, ids, last, position, *rules, words)
            last = numbers[-1] if len(numbers) else last
            held = np.concatenate([held, words[:n]])
            while len(held) >= options.window + n_places:
                yield held[: options.window + n_places]
                held = held[n_places:]
    if len(held) > options.window:
        yield held


# --- the sums over all bundles -----------------------------------------------------------------------------------


def count_type(partials: Sequence[PartialCounts]) -> np.dtype[Any]:
    """Return the type of merged counts: float32 for fractions, otherwise int32 if no cell can exceed it.

    Raises
    ------
    OverflowError
        If a count could outgrow the exact sums.
    """
    largest = sum(partial.largest_cell for partial in partials)
    if largest >= 2**63:
        raise OverflowError(
            f'a count could reach {largest} units, above 2**63; use weighting="flat" or a smaller window'
        )
    if partials[0].denominator > 1:
        return np.dtype(np.float32)
    return np.dtype(np.int32 if largest <= _LARGEST_INT32 else np.int64)


@block(temporaries=5.5)  # of the row block: the runs that are added, and their sum, twice
def merge_row_block(
    number: Int64s,
    partials: Sequence[PartialCounts],
    row_blocks: Sequence[int],
    *,
    block_memory: int,
    keep_alive: object = None,  # noqa: ARG001 - the graph owns it
) -> csr_array:
    """Add the counts of all bundles for the row block of a number.

    Runs are added a group of a quarter of the memory at a time, or as large as the sum so far, if that is larger.

    Returns
    -------
    csr_array
        Shape (rows of the block, columns), of `count_type`. The sums are exact, and are divided once by the
        denominator.
    """
    at = int(number.item())
    n_rows, n_columns = row_blocks[at + 1] - row_blocks[at], row_blocks[-1]
    total = Run(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    fresh, n_bytes = list[Run](), 0
    for run in (run for partial in partials for run in read_runs(partial.url, at)):
        fresh.append(run)
        n_bytes += sum(array.nbytes for array in run)
        if n_bytes > max(block_memory // 4, sum(array.nbytes for array in total)):
            total, fresh, n_bytes = blocks.merge_runs([total, *fresh], n_columns), [], 0
    total = blocks.merge_runs([total, *fresh], n_columns)
    index = np.int32 if len(total.indices) <= _LARGEST_INT32 else np.int64
    values, denominator = np.empty(len(total.values), count_type(partials)), partials[0].denominator
    if denominator == 1:
        values[:] = total.values
    else:  # quotients in float64 are rounded one by one
        np.divide(total.values, denominator, out=values, dtype=np.float64, casting="same_kind")
    places = total.indices.astype(index, copy=False), total.indptr.astype(index)
    return csr_array((values, *places), shape=(n_rows, n_columns))


def merge_partials(
    partials: Sequence[PartialCounts], row_blocks: Sequence[int], *, keep_alive: object = None
) -> da.Array:
    """Return the lazy array of merged row blocks, which keeps a reference to `keep_alive`."""
    sizes = {"w": tuple(np.diff(row_blocks).tolist()), "c": int(row_blocks[-1])}
    return lift(
        merge_row_block, "w->wc", da.from_array(np.arange(len(row_blocks) - 1), chunks=1),
        dtype=count_type(partials), sparse=True, sizes=sizes,
        # Once in the graph: with every task they would make a graph as large as their product.
        partials=delayed(tuple(partials), pure=True, traverse=False),
        row_blocks=delayed(tuple(row_blocks), pure=True, traverse=False),
        block_memory=block_memory(), keep_alive=keep_alive,
    )  # fmt: skip
