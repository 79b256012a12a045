"""Word spaces assembled from counts: the contexts on either side of a word, and the choice of columns by their entropy.

Lund and Burgess, Producing high-dimensional semantic spaces from lexical co-occurrence, Behavior Research
Methods, Instruments & Computers 28 (1996).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import dask.array as da
import numpy as np
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Int64s
from distembed.lift import lift
from distembed.linalg.operators import transpose_row_blocks, whole_rows
from distembed.typing import SparseMatrix
from distembed.weighting import blocks
from distembed.weighting.documents import document_frequencies, entropy_weights, select_words

Pairs = TypeVar("Pairs", bound=da.Array | SparseMatrix)
"""The kind of an array of counts, lazy or not, which that of its contexts is too."""


def hal_space(following: da.Array, preceding: da.Array) -> da.Array:
    """Return the two halves of HAL side by side: first the words after a word, then the words before it.

    Parameters
    ----------
    following : Dask array (n, n) of csr_array row blocks
        The number of times that column j stands after row i: ``count_cooccurrences(..., window=10,
        direction="left", weighting="ramp")``.
    preceding : Dask array (n, n) of csr_array row blocks
        Its transpose, in the same row chunks: ``transpose_row_blocks(following)``, or counts with
        direction="right".

    Returns
    -------
    Dask array (n, 2n) of csr_array row blocks
        The space, lazy.

    Raises
    ------
    ValueError
        If the halves differ in shape or in row chunks.
    """
    if following.shape != preceding.shape or following.chunks[0] != preceding.chunks[0]:
        raise ValueError(
            f"the halves have shapes {following.shape} and {preceding.shape} in row chunks "
            f"{following.chunks[0]} and {preceding.chunks[0]}; give counts and their transpose"
        )
    return _side_by_side(whole_rows(following), whole_rows(preceding))


def directional_contexts(counts: Pairs) -> Pairs:
    """Return the contexts of words on either side: first the words after a word, then the words before it.

    Of counts L of words on the left they are ``[L | L^T]``, as in HAL.

    Parameters
    ----------
    counts : Dask array of csr_array row blocks, or sparse matrix (n, n)
        ``count_cooccurrences(..., direction="left")``.

    Returns
    -------
    Dask array of csr_array row blocks, or csr_array (n, 2 * n)
        The contexts, in the dtype and the row chunks of the counts; of a Dask array they are lazy.

    Raises
    ------
    ValueError
        If the counts are not those of words by words.

    References
    ----------
    Lund & Burgess, Producing high-dimensional semantic spaces from lexical co-occurrence, 1996.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> counts = de.count_cooccurrences(docs, vocabulary, window=2, direction="left")
    >>> contexts = de.directional_contexts(counts).compute()
    >>> contexts.shape
    (11, 22)
    >>> user, response = vocabulary.index(["user", "response"])
    >>> int(contexts[user, response])  # "user perceived response": after user
    1
    >>> int(contexts[response, 11 + user])  # before response
    1
    """
    n, m = counts.shape
    if not n or n != m:
        raise ValueError(f"the counts have {n} rows and {m} columns; give counts of words by words")
    after: Any = whole_rows(counts) if isinstance(counts, da.Array) else csr_array(counts)
    is_lazy = isinstance(after, da.Array)
    before = transpose_row_blocks(after, row_chunks=after.chunks[0]) if is_lazy else after.T
    contexts: Pairs = _side_by_side(after, before)
    return contexts


def _side_by_side(left: Any, right: Any) -> Any:
    sizes = {"c": left.shape[1] + right.shape[1]}
    dtype = np.result_type(left.dtype, right.dtype)
    return lift(blocks.beside, "wa,wb->wc", left, right, dtype=dtype, sparse=True, sizes=sizes)


def column_entropies(matrix: da.Array) -> Float64s:
    r"""Return the entropy of each column over the rows, float64 (m,), in nats; 0 for an empty column.

    .. math:: H_j = -\sum_i p_{ij} \log p_{ij}, \quad p_{ij} = x_{ij} / \sum_i x_{ij}

    scipy.stats.entropy(X, axis=0) is the equivalent for a dense array. `documents.select_words` takes the
    columns chosen.

    Raises
    ------
    ValueError
        If a value is negative, NaN or infinite.
    """
    return (1 - entropy_weights(matrix)) * np.log(matrix.shape[0]) * (document_frequencies(matrix) > 0)


def chosen_columns(
    matrix: da.Array,
    words: Sequence[str],
    *,
    n_columns: int | None = None,
    without: Collection[str] = (),
) -> da.Array:
    """Return a space with its columns of the highest entropy, those of the words `without` left out.

    Parameters
    ----------
    matrix : Dask array (n, m) of csr_array row blocks
    words : sequence of str
        Of the columns; m a whole multiple of their number, as the two halves of HAL are.
    n_columns : int, optional
        Default: all that are left. A HAL space is cut so (Lund and Burgess 1996).
    without : collection of str
        `sklearn.feature_extraction.text.ENGLISH_STOP_WORDS`, for one.

    Raises
    ------
    ValueError
        If n_columns is not between 1 and the number of columns.
    """
    kept = np.flatnonzero(np.tile([word not in without for word in words], matrix.shape[1] // len(words)))
    if n_columns is not None:
        kept = kept[highest_columns(column_entropies(matrix)[kept], n_columns)]
    return matrix if len(kept) == matrix.shape[1] else select_words(matrix, kept)


def highest_columns(scores: Float64s, n_columns: int) -> Int64s:
    """Return the columns with the highest scores, rising by number; of equal ones those that come first.

    Raises
    ------
    ValueError
        If n_columns is not between 1 and the number of columns.
    """
    if not 1 <= n_columns <= len(scores):
        raise ValueError(f"n_columns is {n_columns} of {len(scores)} columns; choose 1 to {len(scores)}")
    return np.sort(np.argsort(-scores, kind="stable")[:n_columns]).astype(np.int64)
