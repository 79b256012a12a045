"""The subword map: vectors of character n-grams, learned from the vectors of words, for any string.

min over Z of ``sum_w ‖v_w - m - A_w Z‖² + lambda ‖Z‖²``, A the average of a word's n-grams: one sparse ridge
regression whose d right-hand sides are solved a few at a time, each block of columns a task.

Reference: Bojanowski, Grave, Joulin & Mikolov, Enriching word vectors with subword information, TACL 2017, whose
composition of a word from its n-grams this is; they learn it from text, here it is fitted to finished vectors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from distembed.dtypes import Float32s, Int64s
from distembed.execution import compute, one_blas_thread, shared, whole
from distembed.factorization.subword_blocks import COLUMNS_TOGETHER, solve_ridge
from distembed.lift import block, lift
from distembed.linalg.operators import gathered
from distembed.options import PositiveFloat, PositiveInt, check_options
from distembed.states import keep, scope
from distembed.typing import DenseMatrix, refuse_collection
from distembed.validation import check_matrix, like_input
from distembed.vectors.subwords import SubwordTable, averaging_rows, check_lengths, hashes, word_ngrams

LENGTHS = 4
"""The lengths of n-grams from 3 to 6, for which the numbers below were measured."""

NGRAM_BYTES = 24 + 16
"""Of an n-gram of a word while they are found, and in the matrix with its transpose."""

NAME_BYTES = 100
"""Of an n-gram as a string, with its place in the table."""


class SubwordMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Learn vectors of character n-grams from word vectors, and compose a vector of any string.

    .. math:: \min_Z \sum_w \Bigl\| v_w - m - \frac{1}{|g_w|} \sum_{g \in g_w} z_g \Bigr\|^2
              + \lambda \|Z\|^2

    g_w are the n-grams of ``<word>``, and m is the mean vector.

    Parameters
    ----------
    min_n : int
        Number of characters of the shortest n-grams.
    max_n : int
        Number of characters of the longest n-grams.
    min_words : int
        Smallest number of words that must hold an n-gram to give it a vector.
    regularization : float or sequence of float
        Regularization strength lambda; larger values pull the vectors of n-grams that few words hold towards zero. A
        sequence has one value for each component.
    tol : float
        Tolerance: the largest residual of a column of the regression, relative to the length of its right-hand side.
    max_iter : int
        The largest number of steps of conjugate gradients.

    Attributes
    ----------
    vectors_ : (rows, d) float32
        The vectors of the n-grams. A Dask array if `vectors` was one.
    mean_ : (d,) float32
        m, the vector of a string of which no n-gram is known.
    ngrams_ : tuple of str
        The n-gram of each row, in the order of their first occurrence.
    n_words_ : (rows,) int64
        In how many words each n-gram occurs.
    residuals_ : (d,) float64
        The residual of each column, measured at the end.
    converged_ : bool
        Whether all are at most `tol`.

    References
    ----------
    Bojanowski, Grave, Joulin & Mikolov, Enriching word vectors with subword information, TACL 2017, whose composition
    of a word from its n-grams this is.

    Examples
    --------
    >>> import distembed as de
    >>> words = ["walk", "walks", "walked", "talk", "talks", "talked"]
    >>> vectors = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [-1, 0, 0], [-1, 1, 0], [-1, 0, 1]]
    >>> subwords = de.SubwordMap(regularization=1e-3).fit(words, vectors)
    >>> print(subwords.transform(["talking"]).round(1))
    [[-0.6  0.3  0.3]]
    """

    def __init__(
        self,
        min_n: PositiveInt = 3,
        max_n: PositiveInt = 6,
        *,
        min_words: PositiveInt = 2,
        regularization: PositiveFloat | Sequence[PositiveFloat] = 0.1,
        tol: PositiveFloat = 1e-3,
        max_iter: PositiveInt = 200,
    ) -> None:
        self.min_n = min_n
        self.max_n = max_n
        self.min_words = min_words
        self.regularization = regularization
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: words as input, with their vectors as a second argument."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.target_tags.required = tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, words: Sequence[str], vectors: DenseMatrix) -> SubwordMap:
        """Learn the vectors of the n-grams of words.

        Parameters
        ----------
        words : sequence of str
            n distinct words.
        vectors : array or Dask array (n, d)
            Their vectors, finite.

        Returns
        -------
        SubwordMap

        Raises
        ------
        ValueError
            If lengths differ, a word occurs twice, a value is NaN or infinite, or an option is out of range.
        TypeError
            If a word is not a string.

        Warns
        -----
        RuntimeWarning
            If a residual is above `tol` at the end.

        Examples
        --------
        >>> import distembed as de
        >>> words = ["walk", "walks", "walked", "talk", "talks", "talked"]
        >>> vectors = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [-1, 0, 0], [-1, 1, 0], [-1, 0, 1]]
        >>> subwords = de.SubwordMap().fit(words, vectors)
        >>> subwords.ngrams_[:3], subwords.vectors_.shape, subwords.converged_
        (('<wa', '<wal', '<walk'), (27, 3), True)
        """
        check_options(self)
        check_lengths(self.min_n, self.max_n)
        seen: dict[str, int] = {}
        for place, word in enumerate(words):
            if not isinstance(word, str) or isinstance(words, str):
                raise TypeError(f"words holds {word!r} at place {place}: give a list of strings")
            if seen.setdefault(word, place) != place:
                raise ValueError(
                    f"the word {word!r} stands at places {seen[word]} and {place}: give each word once"
                )
        matrix = check_matrix(vectors, name="vectors", estimator=self, sparse=False)
        if matrix.shape[0] != len(words):
            raise ValueError(
                f"there are {len(words)} words and {matrix.shape[0]} vectors: give one vector per word"
            )
        n_components = matrix.shape[1]
        given = np.atleast_1d(np.asarray(self.regularization, np.float64))
        if len(given) not in (1, n_components):
            raise ValueError(
                f"regularization has {len(given)} values for vectors of {n_components} components: give one number, or "
                "one for each component"
            )
        ridges = np.broadcast_to(given, (n_components,))[None]
        averaging, self.n_words_, self.ngrams_ = find_ngrams(
            words, min_n=self.min_n, max_n=self.max_n, min_words=self.min_words
        )
        self._lengths = self.min_n, self.max_n
        self._table: SubwordTable | None = None
        chunks = (-1, COLUMNS_TOGETHER)
        is_lazy = isinstance(matrix, da.Array)
        columns = matrix.rechunk(chunks) if is_lazy else da.from_array(matrix, chunks=chunks)
        with one_blas_thread(), scope("subwords", self.get_params(), words, vectors):
            solve = partial(
                lift, solve_ridge, "wc,sc->gc", columns, ridges, sizes={"g": self.n_words_.size + 2},
                matrix=shared(averaging), transposed=shared(sp.csr_array(averaging.T)),
                tol=self.tol, max_iter=self.max_iter,
            )  # fmt: skip
            # Their rows are stored: the block of a task is one of rows.
            learned = keep("components", lambda: solve().T)
            residuals, self.mean_ = compute(learned[:, -2:]).T
        self.residuals_ = residuals.astype(np.float64)
        self.converged_ = bool(np.all(self.residuals_ <= self.tol))
        if not self.converged_:
            warnings.warn(
                f"the subword map stopped at a relative residual of {self.residuals_.max():.2g}, above tol "
                f"{self.tol:g}: raise max_iter, tol or regularization",
                RuntimeWarning,
                stacklevel=2,
            )
        self.vectors_ = like_input(learned[:, :-2].T, vectors)
        return self

    @overload
    def transform(self, words: da.Array) -> da.Array: ...

    @overload
    def transform(self, words: Sequence[str]) -> Float32s: ...

    def transform(self, words: Sequence[str] | da.Array) -> Float32s | da.Array:
        """Return the vectors (n, d) of words, known or not, composed from their n-grams, float32.

        Parameters
        ----------
        words : sequence of str, or Dask array (n,) of them
            n words.

        Returns
        -------
        float32 array (n, d)
            A Dask array where `words` is one, lazily.

        Examples
        --------
        >>> import distembed as de
        >>> words, vectors = ["walk", "walks", "talk", "talks"], [[1, 0], [1, 1], [-1, 0], [-1, 1]]
        >>> subwords = de.SubwordMap(regularization=1e-3).fit(words, vectors)
        >>> found = subwords.transform(["walking", "日本"])
        >>> found.shape, found.dtype
        ((2, 2), dtype('float32'))
        >>> bool((found[1] == subwords.mean_).all())  # no n-gram of it is known
        True
        """
        refuse_collection(words, "words")
        if not isinstance(words, da.Array):
            return self.table_.compose(words)
        check_is_fitted(self, "vectors_")
        vectors = gathered(self.vectors_ if isinstance(self.vectors_, da.Array) else whole(self.vectors_))
        table = lift(make_table, "gc->gc", vectors, dtype=object, sizes={"g": 1, "c": 1}, make=self._as_table)
        return lift(compose, "w,GC->wc", words, table, sizes={"c": vectors.shape[1]})

    @property
    def table_(self) -> SubwordTable:
        """The vectors of the n-grams in memory, as what composes vectors; `distembed.WordVectors` takes it."""
        check_is_fitted(self, "vectors_")
        if self._table is None:
            self._table = self._as_table(compute(self.vectors_))
        return self._table

    @property
    def _as_table(self) -> Callable[[Float32s], SubwordTable]:
        min_n, max_n = self._lengths
        return partial(SubwordTable, mean=self.mean_, min_n=min_n, max_n=max_n, ngrams=self.ngrams_)

    @property
    def _n_features_out(self) -> int:
        return int(self.mean_.shape[0])


