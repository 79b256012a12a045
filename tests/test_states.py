"""States that a context keeps: their names, and when they are found again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from distembed.states import keep, keeping, scope
from tests.kept_states import KeptStates


@pytest.fixture
def states():
    kept = KeptStates()
    with keeping(kept):
        yield kept


def test_a_csr_array_is_told_apart_by_its_content(states):
    matrix = csr_array(np.eye(3))
    other = csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    assert other.has_canonical_format  # which it remembers from now on
    for one in (matrix, other, matrix * 2):
        with scope("fit", one):
            keep("state", lambda: np.zeros(2))
    assert len(states.stored) == 2
