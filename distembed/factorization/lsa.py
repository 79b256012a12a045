"""Latent Semantic Analysis: the truncated singular value decomposition of a sparse matrix in row blocks.

Landauer, Foltz and Laham, Introduction to Latent Semantic Analysis, Discourse Processes 25 (1998). The
space there is the log-entropy weighted word × document matrix.
"""

from __future__ import annotations

from typing import Any, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from distembed.dtypes import Float64s, Floats
from distembed.execution import compute, one_blas_thread
from distembed.lift import fold, total
from distembed.linalg.operators import row_blocks, sparse_times
from distembed.linalg.singular import UNCERTAIN, SingularTriplets, largest_singular_triplets, scaled_power
from distembed.options import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    RandomState,
    check_options,
)
from distembed.states import scope
from distembed.temporaries import block
from distembed.typing import FloatType, InMemory, MatrixLike
from distembed.validation import like_input, new_matrix, seed_of, training_matrix


class LSA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Project rows on the largest right singular vectors, without centring.

    .. math:: X \approx U S V^T, \qquad \text{vectors} = U S^{\text{exponent}}

    ``sklearn.decomposition.TruncatedSVD`` is the equivalent, up to the sign of each component.
    `largest_singular_triplets` computes the decomposition and describes the options that are not listed here.

    Parameters
    ----------
    n_components : int
        Number of components. While they are computed, memory holds ``n_components + oversampling`` dense values for
        each row.
    exponent : float
        1 is LSA, 0 the left singular vectors alone.

    Attributes
    ----------
    components_ : (n_components, n_features) array, Vᵀ
    singular_values_ : (n_components,) float64
    explained_variance_ratio_ : (n_components,) float64
        Variance of each component of U S, of the variance of all columns of X together; both about the mean.
    residuals_ : (n_components,) float64
        Residual of each component, relative to the square of its singular value; see `SingularTriplets`.
    n_iter_ : int
        Number of passes over X.
    converged_ : bool
        Whether `tol` was met.

    References
    ----------
    Landauer, Foltz & Laham, Introduction to latent semantic analysis, Discourse Processes 25, 1998.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> counts = de.count_document_terms(docs, vocabulary)
    >>> model = de.LSA(n_components=2).fit(counts)
    >>> print(model.singular_values_.round(2))
    [2.84 2.51]
    >>> words = de.WordVectors(vocabulary.words, model.components_.T * model.singular_values_)
    >>> round(words.similarity("human", "user"), 1)  # no title has both words
    1.0
    >>> round(words.similarity("human", "graph"), 1)
    -0.2
    """

    def __init__(
        self,
        n_components: PositiveInt = 300,
        *,
        exponent: FiniteFloat = 1.0,
        n_passes: PositiveInt = 16,
        oversampling: NonNegativeInt = 10,
        tol: NonNegativeFloat | None = UNCERTAIN,
        dtype: FloatType = np.float32,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.exponent = exponent
        self.n_passes = n_passes
        self.oversampling = oversampling
        self.tol = tol
        self.dtype = dtype
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: sparse input is accepted, and vectors are of `dtype`."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = [np.dtype(self.dtype).name]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def fit(self, X: MatrixLike, y: None = None) -> LSA:  # noqa: ARG002 - scikit-learn's signature
        """Learn the components of X, (n × m): NumPy, SciPy sparse or Dask, dense or of CSR row blocks.

        Parameters
        ----------
        X : array (n, m)
            NumPy, SciPy sparse or Dask, dense or of CSR row blocks.
        y : None
            It is ignored; scikit-learn's pipelines need it.

        Returns
        -------
        LSA
            The estimator itself.

        Raises
        ------
        ValueError
            If an option is out of range, X holds NaN or infinity, or has fewer rows or columns than components.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> print(de.LSA(n_components=2).fit(X).singular_values_.round(2))
        [5.   4.54]
        """
        self._decompose(X)
        return self

    @overload
    def fit_transform(self, X: da.Array, y: None = None) -> da.Array: ...

    @overload
    def fit_transform(self, X: InMemory, y: None = None) -> Floats: ...

    def fit_transform(self, X: MatrixLike, y: None = None) -> da.Array | Floats:  # noqa: ARG002 - scikit-learn's signature
        """Learn the components and return U S^exponent, (n × k); a Dask array for a Dask array.

        Parameters
        ----------
        X : array (n, m)
            NumPy, SciPy sparse or Dask, dense or of CSR row blocks.
        y : None
            It is ignored; scikit-learn's pipelines need it.

        Returns
        -------
        array (n, k)
            In `dtype`; a Dask array where X is one.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> vectors = de.LSA(n_components=2).fit_transform(X)
        >>> print(abs(vectors).round(2))  # the sign of each component is arbitrary
        [[3.54 0.  ]
         [3.54 0.  ]
         [0.   3.47]
         [0.   2.94]]
        """
        found = self._decompose(X)
        return like_input(found.left * scaled_power(found.values, self.exponent).astype(self.dtype), X)

    @overload
    def transform(self, X: da.Array) -> da.Array: ...

    @overload
    def transform(self, X: InMemory) -> Floats: ...

    def transform(self, X: MatrixLike) -> da.Array | Floats:
        """Return X V S^(exponent - 1), (n × k), for rows of the same features.

        Parameters
        ----------
        X : array (n, m)
            NumPy, SciPy sparse or Dask, dense or of CSR row blocks.

        Returns
        -------
        array (n, k)
            A Dask array where X is one.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> model = de.LSA(n_components=2).fit(X)
        >>> print(abs(model.transform(np.array([[1.0, 1, 0, 0]]))).round(2))
        [[1.41 0.  ]]
        """
        matrix = new_matrix(self, X, learned="components_")
        scale = scaled_power(self.singular_values_, self._exponent - 1)
        weights = self.components_.T * scale.astype(self.dtype)
        return like_input(sparse_times(row_blocks(matrix), weights), X)

    def _decompose(self, X: MatrixLike) -> SingularTriplets:
        check_options(self)
        matrix = row_blocks(training_matrix(self, X))
        with one_blas_thread(), scope("lsa", self.get_params(), X):
            found = largest_singular_triplets(
                # Each pass reads X: a cluster would be told of its blocks each time, and warn that Dask fused them
                # into others than before.
                matrix if isinstance(X, da.Array) else matrix.persist(),
                self.n_components,
                n_passes=self.n_passes,
                oversampling=self.oversampling,
                tol=self.tol,
                dtype=self.dtype,
                random_state=seed_of(self.random_state),
            )
        self.components_, self.singular_values_, self._exponent = found.right.T, found.values, self.exponent
        n, m = matrix.shape
        moments = compute(fold(total(column_moments), "wc", matrix, shape=(m + 1,))) / n
        mean, square = moments[:-1], moments[-1]
        variances = found.values**2 / n - (mean @ found.right) ** 2
        self.explained_variance_ratio_ = variances / max(square - mean @ mean, np.finfo(float).tiny)
        self.residuals_, self.n_iter_, self.converged_ = found.residuals, found.n_passes, found.converged
        return found


@block(temporaries=0.5)
def column_moments(block: Any) -> Float64s:
    """Return the sum of each column of a block, and after them the sum of the squares of all values, (m + 1,)."""
    values = block.data if sp.issparse(block) else block.ravel()
    squares = np.einsum("i,i->", values, values, dtype=np.float64, casting="same_kind")
    return np.append(block.sum(axis=0, dtype=np.float64), squares)


def with_contexts(model: LSA, vectors: da.Array) -> da.Array:
    """Return the vectors of words with those of the same words as contexts added, ``(U + V) S^exponent``.

    Levy, Goldberg and Dagan, Improving distributional similarity with lessons learned from word embeddings, TACL 3
    (2015), section 3.3, "w+c".

    Parameters
    ----------
    model : LSA
        Fitted to a square matrix whose rows and columns are the same words.
    vectors : Dask array (n, k)
        What `LSA.fit_transform` returned.

    Raises
    ------
    ValueError
        If the matrix was not square.
    """
    contexts = model.components_.T * scaled_power(model.singular_values_, model.exponent)
    if contexts.shape != vectors.shape:
        raise ValueError(
            f"the matrix has {vectors.shape[0]} rows and {contexts.shape[0]} columns: vectors of contexts are added "
            "where both are the same words"
        )
    return vectors + da.from_array(contexts.astype(vectors.dtype), chunks=vectors.chunks)
