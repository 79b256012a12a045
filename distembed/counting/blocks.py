"""Counting inside one block: token streams, pairs in buckets by row, sorted runs and their exact sums.

A *stream* is an int32 array of vocabulary ids in text order with marks in it: `OUTSIDE`, a word that is not counted but
keeps its place, and `BORDER`, which no window crosses. A *run* is a set of counts in CSR
form: `indptr` int64, `indices` int32 sorted within a row, `values` integer. Weights are integers too,
multiples of 1/q, so sums are exact and the order of addition cannot show.

The pairs of a stream are counted without a sort: they are first put into buckets by row, each as a packed integer
``column << bits | distance - 1``, and the weights of a bucket are then added in one dense row of sums, whose marked
cells are read in order. This costs about the same on every processor; a sort by NumPy is much slower on some.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from distembed.dtypes import Int32s, Int64s

OUTSIDE = -1
BORDER = -2

LEFT, RIGHT, UPPER = 0, 1, 2
"""Which cell a pair counts in: (left word, right word), its transpose, or (smaller id, larger id)."""

LARGEST_DENOMINATOR = 2**28
"""Largest q of weights in 1/q: lcm(1..22) fits, and sums stay below 2**63 for 4 G tokens."""


class Run(NamedTuple):
    """Counts in CSR form; see the module docstring."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]


_jit = numba.njit(cache=True, nogil=True)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_POSITION = np.zeros(64, np.uint8)
for _bit in range(64):
    _BIT_POSITION[((1 << _bit) * 0x03F79D71B4CB0A89 % 2**64) >> 58] = _bit


def distance_units(window: int, weighting: str) -> tuple[Int64s, int]:
    """Return the weights of the distances d = 1..window as integers (window,), multiples of 1 / q, and q.

    flat: 1. ramp: window + 1 - d (HAL, Lund & Burgess 1996). dynamic: (window + 1 - d) / window, the
    expectation of word2vec's window drawn uniformly from 1..window. harmonic: 1 / d (GloVe), over q =
    lcm(1..window) up to window 22; beyond it each weight is rounded to a multiple of 2**-28.
    """
    distances = np.arange(1, window + 1)
    if weighting == "flat":
        return np.ones(window, np.int64), 1
    if weighting in {"ramp", "dynamic"}:
        return window + 1 - distances, window if weighting == "dynamic" else 1
    q = min(math.lcm(*range(1, window + 1)), LARGEST_DENOMINATOR)
    return (q + distances // 2) // distances, q


@_jit
def uniform(key, position):  # type: ignore[no-untyped-def]
    """Return number `position` of the uniform stream `key`, in [0, 1): SplitMix64 (Steele et al. 2014)."""
    z = key + (position + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@_jit
def translate_rows(documents, offsets, ids, last, position, lookup, close, keep, key, shift, words):  # type: ignore[no-untyped-def]
    """Write rows of token ids as a piece of stream into `words`; return its length and the tokens of the partition.

    A row whose document differs from the `last` one begins with a border, and so does every -1 among the ids. `close`
    leaves out what is outside the vocabulary. Where there is a `keep`, the probability of each word, tokens are drawn.
    `position` counts the tokens of the partition and is the only thing that random numbers depend on, so the division
    into pieces does not affect the result. `shift` is added to the words of each document, if there is one.
    """
    out = 0
    for row in range(len(documents)):
        if documents[row] != last:
            last = documents[row]
            words[out] = BORDER
            out += 1
        more = shift[last] if len(shift) else np.int32(0)
        for place in range(offsets[row], offsets[row + 1]):
            word = np.int32(BORDER)
            if ids[place] >= 0:
                word = lookup[ids[place]]
                number = np.uint64(position)
                position += 1
                if word != OUTSIDE and len(keep) and uniform(key, number) >= keep[word]:
                    word = np.int32(OUTSIDE)
                if word == OUTSIDE and close:
                    continue
            words[out] = word + more if word >= 0 else word
            out += 1
    return out, position


@_jit
def _bucket_pairs(words, window, cell, bits, free, keys):  # type: ignore[no-untyped-def]
    """Put all pairs whose right word lies in words[window:] into the buckets that begin at `free`, which moves on.

    With no room for keys the pairs are only counted.
    """
    storing = len(keys) > 0
    for place in range(window, len(words)):
        right = np.int64(words[place])
        if right < 0:
            continue
        for before in range(window):
            left = np.int64(words[place - 1 - before])
            if left == BORDER:
                break
            if left < 0:
                continue
            if cell == UPPER:  # min and max compile to no branch: which id is smaller cannot be predicted
                row, column = min(left, right), max(left, right)
            elif cell == RIGHT:
                row, column = right, left
            else:
                row, column = left, right
            entry = free[row]
            free[row] = entry + 1
            if storing:
                keys[entry] = (column << bits) | before


def key_type(n_words: int, window: int) -> np.dtype[Any]:
    """Return the narrowest unsigned type that holds every column and distance."""
    return np.dtype(np.uint32 if n_words << (window - 1).bit_length() <= 2**32 else np.uint64)


def count_pairs(words: Int32s, units: Int64s, cell: int, keys: NDArray[Any], sums: RowOfSums) -> Run:
    """Return the counts of the pairs whose right word lies in words[window:].

    Parameters
    ----------
    words : int32 array
        A piece of stream, after the `window` words before it.
    units : int64 array (window,)
        The weight of each distance.
    cell : int
        LEFT, RIGHT or UPPER.
    keys : array of `key_type`
        Room for all pairs, which is used again for each piece.
    sums : RowOfSums
        An empty row, which is empty again afterwards.
    """
    n_words, bits = len(sums.total), (len(units) - 1).bit_length()
    pairs = words, len(units), cell, bits
    starts = np.zeros(n_words + 1, np.int64)
    _bucket_pairs(*pairs, starts[1:], keys[:0])
    np.cumsum(starts, out=starts)
    _bucket_pairs(*pairs, starts[:-1].copy(), keys)
    indptr = np.empty(len(starts), np.int64)
    for kind in (np.int32, np.int64):
        # Spare room is never touched and so takes no memory.
        indices, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], kind)
        n, largest = _sum_buckets(starts, keys, bits, units, sums, indptr, indices, values)
        if largest <= np.iinfo(kind).max:
            break
    return _trimmed(indptr, indices, values, n)


