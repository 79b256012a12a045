"""Character n-grams of words: where they stand in packed bytes, their FNV-1a hashes, and the distinct ones.

Strings are packed as UTF-8 bytes, joined, with the offsets of each. An n-gram is a slice of those bytes that begins and
ends between characters. NumPy, SciPy and numba only.

Reference: Bojanowski, Grave, Joulin & Mikolov, Enriching word vectors with subword information, TACL 2017. The n-grams
of a word, their order, their multiplicity and their hash are those of the authors' program, fastText.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import ArrayLike, NDArray

from distembed.dtypes import Float32s, Floats, Int32s, Int64s
from distembed.linalg.csr import unit_rows
from distembed.temporaries import block

Bytes = NDArray[np.uint8]

FIRST_HASH, PRIME = 2166136261, 16777619
"""The offset basis and the prime of FNV-1a of 32 bits."""
FIRST_LONG_HASH, LONG_PRIME = 14695981039346656037, 1099511628211
"""Those of FNV-1a of 64 bits."""


class Packed(NamedTuple):
    """Strings as UTF-8 bytes."""

    data: Bytes
    """All strings, joined. Uint8 (n_bytes,)."""
    offsets: Int64s
    """String i is ``data[offsets[i]:offsets[i + 1]]``. Int64 (n + 1,)."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


class Slices(NamedTuple):
    """The n-grams of strings, as slices of their bytes."""

    offsets: Int64s
    """The n-grams of string i are those from ``offsets[i]`` to before ``offsets[i + 1]``. Int64 (n + 1,)."""
    starts: Int64s
    stops: Int64s
    """The bounds of each slice in the bytes. Int64 (n_slices,)."""


def check_lengths(min_n: int, max_n: int) -> None:
    """Raise ValueError unless ``1 <= min_n <= max_n``."""
    if not 1 <= min_n <= max_n:
        raise ValueError(f"min_n is {min_n} and max_n is {max_n}: give 1 <= min_n <= max_n, such as 3 and 6")


def pack_words(words: Iterable[str]) -> Packed:
    """Return words between their marks, ``<word>``, as packed UTF-8."""
    return pack([f"<{word}>" for word in words])


def pack(strings: Sequence[str]) -> Packed:
    """Return strings as packed UTF-8; half of a surrogate pair is packed as the three bytes of its code point."""
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Packed(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def unpack(packed: Packed, slices: Slices, chosen: Int64s) -> list[str]:
    """Return the chosen slices as strings."""
    data = packed.data.tobytes()
    bounds = zip(slices.starts[chosen].tolist(), slices.stops[chosen].tolist(), strict=True)
    return [data[start:stop].decode("utf-8", "surrogatepass") for start, stop in bounds]


def word_ngrams(packed: Packed, min_n: int, max_n: int) -> Slices:
    """Return the n-grams of `min_n` to `max_n` characters of each string, in the order of fastText.

    Parameters
    ----------
    packed : Packed
        Words between their marks, ``<word>``. The two marks alone are no n-grams of one character, and the whole string
        is one if it is not longer than `max_n`. An n-gram that a word holds twice is there twice.
    min_n, max_n : int
        The number of characters of the shortest and of the longest n-grams.
    """
    characters = np.concatenate([np.zeros(1, np.int64), np.cumsum((packed.data & 0xC0) != 0x80)])
    lengths = np.diff(characters[packed.offsets])
    longest = min(max_n, int(lengths.max(initial=0)))
    counts = sum((np.maximum(lengths - n + 1, 0) for n in range(min_n, longest + 1)), np.zeros_like(lengths))
    if min_n == 1:
        counts -= np.minimum(lengths, 2)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    starts, stops = _fill_ngrams(packed.data, packed.offsets, min_n, max_n, offsets)
    return Slices(offsets, starts, stops)


def number_slices(packed: Packed, slices: Slices) -> tuple[Int32s, Int64s]:
    """Return the number of each slice, int32 (n_slices,), and the first slice of each number.

    Equal slices have one number, in the order of their first occurrence.
    """
    _, first, ids = np.unique(
        _hashes(packed.data, slices.starts, slices.stops), return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    numbers = np.empty(len(order), np.int32)
    numbers[order] = np.arange(len(order), dtype=np.int32)
    return numbers[ids], first[order]


def sorted_keys(table: Packed) -> tuple[NDArray[np.uint64], Int64s]:
    """Return the keys of distinct strings in rising order, and the row of each, for `find_slices`."""
    keys = _hashes(table.data, table.offsets[:-1], table.offsets[1:])
    order = np.argsort(keys)
    return keys[order], order


def find_slices(packed: Packed, slices: Slices, keys: NDArray[np.uint64], rows: Int64s) -> Int64s:
    """Return the row of each slice among the strings of a table, int64 (n_slices,); -1 where it is none of them."""
    if not keys.size:
        return np.full(len(slices.starts), -1, np.int64)
    wanted = _hashes(packed.data, slices.starts, slices.stops)
    places = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[places] == wanted, rows[places], -1)


def averaging_rows(offsets: Int64s, columns: Int64s, n_columns: int) -> sp.csr_array:
    """Return the matrix A that averages the n-grams of each word, float32 (n_words, n_columns).

    Parameters
    ----------
    offsets : int64 (n_words + 1,)
        The bounds of the n-grams of each word.
    columns : int64 (n_slices,)
        The column of each n-gram, -1 for one without a column.
    n_columns : int
        The number of columns.

    Returns
    -------
    csr_array
        Each n-gram of a word that has a column, as often as it stands in the word, times 1 / k, where k is the
        number of all n-grams of the word.
    """
    known = columns >= 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])[offsets]
    lengths = np.diff(offsets)
    values = np.repeat((1 / np.maximum(lengths, 1)).astype(np.float32), np.diff(indptr))
    matrix = sp.csr_array((values, columns[known], indptr), shape=(len(lengths), n_columns))
    matrix.sum_duplicates()
    return matrix


