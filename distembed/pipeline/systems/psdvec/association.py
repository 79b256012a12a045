"""The stage of PSDVec that keeps the smoothed PMI of all pairs of words, where the job asks for it."""

from __future__ import annotations

from typing import Any

from distembed.costs import PAIR_BYTES, SCRATCH_FACTOR, STORED_VALUE_BYTES, Cost
from distembed.pipeline.context import Context, StageSpec
from distembed.pipeline.corpus.sizes import PairSizes
from distembed.pipeline.corpus.stages import vocabulary_of
from distembed.pipeline.systems.psdvec.config import PSDVecJob
from distembed.weighting.pmi import smoothed_pmi

PMI = "pmi"
"""The name of the stored array."""


def pmi_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the content of the matrix, beside the counts."""
    return {"smoothing": job.psdvec.smoothing}


def plan_pmi(job: PSDVecJob, sizes: PairSizes) -> Cost:
    """Return the plan of the matrix: each block of counts is read twice, for its sums and its values."""
    block, counts = job.resources.block_memory, PAIR_BYTES * sizes.n_nonzero
    task, written = (
        int(SCRATCH_FACTOR * min(block // 8 * 2, counts)),
        int(STORED_VALUE_BYTES * sizes.n_nonzero),
    )
    n_blocks = sizes.runs.n_row_blocks
    return Cost(n_blocks, 2 * counts, written, task, exact=sizes.exact, keeps=((PMI, written),))


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