def find_ngrams(
    words: Sequence[str], *, min_n: int, max_n: int, min_words: int = 2
) -> tuple[sp.csr_array, Int64s, tuple[str, ...]]:
    """Return the n-grams that stand in enough words, and the matrix that averages them.

    Parameters
    ----------
    words : sequence of str
        The words.
    min_n, max_n : int
        The characters of the shortest and of the longest n-grams.
    min_words : int
        The number of words in which an n-gram has to stand.

    Returns
    -------
    tuple
        A, csr_array (n_words, rows) float32, each row of which averages the n-grams of a word; in how many words each
        n-gram occurs, int64 (rows,); and the n-grams, in the order of their first occurrence.
    """
    found = word_ngrams(words, min_n, max_n)
    keys = hashes(found.data, found.starts, found.stops)
    _, first, ids = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    columns = np.empty(len(order), np.int32)
    columns[order] = np.arange(len(order), dtype=np.int32)
    averaging = averaging_rows(found.offsets, columns[ids], len(order))
    n_words = np.bincount(averaging.indices, minlength=len(order))
    kept = np.flatnonzero(n_words >= min_words)
    return averaging[:, kept], n_words[kept], tuple(found.strings(first[order][kept]))


@block(temporaries=0.5)
def make_table(vectors: Float32s, *, make: Callable[[Float32s], SubwordTable]) -> SubwordTable:
    """Return the table of the vectors of n-grams."""
    return make(vectors)


@block(temporaries=3)
def compose(words: NDArray[Any], tables: list[SubwordTable]) -> Float32s:
    """Return the vectors of words, composed by the one table."""
    return tables[0].compose(words.tolist())


NGRAMS_PER_WORD, DISTINCT_PER_WORD = 40, 8
"""N-grams of a word, and distinct n-grams per word: 22 and 4.7 for the 80,000 most frequent words of the English
Wikipedia. Of these 1.9 per word stand in two words or more, 1.2 in three, 0.3 in ten: less than 8 over their number."""


def expected_ngrams(min_n: int, max_n: int, n_words: int, *, min_words: int = 2) -> tuple[int, int]:
    """Return how many n-grams will be found in words, about, and how many will have a vector."""
    lengths = (max_n - min_n + 1) / LENGTHS
    kept = DISTINCT_PER_WORD * max(1, lengths) * n_words / min_words
    return round(NGRAMS_PER_WORD * lengths * n_words), round(kept)
