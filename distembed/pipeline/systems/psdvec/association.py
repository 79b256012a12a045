"""The stage of PSDVec that keeps the smoothed PMI of all pairs of words, where the job asks for it."""

from __future__ import annotations

from typing import Any

from distembed.pipeline.context import Context, StageSpec
from distembed.pipeline.corpus.sizes import PairSizes
from distembed.pipeline.corpus.stages import PAIR_BYTES, vocabulary_of
from distembed.pipeline.plan import SCRATCH_FACTOR, StagePlan
from distembed.pipeline.systems.psdvec.config import PSDVecJob
from distembed.weighting.pmi import smoothed_pmi

PMI = "pmi"
"""The name of the stored array."""

STORED_BYTES = 5.5
"""Bytes of a pair on disk, a value of four bytes and its column, compressed: 5.1 and 5.2 of 0.2 and 10 M pairs."""


def pmi_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the matrix, beside the counts."""
    return {"smoothing": job.psdvec.smoothing}


def plan_pmi(job: PSDVecJob, sizes: PairSizes) -> StagePlan:
    """Return the plan of the matrix: each block of counts is read twice, for its sums and its values."""
    block, counts = job.resources.block_memory, PAIR_BYTES * sizes.n_nonzero
    task, written = int(SCRATCH_FACTOR * min(block // 8 * 2, counts)), int(STORED_BYTES * sizes.n_nonzero)
    n_blocks = sizes.runs.n_row_blocks
    return StagePlan(n_blocks, 2 * counts, written, task, exact=sizes.exact, keeps=((PMI, written),))


def run_pmi(ctx: Context) -> dict[str, Any]:
    """Store the smoothed PMI of all pairs with a count, less that of pairs without one, which is the constant."""
    counts = ctx.workspace.array("cooccurrence")
    found = smoothed_pmi(counts, vocabulary_of(ctx.workspace).counts, smoothing=ctx.job.psdvec.smoothing)
    ctx.stage.store(
        PMI,
        found.excess,
        dims=ctx.workspace.describe("cooccurrence").spec.dims,
        units="nats",
        meaning="Smoothed PMI of two words, less `constant`, which is that of two words without a count.",
        constant=found.constant,
        progress=ctx.progress("smoothed PMI"),
    )
    return {}


KEPT_PMI = StageSpec(PMI, ("cooccurrence", "vocabulary"), pmi_parameters, run_pmi, plan_pmi)
