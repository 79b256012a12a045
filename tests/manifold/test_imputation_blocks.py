"""Block functions of imputation against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import nnls

from distembed.manifold import imputation_systems as blocks
from tests.references import imputation as oracle

COARSE = st.integers(-3, 3).map(float)
"""A coarse grid of values gives many equal ones."""


@settings(deadline=None, max_examples=30)
@given(
    A=st.tuples(st.integers(1, 9), st.integers(1, 12)).flatmap(
        lambda s: hnp.arrays(float, s, elements=COARSE)
    )
)
def test_simplex_weights_are_on_the_simplex_and_optimal(A):
    w, certificate = blocks.simplex_weights(A)
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1)
    assert certificate < 1e-8
    plain = oracle.simplex_weights(np.zeros(A.shape[1]), A)
    scale = (A**2).sum(axis=1).mean()
    assert ((w @ A) ** 2).sum() <= ((plain @ A) ** 2).sum() + 1e-8 * scale


def test_the_certificate_sees_weights_that_are_not_optimal(monkeypatch):
    A, x = np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([1.0, 1.0])
    monkeypatch.setattr(blocks, "nonnegative_least_squares", lambda _G, c: np.array([1.0, 0.0]) * c[0])
    _, of_cone = blocks.cone_weights.py_func(
        A, x
    )  # w = (3, 0): its gradient is (27 - 3, -1), and Aᵀx is (3, 1)
    assert of_cone == pytest.approx(3 * 24 / 3)
    monkeypatch.setattr(blocks, "nonnegative_least_squares", lambda _G, c: 0 * c)
    assert blocks.cone_weights.py_func(A, x)[1] == 1.0
    monkeypatch.setattr(blocks, "nonnegative_least_squares", lambda _G, _c: np.array([1.0, 0.0]))
    assert blocks.simplex_weights.py_func(A)[1] == pytest.approx(9 / 5)  # G is diag(9, 1)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(3, 15))
def test_cone_weights_equal_scipys(seed, k, d):
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((k, d)), rng.standard_normal(d)
    w, certificate = blocks.cone_weights(A, x)
    # Gram matrices square the condition of A, and it is the squared residual that they are exact in: the largest
    # difference of 4,000 random problems was 2e-10, of which the root is 1e-5. The largest certificate found is 3e-6.
    assert certificate < 1e-5
    residual, plain = np.linalg.norm(x - w @ A), nnls(A.T, x)[1]
    assert residual**2 == pytest.approx(plain**2, abs=1e-8)


@given(
    hnp.arrays(float, st.integers(1, 9), elements=st.sampled_from([0.0, 1e-12, 0.25, 1.0])),
    st.sampled_from([0.0, 1e-6, 0.5]),
)
def test_floor_makes_every_weight_positive(w, least):
    raised = blocks.raise_to_floor(w, 0.1, least)
    assert (raised > 0).all()
    np.testing.assert_allclose(raised, oracle.with_floor(w, 0.1, least), rtol=1e-12)


def test_a_tiny_weight_does_not_make_the_floor_tiny():
    """The last of three neighbors hardly counts: a floor of its weight would let I - W grow singular."""
    X = np.array([[0.0, 0.0], [1.0, 1e-13], [-1.0, 1e-13], [1.0, -3.0]])
    structure = np.array([0]), np.array([0, 3]), np.array([1, 2, 3])
    weights, _ = blocks.rebuild_rows(X, *structure, 0.1, True)
    plain = blocks.rebuild_rows(X, *structure, 0.0, True)[0]
    assert 0 < plain[2] < 1e-9
    assert weights.min() == pytest.approx(0.1 * blocks.LEAST_FLOOR / 3, rel=1e-3)
