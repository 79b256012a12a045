"""Weights of document × word counts: tf-idf and log-entropy.

Counts are a SciPy sparse matrix, or a Dask array of `csr_array` row blocks (documents) by all columns
(words).  A weighting of a Dask array is lazy but for one pass that sums the columns.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import dask.array as da
import numpy as np
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute, whole
from distembed.lift import fold, lift, total
from distembed.linalg.csr import canonical_csr
from distembed.linalg.operators import row_blocks
from distembed.typing import FloatType, Matrix
from distembed.validation import check_matrix
from distembed.weighting import blocks

Counts = TypeVar("Counts", bound=Matrix)
"""The kind of an array of counts, lazy or not, which that of its weights is too; those of a NumPy array are sparse."""


def document_frequencies(counts: Matrix) -> Int64s:
    """Return the number of documents that contain each word, int64 (words,).

    Raises
    ------
    ValueError
        If a count is negative, NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.weighting.documents import document_frequencies
    >>> document_frequencies(np.array([[3, 0], [1, 2], [4, 0]])).tolist()
    [3, 1]
    """
    matrix = check_counts(counts)
    shape = (matrix.shape[1],)
    return compute(fold(total(blocks.column_frequencies), "wc", matrix, shape=shape, dtype=np.int64))


def select_words(counts: Any, columns: Int64s) -> Any:
    """Return the counts of the given columns only; lazily for a Dask array.

    Parameters
    ----------
    counts : matrix (documents, words)
        SciPy, NumPy, or Dask array of row blocks.
    columns : int64 array (n,)
        The columns to take, in the order in which the result has them.

    Returns
    -------
    csr_array (documents, n), or a Dask array of csr_array row blocks

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.weighting.documents import select_words
    >>> select_words(np.array([[3, 0, 1], [1, 2, 0]]), np.array([2, 0])).toarray().tolist()
    [[1, 3], [0, 1]]
    """
    matrix = check_counts(counts)
    return lift(blocks.chosen_columns, "wc,k->wk", matrix, columns, dtype=matrix.dtype, sparse=True)


def select_pairs(counts: Any, words: Int64s) -> Any:
    """Return the counts of some words with one another, as counts of another vocabulary.

    Parameters
    ----------
    counts : matrix (words, words)
        SciPy, NumPy, or Dask array of csr_array row blocks.
    words : int64 array (n,)
        For each word of the result its row in `counts`; -1 for a word that they lack, whose row is empty.

    Returns
    -------
    csr_array (n, n), or a Dask array of csr_array row blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.weighting.documents import select_pairs
    >>> counts = np.array([[0, 5, 1], [5, 0, 2], [1, 2, 0]])
    >>> select_pairs(counts, np.array([1, -1, 0])).toarray().tolist()  # the second is unknown
    [[0, 0, 5], [0, 0, 0], [5, 0, 0]]
    """
    matrix, known = check_counts(counts), np.flatnonzero(words >= 0)
    cells = (np.ones(known.size, matrix.dtype), (words[known], known))
    places = csr_array(cells, shape=(matrix.shape[0], len(words)))
    columns = lift(blocks.times_sparse, "wc,ck->wk", matrix, places, dtype=matrix.dtype, sparse=True)
    if not isinstance(columns, da.Array):
        return canonical_csr(places.T @ columns)
    nothing = whole(csr_array((1, len(words)), dtype=matrix.dtype))
    rows = da.concatenate([columns, nothing])[np.where(words >= 0, words, matrix.shape[0])]
    return lift(canonical_csr, "wc->wc", rows, dtype=matrix.dtype, sparse=True)


def tf_idf(
    counts: Counts,
    *,
    frequencies: Int64s | None = None,
    n_documents: int | None = None,
    smooth: bool = True,
    sublinear: bool = False,
    normalize: bool = True,
    dtype: FloatType = np.float32,
) -> Counts:
    """Weight documents × words by ``tf · idf``, with rows of unit Euclidean length.

    The weight idf of a word in df of n documents is ``log((1 + n) / (1 + df)) + 1`` if `smooth` is true, and
    ``log(n / df)`` otherwise; a word in no document has weight 0. The result equals that of scikit-learn's
    `TfidfTransformer` with the same options where `smooth` is true.

    Parameters
    ----------
    counts : matrix (documents, words)
        Non-negative counts.
    frequencies : int64 array (words,), optional
        The document frequencies to use, for example those of the documents from which a model was learned.
    n_documents : int, optional
        The number of documents that `frequencies` come from.
    smooth : bool
        Whether idf is smoothed.
    sublinear : bool
        Use 1 + log tf instead of tf.
    normalize : bool
        Scale rows to unit length; an empty document stays empty.
    dtype : dtype
        The type of the result.

    Returns
    -------
    csr_array or dask.array.Array
        The weights; a Dask array has csr_array row blocks with the chunks of `counts`.

    Raises
    ------
    ValueError
        If a count is negative, NaN or infinite (a block of a Dask array is checked when it is computed), or
        `frequencies` has another number of words or a number that is not between 0 and `n_documents`.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> counts = np.array([[3, 0, 1], [2, 0, 0], [3, 0, 0], [4, 0, 0], [3, 2, 0], [3, 0, 2]])
    >>> print(de.tf_idf(counts).toarray()[[0, 1, 4]].round(2))
    [[0.85 0.   0.52]
     [1.   0.   0.  ]
     [0.55 0.83 0.  ]]
    >>> from sklearn.feature_extraction.text import TfidfTransformer
    >>> np.allclose(de.tf_idf(counts).toarray(), TfidfTransformer().fit_transform(counts).toarray())
    True
    """
    matrix = check_counts(counts)
    if frequencies is None:
        frequencies, n_documents = document_frequencies(counts), matrix.shape[0]
    given = np.asarray(frequencies)
    if (
        n_documents is None
        or given.shape != matrix.shape[1:]
        or not ((given >= 0) & (given <= n_documents)).all()
    ):
        raise ValueError(
            f"frequencies have shape {given.shape} and n_documents is {n_documents}; give for each of the "
            f"{matrix.shape[1]} words the number of these documents that hold it, and how many there are"
        )
    idf = np.log((smooth + n_documents) / np.maximum(smooth + given, 1)) + smooth
    idf = np.where(given > 0, idf, 0.0)
    weigh = partial(blocks.weigh_tf_idf, sublinear=sublinear, normalize=normalize, dtype=dtype)
    found: Counts = lift(weigh, "wc,c->wc", matrix, idf, dtype=dtype, sparse=True)
    return found


def entropy_weights(counts: Matrix) -> Float64s:
    """Return ``1 - H_j / log n_documents`` of each word, H the entropy of its counts over documents (nats).

    A word in no document has weight 0; with a single document every word has weight 1.

    Raises
    ------
    ValueError
        If a count is negative, NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.weighting.documents import entropy_weights
    >>> entropy_weights(np.array([[2, 0], [2, 0], [2, 3]])).round(2).tolist()
    [0.0, 1.0]
    """
    matrix = check_counts(counts)
    sums = compute(fold(total(blocks.column_entropy_sums), "wc", matrix, shape=(2, matrix.shape[1])))
    used, totals = sums[0] > 0, np.where(sums[0] > 0, sums[0], 1.0)
    entropy = np.log(totals) - sums[1] / totals
    scale = np.log(matrix.shape[0]) or 1.0
    return np.where(used, np.clip(1 - entropy / scale, 0.0, 1.0), 0.0)


def log_entropy(counts: Counts, *, weights: Float64s | None = None, dtype: FloatType = np.float32) -> Counts:
    """Weight documents × words by ``log(1 + tf) · (1 - H / log n_documents)``, H the entropy of a word in nats.

    A word that occurs evenly in all documents weighs nothing, one that occurs in a single document weighs most.

    Parameters
    ----------
    counts : matrix (documents, words)
        Non-negative counts.
    weights : float64 array (words,), optional
        The result of `entropy_weights`, for documents that were not in the sums.
    dtype : dtype
        The type of the result.

    Returns
    -------
    csr_array or dask.array.Array
        The weights; a Dask array has csr_array row blocks with the chunks of `counts`. Without `weights` one pass over
        its counts is computed at once.

    Raises
    ------
    ValueError
        If a count is negative, NaN or infinite (a block of a Dask array is checked when it is computed), or `weights`
        are not a finite number for each word.

    References
    ----------
    Dumais, Improving the retrieval of information from external sources, Behavior Research Methods, Instruments, &
    Computers 23, 1991, "log-entropy".

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> counts = np.array([[2, 0], [2, 0], [2, 3]])  # the first word is spread evenly: it says nothing
    >>> print(de.log_entropy(counts).toarray().round(2))
    [[0.   0.  ]
     [0.   0.  ]
     [0.   1.39]]
    """
    matrix = check_counts(counts)
    weight = entropy_weights(counts) if weights is None else np.asarray(weights, np.float64)
    if weight.shape != (matrix.shape[1],) or not np.isfinite(weight).all():
        raise ValueError(
            f"weights have shape {weight.shape} for {matrix.shape[1]} words, or hold NaN or infinity; give the result "
            "of entropy_weights, a finite number for each word."
        )
    weigh = partial(blocks.weigh_log_entropy, dtype=dtype)
    found: Counts = lift(weigh, "wc,c->wc", matrix, weight, dtype=dtype, sparse=True)
    return found


def check_counts(counts: Any) -> Any:
    """Return counts as a `csr_array`, or those of a Dask array as one with `csr_array` chunks of whole rows.

    Raises
    ------
    ValueError
        If a count is NaN, infinite or negative: at once where the counts are in memory, otherwise when the block that
        holds it is computed.
    """
    checked = check_matrix(counts, name="counts", nonnegative=True, min_rows=0)
    return row_blocks(checked) if isinstance(checked, da.Array) else canonical_csr(checked)
