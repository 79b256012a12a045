"""Bad input of every estimator and function of the floor, and the sentence that names it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import distembed as de
from distembed.manifold import projection
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.eigenmaps import laplacian_eigenmaps, smallest_eigenpairs
from distembed.manifold.imputation import known_shares
from distembed.manifold.inference import linear_controls
from distembed.manifold.projection import neighborhood_graph
from tests.manifold.test_alignment import pairs_of, planted
from tests.manifold.test_imputation import problem
from tests.manifold.test_projection import graph_in_parts, some_rows

X, Y = problem()


def impute(X=X, Y=Y, graph=None, **options):
    return de.LatentSemanticImputation(**options).fit(X, Y, graph=graph)


def infer(new, X=X):
    return impute(min_degree=4).infer(new, X, Y)


PAIRS = pairs_of(np.arange(5))


def embed(V1=None, pairs=PAIRS, **options):
    X1, X2, V = planted(30)
    model = de.FeaturePreservingEmbedding(**{"n_components": 3, **options})
    return model.fit(X1, X2, V if V1 is None else V1, pairs)


def embed_graph(**given):
    de.FeaturePreservingEmbedding(1).fit_graph(V=np.arange(4.0)[:, None], **given)


def project(X=None, graph=None, **options):
    model = de.LocalityPreservingProjection(**({"n_components": 3, "n_neighbors": 5} | options))
    return model.fit(some_rows() if X is None else X, graph=graph)


def links(pairs):
    return correspondence_matrix(pairs, 5, 5)


GRAPH = neighborhood_graph(some_rows(), n_neighbors=5)
PAIRED = sp.csr_array(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], float))
LAST = np.array([False, False, False, True])
PARTLY = np.where(np.arange(7) == 0, np.nan_to_num(Y, nan=1.0), Y)

REFUSED = [
    # imputation
    (impute, {"Y": PARTLY}, r"Y is NaN in part in 45 of 60 rows"),
    (impute, {"Y": np.where(np.isnan(Y), Y, np.inf)}, r"Y holds infinity in 15 of 60 rows"),
    (impute, {"Y": np.full_like(Y, np.nan)}, r"no row of Y is known"),
    (impute, {"Y": Y[:-1]}, r"each of the 60 .* \(59, 7\)"),
    (impute, {"Y": Y[:, 0]}, r"its shape is \(60,\)"),
    (impute, {"Y": np.zeros(Y.shape, int)}, r"its dtype is int64"),
    (impute, {"min_degree": 60}, r"min_degree = 60 needs more rows than the 60"),
    (impute, {"X": X[:1], "Y": np.ones((1, 3))}, r"1 sample\(s\) .* a minimum of 2 is required"),
    (impute, {"graph": sp.eye_array(60)}, r"own neighbors"),
    (impute, {"graph": sp.eye_array(5)}, r"60 x 60"),
    (impute, {"graph": sp.csr_array((60, 60))}, r"45 rows to impute are joined to no known vector"),
    (infer, {"new": X[:, :2]}, r"have 6 columns"),
    (infer, {"new": X, "X": X[1:]}, r"X has 59 rows, but fit was given 60"),
    (infer, {"new": X, "X": X[:, 1:]}, r"X has 5 features"),
    (infer, {"new": np.where(X > 1, np.nan, X)}, r"X_new holds NaN"),
    (known_shares, {"weights": PAIRED, "known": LAST, "row": 3}, r"row 3 is known"),
    (known_shares, {"weights": PAIRED, "known": LAST, "row": 0}, r"no path of weights leads from row 0"),
    # correspondences
    (links, {"pairs": [(0, 5)]}, r"row 5 of set 2, which has the rows 0 to 4"),
    (links, {"pairs": [(-1, 0)]}, r"row -1 of set 1"),
    (links, {"pairs": [(0.5, 0)]}, r"row 0\.5"),
    (links, {"pairs": [(0, 0, 0.0)]}, r"confidence 0:"),
    (links, {"pairs": [(0, 0, 1.5)]}, r"confidence 1\.5"),
    (links, {"pairs": [(0, 0, 1.0), (0, 0, 0.5)]}, r"keep one"),
    (links, {"pairs": [0, 1]}, r"shape"),
    (links, {"pairs": sp.csr_array((2, 2))}, r"the sets 5 and 5 rows"),
    # embeddings
    (embed, {"pairs": None}, r"no correspondences"),
    (embed, {"pairs": []}, r"no correspondences"),
    (embed, {"V1": np.ones((3, 2))}, r"V1 must have a row for each of the 30 to"),
    (embed, {"n_components": 61}, r"choose 1 to the 60 rows"),
    (embed, {"regularization": -1.0}, r"regularization is -1"),
    (embed_graph, {"adjacency": -PAIRED}, r"the adjacency holds one in row 0, column 1"),
    (embed_graph, {"adjacency": sp.triu(PAIRED)}, r"the adjacency is not symmetric: give adjacency\.maximum"),
    (embed_graph, {"adjacency": PAIRED[:3]}, r"the adjacency has shape \(3, 4\), but joins 3 rows"),
    (embed_graph, {"adjacency": PAIRED, "confidence": [1, -1, 1, 1]}, r"Negative values .* confidence"),
    (embed, {"n_neighbors": 30}, r"30 neighbors of each row are asked for"),
    (embed, {"affinity": "rbf"}, r"affinity is 'rbf'"),
    (de.FeaturePreservingEmbedding().fit, {"X1": X, "X2": X, "correspondences": [(0, 0)]}, r"without V1"),
    (linear_controls, {"X1": X, "X2": X, "V1": X, "links": sp.csr_array((60, 60))}, r"there are none"),
    # projections and their graphs
    (project, {"n_components": 13}, r"n_components is 13 for an X of 60 x 12: choose 1 to 12"),
    (project, {"n_neighbors": 60}, r"60 neighbors of each row are asked for, but each of"),
    (project, {"threshold": 1.5}, r"threshold is 1.5; a cosine from 0 up to 1"),
    (project, {"threshold": 0.999999}, r"the graph joins no rows: lower threshold, or use n_neighbors"),
    (project, {"affinity": "local", "threshold": 0.5}, r"'local' needs nearest neighbors"),
    (project, {"solver": "eigen", "svd_components": 13}, r"svd_components is 13 but the matrix is 60 x 12"),
    (project, {"solver": "eigen", "constant_column": True}, r"constant_column belongs to the regression"),
    (project, {"graph": GRAPH[:5][:, :5]}, r"the graph has shape \(5, 5\), but joins 60 rows"),
    (project, {"graph": -GRAPH}, r"Negative values in data: the graph holds one"),
    (project, {"graph": sp.triu(GRAPH)}, r"not symmetric"),
    (smallest_eigenpairs, {"adjacency": graph_in_parts(), "k": 0}, r"0 eigenvectors .* 132 rows in 10 conn"),
    (smallest_eigenpairs, {"adjacency": graph_in_parts(), "k": 133}, r"choose 1 to 132"),
    (smallest_eigenpairs, {"adjacency": graph_in_parts(), "k": 132, "zeros": "apart"}, r"choose 1 to 131"),
    (smallest_eigenpairs, {"adjacency": graph_in_parts(), "k": 123, "zeros": "none"}, r"choose 1 to 122"),
    (laplacian_eigenmaps, {"graph": GRAPH, "k": 60}, r"60 eigenvectors are wanted but 60 vertices"),
]


@pytest.mark.parametrize(("call", "given", "sentence"), REFUSED)
def test_bad_input_is_named(call, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(**given)


def test_what_a_fitted_model_refuses(monkeypatch):
    with pytest.raises(ValueError, match="data_set is 2"):
        embed().transform(planted(30)[0], data_set=2)
    monkeypatch.setattr(projection, "DENSE_SIDE", 5)
    with pytest.raises(ValueError, match="needs svd_components for an X of 60 x 12"):
        project(solver="eigen")
