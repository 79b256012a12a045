"""NMF, orthogonal NMF and Semantic-NMF, with and without a graph: against the formulas, over blocks, on bad input."""

import warnings
from functools import partial
from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import kneighbors_graph

from distembed.factorization import document_factors, nmf_rounds
from distembed.factorization.document_rows import document_sums
from distembed.factorization.nmf import NMF, SemanticNMF
from tests.references import nmf as plain
from tests.references.arrays import lazy

CHUNKS = {"whole": (60,), "even": (20, 20, 20), "ragged": (7, 31, 1, 21), "single": (1,) * 60}
WORD_CHUNKS = {"whole": (40,), "even": (20, 20), "ragged": (9, 30, 1), "single": (1,) * 40}

IN_MEMORY = {
    "dense": lambda X, M: (X.toarray(), M.toarray()),
    "other formats": lambda X, M: (X.tocoo(), M.tocsc()),
}

orthogonal = partial(NMF, solver="orthogonal")
multiplicative = partial(NMF, solver="multiplicative")
KINDS = (NMF, orthogonal, SemanticNMF)


def planted(n_docs=60, n_words=40, rank=3, seed=0, dtype=np.float64):
    """Documents and word pairs of `rank` topics with little shared between them."""
    random = np.random.default_rng(seed)
    topic_of_doc, topic_of_word = np.arange(n_docs) % rank, np.arange(n_words) % rank
    rate = np.where(topic_of_doc[:, None] == topic_of_word, 2.0, 0.1)
    X = csr_array(random.poisson(rate).astype(dtype))
    pairs = random.poisson(np.where(topic_of_word[:, None] == topic_of_word, 1.5, 0.05))
    return X, csr_array((0.75 * (pairs + pairs.T)).astype(dtype)), topic_of_doc


def neighbors_of(X, k=4):
    """The graph of documents of which one is among the nearest of the other."""
    one_way = one_way_of(X, k)
    return csr_array(one_way.maximum(one_way.T))


def one_way_of(X, k=4):
    return kneighbors_graph(X.toarray(), k, metric="cosine")


def fit(model, X, M, **graph):
    """Fit a copy of a model to X, and to M if it takes one."""
    copy = clone(model)
    return copy.fit(X, M, **graph) if isinstance(model, SemanticNMF) else copy.fit(X, **graph)


def allclose(found, expected, rtol=1e-6, atol=1e-9):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol, atol=atol)


def test_a_core_starts_above_zero_everywhere():
    """It is 1 % of the mean where the fit is negative, since a multiplicative update never leaves zero."""
    W = np.random.default_rng(0).random((9, 3))
    S = np.array([[3.0, -1, 0.5], [-1, 2, 1], [0.5, 1, 1]])
    found = nmf_rounds.fit_core(W, W @ S @ (W.T @ W))
    positive = np.maximum(S, 0)
    allclose(found, np.maximum(positive, 0.01 * positive.mean()), rtol=1e-8)
    assert found[0, 1] > 0


def test_products_with_the_documents_are_summed_in_float64():
    """In float32 nothing is added to 2**24 by ones."""
    X = csr_array(np.concatenate([[2.0**24], np.ones(1000)]).astype(np.float32)[:, None])
    found = document_sums(X, np.ones((1001, 2), np.float32))
    np.testing.assert_array_equal(found[0], [2**24 + 1000] * 2)


