"""NMF and Semantic-NMF with a graph of the documents: against the formulas, over blocks, in a job, on bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.neighbors import kneighbors_graph

import distembed as de
from distembed.factorization import nmf_rounds
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.linalg.operators import whole_csr
from distembed.neighbors.graphs import neighbor_affinity
from tests.factorization.test_nmf import CHUNKS, lazy, planted, start_of
from tests.references import nmf as plain
from tests.small_jobs.topics import write_long


def neighbors_of(X, k=4):
    """The graph of documents of which one is among the nearest of the other."""
    one_way = kneighbors_graph(X.toarray(), k, metric="cosine")
    return csr_array(one_way.maximum(one_way.T))


@pytest.mark.parametrize("weight", [100.0, 1.0])
def test_nmf_with_a_graph_equals_the_oracle_and_its_objective_never_rises(weight):
    X, _, _ = planted()
    A = neighbors_of(X)
    model = NMF(3, graph_weight=weight, max_iter=50, tol=0).fit(X, graph=A)
    Z, W, _ = start_of(model, X)
    losses = []
    for _ in range(50):
        Z, W = plain.graph_nmf_round(X.toarray(), Z, W, A.toarray(), weight)
        losses.append(plain.nmf_loss(X.toarray(), Z, W) + plain.graph_loss(Z, A.toarray(), weight))
    np.testing.assert_allclose(model.document_factors_, Z, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.word_factors_, W, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.objective_, losses, rtol=1e-9)
    assert (np.diff(model.objective_) <= 1e-9 * model.objective_[0]).all()


def test_semantic_nmf_with_a_graph_equals_the_oracle():
    X, M, _ = planted()
    A = neighbors_of(X)
    model = SemanticNMF(3, shift=1, semantic_weight=0.5, graph_weight=2, max_iter=50).fit(X, M, graph=A)
    Z, W, S = start_of(model, X, M)
    losses = []
    for _ in range(50):
        Z, W, S = plain.semantic_round(X.toarray(), M.toarray(), Z, W, S, 0.5, A.toarray(), 2)
        both = plain.semantic_loss(X.toarray(), M.toarray(), Z, W, S, 0.5)
        losses.append(both + plain.graph_loss(Z, A.toarray(), 2))
    np.testing.assert_allclose(model.document_factors_, Z, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.core_, S, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.objective_, losses, rtol=1e-9)


def test_the_documents_of_a_consensus_are_tied_too():
    X, _, _ = planted()
    A = neighbors_of(X)
    model = NMF(3, graph_weight=5, n_init=2, tol=0, max_iter=20).fit(X, graph=A)
    Z = np.ones((60, 3))
    for _ in range(nmf_rounds.TIED_ROUNDS):
        Z = plain.tied_documents(X.toarray(), Z, model.word_factors_, A.toarray(), 5)
    np.testing.assert_allclose(model.document_factors_, Z, rtol=1e-6, atol=1e-9)
    loss = plain.nmf_loss(X.toarray(), Z, model.word_factors_) + plain.graph_loss(Z, A.toarray(), 5)
    assert model.objective_ == pytest.approx(loss)


def test_a_graph_of_other_documents_or_of_one_way_is_refused():
    X, _, _ = planted()
    with pytest.raises(ValueError, match='solver "orthogonal" takes no graph'):
        NMF(3, solver="orthogonal").fit(X, graph=neighbors_of(X))
    with pytest.raises(ValueError, match=r"graph has shape .*59, 59.* and X has 60 documents"):
        NMF(3).fit(X, graph=neighbors_of(X)[:59, :59])
    with pytest.raises(ValueError, match=r"graph is not symmetric .*graph.maximum\(graph.T\)"):
        NMF(3).fit(X, graph=kneighbors_graph(X.toarray(), 4, metric="cosine"))


@pytest.mark.parametrize("model", [NMF(3, max_iter=5, tol=0), NMF(3, max_iter=2, tol=0, n_init=2)])
def test_blocks_do_not_change_the_answer(model, monkeypatch):
    """The graph may have another grid than X."""
    monkeypatch.setattr(nmf_rounds, "TIED_ROUNDS", 5)
    X, _, _ = planted()
    A = neighbors_of(X)
    whole = clone(model).fit(X, graph=A)
    for graph in (A, lazy(A, CHUNKS["even"])):
        parts = clone(model).fit(lazy(X, CHUNKS["ragged"]), graph=graph)
        found = np.asarray(parts.document_factors_)
        np.testing.assert_allclose(found, whole.document_factors_, rtol=1e-8, atol=1e-10)


def test_a_job_with_a_graph_gives_what_the_estimators_give(tmp_path):
    """What is made in blocks is what the estimators give in memory."""
    options = {
        "compare_with": ["nmf", "spherical_kmeans"],
        "graph_weight": 1,
        "max_iter": 3,
        "n_neighbors": 4,
    }
    write_long(tmp_path)
    run = de.run_job(tmp_path / "job.toml", workspace=tmp_path / "w", until="topics", topics=options)
    X, M, A = (whole_csr(run.arrays[name]) for name in ("tf_idf", "ppmi", "document_graph"))
    np.testing.assert_array_equal(A.toarray(), neighbor_affinity(X, 4, affinity="binary").toarray())
    for model in (
        de.NMF(2, max_iter=3, tol=0).fit(X, graph=A),
        de.SemanticNMF(2, max_iter=3).fit(X, M, graph=A),
    ):
        read = type(model).from_workspace(run.workspace)
        np.testing.assert_allclose(read.word_factors_, model.word_factors_, rtol=1e-3, atol=1e-6)
