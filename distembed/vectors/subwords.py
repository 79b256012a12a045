"""Vectors of character n-grams, from which a vector of any string is composed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from distembed.linalg.blocks import sparse_times_dense
from distembed.typing import VectorLike, refuse_collection
from distembed.vectors import ngram_blocks as blocks
from distembed.vectors.ngram_blocks import Slices

WORDS_TOGETHER = 20_000
"""Words whose n-grams are held at a time: about 40 MiB."""


@dataclass(frozen=True, eq=False, repr=False)
class SubwordTable:
    r"""Vectors of character n-grams: the learned state of `distembed.SubwordMap`.

    .. math:: s_w = m + \frac{1}{|g_w|} \sum_{g \in g_w} z_g

    g_w are the n-grams of `min_n` to `max_n` characters of ``<word>``, as often as they stand there, and those
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
    ngrams : tuple of str, optional
        The n-gram of each row. Without it row i belongs to bucket i.
    n_buckets : int, optional
        The number of buckets into which n-grams are hashed, by FNV-1a as in fastText.
    normalized : bool
        Whether composed vectors are divided by their lengths.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is NaN or infinite, an n-gram occurs twice, or both or neither of `ngrams` and
        `n_buckets` are given.

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
    ngrams: tuple[str, ...] | None = None
    n_buckets: int | None = None
    normalized: bool = False

    def __post_init__(self) -> None:
        for name in ("vectors", "mean"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.float32))
        blocks.check_lengths(self.min_n, self.max_n)
        if self.vectors.ndim != 2 or self.mean.shape != self.vectors.shape[1:]:
            raise ValueError(
                f"vectors have shape {self.vectors.shape} and the mean {self.mean.shape}: "
                "give one row per n-gram and a mean of as many components"
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.vectors.sum(dtype=np.float64))):
            raise ValueError(
                "the vectors of the n-grams or their mean hold NaN or infinity: fit the map again"
            )
        if (self.ngrams is None) == (self.n_buckets is None):
            raise ValueError("give ngrams, the n-gram of each row, or n_buckets, and not both")
        n_rows = self.n_buckets if self.ngrams is None else len(self.ngrams)
        if n_rows != len(self):
            raise ValueError(
                f"there are {len(self)} vectors for {n_rows} n-grams or buckets: give one for each"
            )
        if self.ngrams is not None and len(set(self.ngrams)) < len(self.ngrams):
            raise ValueError("an n-gram occurs twice: give each n-gram once")

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def contents(self) -> str:
        """What the table holds, in words."""
        kind = "n-grams" if self.n_buckets is None else f"of {self.n_buckets:,} buckets of n-grams"
        lengths = f"{self.min_n} to {self.max_n} characters"
        return f"{len(self):,} {kind} of {lengths}"

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
            packed = blocks.pack_words(words[first : first + WORDS_TOGETHER])
            slices = blocks.word_ngrams(packed, self.min_n, self.max_n)
            rows = blocks.averaging_rows(slices.offsets, self._rows_of(packed, slices), len(self))
            part = sparse_times_dense(rows, self.vectors) + self.mean
            composed[first : first + len(part)] = _unit(part) if self.normalized else part
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
        return np.diff(blocks.word_ngrams(blocks.pack_words(words), self.min_n, self.max_n).offsets)

    def n_known(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return how many of the n-grams of each word have a row, int64 (n,); 0 where the mean is the answer.

        Examples
        --------
        >>> import distembed as de
        >>> table = de.SubwordTable([[4, 0], [0, 4]], [1, 1], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
        >>> table.n_known(["ab", "abc", "xyz"]).tolist()
        [2, 1, 0]
        """
        packed = blocks.pack_words(words)
        slices = blocks.word_ngrams(packed, self.min_n, self.max_n)
        known = np.concatenate([[0], np.cumsum(self._rows_of(packed, slices) >= 0)])
        return np.diff(known[slices.offsets])

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

    def _rows_of(self, packed: blocks.Packed, slices: Slices) -> NDArray[np.int64]:
        """Return the row of each n-gram, -1 where it has none."""
        if self.n_buckets is None:
            return blocks.find_slices(packed, slices, *self._keys)
        return blocks.hash_buckets(packed.data, slices.starts, slices.stops, self.n_buckets)

    @cached_property
    def _keys(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        return blocks.sorted_keys(blocks.pack(self.ngrams or ()))


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows divided by their lengths; a row of zeros stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return rows / np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
