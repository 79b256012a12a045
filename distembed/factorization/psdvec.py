"""PSDVec: weighted low-rank positive semidefinite approximation of smoothed PMI; core and noncore words.

min over V of ``sum_ij w_ij (G_ij - v_i · v_j)²`` by EM: each round replaces what the weights do not cover by
the model's own values and takes the best positive semidefinite approximation of the result. Every matrix on
the way is sparse plus low rank (``A_1 = log(kappa)/2 · 1 1ᵀ + sparse``, ``A_t = V Vᵀ + S - Ws∘(V Vᵀ)``), so
that no n × n array exists. Noncore words are ridge regressions against the fixed core vectors, one by one.

Reference: Li, Zhu & Miao, PSDVec: a toolbox for incremental and scalable word embedding, Neurocomputing 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, overload

import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from distembed.corpus.vocabulary import Vocabulary
from distembed.dtypes import Float32s, Floats
from distembed.execution import compute, one_blas_thread
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec_core import (
    CoreWords,
    NewWords,
    check_core_size,
    check_length,
    count_in_corpus,
    factorize,
    noncore_vectors,
    noncore_weighting,
    pairs_between,
    ridge_of_words,
    rounds_of,
)
from distembed.lift import lift
from distembed.linalg.csr import row_sums
from distembed.linalg.operators import row_blocks
from distembed.options import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    RandomState,
    check_options,
)
from distembed.states import keep, scope
from distembed.typing import InMemory, MatrixLike, VectorLike, refuse_collection
from distembed.validation import check_matrix, like_input, training_matrix
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
        Number of matrix products for the Krylov basis of the first round, which starts from random vectors, half as
        many as its rank. Later rounds do not make up for what this round misses.
    random_state : int, None, Generator or RandomState
        Seed of the random vectors.
    batch_words : int
        Number of noncore words in one task.

    Attributes
    ----------
    vectors_ : (n, d) float32
        Core rows first. A Dask array where `counts` was one, else a NumPy array; so is `core_vectors_`.
    core_vectors_ : (n_core, d) float32
    objective_ : (n_iter,) float64
        ``sum w_ij (G_ij - v_i · v_j)²`` over the core's counts after each round.
    eigenvalues_ : (d,) float64
    ranks_ : list of int
    n_core_ : int
    weight_cutoff_, weight_scale_ : float
        The cut-off of the core's weights, inf for none, and the largest weight, by which all are divided.
    noncore_cutoff_, noncore_scale_ : float
        The same for the weights of noncore words. `transform` uses them, so that a new word gets the same weights
        whatever words are solved with it. Until `fit_noncore` has learned them, they are those of the core.
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
        n_iter: PositiveInt = 4,
        ridge: NonNegativeFloat | Sequence[NonNegativeFloat] = 2.0,
        bands: Sequence[NonNegativeInt] | None = None,
        uniform_weight: NonNegativeFloat = 0.1,
        weight_cutoff: CutoffRule = "halving",
        n_passes: PositiveInt = 2,
        first_passes: PositiveInt = 16,
        random_state: RandomState = 0,
        batch_words: PositiveInt = 1000,
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
        self.batch_words = batch_words

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
        n_core = self.core_size(matrix.shape[0])
        with one_blas_thread(), scope("psdvec", self.get_params(), counts, word_counts, row_totals):
            every = row_blocks(matrix)
            sums = marginals(every)
            wrong = np.flatnonzero((word_counts == 0) & (sums.rows + sums.columns > 0))
            if wrong.size:
                raise ValueError(
                    f"word_counts is 0 for {wrong.size} words that occur in pairs of counts, first word {wrong[0]}: "
                    "give the occurrences of the words in the text that the pairs come from"
                )
            given = sums.rows if row_totals is None else row_totals
            totals = check_length(given, len(word_counts), "row_totals")
            first, rest = slice(n_core), slice(n_core, None)
            is_whole = n_core == len(word_counts)
            corner = every if is_whole else pairs_between(every, first, first)
            self._learn_core(corner, word_counts[first], totals[first])
            if not is_whole:
                pairs = pairs_between(every, rest, first), pairs_between(every, first, rest)
                ridge = ridge_of_words(self.ridge, self.bands, len(word_counts) - n_core)
                noncore = self._learn_noncore(NewWords(*pairs, word_counts[rest], totals[rest], ridge))
                self.vectors_ = da.concatenate([self.core_vectors_, noncore])
            if not isinstance(counts, da.Array):
                self.vectors_ = compute(self.vectors_)
                self.core_vectors_ = self.vectors_[:n_core]
            return self

    def fit_core(
        self, counts: MatrixLike, word_counts: VectorLike, row_totals: VectorLike | None = None
    ) -> PSDVec:
        """Learn the core vectors alone (core mode): the first step of `fit`.

        Parameters
        ----------
        counts : Dask array of csr_array row blocks, sparse matrix or array (n_core, n_core)
        word_counts : (n_core,) array
        row_totals : (n_core,) array, optional
            Over the whole vocabulary, noncore words too.

        Returns
        -------
        PSDVec
            With `vectors_` and `core_vectors_` as Dask arrays.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import title_counts
        >>> vocabulary, counts = title_counts()
        >>> model = de.PSDVec(n_components=2).fit_core(counts[:6, :6], vocabulary.counts[:6])
        >>> model.core_vectors_.shape
        (6, 2)
        """
        rows = row_blocks(training_matrix(self, counts, name="counts", nonnegative=True))
        totals = marginals(rows).rows if row_totals is None else row_totals
        n_core = rows.shape[0]
        with scope("psdvec", self.get_params(), counts, word_counts, totals):
            return self._learn_core(
                rows,
                check_length(word_counts, n_core, "word_counts"),
                check_length(totals, n_core, "row_totals"),
            )

    def _learn_core(self, counts: da.Array, word_counts: Floats, row_totals: Floats) -> PSDVec:
        words = self.core_counts_, self.core_row_totals_ = word_counts, row_totals
        with one_blas_thread():
            vectors, objective, self.eigenvalues_, weighting = factorize(counts, *words, self)
        self.core_vectors_ = self.vectors_ = vectors
        self.objective_, self.n_core_ = np.array(objective), counts.shape[0]
        self.ranks_ = [one.rank for one in rounds_of(self, self.n_core_)]
        _, self.weight_cutoff_, self.weight_scale_ = weighting
        self.noncore_cutoff_, self.noncore_scale_ = self.weight_cutoff_, self.weight_scale_
        self.total_count_ = float(self.core_counts_.sum())
        return self

    def set_core(
        self,
        core_vectors: Floats | da.Array,
        word_counts: VectorLike,
        row_totals: VectorLike,
        *,
        noncore_cutoff: float | None = None,
        noncore_scale: float | None = None,
        total_count: float | None = None,
    ) -> PSDVec:
        """Take core vectors learned before, so that `fit_noncore` and `transform` solve words against them.

        Parameters
        ----------
        core_vectors : Dask array or array (n_core, d)
        word_counts, row_totals : (n_core,) arrays
            What `fit_core` was given.
        noncore_cutoff, noncore_scale, total_count : float, optional
            The attributes of the fit. `transform` needs them, and `fit_noncore` learns them again.

        Returns
        -------
        PSDVec

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import title_counts
        >>> vocabulary, counts = title_counts()
        >>> import numpy as np
        >>> x = counts.compute()
        >>> model = de.PSDVec(n_components=2, n_core=6, smoothing=0.1).fit(counts, vocabulary.counts)
        >>> later = de.PSDVec(n_components=2, n_core=6, smoothing=0.1).set_core(
        ...     model.core_vectors_, model.core_counts_, model.core_row_totals_,
        ...     noncore_cutoff=model.noncore_cutoff_, noncore_scale=model.noncore_scale_,
        ...     total_count=model.total_count_,
        ... )
        >>> new = x[6:, :6], x[:6, 6:], vocabulary.counts[6:]
        >>> np.array_equal(later.transform(*new), model.transform(*new))
        True
        """
        refuse_collection(core_vectors, "core_vectors")
        self.n_core_ = core_vectors.shape[0]
        self.core_vectors_ = core_vectors
        self.core_counts_ = check_length(word_counts, self.n_core_, "word_counts")
        self.core_row_totals_ = check_length(row_totals, self.n_core_, "row_totals")
        learned = {
            "noncore_cutoff": noncore_cutoff,
            "noncore_scale": noncore_scale,
            "total_count": total_count,
        }
        for name, value in learned.items():
            setattr(self, f"{name}_", value)
        return self

    @overload
    def transform(
        self,
        new_rows: da.Array,
        new_columns: MatrixLike,
        new_counts: VectorLike,
        *,
        new_row_totals: VectorLike | None = ...,
        core_counts: VectorLike | None = ...,
        core_row_totals: VectorLike | None = ...,
        ridge: float | VectorLike | None = ...,
    ) -> da.Array: ...

    @overload
    def transform(
        self,
        new_rows: InMemory,
        new_columns: MatrixLike,
        new_counts: VectorLike,
        *,
        new_row_totals: VectorLike | None = ...,
        core_counts: VectorLike | None = ...,
        core_row_totals: VectorLike | None = ...,
        ridge: float | VectorLike | None = ...,
    ) -> Float32s: ...

    def transform(
        self,
        new_rows: MatrixLike,
        new_columns: MatrixLike,
        new_counts: VectorLike,
        *,
        new_row_totals: VectorLike | None = None,
        core_counts: VectorLike | None = None,
        core_row_totals: VectorLike | None = None,
        ridge: float | VectorLike | None = None,
    ) -> Float32s | da.Array:
        """Solve new words against the fixed core, of the same or another corpus.

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
        ridge : float or (m,) array, optional
            Default the estimator's, the last band's (of the rarest words) where it has bands.

        Returns
        -------
        (m, d) float32
            A Dask array where `new_rows` is one. A word without any count with a core word is zero.

        Raises
        ------
        ValueError
            If shapes do not fit, a count is NaN, infinite or negative, or the core was set without what the
            fit learned beside it. The counts of a Dask array are checked when they are computed.

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
        rows, columns = self._pairs_with_core(new_rows, new_columns)
        m = rows.shape[0]
        if None in {self.noncore_cutoff_, self.noncore_scale_, self.total_count_}:
            raise ValueError(
                "the core was set without noncore_cutoff, noncore_scale and total_count, which transform needs: "
                "give set_core those of the fit, or call fit_noncore first"
            )
        weighting = PairWeighting(self.smoothing, self.noncore_cutoff_, self.noncore_scale_)
        words = NewWords(
            rows,
            columns,
            check_length(new_counts, m, "new_counts"),
            lift(row_sums, "wc->w", rows, dtype=np.float64)
            if new_row_totals is None
            else check_length(new_row_totals, m, "new_row_totals"),
            np.broadcast_to(np.asarray(np.ravel(self.ridge)[-1] if ridge is None else ridge, float), (m,)),
        )
        with one_blas_thread():
            core = count_in_corpus(self._core(), core_counts, core_row_totals)
            return like_input(noncore_vectors(words, core, weighting, self), new_rows)

    def fit_noncore(
        self, rows: MatrixLike, columns: MatrixLike, word_counts: VectorLike, row_totals: VectorLike
    ) -> da.Array:
        """Return vectors of the noncore words, by the ridge of their band (noncore mode): the second step of `fit`.

        Parameters
        ----------
        rows, columns : Dask arrays, sparse matrices or arrays (m, n_core), (n_core, m)
        word_counts, row_totals : (m,) arrays

        Returns
        -------
        Dask array (m, d) float32

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import title_counts
        >>> vocabulary, counts = title_counts()
        >>> from distembed.weighting.pmi import marginals
        >>> x, totals, occurrences = counts.compute(), marginals(counts).rows, vocabulary.counts
        >>> core = x[:6, :6], occurrences[:6], totals[:6]  # the six most frequent words
        >>> model = de.PSDVec(n_components=2).fit_core(*core)
        >>> model.fit_noncore(x[6:, :6], x[:6, 6:], occurrences[6:], totals[6:]).compute().shape
        (5, 2)
        """
        rows, columns = self._pairs_with_core(rows, columns)
        m = rows.shape[0]
        words = NewWords(
            rows,
            columns,
            check_length(word_counts, m, "word_counts"),
            check_length(row_totals, m, "row_totals"),
            ridge_of_words(self.ridge, self.bands, m),
        )
        with scope("psdvec", self.get_params(), rows, columns, word_counts, row_totals, self._core()):
            return self._learn_noncore(words)

    def _pairs_with_core(self, new_rows: Any, new_columns: Any) -> tuple[da.Array, da.Array]:
        """Return the counts of m new words with the core words, and the reverse, as row blocks."""
        check_is_fitted(self, "core_vectors_")
        rows = check_matrix(new_rows, name="new_rows", estimator=self, nonnegative=True)
        columns = check_matrix(new_columns, name="new_columns", estimator=self, nonnegative=True)
        (m, c), n_core = rows.shape, self.n_core_
        if c != n_core or columns.shape != (c, m):
            raise ValueError(
                f"new_rows are {m} × {c} and new_columns {columns.shape[0]} × {columns.shape[1]}; "
                f"for new words and {n_core} core words give m × {n_core} and {n_core} × m"
            )
        return row_blocks(rows), row_blocks(columns)

    def _learn_noncore(self, words: NewWords) -> da.Array:
        """Return vectors of the noncore words, and keep what decides the weights of later ones."""
        with one_blas_thread():
            weighting = noncore_weighting(words, self.smoothing, self.weight_cutoff)
            _, self.noncore_cutoff_, self.noncore_scale_ = weighting
            self.total_count_ = float(words.counts.sum() + self.core_counts_.sum())
            make = partial(noncore_vectors, words, self._core(), weighting, self)
            return keep("noncore", make)

    def _core(self) -> CoreWords:
        return CoreWords(self.core_vectors_, self.core_counts_, self.core_row_totals_, self.total_count_)

    def core_size(self, n: int) -> int:
        """Return how many of `n` words are core words, after checking `n_core` and `n_components`.

        Parameters
        ----------
        n : int
            The number of words.

        Returns
        -------
        int

        Examples
        --------
        >>> import distembed as de
        >>> de.PSDVec(n_components=100, n_core=5000).core_size(30_000)
        5000
        >>> de.PSDVec(n_components=100).core_size(30_000)
        30000
        """
        return check_core_size(self.n_core, self.n_components, n)
