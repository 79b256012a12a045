"""The stage of topic transfer that makes the rows of documents among which neighbors are sought."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from distembed.costs import Cost
from distembed.execution import prefixed, whole
from distembed.factorization.lsa import LSA
from distembed.linalg.operators import sparse_times
from distembed.pipeline.context import Context, sections
from distembed.pipeline.corpus.collections import ParallelSizes, sides_of
from distembed.pipeline.systems.transfer.arrays import store
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.sizes import n_chunks, row_bytes, term_bytes
from distembed.pipeline.tables.vector_files import load_vectors
from distembed.storage.workspace import Workspace


def plan_vectors(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of the rows that neighbors are sought among."""
    task = job.resources.block_memory + 16 * sizes.n_words * job.representation.n_components
    rows = row_bytes(job, sizes)
    return Cost(20 * n_chunks(job, sizes), 12 * term_bytes(sizes), rows, task, exact=sizes.exact)


def vector_parameters(job: TransferJob) -> dict[str, Any]:
    """Return the representation, and where word vectors are given."""
    return {
        **sections("representation")(job),
        "vectors": [getattr(job, side).vectors for side in sides_of(job)],
    }


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Make the rows that neighbors are sought among; tf-idf rows are those of the terms."""
    kind = ctx.job.representation.kind
    makers = {"lsa": _lsa_rows, "psdvec": _mean_vectors}
    if kind not in makers:
        return {}
    for side in sides_of(ctx.job):
        rows = makers[kind](ctx, side)
        store(
            ctx,
            f"{side}_vectors",
            rows,
            ("document", "component"),
            "Where a document stands among the others.",
        )
    return {"n_components": int(rows.shape[1])}


def _lsa_rows(ctx: Context, side: str) -> da.Array:
    terms = ctx.workspace.array(f"{side}_terms")
    options = ctx.job.representation
    rank = min(options.n_components, min(terms.shape) - 1)
    keep = prefixed(ctx.stage.checkpoint, f"{side}-")
    return LSA(rank, random_state=options.random_state, checkpoint=keep).fit_transform(terms)


def _mean_vectors(ctx: Context, side: str) -> da.Array:
    """Return the mean of the vectors of a document's words, weighted by tf-idf, the mean of all words removed."""
    words = ctx.workspace.table(f"{side}_vocabulary")["word"].to_pylist()
    vectors = load_vectors(getattr(ctx.job, side).vectors).postprocess(remove_mean=True)
    table = np.zeros((len(words), vectors.vectors.shape[1]), np.float32)
    known = [row for row, word in enumerate(words) if word in vectors]
    if not known:
        raise ValueError(
            f"no word of the {side} collection (the first is {words[0]!r}) has a vector in "
            f"{getattr(ctx.job, side).vectors} (its first word is {vectors.words[0]!r})"
        )
    table[known] = vectors[[words[row] for row in known]]
    return sparse_times(ctx.workspace.array(f"{side}_terms"), whole(table))


def rows_of(job: TransferJob, workspace: Workspace, side: str) -> da.Array:
    """Return the rows of a collection among which neighbors are sought, dense or CSR chunks."""
    return workspace.array(f"{side}_{'terms' if job.representation.kind == 'tf_idf' else 'vectors'}")
