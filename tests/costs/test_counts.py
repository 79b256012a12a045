"""What the cost of the coherence of topics says, against the arrays that runs make."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from distembed.evaluation.documents import coherence_cost, topic_coherence
from distembed.linalg.operators import row_blocks
from tests.costs.test_costs import Recorder


def test_the_scores_of_topics_hold_the_counts_of_their_words_with_one_another() -> None:
    counts = sp.random_array((400, 400), density=0.3, format="csr", rng=np.random.default_rng(0))
    topics = np.arange(400).reshape(20, 20).tolist()
    with pytest.MonkeyPatch.context() as patch:
        found = Recorder(patch).sizes
        topic_coherence(topics, row_blocks(counts, values_per_block=2**13))
    costs = [coherence_cost(counts.nnz, 6, n, block_memory=2**20) for n in (200, 400)]
    assert 0 < max(found.values()) <= costs[1].peak_bytes(1)
    assert 4 * costs[0].shared_bytes == costs[1].shared_bytes
