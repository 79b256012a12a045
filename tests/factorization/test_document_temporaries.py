"""What the block functions of NMF, spherical k-means and their kin hold beside their arguments and their results."""

from functools import partial

import dask.array as da
import numpy as np
from scipy.sparse import csr_array, random_array

from distembed.execution import compute
from distembed.factorization import clustering, document_factors, document_rows, lda, nmf_rounds, replicates
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.replicates import (
    Design,
    Part,
    Regression,
    differences,
    group_samples,
    words_in_samples,
)
from distembed.lift import lift
from distembed.linalg.blocks import gram
from distembed.linalg.csr import canonical_csr, unit_rows
from tests.temporaries import assert_declared, measured

N_DOCUMENTS, N_WORDS, RANK = 3000, 2000, 20
BOXES = {"dtype": object}


def rows(n, m, in_row):
    return csr_array(random_array((n, m), density=in_row / m, rng=np.random.default_rng(0), dtype=np.float32))


def test_the_block_functions_of_documents_hold_what_they_declare():
    rng = np.random.default_rng(0)
    X, A = rows(N_DOCUMENTS, N_WORDS, 300), rows(N_DOCUMENTS, N_DOCUMENTS, 8)
    Z, W = rng.random((N_DOCUMENTS, RANK), np.float32), rng.random((N_WORDS, RANK))
    WW, labels = W.T @ W, rng.integers(0, RANK, (N_DOCUMENTS, 1))
    model = lda._model(rng.gamma(100.0, 0.01, (RANK, N_WORDS)), N_DOCUMENTS)

    def every():
        for update in (partial(nmf_rounds.descend, sweeps=nmf_rounds.HALS_SWEEPS), nmf_rounds.scale):
            lift(nmf_rounds.step_documents, "wd,wk,dk,kl->wk", X, Z, W, WW, update=update, **BOXES)
        tie = partial(nmf_rounds.scale, weight=1.0)
        lift(nmf_rounds.step_documents, "wd,wk,dk,kl,wn,Nk->wk", X, Z, W, WW, A, Z, update=tie, **BOXES)
        lift(nmf_rounds.scale, "wk,wk,kl,wn,Nk->wk", Z, Z, WW, A, Z, weight=1.0)
        lift(nmf_rounds.graph_loss, "wn,wk,Nk->", A, Z, Z)
        lift(nmf_rounds.solve_documents, "wd,dk,kl->wk", X, W, WW)
        for function in (document_rows.times, clustering.nearest_centroid):
            lift(function, "wd,dk->wk", X, W)
        lift(clustering.cluster_sums, "wd,dk->dk", X, W)
        lift(document_rows.document_sums, "wd,wk->dk", X, Z)
        members = lift(clustering.memberships, "ws->wc", np.tile(labels, (1, 8)), rank=RANK)
        lift(clustering.joint_sizes, "wc->cc", members)
        lift(unit_rows, "wd->wd", X)
        lift(document_factors.subtract_shift, "wd->wd", X, shift=1.5)
        for documents in (X, X.toarray(), X.astype(np.float64)[:, ::-1]):
            lift(canonical_csr, "wd->wd", documents, dtype=np.float32)
        lift(gram, "wk->kl", Z)
        lift(document_factors.column_shares, "wk,lk->wl", np.tile(Z, (5, 1)), np.ones((1, RANK)))
        lift(nmf_rounds.membership, "wl->wk", labels, rank=RANK, floor=0.2, value_type=np.float32)
        lift(lda.share_topics, "wd->wk", rows(600, N_WORDS, 60), model=model)

    every()  # compiles
    with measured() as found:
        every()
    assert_declared(found, *found)


def test_samples_of_words_hold_what_they_declare():
    rng, n_words, n_core, n_groups, rank = np.random.default_rng(0), 480, 480, 4, 10
    groups = [csr_array(rng.poisson(0.4, (n_words, n_core)).astype(np.int32)) for _ in range(n_groups)]
    design = Design(n_halves=2, n_draws=4, confidence=0.9)
    part = Part(
        [da.from_array(one, chunks=(240, -1), asarray=False) for one in groups],
        np.stack([np.asarray(one.sum(axis=1)).ravel() for one in groups], axis=1).astype(float),
        rng.integers(50, 99, (n_words, n_groups)),
        group_samples(n_groups, design, [0]),
    )
    rules = Regression(PairWeighting(0.1, 3.0, 3.0), ridge=2.0, uniform_weight=0.1)
    core = da.from_array(rng.random((n_core, rank), np.float32), chunks=(240, -1))
    measure = partial(differences, design=design)

    with measured() as found:
        compute(words_in_samples(measure, 8, [part, part], core, rules, batch_words=240))
    assert_declared(found, replicates.measured_words)
