"""The shares of known rows in imputed ones: those of the inverse, and the imputed vectors are the mixture."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import distembed as de
from distembed.manifold.imputation_shares import known_shares, strongest_paths

RNG = np.random.default_rng(3)
X = RNG.normal(size=(50, 4))
Y = np.where(np.arange(50)[:, None] < 15, RNG.normal(size=(50, 6)), np.nan)
KNOWN = np.arange(50) < 15


@pytest.fixture(scope="module")
def model() -> de.LatentSemanticImputation:
    return de.LatentSemanticImputation(min_degree=4, tol=1e-10).fit(X, Y)


def test_shares_are_those_of_the_inverse_and_mix_to_the_imputed_vector(
    model: de.LatentSemanticImputation,
) -> None:
    W = model.weights_.toarray()
    absorbed = np.linalg.inv(np.eye(35) - W[15:, 15:]) @ W[15:, :15]
    for row in (15, 31, 49):
        shares = known_shares(model.weights_, KNOWN, row)
        np.testing.assert_allclose(shares[:15], absorbed[row - 15], atol=1e-8)
        assert not shares[15:].any()
        assert shares.sum() == pytest.approx(1)
        np.testing.assert_allclose(shares[:15] @ Y[:15], model.vectors_[row], atol=1e-7)


def test_the_path_is_the_most_probable_one_and_ends_at_the_first_known_row() -> None:
    W = np.zeros((5, 5))
    W[0, [1, 2]] = 0.4, 0.6
    W[1, [3]] = 1.0
    W[2, [3, 4]] = 0.5, 0.5
    W[3, [4]] = 1.0  # known: no walk goes on from here
    W[4, [3]] = 1.0
    known = np.array([False, False, False, True, True])
    to_third, to_fourth = strongest_paths(sp.csr_array(W), known, 0, [3, 4])
    assert to_third.rows == [0, 1, 3]
    assert to_third.probability == pytest.approx(0.4)
    assert to_fourth.rows == [0, 2, 4]
    assert to_fourth.probability == pytest.approx(0.3)
    np.testing.assert_allclose(known_shares(sp.csr_array(W), known, 0), [0, 0, 0, 0.7, 0.3])


@pytest.mark.parametrize(
    ("row", "message"), [(3, "row 3 is known"), (0, "no path of weights leads from row 0")]
)
def test_rows_that_are_no_mixture(row: int, message: str) -> None:
    W = sp.csr_array(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], float))
    with pytest.raises(ValueError, match=message):
        known_shares(W, np.array([False, False, False, True]), row)