def oracle(model, X, M, A):
    """The factors and the losses of a model by the plain formulas, from its own start."""
    problem = nmf_rounds.Problem(X, 0.0, X.sum() / np.prod(X.shape), M=M)
    start = nmf_rounds.start_of(
        problem, model.n_components, model.init, "multiplicative", (model.random_state, 0)
    )
    X, (Z, W, S), losses = X.toarray(), map(np.array, start[:3]), []
    M, A = np.zeros((40, 40)) if M is None else M.toarray(), np.zeros((60, 60)) if A is None else A.toarray()
    weight = getattr(model, "semantic_weight", 0.0)
    solver = getattr(model, "solver", "semantic")
    if solver == "orthogonal":
        Z, W = plain.unit_columns(Z, W)
    for _ in range(model.max_iter):
        if solver == "semantic":
            Z, W, S = plain.semantic_round(X, M, Z, W, S, weight, A, model.graph_weight)
        elif solver == "hals" and not A.any():
            Z, W = plain.hals_round(X, Z, W, nmf_rounds.HALS_SWEEPS, nmf_rounds.HALS_TOLERANCE)
        elif solver == "orthogonal":
            Z, W = plain.orthogonal_round(X, Z, W)
        else:
            Z, W = plain.graph_nmf_round(X, Z, W, A, model.graph_weight)
        losses.append(plain.semantic_loss(X, M, Z, W, S, weight) + plain.graph_loss(Z, A, model.graph_weight))
    if solver != "orthogonal" and not A.any():
        Z = plain.solve_documents(X, W)
    return Z, W, S, losses


MODELS = [
    multiplicative(3, max_iter=50, tol=0, graph_weight=100),
    NMF(3, max_iter=10, tol=0),
    *(SemanticNMF(3, shift=1, semantic_weight=w, max_iter=50, graph_weight=2) for w in (0.1, 0)),
    SemanticNMF(3, shift=1, init="random", max_iter=50),
]


@pytest.mark.parametrize(
    ("model", "tied"), [(orthogonal(3, max_iter=50, tol=0), False), *product(MODELS, (False, True))]
)
def test_rounds_equal_the_oracle(model, tied):
    X, M, _ = planted()
    graph = {"graph": neighbors_of(X)} if tied else {}
    fitted = fit(model, X, M, **graph)
    joined = M if isinstance(model, SemanticNMF) else None
    Z, W, S, losses = oracle(model, X, joined, graph.get("graph"))
    solved = not tied and getattr(model, "solver", "") != "orthogonal"
    allclose(fitted.document_factors_, Z, *([1e-6, 1e-5] if solved else []))
    allclose(fitted.word_factors_, W, atol=1e-7)
    allclose(fitted.objective_, losses, rtol=1e-7)
    if joined is not None:
        allclose(fitted.core_, S)
    elif getattr(model, "solver", "") != "orthogonal":
        assert (np.diff(fitted.objective_) <= 1e-9 * fitted.objective_[0]).all()


def test_the_documents_of_a_consensus_are_tied_too():
    X, _, _ = planted()
    A = neighbors_of(X)
    model = NMF(3, graph_weight=5, n_init=2, tol=0, max_iter=20).fit(X, graph=A)
    Z = np.ones((60, 3))
    for _ in range(nmf_rounds.TIED_ROUNDS):
        Z = plain.tied_documents(X.toarray(), Z, model.word_factors_, A.toarray(), 5)
    allclose(model.document_factors_, Z)
    loss = plain.nmf_loss(X.toarray(), Z, model.word_factors_) + plain.graph_loss(Z, A.toarray(), 5)
    assert model.objective_ == pytest.approx(loss)
    assert model.n_iter_ == 20


def test_shift_is_taken_from_positive_pmi():
    X, M, _ = planted()
    cut = csr_array(np.maximum(M.toarray() - np.log(2), 0))
    inside, outside = SemanticNMF(3, max_iter=20).fit(X, M), SemanticNMF(3, shift=1, max_iter=20).fit(X, cut)
    np.testing.assert_array_equal(inside.word_factors_, outside.word_factors_)


@pytest.mark.parametrize("init", ["spherical_kmeans", "random"])
@pytest.mark.parametrize("kind", KINDS)
def test_planted_topics_are_found(kind, init):
    X, M, topic = planted(seed=3)
    model = fit(kind(3, init=init, max_iter=200, random_state=1), X, M)
    assert normalized_mutual_info_score(topic, model.labels_) > 0.9
    words = [f"{i % 3}-{i}" for i in range(40)]
    for column in model.top_words(8, words):
        assert len({word[0] for word in column}) == 1


