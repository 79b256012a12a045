"""What the factorizations of documents share: the choice among starts, new documents and top words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Protocol, Self, overload

import dask.array as da
import numpy as np
import pyarrow as pa
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute, one_blas_thread
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import (
    DocumentClusterer,
    check_clusters,
    check_values,
    document_rows,
)
from distembed.factorization.consensus import Array, Choose, Start, consensus_words, run_starts
from distembed.factorization.nmf_rounds import (
    Factors,
    Init,
    Method,
    Problem,
    column_norms,
    descend,
    fit_documents,
    has_converged,
    refit,
    settle_documents,
    start_of,
    with_graph,
)
from distembed.lift import lift
from distembed.options import NonNegativeFloat, PositiveInt, RandomState
from distembed.states import scope
from distembed.typing import InMemory, MatrixLike
from distembed.validation import like_input, new_matrix, seed_of, training_matrix


class TopicStore(Protocol):
    """The store that a model is read from, such as an opened `distembed.Workspace`."""

    def array(self, name: str) -> da.Array:
        """Return an array, lazily."""

    def table(self, name: str) -> pa.Table:
        """Return a table."""


def _labels(Z: Array, norms: Float64s) -> Array:
    """Return the component with the largest factor of each document, for columns of unit norm; -1 for a zero row."""
    return lift(blocks.column_shares, "wk,lk->wl", Z, norms[np.newaxis], dtype=np.int64)[:, 0]


class DocumentFactorization(DocumentClusterer):
    """Base of both estimators: choice among starts, labels, new documents, top words."""

    _expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_clustering": "its blobs have negative values, and X may not have any",
    }
    _method: ClassVar[str]
    graph_weight: float = 0.0  # an option of `NMF` and `SemanticNMF`
    _frequency_weight: ClassVar[float] = 0.0  # NMF's factors are weights of tf-idf, large for frequent words

    def __init__(
        self,
        n_components: PositiveInt = 20,
        *,
        init: Init = "spherical_kmeans",
        max_iter: PositiveInt = 100,
        tol: NonNegativeFloat = 0.0,
        n_init: PositiveInt = 1,
        choose: Choose = "consensus",
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.choose = choose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: rows without negative values."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.word_factors_.shape[1])

    def _fit(self, X: MatrixLike, method: Method, **others: Any) -> None:
        """Run every start to its end, and keep one of them or what they have in common."""
        seed = seed_of(self.random_state)
        with one_blas_thread(), scope(self._method, self.get_params(), seed, X, others):
            problem = self._problem(X, **others)

            def run(number: int) -> Factors:
                start = partial(start_of, problem, self.n_components, self.init, method, (seed, number))
                end = descend(problem, start, method, n_iter=self.max_iter, tol=self.tol)
                return end._replace(carried=np.empty((0, self.n_components)))

            def in_precision(
                words: Float64s,
            ) -> Float64s:  # those that a job has stored give the same documents
                return words.astype(problem.X.dtype).astype(np.float64)

            in_memory = not isinstance(problem.X, da.Array)
            ends = run_starts(
                run, Factors, self.n_init, n_rounds=self.max_iter, what="rounds", in_memory=in_memory
            )
            labels = compute([_labels(end.documents, column_norms(end.documents)) for end in ends])
            self.starts_ = [
                Start(one, end.objective, end.words) for one, end in zip(labels, ends, strict=True)
            ]
            self.n_iter_ = max(end.objective.size for end in ends)
            self.converged_ = all(has_converged(problem, end.objective, self.tol) for end in ends)
            if self.n_init == 1 or self.choose == "objective":
                chosen = min(ends, key=lambda end: end.objective[-1])
                found = chosen._replace(words=in_precision(chosen.words))
                if method != "orthogonal" and problem.graph is None:
                    found = found._replace(documents=settle_documents(problem, found.words))
            else:
                words = consensus_words([start.words for start in self.starts_])
                found = refit(problem, in_precision(words))
            self._learn(found, X)
        if self.tol > 0 and not self.converged_:
            warnings.warn(
                f"{type(self).__name__} still gained more than tol={self.tol} in the last rounds of "
                f"{self.max_iter}; raise max_iter, or pass tol=0 for a fixed number of rounds.",
                stacklevel=3,
            )

    def _problem(self, X: MatrixLike, *, graph: MatrixLike | None = None) -> Problem:
        """Return what is factorized, checked, in row blocks."""
        # One pass counts values and finds NaN, infinity and negative values.
        matrix = document_rows(training_matrix(self, X, finite=False))
        facts = check_values(matrix, name="X")
        check_clusters(matrix, facts, self.n_components)
        self.n_unused_words_ = int(np.count_nonzero(facts.column_counts == 0))
        self.word_shares_ = facts.column_counts / matrix.shape[0]
        self.n_empty_documents_ = facts.n_empty_rows
        return with_graph(Problem(matrix, facts.sum_of_squares, facts.mean), graph, self.graph_weight)

    def _learn(self, found: Factors, X: MatrixLike) -> None:
        Z = found.documents
        self.document_norms_ = column_norms(Z)
        self.labels_ = compute(_labels(Z, self.document_norms_))
        self.document_factors_ = like_input(Z, X)  # in memory if X was, even if it was divided into blocks
        self.word_factors_, self.objective_ = found.words, found.objective

    @property
    def components_(self) -> Float64s:
        """The word factors as rows, (k, d), as scikit-learn has them."""
        return np.ascontiguousarray(self.word_factors_.T)

    @overload
    def fit_transform(self, X: da.Array, y: object = None) -> da.Array: ...

    @overload
    def fit_transform(self, X: InMemory, y: object = None) -> Floats: ...

    def fit_transform(self, X: MatrixLike, y: object = None) -> Floats | da.Array:
        """Fit and return the document factors.

        Parameters
        ----------
        X : array (n, d), non-negative
            Documents by words: NumPy, SciPy sparse, or Dask array of row blocks.
        y : None
            It is ignored, and stands here for scikit-learn's pipelines.

        Returns
        -------
        array (n, k)
            `document_factors_`.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> Z = de.NMF(n_components=2).fit_transform(X)
        >>> Z.shape
        (4, 2)
        >>> bool((Z >= 0).all())
        True
        """
        return self.fit(X, y).document_factors_

    @overload
    def transform(self, X: da.Array) -> da.Array: ...

    @overload
    def transform(self, X: InMemory) -> Floats: ...

    def transform(self, X: MatrixLike) -> Floats | da.Array:
        """Return the document factors of X for the fixed word factors: ``argmin over Z >= 0 of ‖X - Z Wᵀ‖``.

        Parameters
        ----------
        X : matrix (n, d), non-negative

        Returns
        -------
        array (n, k) in the dtype of X; lazy where X is a Dask array.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X has another number of words, or holds negative, NaN or infinite values.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> model = de.NMF(n_components=2).fit(X)
        >>> Z = model.transform(np.array([[0.0, 5, 0, 0], [0, 0, 0, 0]]))  # one about dogs, an empty one
        >>> bool(Z[0].argmax() == model.labels_[0]), Z[1].tolist()
        (True, [0.0, 0.0])
        """
        with one_blas_thread():
            matrix = document_rows(new_matrix(self, X, learned="word_factors_", nonnegative=True))
            return like_input(fit_documents(matrix, self.word_factors_), X)

    @overload
    def predict(self, X: da.Array) -> da.Array: ...

    @overload
    def predict(self, X: InMemory) -> Int64s: ...

    def predict(self, X: MatrixLike) -> Int64s | da.Array:
        """Return the topic of each document: the largest of its factors, each divided by its `document_norms_`.

        Of the documents of the fit these are its `labels_`, but for the solver "orthogonal" and with a graph, whose
        documents have a condition that new ones cannot meet.

        Parameters
        ----------
        X : matrix (n, d), non-negative

        Returns
        -------
        int64 array (n,), -1 for a document without words; lazy where X is a Dask array.

        Raises
        ------
        NotFittedError, ValueError
            As `transform`.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> model = de.NMF(n_components=2).fit(X)
        >>> new = model.predict(np.array([[0.0, 5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]))
        >>> (new[:2] == model.labels_[[0, 3]]).tolist(), int(new[2])  # the last one has no word
        ([True, True], -1)
        """
        with one_blas_thread():
            matrix = document_rows(new_matrix(self, X, learned="word_factors_", nonnegative=True))
            factors = fit_documents(matrix, self.word_factors_)
            return like_input(_labels(factors, self.document_norms_), X)

    @classmethod
    def from_workspace(cls, workspace: TopicStore, method: str | None = None) -> Self:
        """Return the model that a finished topics job kept.

        Its `transform` and `predict` take the tf-idf of new documents, with the words, the document frequencies and the
        number of documents of the job (see `distembed.tf_idf`).

        Parameters
        ----------
        workspace : distembed.Workspace
            Opened. The job has this method as `topics.method` or among `topics.compare_with`.
        method : str, optional
            The name of the method in the job: "orthogonal_nmf" for `NMF` with that solver; by default "nmf" for `NMF`,
            and "semantic_nmf" for `SemanticNMF`.

        Raises
        ------
        TypeError
            If it is no opened workspace.
        ValueError
            If the job has not run this method.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> job = {
        ...     "job": {"system": "topics"},
        ...     "corpus": {"paths": [titles()]},
        ...     "vocabulary": {"stop_words": "english"},
        ...     "topics": {"method": "nmf", "n_topics": 2},
        ... }
        >>> run = de.run_job(job, workspace="runs/topics")
        >>> model = de.NMF.from_workspace(run.workspace)
        >>> model.predict(run.arrays["tf_idf"]).compute().tolist()
        [1, 1, 1, 1, 1, 0, 0, 0, 0]
        """
        if not (hasattr(workspace, "array") and hasattr(workspace, "table")):
            raise TypeError(
                f"{workspace!r} is no opened workspace: give distembed.Workspace.open({str(workspace)!r})"
            )
        name, rows = method or cls._method, workspace.table("starts").to_pylist()
        kept = next((n for n, row in enumerate(rows) if row["method"] == name and row["kept"]), None)
        if kept is None:
            methods = ", ".join(dict.fromkeys(row["method"] for row in rows))
            raise ValueError(
                f"{workspace!r} holds no topics of {name}, but of {methods}: take that one's class"
            )
        # the factors of a job's own method, which is its first, have no prefix
        prefix, key = "" if name == rows[0]["method"] else f"{name}_", (name, rows[kept]["start"])
        words = compute(workspace.array(f"{prefix}vectors")).astype(np.float64)
        documents = workspace.array(f"{prefix}document_factors")
        model = cls(words.shape[1])
        if name == "orthogonal_nmf":
            model.set_params(solver="orthogonal")
        model.n_features_in_, model.word_factors_, model.document_factors_ = len(words), words, documents
        model.word_shares_ = workspace.table("vocabulary")["document_count"].to_numpy() / documents.shape[0]
        model.labels_ = np.asarray(compute(workspace.array("labels")[kept]))
        # of a consensus, which is no start, there is the last loss alone
        losses = workspace.table("losses").to_pylist() if key[1] is not None else []
        own = [row["loss"] for row in losses if (row["method"], row["start"]) == key]
        model.objective_ = np.array(own or [rows[kept]["loss"]])
        model.n_iter_ = len(model.objective_)
        if name == "semantic_nmf":
            model.core_ = compute(workspace.array(f"{prefix}core")).astype(np.float64)
        with one_blas_thread():
            model.document_norms_ = column_norms(documents)
        return model

    def top_words(
        self, n: int, words: Sequence[str], *, frequency_weight: float | None = None
    ) -> list[list[str]]:
        """Return the most characteristic words of every component, best first, as a topics job lists them.

        A component that has fewer than n words lists fewer.

        Parameters
        ----------
        n : int
            The largest number of words of a component.
        words : sequence of str
            The word of each row of `word_factors_`.
        frequency_weight : float from 0 to 1, optional
            Words are ordered by their factor times this power of the share of the documents that hold them
            (`word_shares_`). By default 0, the factors alone, and 0.5 for `SemanticNMF`, whose factors are large for
            rare words that occur together; 0 lists its words as the paper does.

        Returns
        -------
        list of list of str
            The words of each of the k components.

        Raises
        ------
        ValueError
            If the number of words is not the number of rows of `word_factors_`.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> sorted(de.NMF(n_components=2).fit(X).top_words(2, words))
        [['cat', 'dog'], ['tax', 'vote']]
        """
        check_is_fitted(self, "word_factors_")
        n_words = self.word_factors_.shape[0]
        if len(words) != n_words:
            raise ValueError(f"{len(words)} words were given for {n_words} rows of word_factors_.")
        power = self._frequency_weight if frequency_weight is None else frequency_weight
        order = blocks.list_words(self.word_factors_, self.word_shares_, n, frequency_weight=power)
        return [
            [words[row] for row in column if self.word_factors_[row, topic] > 0]
            for topic, column in enumerate(order)
        ]
