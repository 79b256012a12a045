"""Character n-grams of words, their FNV-1a hashes, and their vectors, from which a vector of any string is composed.

Reference: Bojanowski, Grave, Joulin & Mikolov, Enriching word vectors with subword information, TACL 2017. The n-grams
of a word, their order, their multiplicity and their hash are those of the authors' program, fastText.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import ArrayLike, NDArray

from distembed.dtypes import Float32s, Floats, Int64s
from distembed.linalg.blocks import sparse_times_dense
from distembed.linalg.csr import unit_rows
from distembed.temporaries import block
from distembed.typing import VectorLike, refuse_collection

WORDS_TOGETHER = 20_000
"""Words whose n-grams are held at a time: about 40 MiB."""

FIRST_HASH, PRIME = 2166136261, 16777619
"""The offset basis and the prime of FNV-1a of 32 bits."""


class Ngrams(NamedTuple):
    """N-grams as slices of the UTF-8 bytes of all words, between their marks and joined."""

    data: NDArray[np.uint8]
    offsets: Int64s
    """The n-grams of word i are those from ``offsets[i]`` to before ``offsets[i + 1]``. Int64 (n + 1,)."""
    starts: Int64s
    stops: Int64s
    """The bounds of each in the bytes. Int64 (n_ngrams,)."""

    def strings(self, chosen: Int64s) -> list[str]:
        """Return the chosen n-grams."""
        data = self.data.tobytes()
        bounds = zip(self.starts[chosen].tolist(), self.stops[chosen].tolist(), strict=True)
        return [data[start:stop].decode("utf-8", "surrogatepass") for start, stop in bounds]


def check_lengths(min_n: int, max_n: int) -> None:
    """Raise ValueError unless ``1 <= min_n <= max_n``."""
    if not 1 <= min_n <= max_n:
        raise ValueError(f"min_n is {min_n} and max_n is {max_n}: give 1 <= min_n <= max_n, such as 3 and 6")


def pack(strings: Sequence[str]) -> tuple[NDArray[np.uint8], Int64s]:
    """Return strings as joined UTF-8 bytes, and where each begins and the last ends, (n + 1,).

    Half of a surrogate pair is packed as the three bytes of its code point.
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def word_ngrams(words: Sequence[str], min_n: int, max_n: int) -> Ngrams:
    """Return the n-grams of `min_n` to `max_n` characters of each ``<word>``, in the order of fastText.

    The two marks alone are no n-grams of one character, and the whole string is one if it is not longer than `max_n`.
    An n-gram that a word holds twice is there twice.
    """
    data, bounds = pack([f"<{word}>" for word in words])
    begins = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))  # of each character, and the end
    first = np.searchsorted(begins, bounds)  # the number of the first character of each word
    character = np.arange(len(begins) - 1)
    left = np.repeat(first[1:], np.diff(first)) - character  # characters from here to the end of the word
    least = np.full(len(left), min_n)
    if min_n == 1:
        least[first[:-1]] = least[first[1:] - 1] = 2
    counts = np.maximum(np.minimum(max_n, left) - least + 1, 0)
    ends = np.cumsum(counts)
    start = np.repeat(character, counts)
    stop = np.arange(len(start)) - np.repeat(ends - counts - least, counts) + start
    return Ngrams(data, np.append(0, ends)[first], begins[start], begins[stop])