def test_documents_without_words_and_words_of_no_document_are_counted():
    with pytest.warns(UserWarning, match="1 of 3 documents hold no word"):
        model = NMF(1, max_iter=1, tol=0).fit(np.array([[1.0, 1, 0, 2], [0, 0, 0, 0], [0, 0, 0, 1]]))
    assert (model.n_unused_words_, model.n_empty_documents_) == (1, 1)


def test_top_words_of_semantic_nmf_are_not_the_rarest_unless_they_are_asked_for():
    X, M, _ = planted(seed=3)
    words = [str(row) for row in range(40)]
    joint, alone = SemanticNMF(3, max_iter=20).fit(X, M), NMF(3, max_iter=20, tol=0).fit(X)
    allclose(joint.word_shares_, (X.toarray() > 0).mean(axis=0))

    def by_weight(model, power):
        weights = model.word_factors_ * model.word_shares_[:, np.newaxis] ** power
        order = np.argsort(-weights, axis=0, kind="stable")[:9].T
        return [[words[row] for row in column] for column in order]

    assert joint.top_words(9, words) == by_weight(joint, 0.5) != by_weight(joint, 0)
    assert joint.top_words(9, words, frequency_weight=0) == by_weight(joint, 0)
    assert alone.top_words(9, words) == by_weight(alone, 0)
    assert alone.top_words(9, words, frequency_weight=1) == by_weight(alone, 1)