def _trimmed(indptr: Int64s, indices: Int32s, values: NDArray[Any], n: int) -> Run:
    """Return a run of n entries, and what its arrays do not use to the system."""
    indices.resize(n, refcheck=False)
    values.resize(n, refcheck=False)
    return Run(indptr, indices, values)


def _value_type(largest: int) -> type[np.signedinteger[Any]]:
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


class RowOfSums(NamedTuple):
    """The sums of one row over all columns, and which of them are not empty, in two levels of marks.

    Bit c % 64 of marks[c // 64] is set where column c has a sum, and bit g % 64 of groups[g // 64] where marks[g] is
    not zero, so that a row of few cells is read without a pass over all marks.
    """

    total: Int64s
    marks: NDArray[np.uint64]
    groups: NDArray[np.uint64]


def row_of_sums(n_columns: int) -> RowOfSums:
    """Return an empty row of sums."""
    sizes = (-(-n_columns // 64), -(-n_columns // 64**2))
    return RowOfSums(np.zeros(n_columns, np.int64), *(np.zeros(size, np.uint64) for size in sizes))


@_jit
def _add(sums, column, value):  # type: ignore[no-untyped-def]
    sums.total[column] += value
    sums.marks[column >> 6] |= np.uint64(1) << np.uint64(column & 63)
    sums.groups[column >> 12] |= np.uint64(1) << np.uint64((column >> 6) & 63)


@_jit
def _lowest_bit(bits):  # type: ignore[no-untyped-def]
    lowest = bits & (~bits + np.uint64(1))
    return np.int64(_BIT_POSITION[(lowest * _DE_BRUIJN) >> np.uint64(58)]), bits ^ lowest


@_jit
def _drain(sums, indices, values, out):  # type: ignore[no-untyped-def]
    """Move the marked cells of a row to the output in column order, and empty the row.

    Returns the end of the output, and the largest sum.
    """
    largest = np.int64(0)
    for word in range(len(sums.groups)):
        groups = sums.groups[word]
        sums.groups[word] = np.uint64(0)
        while groups != np.uint64(0):
            place, groups = _lowest_bit(groups)
            group = word * 64 + place
            bits = sums.marks[group]
            sums.marks[group] = np.uint64(0)
            while bits != np.uint64(0):
                place, bits = _lowest_bit(bits)
                column = group * 64 + place
                largest = max(largest, sums.total[column])
                indices[out] = column
                values[out] = sums.total[column]
                sums.total[column] = 0
                out += 1
    return out, largest


@_jit
def _sum_buckets(starts, keys, bits, units, sums, indptr, indices, values):  # type: ignore[no-untyped-def]
    out, largest, distance = np.int64(0), np.int64(0), (np.int64(1) << bits) - 1
    for row in range(len(starts) - 1):
        indptr[row] = out
        if starts[row] == starts[row + 1]:
            continue
        for entry in range(starts[row], starts[row + 1]):
            key = np.int64(keys[entry])
            _add(sums, key >> bits, units[key & distance])
        out, of_row = _drain(sums, indices, values, out)
        largest = max(largest, of_row)
    indptr[len(starts) - 1] = out
    return out, largest


@_jit
def _merge(indptrs, all_indices, all_values, sums, indptr, indices, values):  # type: ignore[no-untyped-def]
    out = np.int64(0)
    for row in range(len(indptr) - 1):
        indptr[row] = out
        for run in range(len(indptrs)):
            for entry in range(indptrs[run][row], indptrs[run][row + 1]):
                _add(sums, all_indices[run][entry], all_values[run][entry])
        out, _ = _drain(sums, indices, values, out)
    indptr[len(indptr) - 1] = out
    return out


_FAN_IN = 8
"""Runs merged at a time: the kernel takes a tuple of this length, so nothing is copied together first."""


def merge_runs(runs: Sequence[Run], n_columns: int) -> Run:
    """Add runs of the same rows: one dense row of sums at a time, whose marked cells are read in order.

    Raises
    ------
    ValueError
        If a run has a row or a column that is not there, as only a forged file has: the kernels would write beside the
        sums.
    """
    for run in runs:
        if len(run.indptr) != len(runs[0].indptr):
            raise ValueError(f"a run has {len(run.indptr) - 1} rows in place of {len(runs[0].indptr) - 1}")
        if len(run.indices) and not 0 <= run.indices.min() <= run.indices.max() < n_columns:
            raise ValueError(f"a run has columns {run.indices.min()} to {run.indices.max()} of {n_columns}")
    if len(runs) == 1:
        return runs[0]
    if len(runs) > _FAN_IN:
        groups = [runs[start : start + _FAN_IN] for start in range(0, len(runs), _FAN_IN)]
        return merge_runs([merge_runs(group, n_columns) for group in groups], n_columns)
    n_rows, n_entries = len(runs[0].indptr) - 1, sum(len(run.indices) for run in runs)
    kind = _value_type(sum(int(run.values.max(initial=0)) for run in runs))
    empty = Run(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, kind))
    indptrs, all_indices, all_values = zip(*runs, *[empty] * (_FAN_IN - len(runs)), strict=True)
    all_values = tuple(values.astype(kind, copy=False) for values in all_values)
    indptr, indices = np.empty(n_rows + 1, np.int64), np.empty(n_entries, np.int32)
    values = np.empty(n_entries, kind)
    n = _merge(indptrs, all_indices, all_values, row_of_sums(n_columns), indptr, indices, values)
    return _trimmed(indptr, indices, values, n)


def slice_rows(run: Run, first: int, last: int) -> Run:
    """Return rows first..last-1 of a run, as views where possible."""
    start, stop = run.indptr[first], run.indptr[last]
    return Run(run.indptr[first : last + 1] - start, run.indices[start:stop], run.values[start:stop])


@_jit
def _mirror(indptr, indices, values, first, last, free, out_indices, out_values):  # type: ignore[no-untyped-def]
    """Put rows first..last-1 of U + U transposed at the places `free`, which move on.

    With no room they are only counted. What lies left of the diagonal of a row came from the rows above it.
    """
    storing = len(out_indices) > 0
    for row in range(last):
        start, stop = indptr[row], indptr[row + 1]
        if row < first:
            start += np.searchsorted(indices[start:stop], first)
        for entry in range(start, stop):
            column = indices[entry]
            if row >= first:
                place = free[row - first]
                free[row - first] += 1
                if storing:
                    out_indices[place] = column
                    out_values[place] = values[entry] * (2 if column == row else 1)
            elif column >= last:
                break
            if row < column < last:
                place = free[column - first]
                free[column - first] += 1
                if storing:
                    out_indices[place] = row
                    out_values[place] = values[entry]


def mirror_rows(upper: Run, bounds: Sequence[int]) -> Iterator[Run]:
    """Yield the rows of U + U transposed between each two of some rising bounds; U has nothing below its diagonal.

    They are valid until the next are asked for, which come in the same memory.
    """
    ends = np.zeros(bounds[-1] + 1, np.int64)
    _mirror(*upper, 0, bounds[-1], ends[1:], upper.indices[:0], upper.values[:0])
    np.cumsum(ends, out=ends)
    n_most = int(np.diff(ends[list(bounds)]).max())
    indices = np.empty(n_most, np.int32)
    values = np.empty(n_most, _value_type(2 * int(upper.values.max(initial=0))))
    for first, last in itertools.pairwise(bounds):
        indptr = ends[first : last + 1] - ends[first]
        if indptr[-1]:
            _mirror(*upper, first, last, indptr[:-1].copy(), indices, values)
        yield Run(indptr, indices[: indptr[-1]], values[: indptr[-1]])
