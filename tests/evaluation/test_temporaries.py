"""What the block functions of evaluation, of samples and of topics hold is what they declare."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, random_array

from distembed.evaluation import contexts, topics, transfer
from distembed.lift import lift
from distembed.systems.topics import stages
from tests.temporaries import assert_declared, measured


def test_the_block_functions_of_evaluation_declare_what_they_hold():
    rng = np.random.default_rng(0)
    X = csr_array(random_array((3000, 2000), density=0.15, rng=rng, dtype=np.float32))
    rows, pairs = rng.random((4000, 50)), rng.random((60, 50))
    labels, lengths = rng.integers(0, 20, 3000), np.ones(60)

    def every():
        lift(topics.documents_with_word, "wd,w->td", X, labels, n_topics=20)
        lift(transfer.ranks_of_rows, "rd,r,nd->r", rows[:45], np.arange(45), rows)
        lift(contexts._terms_block, "cd,md,md,m->cm", rows, pairs, pairs, lengths)
        lift(stages._sum_of, "wc,wc->wc", X, X)

    every()
    with measured() as found:
        every()
    assert_declared(found, *found)