def averaging_rows(offsets: Int64s, columns: NDArray[np.integer], n_columns: int) -> sp.csr_array:
    """Return the matrix A that averages the n-grams of each word, float32 (n_words, n_columns).

    Parameters
    ----------
    offsets : int64 (n_words + 1,)
        The bounds of the n-grams of each word.
    columns : integers (n_slices,)
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
def hashes(data, starts, stops):  # type: ignore[no-untyped-def]
    """Return the FNV-1a hash of 32 bits of each slice, uint32 (n_slices,).

    Bytes are extended with their sign before they are mixed in, as fastText does. Of 200,000 n-grams about five share
    their hash with another.
    """
    out = np.empty(len(starts), np.uint32)
    for k in range(len(starts)):
        h = np.uint32(FIRST_HASH)
        for place in range(starts[k], stops[k]):
            h = np.uint32(h ^ np.uint32(np.int8(data[place])))
            h = np.uint32(h * np.uint32(PRIME))
        out[k] = h
    return out


@dataclass(frozen=True, eq=False, repr=False)
class SubwordTable:
    r"""Vectors of character n-grams: the learned state of `distembed.SubwordMap`.

    .. math:: s_w = m + \frac{1}{|g_w|} \sum_{g \in g_w} z_g

    g_w are the n-grams of `min_n` to `max_n` characters of ``<word>``, as often as they occur there, and those
    without a row have z_g = 0. A string of which no n-gram is known has the mean vector m. fastText composes unknown
    words by the same formula.

    Parameters
    ----------
    vectors : float32 array (rows, d)
        z, finite.
    mean : float32 array (d,)
        m.
    min_n, max_n : int
        The characters of the shortest and of the longest n-grams.
    ngrams : sequence of str or uint32 array (rows,), optional
        The n-gram of each row, or its FNV-1a hash, which alone is kept. Without it an n-gram belongs to the row of its
        hash modulo the number of rows, as in fastText.
    normalized : bool
        Whether composed vectors are divided by their lengths.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is NaN or infinite, or two rows have one n-gram or hash.

    Examples
    --------
    >>> import distembed as de
    >>> table = de.SubwordTable([[4, 0], [0, 4]], [1, 1], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
    >>> table.compose(["ab", "abcd", "日本"]).tolist()
    [[3.0, 3.0], [2.0, 1.0], [1.0, 1.0]]
    >>> table.n_known(["ab", "abcd", "日本"]).tolist()
    [2, 1, 0]
    """

    vectors: NDArray[np.float32]
    mean: NDArray[np.float32]
    min_n: int = 3
    max_n: int = 6
    ngrams: NDArray[np.uint32] | Sequence[str] | None = None
    normalized: bool = False

    def __post_init__(self) -> None:
        for name in ("vectors", "mean"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.float32))
        check_lengths(self.min_n, self.max_n)
        if self.vectors.ndim != 2 or self.mean.shape != self.vectors.shape[1:]:
            raise ValueError(
                f"vectors have shape {self.vectors.shape} and the mean {self.mean.shape}: "
                "give one row per n-gram and a mean of as many components"
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.vectors.sum(dtype=np.float64))):
            raise ValueError(
                "the vectors of the n-grams or their mean hold NaN or infinity: fit the map again"
            )
        if self.ngrams is None:
            return
        keys = self.ngrams
        if not isinstance(keys, np.ndarray):
            data, bounds = pack(keys)
            keys = hashes(data, bounds[:-1], bounds[1:])
        if keys.shape != (len(self),) or keys.dtype != np.uint32:
            raise ValueError(f"there are {len(self)} vectors for {keys.size} n-grams: give one for each")
        if len(np.unique(keys)) < len(keys):
            raise ValueError("an n-gram, or the hash of one, occurs twice: give each n-gram once")
        object.__setattr__(self, "ngrams", keys)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def contents(self) -> str:
        """What the table holds, in words."""
        kind = "buckets of n-grams" if self.ngrams is None else "n-grams"
        return f"{len(self):,} {kind} of {self.min_n} to {self.max_n} characters"

    def __repr__(self) -> str:
        return f"SubwordTable({self.contents}, {self.vectors.shape[1]} components)"

    def compose(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (n, d) of words, float32: each the mean vector plus the average of its n-grams.

        The vector of a word is the same alone and among others.

        Parameters
        ----------
        words : sequence of str
            n words.

        Returns
        -------
        float32 array (n, d)

        Examples
        --------
        >>> import distembed as de
        >>> table = de.SubwordTable([[4, 0], [0, 4]], [1, 1], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
        >>> table.compose(["ab"]).tolist()  # the mean vector (1, 1) plus half of (4, 0) and half of (0, 4)
        [[3.0, 3.0]]
        """
        refuse_collection(words, "words")
        if isinstance(words, str):
            raise TypeError(f"words is the text {words[:40]!r}: give a list of words")
        composed = np.empty((len(words), self.vectors.shape[1]), np.float32)
        for first in range(0, len(words), WORDS_TOGETHER):
            ngrams = word_ngrams(words[first : first + WORDS_TOGETHER], self.min_n, self.max_n)
            rows = averaging_rows(ngrams.offsets, self._rows_of(ngrams), len(self))
            part = sparse_times_dense(rows, self.vectors) + self.mean
            if self.normalized:  # a row of zeros stays zero
                lengths = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64))
                part /= np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
            composed[first : first + len(part)] = part
        return composed

    def n_ngrams(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of n-grams of each word, int64 (n,), known or not.

        Examples
        --------
        >>> import distembed as de
        >>> table = de.SubwordTable([[4, 0], [0, 4]], [1, 1], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
        >>> table.n_ngrams(["ab", "abc"]).tolist()  # "<ab", "ab>"; "<ab", "abc", "bc>"
        [2, 3]
        """
        return np.diff(word_ngrams(words, self.min_n, self.max_n).offsets)

    def n_known(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return how many of the n-grams of each word have a row, int64 (n,); 0 where the mean is the answer.

        Examples
        --------
        >>> import distembed as de
        >>> table = de.SubwordTable([[4, 0], [0, 4]], [1, 1], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
        >>> table.n_known(["ab", "abc", "xyz"]).tolist()
        [2, 1, 0]
        """
        ngrams = word_ngrams(words, self.min_n, self.max_n)
        known = np.concatenate([[0], np.cumsum(self._rows_of(ngrams) >= 0)])
        return np.diff(known[ngrams.offsets])

    def normalize(self) -> SubwordTable:
        """Return the table whose composed vectors are divided by their lengths.

        Examples
        --------
        >>> import distembed as de
        >>> table = de.SubwordTable([[3, 0], [0, 4]], [0, 0], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
        >>> table.compose(["ab"]).tolist()
        [[1.5, 2.0]]
        >>> print(table.normalize().compose(["ab"]))
        [[0.6 0.8]]
        """
        return replace(self, normalized=True)

    def projected(self, center: VectorLike, directions: NDArray[np.floating]) -> SubwordTable:
        """Return the table that composes ``s' = (s - center) - (s - center) @ directions @ directions.T``.

        Parameters
        ----------
        center : array (d,)
        directions : array (d, k)
            Orthonormal columns.

        Raises
        ------
        ValueError
            If composed vectors are divided by their lengths, which has to come last.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> table = de.SubwordTable([[4, 0], [0, 4]], [1, 1], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
        >>> first_axis = np.array([[1.0], [0.0]])
        >>> table.projected([1, 1], first_axis).compose(["ab"]).tolist()  # of (3, 3) - (1, 1)
        [[0.0, 2.0]]
        """
        if self.normalized:
            raise ValueError(
                "composed vectors are divided by their lengths already: remove mean and components first, and then "
                "normalize"
            )
        mean = self.mean - np.asarray(center, np.float64)
        vectors = self.vectors - ((self.vectors @ directions) @ directions.T).astype(np.float32)
        return replace(self, mean=mean - (mean @ directions) @ directions.T, vectors=vectors)

    def centered(self) -> SubwordTable:
        """Return the table whose mean vector is zero: it composes ``s - m``, and zero where no n-gram is known.

        Examples
        --------
        >>> import distembed as de
        >>> table = de.SubwordTable([[4, 0], [0, 4]], [1, 1], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
        >>> table.centered().compose(["ab", "xyz"]).tolist()
        [[2.0, 2.0], [0.0, 0.0]]
        """
        return replace(self, mean=np.zeros_like(self.mean))

    def _rows_of(self, ngrams: Ngrams) -> Int64s:
        """Return the row of each n-gram, -1 where it has none."""
        wanted = hashes(ngrams.data, ngrams.starts, ngrams.stops)
        if self.ngrams is None:
            return wanted.astype(np.int64) % len(self)
        keys, rows = self._sorted
        places = np.searchsorted(keys[:-1], wanted)
        return np.where(keys[places] == wanted, rows[places], -1)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.integer], Int64s]:
        """The hashes of the n-grams in rising order, and the row of each; the last is that of none."""
        keys = np.asarray(self.ngrams)
        order = np.argsort(keys)
        return np.append(keys[order].astype(np.int64), -1), np.append(order, -1)