@pytest.mark.parametrize("kind", [NMF, SemanticNMF])
def test_labels_are_the_largest_share_of_columns_of_unit_length(kind):
    """The scale of a topic is shared out between its two factors at will, so that it must not decide."""
    rng = np.random.default_rng(0)
    X, M = rng.random((40, 12)), rng.random((12, 12))
    model = fit(kind(4, init="random", max_iter=50, tol=0.0), X, M + M.T)
    shares = model.document_factors_ / np.linalg.norm(model.document_factors_, axis=0)
    np.testing.assert_array_equal(model.labels_, shares.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert (model.document_factors_.argmax(axis=1) != model.labels_).any()


def test_the_best_of_several_starts_is_kept():
    X, _, _ = planted(rank=5)
    options = {"init": "random", "choose": "objective", "max_iter": 10, "tol": 0, "random_state": 0}
    one, best = (NMF(5, n_init=n, **options).fit(X) for n in (1, 8))
    assert best.objective_[-1] < one.objective_[-1]  # the starts begin with numbers of their own


# --- the weight of a topic in a document as a sum of terms: exact where least squares has settled -----------

OVERLAPPING = np.random.default_rng(7).random((40, 5))
DOCUMENT = np.maximum(0, np.random.default_rng(8).random(40) - 0.5) + OVERLAPPING[:, 2] * (
    np.arange(40) % 5 > 0
)
HELD = np.flatnonzero(DOCUMENT)


def test_terms_add_up_where_least_squares_has_settled_and_leave_a_rest_where_not():
    """Oracle: SciPy's non-negative least squares, on topics that overlap."""
    z = nnls(OVERLAPPING, DOCUMENT)[0]
    topics = np.flatnonzero(z > 1e-6)
    assert topics.size > 1
    for topic in topics.tolist():
        terms, others, rest = document_factors.weight_terms(DOCUMENT[HELD], HELD, z, OVERLAPPING, topic)
        assert terms.sum() + others.sum() == pytest.approx(z[topic])
        assert rest == pytest.approx(0, abs=1e-9)
        assert others[topic] == 0
        assert others.sum() < 0
    terms, others, rest = document_factors.weight_terms(DOCUMENT[HELD], HELD, z + 0.1, OVERLAPPING, 2)
    assert abs(rest) > 0.01
    assert terms.sum() + others.sum() + rest == pytest.approx(z[2] + 0.1)


def test_a_cosine_is_the_sum_of_its_words():
    centroids = OVERLAPPING / np.linalg.norm(OVERLAPPING, axis=0)
    cosines = centroids.T @ DOCUMENT
    terms, others, rest = document_factors.weight_terms(
        DOCUMENT[HELD], HELD, cosines, centroids, 3, by_cosine=True
    )
    assert terms.sum() == pytest.approx(cosines[3])
    assert rest == pytest.approx(0, abs=1e-9)
    assert not others.any()


@pytest.mark.parametrize(
    ("model", "name", "dtype", "tolerance"),
    [
        (SemanticNMF(3, max_iter=4), "whole", np.float32, 0),
        (SemanticNMF(3, max_iter=4), "dense", np.float64, 0),
        (SemanticNMF(3, max_iter=4), "other formats", np.float64, 0),
        (SemanticNMF(3, max_iter=4), "even", np.float32, 1e-3),
        (SemanticNMF(3, max_iter=4), "ragged", np.float64, 1e-9),
        (SemanticNMF(3, max_iter=4), "single", np.float64, 1e-9),
        (NMF(3, max_iter=4, tol=0), "ragged", np.float64, 1e-8),
        (orthogonal(3, max_iter=10, tol=0), "ragged", np.float64, 1e-8),
        (NMF(3, max_iter=5, tol=0, graph_weight=2), "ragged", np.float64, 1e-8),
        (NMF(3, max_iter=2, tol=0, n_init=2, graph_weight=2), "ragged", np.float64, 1e-8),
    ],
)
def test_blocks_do_not_change_the_answer(model, name, dtype, tolerance, monkeypatch):
    """The graph, of the models of another weight than the default, may have another grid than X."""
    monkeypatch.setattr(nmf_rounds, "TIED_ROUNDS", 5)
    X, M, _ = planted(dtype=dtype)
    A, is_tied = neighbors_of(X), getattr(model, "graph_weight", 0) == 2
    graphs = [{"graph": A}, {"graph": lazy(A, CHUNKS["even"])}] if is_tied else [{}]
    whole = fit(model, X, M, **graphs[0])
    for graph in graphs:
        given = (
            IN_MEMORY[name](X, M)
            if name in IN_MEMORY
            else (lazy(X, CHUNKS[name]), lazy(M, WORD_CHUNKS[name]))
        )
        parts = fit(model, *given, **graph)
        assert isinstance(parts.document_factors_, da.Array) == (name not in IN_MEMORY)
        assert parts.document_factors_.dtype == whole.document_factors_.dtype == dtype
        for each in ("document_factors_", "word_factors_", "core_", "objective_"):
            if hasattr(whole, each):
                allclose(getattr(parts, each), getattr(whole, each), tolerance, tolerance)
        np.testing.assert_array_equal(parts.labels_, whole.labels_)


def spoilt(value):
    """Return what puts a value in the place of the first of a matrix, by name."""

    def spoil(matrix):
        matrix = matrix.copy()
        matrix.data[0] = value
        return matrix

    return (
        {"X": lambda X, M: spoil(X)},
        {"X": lambda X, M: lazy(spoil(X), CHUNKS["ragged"])},
        {"M": lambda X, M: spoil(M)},
    )


BAD = {-1.0: "holds one in row", np.nan: "holds NaN or infinity", np.inf: "holds NaN or infinity"}


def asymmetric(X, M):
    M = M.tolil()
    M[3, 5] += 1
    return csr_array(M)


REFUSED = [
    *(
        (kind, {}, changed, f"{next(iter(changed))} {sentence}")
        for value, sentence in BAD.items()
        for changed in spoilt(value)
        for kind in (KINDS if "X" in changed else [SemanticNMF])
    ),
    (NMF, {}, {"X": lambda X, M: csr_array((60, 40))}, "None of the 60 documents"),
    *((kind, {"n_components": 61}, {}, "^61 compo.* ask for 1 to 60") for kind in KINDS),
    (SemanticNMF, {}, {"M": lambda X, M: M[:39][:, :39]}, r"M has shape \(39, 39\) and X has 40 words"),
    (SemanticNMF, {}, {"M": lambda X, M: None}, "M has shape None and X has 40 words"),
    (SemanticNMF, {}, {"M": lambda X, M: dask.delayed(M)}, "M is"),
    (SemanticNMF, {}, {"M": asymmetric}, "M is not symmetric"),
    (SemanticNMF, {}, {"M": lambda X, M: lazy(asymmetric(X, M), (20, 20))}, "M is not symmetric"),
    (orthogonal, {}, {"graph": lambda X, M: neighbors_of(X)}, 'solver "orthogonal" takes no graph'),
    (NMF, {}, {"graph": lambda X, M: M}, r"graph has shape .*40, 40.* and X has 60 documents"),
    (NMF, {}, {"graph": lambda X, M: one_way_of(X)}, r"not symmetric .*graph.maximum\(graph.T\)"),
    (NMF, {"solver": "newton"}, {}, "solver is 'newton'"),
    (NMF, {"init": "zeros"}, {}, "init is 'zeros'"),
    (SemanticNMF, {"shift": 0.5}, {}, "shift is 0.5"),
    (SemanticNMF, {"semantic_weight": -1}, {}, "semantic_weight is -1"),
]


@pytest.mark.parametrize(("kind", "options", "changed", "message"), REFUSED)
def test_what_cannot_be_factorized_is_refused(kind, options, changed, message):
    X, M, _ = planted()
    given_ = {"X": X} | ({"M": M} if kind is SemanticNMF else {})
    given_ |= {name: make(X, M) for name, make in changed.items()}
    with pytest.raises((ValueError, TypeError), match=message):
        kind(**{"n_components": 3} | options).fit(**given_)


def test_more_components_than_words_and_a_matrix_of_zeros_as_M_are_allowed():
    X, M, _ = planted(n_words=12)
    assert SemanticNMF(15, max_iter=10).fit(X, M).word_factors_.shape == (12, 15)
    model = SemanticNMF(3, max_iter=30).fit(X, csr_array(M.shape))
    alone = multiplicative(3, max_iter=30, tol=0).fit(X)
    assert not model.core_.any()
    allclose(model.word_factors_, alone.word_factors_, 1e-9, 0)
    allclose(model.objective_, alone.objective_, 1e-9, 0)


def test_an_exact_fit_has_converged():
    """Its objective is rounding error, often below zero, of which no share is left to gain."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        model = NMF(1).fit(np.outer(random.random(20), random.random(15)))
        assert (model.converged_, model.n_iter_) == (True, 10)


def test_a_component_is_known_by_its_own_words_alone():
    model = NMF(2).fit(np.kron(np.eye(2), np.ones((5, 4))))
    assert sorted(model.top_words(6, list("abcdefgh"))) == [list("abcd"), list("efgh")]
    with pytest.raises(ValueError, match="2 words were given for 8 rows"):
        model.top_words(3, ["a", "b"])


def test_convergence_is_a_fact_and_a_warning():
    X, _, _ = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = NMF(3, max_iter=500, tol=1e-6).fit(X)
    assert done.converged_
    assert done.n_iter_ < 500
    with pytest.warns(UserWarning, match="raise max_iter"):
        assert not NMF(3, max_iter=5, tol=1e-12).fit(X).converged_


def test_counts_in_place_of_an_association_are_warned_of():
    X, M, _ = planted()
    counts = M / 0.75
    for association in (counts, lazy(counts, WORD_CHUNKS["even"])):
        with pytest.warns(
            UserWarning, match=r"whole numbers only, as counts do.*fit\(X, de.ppmi\(counts\)\)"
        ):
            SemanticNMF(3, max_iter=1).fit(X, association)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SemanticNMF(3, max_iter=1).fit(X, M)
        SemanticNMF(3, max_iter=1).fit(X, (M > 0).astype(float))  # a graph of ones is an association
