"""The ridge chosen by pairs left out: what is left out stays unknown, and what is no number is not chosen."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.regularization import choose_regularization
from tests.manifold.test_alignment import pairs_of, planted

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* joined to no known value"),
    pytest.mark.filterwarnings("ignore:the objective still fell"),
]


def test_regularization_is_chosen_by_pairs_left_out():
    X1, X2, V = planted()
    model = FeaturePreservingEmbedding(4, propagate=True)
    choice = choose_regularization(model, X1, X2, V, pairs_of(np.arange(40)), values=(0.01, 1000.0))
    assert choice.regularization == 0.01
    assert choice.errors[0.01] < choice.errors[1000.0]
    with pytest.raises(ValueError, match="1 pairs make 1 groups that share no row"):
        choose_regularization(model, X1, X2, V, [(0, 0)])


def test_a_row_left_out_is_in_no_pair_kept():
    """Each row of the second set has two counterparts of one value, which nothing else could tell."""
    X1, X2, _ = planted()
    V = np.repeat(np.random.default_rng(1).standard_normal((60, 4)), 2, axis=0)
    pairs = np.column_stack([np.arange(40), np.repeat(np.arange(20), 2)])
    choice = choose_regularization(FeaturePreservingEmbedding(4), X1, X2, V, pairs, values=(0.001, 1.0))
    assert min(choice.errors.values()) > 0.9
    with pytest.raises(ValueError, match="4 pairs make 1 groups that share no row"):
        choose_regularization(FeaturePreservingEmbedding(4), X1, X2, V, [(0, 0), (0, 1), (1, 1), (2, 1)])


def test_pairs_without_known_features_do_not_decide():
    X1, X2, V = planted()
    V[:40] = np.nan
    model = FeaturePreservingEmbedding(4)
    with pytest.raises(ValueError, match=r"40 pairs make 0 groups .* known features"):
        choose_regularization(model, X1, X2, V, pairs_of(np.arange(40)))
    choice = choose_regularization(model, X1, X2, V, pairs_of(np.arange(80)), values=(1000.0, 0.01))
    assert choice.regularization == 0.01
    assert np.isfinite(list(choice.errors.values())).all()


class NothingBelowOne(FeaturePreservingEmbedding):
    """Infers nothing with a small λ."""

    def fit(self, *arguments):
        fitted = super().fit(*arguments)
        fitted.features_ *= np.nan if self.regularization < 1 else 1.0
        return fitted


def test_an_error_that_is_not_a_number_is_not_the_smallest():
    X1, X2, V = planted()
    model, pairs = NothingBelowOne(4, max_iter=2), pairs_of(np.arange(40))
    assert choose_regularization(model, X1, X2, V, pairs, values=(0.1, 1.0, 1000.0)).regularization == 1.0
    with pytest.raises(ValueError, match=r"no regularization of \(0.1, 0.2\) gives a finite error"):
        choose_regularization(model, X1, X2, V, pairs, values=(0.1, 0.2))
