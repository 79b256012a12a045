"""Counts of words by words to association: PMI, PPMI, the cut-off of PSDVec's weights, and the contexts of HAL.

Counts are a Dask array (csr_array or NumPy chunks), a SciPy sparse matrix or a NumPy array; row = left word,
column = right word. What comes back is of the same kind; from a Dask array it is lazy, in blocks of whole rows. A
pair that is not stored stands for a count of zero: in PMI for "not seen" (-inf), in PPMI for 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import dask.array as da
import numpy as np
from annotated_types import Gt
from scipy.sparse import csr_array, issparse

from distembed.dtypes import Floats
from distembed.execution import compute, one_blas_thread
from distembed.lift import Sum, block, fold, lift, total
from distembed.linalg.blocks import stack_columns
from distembed.linalg.csr import row_sums
from distembed.linalg.operators import transpose_row_blocks, whole_rows
from distembed.typing import MatrixLike, VectorLike
from distembed.weighting import blocks
from distembed.weighting.documents import check_counts, document_frequencies, entropy_weights, select_words

CutoffRule = Literal["halving", "none"] | Annotated[float, Gt(0)]  # inf as well

CUTOFF_SHARE = 0.0002
"""Share of the non-zero weights that has to reach a cut-off point (PSDVec's program)."""
SMALLEST_HALVED = 10.0
"""Below this weight the halving stops (PSDVec's program)."""


class Marginals(NamedTuple):
    """Sums of the counts."""

    rows: Floats
    columns: Floats
    """Shape (n,), (m,) float64."""


Pairs = TypeVar("Pairs", bound=MatrixLike)
"""The kind of an array, which that of a result is too: a Dask array, a sparse matrix, a NumPy array."""


class SmoothedPMI(NamedTuple, Generic[Pairs]):
    """A matrix of smoothed PMI as a constant plus a sparse part, so that no n × n array is needed."""

    constant: float
    """What every pair of words has, in nats: log(kappa), the PMI of a pair without a count."""
    excess: Pairs
    """What a pair with a count has beside that, above zero, (n, n) float32; of a Dask array in csr_array row blocks."""


def marginals(counts: MatrixLike) -> Marginals:
    """Sum the rows and the columns of counts, in one pass over the blocks.

    Raises
    ------
    ValueError
        If a count is NaN, infinite or negative.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.weighting.pmi import marginals
    >>> rows, columns = marginals(np.array([[0, 3], [1, 0]]))
    >>> rows.tolist(), columns.tolist()
    ([3.0, 1.0], [1.0, 3.0])
    """
    checked = check_counts(counts)
    return Marginals(*compute((_row_sums(checked), _column_sums(checked))))


@one_blas_thread()  # once, where each of the lifts of a small matrix would set it
def pmi(
    counts: Pairs,
    *,
    row_totals: Floats | None = None,
    column_totals: Floats | None = None,
    context_smoothing: float = 1.0,
    negative_samples: float = 1.0,
    positive: bool = False,
) -> Pairs:
    """Return pointwise mutual information on the support of counts.

    ``PMI_ij = log(x_ij / (n_i p_j)) - log(N)`` with ``p_j = c_j^alpha / sum_k c_k^alpha``.

    Parameters
    ----------
    counts : Dask array, sparse matrix or array (n, m)
        The counts.
    row_totals : (n,) array, optional
        n_i; by default the row sums of `counts`.
    column_totals : (m,) array, optional
        c_j; by default the column sums, for which a Dask array is computed once before the result is.
    context_smoothing : float
        alpha; 0.75 is the usual choice (Levy, Goldberg & Dagan 2015, section 3.1).
    negative_samples : float
        N, which lowers PMI by log N (Levy & Goldberg 2014, equation 11).
    positive : bool
        Keep only the values above zero (PPMI, or shifted PPMI).

    Returns
    -------
    array of the same kind as `counts`, float32
        Sparse on the support of `counts`; a NumPy array holds 0 where there was no count.

    Raises
    ------
    ValueError
        If `negative_samples` is not above zero, or a count is negative, NaN or infinite; a block of a Dask array is
        checked when it is computed.

    References
    ----------
    Church & Hanks, Word association norms, mutual information, and lexicography, Computational Linguistics 16, 1990,
    section 2, for the measure; Levy, Goldberg & Dagan 2015 and Levy & Goldberg 2014 for its options.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> counts = np.array([[4, 1], [1, 4]])  # in all 10 pairs, 5 for each word
    >>> print(de.pmi(counts).round(2))  # log(4/10 / (5/10 * 5/10)) = 0.47
    [[ 0.47 -0.92]
     [-0.92  0.47]]
    >>> print(de.pmi(counts, positive=True, negative_samples=1.2).round(2))  # less log 1.2 = 0.18
    [[0.29 0.  ]
     [0.   0.29]]
    """
    if not negative_samples > 0:
        raise ValueError(f"negative_samples is {negative_samples}; give a number above 0 (1: no shift)")
    options = {"shift": float(np.log(negative_samples)), "positive": positive}
    checked = check_counts(counts)
    rows = _row_sums(checked) if row_totals is None else np.asarray(row_totals, float)
    # Before any block is weighed: with the sums in its graph Dask would hold all counts until the last is read.
    columns = compute(_column_sums(checked)) if column_totals is None else np.asarray(column_totals, float)
    raised = columns**context_smoothing
    found: Pairs = _weighed(blocks.pmi, counts, checked, rows, raised / raised.sum(), **options)
    return found


def ppmi(
    counts: Pairs,
    *,
    row_totals: Floats | None = None,
    column_totals: Floats | None = None,
    context_smoothing: float = 1.0,
    negative_samples: float = 1.0,
) -> Pairs:
    """Return positive pointwise mutual information (PPMI): the values of PMI above zero, and zero elsewhere.

    ``PPMI_ij = max(0, log(x_ij / (n_i p_j)) - log(N))`` with ``p_j = c_j^alpha / sum_k c_k^alpha``; this is
    `distembed.weighting.pmi.pmi` with ``positive=True``.

    Parameters
    ----------
    counts : Dask array, sparse matrix or array (n, m)
        The counts x.
    row_totals : (n,) array, optional
        n_i; by default the row sums of `counts`.
    column_totals : (m,) array, optional
        c_j; by default the column sums.
    context_smoothing : float
        alpha.
    negative_samples : float
        N.

    Returns
    -------
    array of the same kind as `counts`, float32

    Raises
    ------
    ValueError
        If `negative_samples` is not above zero, or a count is negative, NaN or infinite; a block of a Dask array is
        checked when it is computed.

    References
    ----------
    Levy, Goldberg & Dagan, Improving distributional similarity with lessons learned from word embeddings, TACL 3, 2015,
    section 3.1. Levy & Goldberg 2014, equation 11, has the shift by log N.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> counts = np.array([[0, 8, 1], [8, 0, 1], [1, 1, 0]])  # the first two words are often together
    >>> print(de.ppmi(counts).round(2))
    [[0.   0.68 0.11]
     [0.68 0.   0.11]
     [0.11 0.11 0.  ]]
    """
    return pmi(
        counts, row_totals=row_totals, column_totals=column_totals, context_smoothing=context_smoothing,
        negative_samples=negative_samples, positive=True,
    )  # fmt: skip


def smoothed_pmi(counts: Pairs, word_counts: VectorLike, *, smoothing: float = 0.02) -> SmoothedPMI[Pairs]:
    """Return PMI with Jelinek-Mercer smoothing, which is finite for every pair of words.

    ``G_ij = log(((1 - kappa) x_ij / n_i + kappa u_j) / u_j)``: the constant ``log(kappa)`` for a pair without a
    count, and more than that for the others (Li, Zhu & Miao, PSDVec, 2017, section 2).

    Parameters
    ----------
    counts : Dask array, sparse matrix or array (n, n)
        The counts, row = left word; n_i are their row sums.
    word_counts : (n,) array
        The occurrences of the words; u_j are their shares.
    smoothing : float
        kappa, above 0 and below 1.

    Returns
    -------
    SmoothedPMI
        Its `excess` is of the same kind as `counts`; that of a Dask array has read nothing yet.

    Raises
    ------
    ValueError
        If `smoothing` is not between 0 and 1, or `word_counts` are not a number above zero for each word; if a count is
        negative, NaN or infinite, that of a Dask array when the block that holds it is computed.

    References
    ----------
    Li, Zhu & Miao, PSDVec: a toolbox for incremental and scalable word embedding, Neurocomputing 2017, section 2.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> counts = de.count_cooccurrences(docs, vocabulary, window=3, direction="left")
    >>> smoothed = de.smoothed_pmi(counts, vocabulary.counts, smoothing=0.1)
    >>> round(smoothed.constant, 2)  # log 0.1
    -2.3
    >>> graph, minors = vocabulary.index(["graph", "minors"])
    >>> round(float(smoothed.constant + smoothed.excess.compute()[graph, minors]), 2)
    2.03
    """
    if not 0 < smoothing < 1:
        raise ValueError(f"smoothing is {smoothing}; give a number above 0 and below 1")
    checked, occurrences = check_counts(counts), np.asarray(word_counts, float)
    if occurrences.shape != checked.shape[1:] or not ((occurrences > 0) & (occurrences < np.inf)).all():
        raise ValueError(
            f"word_counts have shape {occurrences.shape} or hold a number that is not above zero; give how often each "
            f"of the {checked.shape[1]} words occurs"
        )
    shares, rows = occurrences / occurrences.sum(), _row_sums(checked)
    excess = _weighed(blocks.excess_of_block, counts, checked, rows, shares, smoothing=smoothing)
    return SmoothedPMI(float(np.log(smoothing)), excess)


def weight_cutoff(counts: da.Array, rule: CutoffRule) -> float:
    """Return the cut-off point of the weights sqrt(x).

    Parameters
    ----------
    counts : Dask array (n, m) of row blocks
    rule : "halving", "none" or float
        "halving" (the authors' program): halve from the square root of the first count, of the most frequent left word
        with the most frequent right word, while at least 10 and take the first value that at least 0.02 % of the
        non-zeros reach, else the square root itself. "none": no cut-off. A number: itself.

    Returns
    -------
    float
        inf for no cut-off, also where the rule finds nothing to start from (a first count of 0).

    Raises
    ------
    ValueError
        If the rule is unknown or a number not above zero.
    """
    if rule == "none":
        return np.inf
    if isinstance(rule, int | float | np.number) and rule > 0:
        return float(rule)
    if rule != "halving":
        raise ValueError(f'weight_cutoff is {rule!r}; give "halving", "none" or a number above 0')
    start = float(np.sqrt(float(compute(counts[:1, :1])[0, 0])))
    candidates = [start / 2**k for k in range(64) if start / 2**k >= SMALLEST_HALVED]
    if not candidates:
        return start if start > 0 else np.inf
    thresholds = np.array([*candidates, 0.0])
    reached = fold(
        total(blocks.count_at_least), "wc", whole_rows(counts),
        shape=thresholds.shape, dtype=np.int64, thresholds=thresholds,
    )  # fmt: skip
    *reaching, stored = compute(reached)
    hits = (c for c, n in zip(candidates, reaching, strict=True) if n >= CUTOFF_SHARE * stored)
    return next(hits, start)


def largest_count(counts: da.Array) -> float:
    """Return the largest stored value of an array of row blocks, 0 for none."""
    found = fold(Sum(blocks.largest_value, max, float), "wc", whole_rows(counts), shape=())
    return float(compute(found))


def _row_sums(counts: Any) -> Any:
    return lift(row_sums, "wc->w", counts, dtype=np.float64)


def _column_sums(counts: Any) -> Any:
    return fold(total(blocks.column_sums), "wc", counts, shape=(counts.shape[1],))


def _weighed(function: Any, counts: Any, checked: Any, rows: Any, columns: Floats, **options: Any) -> Any:
    """Apply a block function of (counts, row vector, column vector); the result is dense where `counts` are."""
    result = lift(function, "wc,w,c->wc", checked, rows, columns, sparse=True, **options)
    return result if isinstance(counts, da.Array) or issparse(counts) else result.toarray()


# ---- contexts on either side, and the choice of columns ------------------------------------------------------------


def directional_contexts(counts: Pairs, before: Pairs | None = None) -> Pairs:
    """Return the contexts of words on either side: first the words after a word, then the words before it.

    For counts L of words on the left they are ``[L | L^T]``, as in HAL.

    Parameters
    ----------
    counts : Dask array of csr_array row blocks, or sparse matrix (n, n)
        ``count_cooccurrences(..., direction="left")``.
    before : of the same kind and chunks, optional
        Their transpose, where it is stored: counts with ``direction="right"``. By default it is made.

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
    after = check_counts(counts)
    n, m = after.shape
    if not n or n != m:
        raise ValueError(f"the counts have {n} rows and {m} columns; give counts of words by words")
    if before is not None:
        turned = check_counts(before)
    elif isinstance(after, da.Array):
        turned = transpose_row_blocks(after)
    else:
        turned = after.T
    contexts: Pairs = lift(
        beside, "wa,wb->wc", after, turned, dtype=after.dtype, sparse=True, sizes={"c": 2 * n}
    )
    return contexts


@block(temporaries=1.5)
def beside(*parts: csr_array) -> csr_array:
    """Return blocks of the same rows side by side."""
    return stack_columns(list(parts))


def chosen_columns(
    matrix: da.Array, words: Sequence[str], *, n_columns: int | None = None, without: Collection[str] = ()
) -> da.Array:
    r"""Return a space with its columns of the highest entropy, those of the words `without` left out.

    The entropy of a column is that of its counts over the rows; of equal columns those that come first are taken:

    .. math:: H_j = -\sum_i p_{ij} \log p_{ij}, \quad p_{ij} = x_{ij} / \sum_i x_{ij}

    Parameters
    ----------
    matrix : Dask array (n, m) of csr_array row blocks
    words : sequence of str
        Of the columns; m a whole multiple of their number, as the two halves of HAL are.
    n_columns : int, optional
        Default: all that are left. S-Space cuts a HAL space so; Lund and Burgess (1996) kept the columns of the highest
        variance.
    without : collection of str
        `sklearn.feature_extraction.text.ENGLISH_STOP_WORDS`, for one.

    Raises
    ------
    ValueError
        If n_columns is not between 1 and the number of columns, or a count is negative, NaN or infinite.
    """
    kept = np.flatnonzero(np.tile([word not in without for word in words], matrix.shape[1] // len(words)))
    if n_columns is not None:
        if not 1 <= n_columns <= len(kept):
            raise ValueError(f"n_columns is {n_columns} of {len(kept)} columns; choose 1 to {len(kept)}")
        # Less than the logarithm of the number of rows, as all entropies are; an empty column is last.
        entropies = (1 - entropy_weights(matrix)) * (document_frequencies(matrix) > 0)
        kept = np.sort(kept[np.argsort(-entropies[kept], kind="stable")[:n_columns]])
    return matrix if len(kept) == matrix.shape[1] else select_words(matrix, kept)
