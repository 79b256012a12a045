"""PSDVec: weighted low-rank positive semidefinite approximation of smoothed PMI; core and noncore words.

min over V of ``sum_ij w_ij (G_ij - v_i · v_j)²`` by EM: each round replaces what the weights do not cover by
the model's own values and takes the best positive semidefinite approximation of the result. Every matrix on
the way is sparse plus low rank (``A_1 = log(kappa)/2 · 1 1ᵀ + sparse``, ``A_t = V Vᵀ + S - Ws∘(V Vᵀ)``), so
that no n × n array exists. Noncore words are ridge regressions against the fixed core vectors, one by one.

Reference: Li, Zhu & Miao, PSDVec: a toolbox for incremental and scalable word embedding, Neurocomputing 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from distembed.corpus.vocabulary import Vocabulary
from distembed.dtypes import Float32s, Floats
from distembed.execution import compute, one_blas_thread
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec_core import check_core_size, pairs_between, solve_core
from distembed.factorization.psdvec_words import regress, solve_words
from distembed.lift import lift
from distembed.linalg.csr import row_sums
from distembed.linalg.operators import row_blocks
from distembed.options import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    RandomState,
    Rounds,
    check_options,
)
from distembed.states import scope
from distembed.typing import MatrixLike, VectorLike, refuse_collection
from distembed.validation import check_length, check_matrix, like_input, training_matrix
from distembed.weighting.pmi import CutoffRule, marginals


class PSDVec(BaseEstimator):
    """Word vectors by a weighted low-rank positive semidefinite approximation of smoothed PMI.

    Parameters
    ----------
    n_components : int
        Number of dimensions d of a word vector.
    n_core : int, optional
        Number of most frequent words that are solved jointly; the others are solved one by one against them. None: all
        words are solved jointly.
    smoothing : float
        Smoothing strength between 0 and 1 (kappa of Jelinek-Mercer smoothing); larger values pull pairs towards the
        word frequencies.
    n_iter : int
        Number of rounds T; round t has rank ``d + T - t``.
    ridge : float or sequence of float
        Strength mu of the ridge that pulls the vectors of noncore words towards zero; a sequence gives one value
        for each of `bands`.
    bands : sequence of int, optional
        Sizes of the frequency bands of noncore words; the last takes all that are left (the paper: 55,000,
        50,000, 50,000 with ridge 2, 4, 8).
    uniform_weight : float
        Weight that each order of every pair of a noncore and a core word has in addition to its own, as in the core's
        first iterate (G + W∘G)/2; pairs without a count have target 0 there. The paper has 0, which leaves the length
        and direction of a rare word, whose weights are few and small, to the ridge.
    weight_cutoff : "halving", "none" or float
        The weight above which all weights are equal: by the authors' rule ("halving"), no cut-off, or a number. See
        `distembed.weighting.pmi.weight_cutoff`.
    n_passes : int
        Number of matrix products for the Krylov basis of each later round, which starts from the vectors of the round
        before.
    first_passes : int
        Number of matrix products for the Krylov basis of the first round, which starts from random vectors, a third as
        many as its rank. Later rounds do not make up for what this round misses.
    random_state : int, None, Generator or RandomState
        Seed of the random vectors.

    Attributes
    ----------
    vectors_ : (n, d) float32
        Core rows first. A Dask array where `counts` was one, else a NumPy array; so is `core_vectors_`.
    core_vectors_ : (n_core, d) float32
    objective_ : (n_iter,) float64
        ``sum w_ij (G_ij - v_i · v_j)²`` over the core's counts after each round.
    n_core_ : int
    weight_cutoff_, weight_scale_ : float
        The cut-off of the core's weights, inf for none, and the largest weight, by which all are divided.
    noncore_cutoff_, noncore_scale_ : float
        The same for the weights of noncore words. `transform` uses them, so that a new word gets the same weights
        whatever words are solved with it. Where all words are core words, they are those of the core.
    total_count_ : float
        Occurrences of all words of the fit; the probability of a word is its share of them.
    core_counts_, core_row_totals_ : (n_core,) float64
        Word counts and row totals of the core words, which `transform` uses.

    References
    ----------
    Li, Zhu & Miao, PSDVec: a toolbox for incremental and scalable word embedding, Neurocomputing 2017.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import title_counts
    >>> vocabulary, counts = title_counts()
    >>> model = de.PSDVec(n_components=3, smoothing=0.1).fit(counts, vocabulary.counts)
    >>> vectors = de.WordVectors(vocabulary.words, model.vectors_.compute())
    >>> [neighbor.word for neighbor in vectors.most_similar("response", n=2)]
    ['time', 'computer']
    >>> [neighbor.word for neighbor in vectors.most_similar("graph", n=2)]
    ['minors', 'survey']
    """

    core_vectors_: Floats | da.Array
    vectors_: Floats | da.Array
    _expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_estimators_nan_inf": "its matrix is not square, which is found before the pass that finds NaN",
        "check_n_features_in_after_fitting": "new words are counted with core words, and the message says so",
    }

    def __init__(
        self,
        n_components: PositiveInt = 100,
        *,
        n_core: PositiveInt | None = None,
        smoothing: Fraction = 0.02,
        n_iter: Rounds = 4,
        ridge: NonNegativeFloat | Sequence[NonNegativeFloat] = 2.0,
        bands: Sequence[NonNegativeInt] | None = None,
        uniform_weight: NonNegativeFloat = 0.1,
        weight_cutoff: CutoffRule = "halving",
        n_passes: PositiveInt = 2,
        first_passes: PositiveInt = 24,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.n_core = n_core
        self.smoothing = smoothing
        self.n_iter = n_iter
        self.ridge = ridge
        self.bands = bands
        self.uniform_weight = uniform_weight
        self.weight_cutoff = weight_cutoff
        self.n_passes = n_passes
        self.first_passes = first_passes
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: square sparse non-negative counts, with word counts as a second argument."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = tags.input_tags.pairwise = True
        tags.target_tags.required = True
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags

    def fit(
        self, counts: MatrixLike, word_counts: VectorLike | Vocabulary, row_totals: VectorLike | None = None
    ) -> PSDVec:
        """Learn vectors of all words from their co-occurrence counts.

        Parameters
        ----------
        counts : Dask array of csr_array row blocks, sparse matrix or array (n, n)
            Row = left word, column = right word, frequent words first.
        word_counts : (n,) array or Vocabulary
            Occurrences of each word.
        row_totals : (n,) array, optional
            n_i, bigrams with left word i before the vocabulary was cut; default the row sums of `counts`.

        Returns
        -------
        PSDVec

        Raises
        ------
        ValueError
            If shapes do not fit, a count is NaN, infinite or negative, a word that has pairs was counted 0 times,
            or an option is out of range.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import title_counts
        >>> vocabulary, counts = title_counts()
        >>> model = de.PSDVec(n_components=2, n_core=6, smoothing=0.1).fit(counts, vocabulary.counts)
        >>> model.vectors_.shape, model.core_vectors_.shape
        ((11, 2), (6, 2))
        >>> len(model.objective_)  # one value per round
        4
        """
        refuse_collection(counts, "counts")
        if getattr(counts, "shape", None) == (0, 0):
            raise ValueError("counts are 0 × 0: the vocabulary is empty; lower its min_count")
        # `marginals` finds NaN, infinite and negative counts in the pass that sums them.
        matrix = training_matrix(self, counts, name="counts", finite=False)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"counts are {matrix.shape[0]} × {matrix.shape[1]}; give a square matrix over one vocabulary, "
                "row = left word"
            )
        check_options(self)
        if isinstance(word_counts, Vocabulary):
            word_counts = word_counts.counts
        word_counts = check_length(word_counts, matrix.shape[0], "word_counts")
        self._fitted_options = self.get_params(deep=False)  # new words are solved as those of the fit
        n_core = self.n_core_ = check_core_size(self.n_core, self.n_components, matrix.shape[0])
        with one_blas_thread(), scope("psdvec", self.get_params(), counts, word_counts, row_totals):
            every = row_blocks(matrix)
            sums = marginals(every).rows
            given = sums if row_totals is None else row_totals
            totals = check_length(given, len(word_counts), "row_totals")
            first, rest = slice(n_core), slice(n_core, None)
            is_whole = n_core == len(word_counts)
            corner = every if is_whole else pairs_between(every, first, first)
            self.core_counts_, self.core_row_totals_ = word_counts[first], totals[first]
            self.total_count_ = float(word_counts.sum())
            vectors, self.objective_, weighting = solve_core(
                corner, self.core_counts_, self.core_row_totals_, self
            )
            self.core_vectors_ = self.vectors_ = vectors
            _, self.weight_cutoff_, self.weight_scale_ = weighting
            if not is_whole:
                noncore, weighting = solve_words(every, word_counts, totals, rest, first, vectors, self)
                self.vectors_ = da.concatenate([vectors, noncore])
            _, self.noncore_cutoff_, self.noncore_scale_ = weighting
            if not isinstance(counts, da.Array):
                self.vectors_ = compute(self.vectors_)
                self.core_vectors_ = self.vectors_[:n_core]
            return self

    def transform(
        self,
        new_rows: MatrixLike,
        new_columns: MatrixLike,
        new_counts: VectorLike,
        *,
        new_row_totals: VectorLike | None = None,
        core_counts: VectorLike | None = None,
        core_row_totals: VectorLike | None = None,
    ) -> Float32s | da.Array:
        """Solve new words against the fixed core, of the same or another corpus, with the ridge of the rarest words.

        The vector of a word does not depend on the words that are solved with it, and a word of the fit gets the vector
        of the fit. The probabilities u are counts divided by `total_count_`, the weights have the cut-off and the scale
        of the fit's noncore words, and n_i is `new_row_totals` for the new words and `core_row_totals` for the core
        words. For words counted in another corpus give that corpus's `core_counts` and `core_row_totals`;
        `total_count_` then counts in proportion to the core words' occurrences.

        Parameters
        ----------
        new_rows : Dask array, sparse matrix or array (m, n_core)
            Counts with the new word on the left of the core word.
        new_columns : Dask array, sparse matrix or array (n_core, m)
            Counts with the new word on the right.
        new_counts : (m,) array
            Occurrences of the new words.
        new_row_totals : (m,) array, optional
            Default the row sums of `new_rows`, thus over core words only.
        core_counts, core_row_totals : (n_core,) arrays, optional
            Default those of the fit.

        Returns
        -------
        (m, d) float32
            A Dask array where `new_rows` is one. A word without any count with a core word is zero.

        Raises
        ------
        ValueError
            If shapes do not fit, or a count is NaN, infinite or negative. The counts of a Dask array are checked when
            they are computed.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import title_counts
        >>> vocabulary, counts = title_counts()
        >>> import numpy as np
        >>> x = counts.compute()
        >>> model = de.PSDVec(n_components=2, n_core=6, smoothing=0.1).fit(x, vocabulary.counts)
        >>> new, totals = (x[6:, :6], x[:6, 6:], vocabulary.counts[6:]), x.sum(axis=1)[6:]
        >>> vectors = model.transform(*new, new_row_totals=totals)
        >>> np.allclose(vectors, model.vectors_[6:], atol=1e-6)  # the same as by the fit
        True
        """
        check_is_fitted(self, "core_vectors_")
        rows, columns = (
            row_blocks(check_matrix(counts, name=name, estimator=self, nonnegative=True))
            for name, counts in (("new_rows", new_rows), ("new_columns", new_columns))
        )
        (m, c), n_core = rows.shape, self.n_core_
        if c != n_core or columns.shape != (c, m):
            raise ValueError(
                f"new_rows are {m} × {c} and new_columns {columns.shape[0]} × {columns.shape[1]}; "
                f"for new words and {n_core} core words give m × {n_core} and {n_core} × m"
            )
        new_counts = check_length(new_counts, m, "new_counts")
        given = {"core_counts": core_counts, "core_row_totals": core_row_totals}
        core_counts, core_row_totals = (
            getattr(self, f"{name}_") if values is None else check_length(values, n_core, name)
            for name, values in given.items()
        )
        if new_row_totals is None:
            totals = lift(row_sums, "wc->w", rows, dtype=np.float64)
        else:
            totals = check_length(new_row_totals, m, "new_row_totals")
        # The occurrences of all words of another corpus are estimated from those of its core words.
        of_fit, found = float(self.core_counts_.sum()), float(core_counts.sum())
        n_all = max(self.total_count_ * (found / of_fit) if of_fit else found, 1e-300)
        own = totals, new_counts / n_all
        facing = np.stack([core_row_totals, core_counts / n_all], axis=1)
        names = "smoothing", "ridge", "uniform_weight"
        smoothing, ridges, uniform_weight = (self._fitted_options[name] for name in names)
        ridge = np.full(m, np.ravel(ridges)[-1], float)  # of the rarest words
        weighting = PairWeighting(smoothing, self.noncore_cutoff_, self.noncore_scale_)
        with one_blas_thread():
            vectors = regress(
                rows, columns, own, facing, self.core_vectors_, ridge, weighting, uniform_weight
            )
            return like_input(vectors, new_rows)
