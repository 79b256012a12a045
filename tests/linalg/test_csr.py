"""Block functions of CSR matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from distembed.linalg.csr import unit_rows


def test_unit_rows_leave_their_argument_alone():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(unit_rows(X), [[0.6, 0.8], [0, 0]])
    np.testing.assert_allclose(unit_rows(sp.csr_array(X)).toarray(), [[0.6, 0.8], [0, 0]])
    assert X[0, 0] == 3.0
