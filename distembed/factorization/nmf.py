"""Non-negative factorizations of documents × words, alone and joined with words × words.

Semantic-NMF: Ailem, Salah & Nadif, "Non-negative Matrix Factorization Meets Word Embedding", SIGIR 2017.
NMF: Lee & Seung (2001), and hierarchical alternating least squares, Cichocki & Phan (2009); with a graph of the
documents: Cai, He, Han & Huang, "Graph regularized nonnegative matrix factorization for data representation", TPAMI
2011.
Orthogonal NMF: Yoo & Choi, "Orthogonal nonnegative matrix factorization: multiplicative updates on Stiefel
manifolds", IDEAL 2008.

What both estimators share is in `document_factors`, and the updates, rounds and starts are in `nmf_rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, overload

import dask.array as da
import numpy as np
from annotated_types import Ge

from distembed.dtypes import Floats, Int64s
from distembed.execution import one_blas_thread
from distembed.factorization.clustering import common_clusters, unit_columns
from distembed.factorization.consensus import Choose
from distembed.factorization.document_factors import FREQUENCY_WEIGHT, DocumentFactorization
from distembed.factorization.document_rows import Array
from distembed.factorization.nmf_rounds import Init, memberships_of, refit, sums_of
from distembed.options import NonNegativeFloat, PositiveInt, RandomState, check_options
from distembed.states import scope
from distembed.typing import InMemory, MatrixLike


class NMF(DocumentFactorization):
    """Factorize documents × words into non-negative document and word factors.

    Minimizes ``½ ‖X - Z Wᵀ‖²`` over Z, W >= 0, and with a graph A of the documents, as Cai et al. (2011), the same plus
    ``½ λ tr(Zᵀ (D - A) Z)``, D the sums of the rows of A, which pulls the factors of neighbors together (and makes Z
    smaller and W larger, which labels do not depend on).  Equivalent on small input, without a graph:
    `sklearn.decomposition.NMF` with solver "mu" or "cd" and twice the rank-free loss.

    Parameters
    ----------
    n_components : int
        The rank k.
    solver : {"hals", "multiplicative", "orthogonal"}
        Hierarchical alternating least squares reaches the same objective in several times fewer rounds;
        the multiplicative updates are Lee & Seung's. Those with a graph are multiplicative always. "orthogonal" pulls
        the document factors towards ZᵀZ = I by Yoo & Choi's multiplicative updates on the Stiefel manifold. Their
        columns have unit length after each round, and overlap far less than those of the others, but seldom become
        orthogonal; the objective may rise in a round. A consensus of several starts has the factors of NMF.
    graph_weight : float
        λ, where `fit` is given a graph; 100 in the paper (docs/results/topics.md compares).
    init : {"spherical_kmeans", "random"}
        Where the factors start: at spherical k-means, or at random.
    max_iter : int
        Largest number of rounds.
    tol : float
        Stop when ten rounds gain less than this share of the objective, or when the length of what is left over is
        at most this share of the length of X; 0 runs all rounds.
    n_init : int
        The number of starts.
    choose : {"consensus", "objective"}
        What is kept of several starts, without labels: the mean of the topics that they have in common, with the
        document factors solved for it; or the start of the smallest objective.
    random_state : int, None, Generator or RandomState
        The seed of the starts.

    Attributes
    ----------
    document_factors_ : array (n, k) in the dtype of X, a Dask array where X is one
        Those that `transform` gives; of the solver "orthogonal" and with a graph those after the last round.
    word_factors_ : float64 array (d, k)
        Rounded to the precision of X. `components_` are its transpose.
    objective_ : float64 array, one value per round; of a consensus one value
    labels_ : int64 array (n,)
        Largest document factor once columns have unit norm; -1 for a document without words.
    document_norms_ : float64 array (k,)
        The lengths of the columns of the document factors, which `labels_` are judged by.
    word_shares_ : float64 array (d,)
        The share of the documents that hold each word, which `top_words` may weigh words by.
    n_iter_ : int
        The most rounds that a start has done.
    converged_ : bool
        Whether all starts have met `tol`.
    starts_ : list of Start
        The `labels`, the `objective` and the word factors (`words`) of each start.
    n_unused_words_, n_empty_documents_ : int
        The words that no component has, and the documents without a word.

    References
    ----------
    Lee & Seung, Algorithms for non-negative matrix factorization, NIPS 2001: theorem 1 has the multiplicative updates.
    Cichocki & Phan 2009: hierarchical alternating least squares.
    Cai, He, Han & Huang, Graph regularized nonnegative matrix factorization for data representation, TPAMI 2011.
    Yoo & Choi, Orthogonal nonnegative matrix factorization: multiplicative updates on Stiefel manifolds, IDEAL 2008,
    equation 18.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> X = de.tf_idf(de.count_document_terms(docs, vocabulary))
    >>> model = de.NMF(n_components=2).fit(X)
    >>> model.labels_.tolist()  # five titles about people and computers, four about graphs
    [1, 1, 1, 1, 1, 0, 0, 0, 0]
    >>> model.top_words(3, vocabulary.words)
    [['trees', 'graph', 'minors'], ['user', 'response', 'time']]
    """

    _method = "nmf"

    def __init__(
        self,
        n_components: PositiveInt = 20,
        *,
        solver: Literal["hals", "multiplicative", "orthogonal"] = "hals",
        graph_weight: NonNegativeFloat = 1.0,
        init: Init = "spherical_kmeans",
        max_iter: PositiveInt = 200,
        tol: NonNegativeFloat = 1e-4,
        n_init: PositiveInt = 1,
        choose: Choose = "consensus",
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.graph_weight = graph_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.choose = choose
        self.random_state = random_state

    def fit(
        self,
        X: MatrixLike,
        y: object = None,  # noqa: ARG002 - scikit-learn's signature
        *,
        graph: MatrixLike | None = None,
    ) -> NMF:
        """Learn the factors of X, documents × words.

        Parameters
        ----------
        X : array (n, d), non-negative
            Documents by words: NumPy, SciPy sparse, or Dask array of row blocks.
        y : None
            It is ignored; scikit-learn's pipelines need it.
        graph : matrix (n, n), non-negative, symmetric, optional
            How near documents are; in the paper 1 for two of which one is among the five nearest of the other. New
            documents have no neighbors: `transform` is that of NMF.

        Returns
        -------
        NMF
            The estimator itself.

        Raises
        ------
        ValueError
            If X or the graph holds negative or NaN values, X no value or fewer documents than components, if the graph
            is of other documents or not symmetric, or given to the solver "orthogonal", or if an option is not one of
            its names.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> model = de.NMF(n_components=2).fit(X)
        >>> model.document_factors_.shape, model.word_factors_.shape
        ((4, 2), (4, 2))
        >>> model.labels_.tolist()
        [1, 1, 0, 0]

        The next document is about a dog and a tax, and a neighbor of the first:

        >>> X[3] = [0, 1, 1, 0]
        >>> graph = np.zeros((4, 4))
        >>> graph[0, 3] = graph[3, 0] = 1
        >>> tied = de.NMF(n_components=2, tol=0).fit(X, graph=graph)
        >>> model.fit(X).labels_.tolist(), tied.labels_.tolist()
        ([1, 1, 0, 0], [1, 1, 0, 1])
        """
        check_options(self)
        if self.solver == "orthogonal" and graph is not None:
            raise ValueError(
                'solver "orthogonal" takes no graph: choose another solver, or leave the graph out'
            )
        self._fit(X, self.solver if graph is None else "multiplicative", graph=graph)
        return self


class SemanticNMF(DocumentFactorization):
    """Factorize documents × words jointly with words × words, sharing the word factors.

    Minimizes ``½ ‖X - Z Wᵀ‖² + λ ½ ‖M - W S Wᵀ‖²`` over Z, W, S >= 0, S symmetric, where M is positive PMI
    less log N, cut at 0 (Ailem, Salah & Nadif 2017, equation 3, with λ = 1).  The updates of Z and S never
    raise the objective; for that of W it is so in practice, unproven.  With a graph of the documents the objective has
    the term that `NMF` has with one: a regularization of NMF, which the paper leaves to future work.

    Parameters
    ----------
    n_components : int
        The rank k.
    shift : float
        N: `fit` takes positive PMI and subtracts log N itself.  1 for a matrix that is shifted already.
    semantic_weight : float
        λ, the weight of the second term.
    graph_weight : float
        The weight of the term of a graph, where `fit` is given one; the λ of `NMF`.
    init : {"spherical_kmeans", "random"}
        Where the factors start: at spherical k-means, or at random.
    max_iter : int
        Rounds; 100 in the paper.
    tol : float
        Stop when ten rounds gain less than this share of the objective, or when the length of what is left over is
        at most this share of the length of X; 0 runs all rounds.
    n_init : int
        The number of starts.
    choose : {"consensus", "objective"}
        What is kept of several starts, without labels: the mean of the topics that they have in common, with the
        document factors solved for it; or the start of the smallest objective.
    random_state : int, None, Generator or RandomState
        The seed of the starts.

    Attributes
    ----------
    document_factors_ : array (n, k) in the dtype of X, a Dask array where X is one
        Those that `transform` gives; with a graph those after the last round.
    word_factors_ : float64 array (d, k)
        Rounded to the precision of X. `components_` are its transpose.
    core_ : float64 array (k, k), symmetric
    objective_ : float64 array, one value per round; of a consensus one value
    labels_ : int64 array (n,)
        Largest document factor once columns have unit norm; -1 for a document without words.
    document_norms_ : float64 array (k,)
        The lengths of the columns of the document factors, which `labels_` are judged by.
    word_shares_ : float64 array (d,)
        The share of the documents that hold each word, which `top_words` may weigh words by.
    n_iter_ : int
        The most rounds that a start has done.
    converged_ : bool
        Whether all starts have met `tol`.
    starts_ : list of Start
        The `labels`, the `objective` and the word factors (`words`) of each start.
    n_unused_words_, n_empty_documents_ : int
        The words that no component has, and the documents without a word.

    References
    ----------
    Ailem, Salah & Nadif, Non-negative Matrix Factorization Meets Word Embedding, SIGIR 2017.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> X = de.tf_idf(de.count_document_terms(docs, vocabulary))
    >>> M = de.ppmi(de.count_cooccurrences(docs, vocabulary, window=5))
    >>> model = de.SemanticNMF(n_components=2, shift=1.0).fit(X, M)
    >>> model.labels_.tolist()
    [1, 1, 1, 1, 1, 0, 0, 0, 0]
    >>> model.top_words(3, vocabulary.words)
    [['graph', 'trees', 'minors'], ['eps', 'human', 'interface']]
    """

    _method = "semantic_nmf"
    _frequency_weight = FREQUENCY_WEIGHT

    def __init__(
        self,
        n_components: PositiveInt = 20,
        *,
        shift: Annotated[float, Ge(1)] = 2.0,
        semantic_weight: NonNegativeFloat = 1.0,
        graph_weight: NonNegativeFloat = 1.0,
        init: Init = "spherical_kmeans",
        max_iter: PositiveInt = 100,
        tol: NonNegativeFloat = 0.0,
        n_init: PositiveInt = 1,
        choose: Choose = "consensus",
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.shift = shift
        self.semantic_weight = semantic_weight
        self.graph_weight = graph_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.choose = choose
        self.random_state = random_state

    def fit(self, X: MatrixLike, M: MatrixLike, *, graph: MatrixLike | None = None) -> SemanticNMF:
        """Learn the factors of X, documents × words, and M, words × words.

        Parameters
        ----------
        X : matrix (n, d), non-negative
            tf-idf with rows of unit length in the paper.
        M : matrix (d, d), non-negative, symmetric
            Positive PMI (see `shift`), not the counts that it is made from, of which a warning is given.  Where
            nothing of it is above log shift, the result is that of `NMF` with the multiplicative solver, and a core
            of zeros.
        graph : matrix (n, n), non-negative, symmetric, optional
            As of `NMF.fit`.

        Returns
        -------
        SemanticNMF
            The estimator itself.

        Raises
        ------
        ValueError
            If a matrix holds negative or NaN values, X no value or fewer documents than components, or if M or the
            graph is not square over the words or the documents of X, or not symmetric.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> M = np.array([[0, 1.5, 0, 0], [1.5, 0, 0, 0], [0, 0, 0, 1.5], [0, 0, 1.5, 0]])  # PPMI
        >>> model = de.SemanticNMF(n_components=2).fit(X, M)
        >>> sorted(map(sorted, model.top_words(2, words)))
        [['cat', 'dog'], ['tax', 'vote']]
        >>> model.core_.shape
        (2, 2)
        """
        check_options(self)
        self._fit(X, "semantic", M=M, graph=graph)
        return self

    @overload  # type: ignore[override]
    def fit_transform(self, X: da.Array, M: MatrixLike) -> da.Array: ...

    @overload
    def fit_transform(self, X: InMemory, M: MatrixLike) -> Floats: ...

    def fit_transform(self, X: MatrixLike, M: MatrixLike) -> Floats | da.Array:
        """Fit to X and M and return the document factors.

        Parameters
        ----------
        X, M : matrices
            As of `fit`.

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
        >>> M = np.array([[0, 1.5, 0, 0], [1.5, 0, 0, 0], [0, 0, 0, 1.5], [0, 0, 1.5, 0]])  # PPMI
        >>> de.SemanticNMF(n_components=2).fit_transform(X, M).shape
        (4, 2)
        """
        return self.fit(X, M).document_factors_

    def fit_predict(self, X: MatrixLike, M: MatrixLike) -> Int64s:
        """Fit to X and M and return the labels of the documents.

        Parameters
        ----------
        X, M : matrices
            As of `fit`.

        Returns
        -------
        int64 array (n,)
            `labels_`.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> M = np.array([[0, 1.5, 0, 0], [1.5, 0, 0, 0], [0, 0, 0, 1.5], [0, 0, 1.5, 0]])  # PPMI
        >>> labels = de.SemanticNMF(n_components=2).fit_predict(X, M).tolist()
        >>> labels[0] == labels[1] != labels[2] == labels[3]
        True
        """
        return self.fit(X, M).labels_


def common_topics(X: Array, clusterings: Sequence[Int64s], n_topics: int, *, random_state: int = 0) -> NMF:
    """Return the topics of the clusters that several clusterings have in common; see `common_clusters`.

    A topic is the mean row of the documents of a cluster, at unit length, and the weights of a document are its
    non-negative least squares on the topics; its label is the topic of its largest weight.

    Parameters
    ----------
    X : matrix (n, d), non-negative
        What was clustered.
    clusterings : sequence of int64 arrays (n,)
        The labels of the documents, -1 for one without words.
    n_topics : int
        The number of topics, which is that of the clusters of each clustering.
    random_state : int
        The seed of the grouping.
    """
    model = NMF(n_topics, random_state=random_state)
    with one_blas_thread():
        labels = common_clusters(clusterings, n_topics, like=X, random_state=random_state)
        with scope("common-topics", n_topics, X, labels):
            problem = model._problem(X)
            members = memberships_of(labels, n_topics, 0.0, problem.X.dtype)
            words = unit_columns(sums_of(problem.X, members)[:-n_topics])
            found = refit(problem, words.astype(problem.X.dtype).astype(np.float64))
            model._learn(found, X, norms=np.ones(n_topics))
    return model
