"""Block functions of imputation against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import nnls

from distembed.manifold import imputation_systems as blocks
from tests.references import imputation as oracle

COARSE = st.integers(-3, 3).map(float)
"""A coarse grid of values gives many equal ones."""


def rebuilt(x, A, *, simplex, floor=0.0, function=blocks.rebuild_rows):
    """Return the weights of one row and their certificate."""
    structure = np.array([0]), np.array([0, len(A)]), np.arange(1, len(A) + 1)
    weights, certificates = function(np.vstack([x, A]), *structure, floor, simplex)
    return weights, certificates[0]


@settings(deadline=None, max_examples=30)
@given(
    A=st.tuples(st.integers(1, 9), st.integers(1, 12)).flatmap(
        lambda s: hnp.arrays(float, s, elements=COARSE)
    )
)
def test_simplex_weights_are_on_the_simplex_and_optimal(A):
    x = np.zeros(A.shape[1])
    w, certificate = rebuilt(x, A, simplex=True)
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1)
    assert certificate < 1e-8
    plain = oracle.simplex_weights(x, A)
    scale = (A**2).sum(axis=1).mean()
    assert ((w @ A) ** 2).sum() <= ((plain @ A) ** 2).sum() + 1e-8 * scale


@pytest.mark.parametrize(
    ("A", "found", "simplex", "certificate"),
    [
        # w = (3, 0): its gradient is (27 - 3, -1), and A x is (3, 1)
        ([[3.0, 0.0], [0.0, 1.0]], [3.0, 0.0], False, 3 * 24 / 3),
        ([[3.0, 0.0], [0.0, 1.0]], [0.0, 0.0], False, 1.0),
        ([[4.0, 1.0], [1.0, 2.0]], [1.0, 0.0], True, 9 / 5),  # G is diag(9, 1), seen from (1, 1)
    ],
)
def test_the_certificate_sees_weights_that_are_not_optimal(A, found, simplex, certificate, monkeypatch):
    monkeypatch.setattr(blocks, "nonnegative_least_squares", lambda _G, _c: np.array(found))
    plain = blocks.rebuild_rows.py_func
    assert rebuilt(np.ones(2), np.array(A), simplex=simplex, function=plain)[1] == pytest.approx(certificate)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(3, 15))
def test_cone_weights_equal_scipys(seed, k, d):
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((k, d)), rng.standard_normal(d)
    w, certificate = rebuilt(x, A, simplex=False)
    # Gram matrices square the condition of A, and it is the squared residual that they are exact in: the largest
    # difference of 4,000 random problems was 2e-10, of which the root is 1e-5. The largest certificate found is 3e-6.
    assert certificate < 1e-5
    plain, residual = nnls(A.T, x)
    assume(plain.any())  # else there is nothing to divide by its sum
    made = w @ A
    best = (x @ made) / (made @ made) * made
    assert ((x - best) ** 2).sum() == pytest.approx(residual**2, abs=1e-8)


@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.5]), st.booleans())
@settings(deadline=None, max_examples=30)
def test_floor_makes_every_weight_positive(seed, floor, simplex):
    rng = np.random.default_rng(seed)
    A, x = np.round(rng.standard_normal((rng.integers(1, 9), 3))), rng.standard_normal(3)
    raised = rebuilt(x, A, simplex=simplex, floor=floor)[0]
    assert (raised > 0).all()
    bare, least = rebuilt(x, A, simplex=simplex)[0], blocks.LEAST_FLOOR / len(A) if simplex else 0.0
    np.testing.assert_allclose(raised, oracle.with_floor(bare, floor, least), rtol=1e-9)


def test_a_tiny_weight_does_not_make_the_floor_tiny():
    """The last of three neighbors hardly counts: a floor of its weight would let I - W grow singular."""
    A = np.array([[1.0, 1e-13], [-1.0, 1e-13], [1.0, -3.0]])
    assert 0 < rebuilt(np.zeros(2), A, simplex=True)[0][2] < 1e-9
    weights = rebuilt(np.zeros(2), A, simplex=True, floor=0.1)[0]
    assert weights.min() == pytest.approx(0.1 * blocks.LEAST_FLOOR / 3, rel=1e-3)
