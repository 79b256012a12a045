"""The linear maps between two sets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from distembed.linalg.blocks import directions
from distembed.manifold.inference import control_features, nearest_features
from tests.evaluation.test_transfer import proportions


def test_controls():
    generator = np.random.default_rng(0)
    X1 = generator.standard_normal((60, 6))
    X2 = X1 @ np.linalg.qr(generator.standard_normal((6, 6)))[0]
    V = proportions(60)
    links = sp.csr_array((np.ones(20), (np.arange(20), np.arange(20))), shape=(60, 60))
    found = control_features(X1, X2, V, links, n_neighbors=1)
    np.testing.assert_allclose(found["mean"], np.tile(V.mean(axis=0), (60, 1)))
    np.testing.assert_allclose(found["procrustes"], V)
    np.testing.assert_allclose(found["procrustes_1"], V)
    expected = Ridge(alpha=0.3).fit(directions(X2)[:20], V[:20]).predict(directions(X2))
    np.testing.assert_allclose(found["ridge"], expected)
    mapped = Ridge(alpha=0.3).fit(directions(X2)[:20], directions(X1)[:20]).predict(directions(X2))
    np.testing.assert_allclose(found["ridge_map"], nearest_features(directions(X1), mapped, V))
    with pytest.raises(ValueError, match="there are none"):
        control_features(X1, X2, V, sp.csr_array((60, 60)))
