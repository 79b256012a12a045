"""Factorize the tf-idf of a finished topics workspace by gensim's online NMF or by ours, both read from disk.

    python -m tests.benchmarks.nmf_against_gensim WORKSPACE gensim|hals|multiplicative [RANK [ROUNDS]]

Prints wall and CPU seconds, the peak memory of the process while it learns, the relative error with the best
document factors for the words found, and the coherence of the top 30 words in the workspace's own counts.
"""

from __future__ import annotations

from typing import Literal

import dask
import numpy as np
import psutil

import distembed as de
from distembed.evaluation.documents import topic_coherence
from distembed.execution import one_blas_thread
from distembed.factorization import nmf_blocks as blocks
from tests.benchmarks.measures import needed, peak_bytes, run_main, spent, tell

SEED = 0


def documents(X):
    """Yield (word, value) pairs of each document, a block in memory at a time."""
    for block in X.blocks:
        rows = block.compute(scheduler="synchronous")
        for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            yield list(zip(rows.indices[start:stop].tolist(), rows.data[start:stop].tolist(), strict=True))


class Stream:
    """A corpus that gensim may pass over several times."""

    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return documents(self.X)

    def __len__(self):
        return self.X.shape[0]


def learn(X, words, method, rank, rounds):
    if method == "gensim":
        names = dict(enumerate(words))
        options = {"chunksize": 2000, "passes": rounds, "random_state": SEED, "eval_every": None}
        model = needed("gensim.models.nmf").Nmf(Stream(X), num_topics=rank, id2word=names, **options)
        return np.asarray(model.get_topics(normalize=False)).T
    model = de.NMF(rank, solver=method, n_iter=rounds, tol=0, init="random", random_state=SEED)
    return model.fit(X).word_factors_


def block_loss(block, W):
    """Return ½‖x - z Wᵀ‖² and ½‖x‖² of a block, z the best for W."""
    WW = blocks.gram(W)
    Z = blocks.solve_documents(block, W, WW, sweeps=500)
    square = float(block.data.astype(np.float64) @ block.data)
    return blocks.document_loss(square, blocks.transposed_times(block, Z), blocks.gram(Z), W), square / 2


def relative_error(X, W):
    parts = [dask.delayed(block_loss)(block, W) for block in X.to_delayed().ravel()]
    loss, square = np.sum(dask.compute(*parts), axis=0)
    return float(np.sqrt(loss / square))


def main(
    url: str, method: Literal["gensim", "hals", "multiplicative"], rank: int = 20, rounds: int = 1
) -> None:
    workspace = de.Workspace.open(url)
    X, words = workspace.array("tf_idf"), workspace.table("vocabulary")["word"].to_pylist()
    before = psutil.Process().memory_info().rss / 2**20
    found = spent(learn, X, words, method, rank, rounds)
    W, peak = np.asarray(found.result, np.float64), peak_bytes() / 2**20
    top = np.argsort(-W, axis=0, kind="stable")[:30].T
    with one_blas_thread():
        error = relative_error(X, W)
        coherence = topic_coherence(top.tolist(), workspace.array("cooccurrence"))
    tell(
        f"{X.shape[0]} x {X.shape[1]} in {X.numblocks[0]} blocks, rank {rank}, {method} {rounds} passes: {found}, "
        f"peak {peak:.0f} MiB (before: {before:.0f}), relative error {error:.5f}, coherence "
        f"PMI {np.nanmean(coherence.pmi):.2f}, NPMI {np.nanmean(coherence.npmi):.3f}"
    )


if __name__ == "__main__":
    run_main(main)