@block(temporaries=5)
def add_spelling(vectors: Floats, composed: Floats, center: ArrayLike, *, weight: float) -> Float32s:
    r"""Return the directions of vectors with those of their composed vectors added, float32 (n, d).

    .. math:: \frac{v_w - m}{\|v_w - m\|} + \alpha \frac{s_w - m}{\|s_w - m\|}

    Parameters
    ----------
    vectors, composed : (n, d) arrays
        v and s. A row that is equal to m has no direction and adds nothing.
    center : (d,) array
        m.
    weight : float
        alpha.
    """
    middle = np.asarray(center, np.float64)
    return np.asarray(unit_rows(vectors - middle) + weight * unit_rows(composed - middle), np.float32)


@njit(cache=True, nogil=True)
def _continues(byte):  # type: ignore[no-untyped-def]
    return (byte & 0xC0) == 0x80


@njit(cache=True, nogil=True)
def _next_character(data, place, stop):  # type: ignore[no-untyped-def]
    place += 1
    while place < stop and _continues(data[place]):
        place += 1
    return place


@njit(cache=True, nogil=True)
def _fill_ngrams(data, offsets, min_n, max_n, bounds):  # type: ignore[no-untyped-def]
    starts, stops = np.empty(bounds[-1], np.int64), np.empty(bounds[-1], np.int64)
    k = 0
    for i in range(len(offsets) - 1):
        first, last = offsets[i], offsets[i + 1]
        start = first
        while start < last:
            stop, n = start, 0
            while stop < last and n < max_n:
                stop = _next_character(data, stop, last)
                n += 1
                is_mark = n == 1 and (start == first or stop == last)
                if n >= min_n and not is_mark:
                    starts[k], stops[k] = start, stop
                    k += 1
            start = _next_character(data, start, last)
    return starts, stops


@njit(cache=True, nogil=True)
def hash_buckets(data, starts, stops, n_buckets):  # type: ignore[no-untyped-def]
    """Return the bucket of each slice, int64 (n_slices,): its FNV-1a hash of 32 bits modulo `n_buckets`.

    Bytes are extended with their sign before they are mixed in, as fastText does.
    """
    buckets = np.empty(len(starts), np.int64)
    for k in range(len(starts)):
        h = np.uint32(FIRST_HASH)
        for place in range(starts[k], stops[k]):
            h = np.uint32(h ^ np.uint32(np.int8(data[place])))
            h = np.uint32(h * np.uint32(PRIME))
        buckets[k] = np.int64(h) % n_buckets
    return buckets


@njit(cache=True, nogil=True)
def _hashes(data, starts, stops):  # type: ignore[no-untyped-def]
    """Return a key of 64 bits for each slice: of a million n-grams two share one once in 37 million tables."""
    hashes = np.empty(len(starts), np.uint64)
    for k in range(len(starts)):
        h = np.uint64(FIRST_LONG_HASH)
        for place in range(starts[k], stops[k]):
            h = (h ^ np.uint64(data[place])) * np.uint64(LONG_PRIME)
        hashes[k] = h
    return hashes


@njit(cache=True, nogil=True)
def occurrences_in_words(ids, offsets, n_ids):  # type: ignore[no-untyped-def]
    """Return in how many words each number occurs, int64 (n_ids,); offsets bound the numbers of each word."""
    counts, last = np.zeros(n_ids, np.int64), np.full(n_ids, -1, np.int64)
    for word in range(len(offsets) - 1):
        for k in range(offsets[word], offsets[word + 1]):
            one = ids[k]
            if last[one] != word:
                last[one] = word
                counts[one] += 1
    return counts
