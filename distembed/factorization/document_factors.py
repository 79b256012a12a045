"""What the factorizations of documents share: their input, the choice among starts, new documents and top words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Protocol, Self, overload

import dask.array as da
import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute, one_blas_thread, whole
from distembed.factorization import nmf_rounds
from distembed.factorization.clustering import DocumentClusterer
from distembed.factorization.consensus import Choose, Start, consensus_words, run_starts
from distembed.factorization.document_rows import (
    Array,
    Facts,
    check_values,
    document_rows,
    training_documents,
)
from distembed.lift import block, lift
from distembed.linalg.csr import canonical_csr
from distembed.options import NonNegativeFloat, PositiveInt, RandomState
from distembed.states import scope
from distembed.typing import InMemory, MatrixLike, refuse_collection
from distembed.validation import check_matrix, like_input, seed_of

FREQUENCY_WEIGHT = 0.5
"""Default power of the share of documents by which the words of Semantic-NMF are ordered."""


class TopicStore(Protocol):
    """The store that a model is read from, such as an opened `distembed.Workspace`."""

    def array(self, name: str) -> da.Array:
        """Return an array, lazily."""

    def table(self, name: str) -> pa.Table:
        """Return a table."""


def square_rows(matrix: Any, name: str, n: int, *, wanted: str, advice: str) -> tuple[Array, Facts]:
    """Return a matrix that goes with X, n × n, as row blocks, and its facts.

    It is symmetric if uᵀ M v = vᵀ M u for random u and v, which one pass over the rows decides.
    """
    refuse_collection(matrix, name)
    if getattr(matrix, "shape", None) != (n, n):
        raise ValueError(f"{name} has shape {getattr(matrix, 'shape', None)} and X has {n} {wanted}")
    rows = document_rows(check_matrix(matrix, name=name, finite=False))
    facts = check_values(rows, name=name)
    probes = np.random.default_rng(0).random((n, 2))
    image = nmf_rounds.word_products(rows, probes)
    one, other = probes[:, 0] @ image[:, 1], probes[:, 1] @ image[:, 0]
    if abs(one - other) > 1e-5 * abs(one):
        raise ValueError(
            f"{name} is not symmetric (uᵀMv = {one:.8g}, vᵀMu = {other:.8g} for random u, v); {advice}."
        )
    return rows, facts


def labels_of(Z: Array, norms: Float64s) -> Array:
    """Return the component with the largest factor of each document, for columns of unit norm; -1 for a zero row."""
    return lift(column_shares, "wk,lk->wl", Z, norms[np.newaxis], dtype=np.int64)[:, 0]


class DocumentFactorization(DocumentClusterer):
    """Base of both estimators: input, choice among starts, labels, new documents, top words."""

    _expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_clustering": "its blobs have negative values, and X may not have any",
    }
    _learned = "word_factors_"
    _method: ClassVar[str]
    shift: float = 1.0  # options of SemanticNMF
    semantic_weight: float = 0.0
    n_components: PositiveInt
    graph_weight: NonNegativeFloat
    init: nmf_rounds.Init
    max_iter: PositiveInt
    tol: NonNegativeFloat
    n_init: PositiveInt
    choose: Choose
    random_state: RandomState
    _frequency_weight: ClassVar[float] = 0.0  # NMF's factors are weights of tf-idf, large for frequent words

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: rows without negative values."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.word_factors_.shape[1])

    def _fit(self, X: MatrixLike, method: nmf_rounds.Method, **others: Any) -> None:
        """Run every start to its end, and keep one of them or what they have in common."""
        seed = seed_of(self.random_state)
        with one_blas_thread(), scope(self._method, self.get_params(), seed, X, others):
            problem = self._problem(X, **others)
            run = partial(
                nmf_rounds.run_rounds, problem, method,
                rank=self.n_components, init=self.init, seed=seed, n_iter=self.max_iter, tol=self.tol,
            )  # fmt: skip
            ends = run_starts(
                run, nmf_rounds.Factors, self.n_init,
                n_rounds=self.max_iter, what="rounds", in_memory=not isinstance(problem.X, da.Array),
            )  # fmt: skip
            labels = compute(
                [labels_of(end.documents, nmf_rounds.column_norms(end.documents)) for end in ends]
            )
            self.starts_ = [
                Start(one, end.objective, end.words) for one, end in zip(labels, ends, strict=True)
            ]
            self.n_iter_ = max(end.objective.size for end in ends)
            self.converged_ = all(nmf_rounds.has_converged(problem, end.objective, self.tol) for end in ends)
            best = min(ends, key=lambda end: end.objective[-1])
            is_consensus = self.choose == "consensus" and self.n_init > 1
            words = consensus_words([start.words for start in self.starts_]) if is_consensus else best.words
            # in the precision of X: those that a job has stored give the same documents
            words = words.astype(problem.X.dtype).astype(np.float64)
            found = nmf_rounds.refit(problem, words) if is_consensus else best._replace(words=words)
            if not is_consensus and method != "orthogonal" and problem.A is None:
                found = found._replace(documents=nmf_rounds.settle_documents(problem, words))
            self._learn(found, X)
        if self.tol > 0 and not self.converged_:
            warnings.warn(
                f"{type(self).__name__} still gained more than tol={self.tol} in the last rounds of "
                f"{self.max_iter}; raise max_iter, or pass tol=0 for a fixed number of rounds.",
                stacklevel=3,
            )

    def _problem(
        self, X: MatrixLike, *, M: MatrixLike | None = None, graph: MatrixLike | None = None
    ) -> nmf_rounds.Problem:
        """Return what is factorized, checked; all of it in memory, or all of it in row blocks."""
        matrix, facts = training_documents(self, X, self.n_components)
        self.n_unused_words_ = int(np.count_nonzero(facts.column_counts == 0))
        self.word_shares_ = facts.column_counts / matrix.shape[0]
        self.n_empty_documents_ = facts.n_empty_rows
        semantic: Any = None
        adjacency: Any = None
        of_M: dict[str, float] = {}
        if self._method == "semantic_nmf":
            n_words = matrix.shape[1]
            wanted = f"words; align both to one vocabulary, so that M is {n_words} × {n_words}."
            advice = "count in a symmetric window, or pass (M + M.T) / 2"
            semantic, found = square_rows(M, "M", n_words, wanted=wanted, advice=advice)
            if found.is_counts:
                warnings.warn(
                    "M holds whole numbers only, as counts do, and no association: the largest counts then outweigh "
                    "all else. Pass positive PMI: SemanticNMF(...).fit(X, de.ppmi(counts)).",
                    stacklevel=4,
                )
            if self.shift != 1:
                options: dict[str, Any] = {"dtype": semantic.dtype, "sparse": True, "shift": self.shift}
                semantic = lift(subtract_shift, "vd->vd", semantic, **options)
                found = check_values(semantic, name="M")
            of_M = {"word_squares": found.sum_of_squares, "word_weight": float(self.semantic_weight)}
        if graph is not None:
            wanted, advice = "documents: give documents × documents", "pass graph.maximum(graph.T)"
            adjacency, _ = square_rows(graph, "graph", matrix.shape[0], wanted=wanted, advice=advice)
            adjacency = adjacency.astype(matrix.dtype)
        used: list[Any] = [matrix, semantic, adjacency]
        if any(isinstance(each, da.Array) for each in used):
            used = [
                each if each is None or isinstance(each, da.Array) else whole(each).persist() for each in used
            ]
            used[2] = None if graph is None else used[2].rechunk((used[0].chunks[0], -1))
        X, M, A = used
        tied = float(self.graph_weight)
        return nmf_rounds.Problem(X, facts.sum_of_squares, facts.mean, M=M, A=A, graph_weight=tied, **of_M)

    def _learn(self, found: nmf_rounds.Factors, X: MatrixLike, norms: Float64s | None = None) -> None:
        Z = found.documents
        self.document_norms_ = nmf_rounds.column_norms(Z) if norms is None else norms
        self.labels_ = compute(labels_of(Z, self.document_norms_))
        self.document_factors_ = like_input(Z, X)  # in memory if X was, even if it was divided into blocks
        self.word_factors_, self.objective_ = found.words, found.objective
        if self._method == "semantic_nmf":
            self.core_ = found.core

    def _weigh(self, rows: Array) -> Array:
        return nmf_rounds.fit_documents(rows, self.word_factors_)

    def _label(self, rows: Array) -> Array:
        return labels_of(self._weigh(rows), self.document_norms_)

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
            It is ignored; scikit-learn's pipelines need it.

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
            The name of the method in the job: "consensus" or "orthogonal_nmf" for `NMF` with those topics; by default
            "nmf" for `NMF`, and "semantic_nmf" for `SemanticNMF`.

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
        # k-means labels new documents by their cosines with the topics, which no factors give
        methods = list(dict.fromkeys(row["method"] for row in rows if row["method"] != "spherical_kmeans"))
        if kept is None or name not in methods:
            raise ValueError(
                f"{workspace!r} holds no factors of {name}, but of {', '.join(methods) or 'no method'}: take "
                "SemanticNMF for semantic_nmf, and NMF with the name for another of these"
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
            model.document_norms_ = (
                np.ones(len(words.T)) if name == "consensus" else nmf_rounds.column_norms(documents)
            )
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
        listed = list_words(self.word_factors_, self.word_shares_, n, frequency_weight=power)
        return [[words[row] for row in topic] for topic in listed]


@block(temporaries=2)
def column_shares(Z: Floats, norms: Floats) -> Int64s:
    """Return for every row the column that is largest once columns have unit norm, -1 for a zero row."""
    relative = Z.astype(np.float64)
    relative /= np.where(norms > 0, norms, 1.0)
    largest = relative.argmax(axis=1)
    del relative
    return np.where(Z.max(axis=1) > 0, largest, -1).reshape(-1, 1)


def topic_shares(Z: Floats, norms: Floats) -> Floats:
    """Return the rows of Z, its columns brought to unit norm, as shares that sum to one; a zero row stays zero.

    The largest share of a row is that of `column_shares`.
    """
    relative = Z / np.where(norms > 0, norms, 1.0)
    sums = relative.sum(axis=1, keepdims=True)
    return np.asarray(relative / np.where(sums > 0, sums, 1.0))


def list_words(W: Floats, shares: Floats, n: int, *, frequency_weight: float) -> list[list[int]]:
    """Return the words of each topic with the largest ``W ∘ shares ** frequency_weight``, falling, at most n.

    The word factors of Semantic-NMF follow M, and are large for rare words that occur together, as positive PMI is:
    they are like the lift p(w | t) / p(w), and W times p(w) is like p(w | t). A power between 0 and 1 compromises
    between the two, like the relevance of Sievert & Shirley (2014).

    Parameters
    ----------
    W : (d, k) array
        The word factors.
    shares : (d,) array
        The share of the documents that hold each word.
    n : int
    frequency_weight : float
        The power; 0 orders by the factors alone.
    """
    weights = W * shares[:, np.newaxis] ** frequency_weight if frequency_weight else W
    order = np.argsort(-weights, axis=0, kind="stable")[:n].T
    return [[int(row) for row in column if W[row, topic] > 0] for topic, column in enumerate(order)]


def weight_terms(
    values: Floats, words: Int64s, z: Floats, W: Floats, topic: int, *, by_cosine: bool = False
) -> tuple[Floats, Floats, float]:
    """Return the weight of a topic in a document as a sum.

    ``z_t = (sum_j x_j w_jt - sum_s≠t z_s (w_s · w_t)) / (w_t · w_t)``

    This is the condition that ``min ‖x - W z‖²`` over ``z >= 0`` puts on a weight that is not zero.

    Parameters
    ----------
    values : (m,) array
        x on the words of the document.
    words : (m,) int64
        The rows of these words in W.
    z : (k,) array
        The weights of the topics in the document.
    W : (d, k) array
        The word factors.
    topic : int
        t.
    by_cosine : bool
        Whether the columns of W are unit centers, and the weight is the cosine with one, ``sum_j x_j w_jt``.

    Returns
    -------
    terms : (m,) array
        The term of each word of the document.
    others : (k,) array
        What each other topic explains already, not above zero; 0 for the topic itself.
    rest : float
        What the rounds had not settled when they ended.
    """
    products = np.zeros(len(z)) if by_cosine else W.T @ W[:, topic]
    length = products[topic] or 1.0
    others = -z * products / length
    others[topic] = 0.0
    terms = values * W[words, topic] / length
    return terms, others, float(z[topic] - terms.sum() - others.sum())


@block(temporaries=2)
def subtract_shift(M: csr_array, *, shift: float) -> csr_array:
    """Return max(M - log shift, 0) on the support of M."""
    moved = M.data - np.log(shift)
    np.maximum(moved, 0, out=moved)
    return canonical_csr(csr_array((moved.astype(M.dtype), M.indices, M.indptr), M.shape), M.dtype)
