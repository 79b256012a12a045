"""The sides of a psdvec job: a second count of its text, whose left and right contexts give a word further components.

The stage `joined` puts them beside those of `[psdvec]`.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.execution import compute
from distembed.factorization.joined_vectors import join, joined_rows, view_mean
from distembed.factorization.lsa import LSA
from distembed.job.stage import Context, StageSpec
from distembed.linalg.operators import count_values
from distembed.linalg.singular import scaled_power
from distembed.plan import Dimensions, StagePlan, stage_plan, task
from distembed.stages.corpus import count_pairs, plan_counts
from distembed.stages.corpus_sections import COUNTING_OPTIONS
from distembed.stages.outputs import VOCABULARY
from distembed.stages.singular import plan_of_triplets
from distembed.states import keep, scope
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import outputs
from distembed.systems.psdvec.job import PSDVecJob, SidesSection
from distembed.weighting.pmi import directional_contexts, marginals, ppmi

OVERSAMPLING = 10
"""Vectors of the start of the decomposition beyond those that are kept, as in `distembed.LSA`."""

OF_THE_JOIN = {"weight", "regularization"}
"""The keys of the section that its own vectors do not depend on."""


def run_counts(ctx: Context) -> dict[str, Any]:
    """Count the pairs of words, row block by row block.

    Raises
    ------
    ValueError
        If no pair was counted.
    """
    output, options = outputs.SIDES_COUNTS, ctx.job.sides.counting_options()
    n_nonzero = count_values(ctx.store(output, count_pairs(ctx, output.name, options)))
    if not n_nonzero:
        raise ValueError(
            "[sides] counts no pair of words: raise sides.window or sides.subsample, or leave the section out"
        )
    return {"n_nonzero": n_nonzero}


def sides_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return the options that the vectors depend on beside their counts."""
    assert job.sides is not None
    return {"sides": job.sides.model_dump(mode="json", exclude=OF_THE_JOIN | COUNTING_OPTIONS)}


def plan_sides(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of weighing the contexts, and of their singular vectors."""
    assert job.sides is not None
    return plan_of_triplets(
        dims,
        job.sides.n_components,
        rows="side_row",
        columns="side_context",
        values="side_pair",
        n_passes=job.sides.n_passes,
        oversampling=OVERSAMPLING,
    )


def run_sides(ctx: Context) -> dict[str, Any]:
    """Store the left singular vectors of the positive PMI of words with their contexts, and what later words need.

    Levy, Goldberg and Dagan, Improving distributional similarity with lessons learned from word embeddings, TACL 3
    (2015), whose PPMI-SVD this is, by default with exponent 0.
    """
    section: SidesSection = ctx.job.sides
    contexts = directional_contexts(outputs.SIDES_COUNTS.read(ctx.workspace))
    options = section.model_dump(include={"n_components", "exponent", "n_passes", "random_state"})
    model = LSA(**options, oversampling=OVERSAMPLING, tol=None)
    with scope("contexts", sides_parameters(ctx.job), contexts):
        totals = marginals(contexts).columns
        weighted = keep("weighted", lambda: ppmi(contexts, column_totals=totals, **section.pmi_options))
        ctx.store(outputs.SIDES_VECTORS, model.fit_transform(weighted))
    axes = model.components_.T * scaled_power(model.singular_values_, model.exponent - 1).astype(np.float32)
    ctx.store(outputs.SIDES_AXES, da.from_array(axes, chunks=("auto", -1)))
    ctx.store_table(outputs.SIDES_TOTALS, pa.table({"n_pairs": totals}))
    return {"residual": float(model.residuals_.max())}


# --- beside the vectors of PSDVec ------------------------------------------------------------------------------


def solved_vectors(workspace: Workspace) -> da.Array:
    """Return the vectors of all words as core and regression gave them, before sides or spelling are added, lazily."""
    core = outputs.CORE_VECTORS.read(workspace)
    if len(core) == VOCABULARY.read(workspace).num_rows:
        return core
    return da.concatenate([core, outputs.NONCORE_VECTORS.read(workspace)])


def parts_of(workspace: Workspace) -> list[da.Array]:
    """Return the vectors that are joined, lazily: those of PSDVec, and those of the sides."""
    return [solved_vectors(workspace), outputs.SIDES_VECTORS.read(workspace)]


def weights_of(job: PSDVecJob) -> list[float]:
    """Return the weights of these vectors."""
    assert job.sides is not None
    return [1.0, job.sides.weight]


def means_of(job: PSDVecJob, workspace: Workspace) -> list[np.ndarray]:
    """Return the mean of these vectors, float64."""
    both = np.asarray(compute(outputs.JOINED_MEANS.read(workspace)))
    return np.split(both, [job.psdvec.n_components])


def plan_joined(job: PSDVecJob, dims: Dimensions) -> StagePlan:
    """Return the plan of joining the vectors."""
    rows, stored = dims.block("row", job.n_dimensions), dims.whole("row", job.n_dimensions)
    return stage_plan(task(join, rows, output=rows), stored=stored, n_tasks=dims.n_blocks("row"))


def run_joined(ctx: Context) -> dict[str, Any]:
    """Put the directions of a word in PSDVec and in its sides next to each other."""
    parts = parts_of(ctx.workspace)
    means = [compute(view_mean(part)) for part in parts]
    ctx.store(outputs.JOINED_VECTORS, joined_rows(parts, weights_of(ctx.job), means))
    ctx.store(outputs.JOINED_MEANS, da.from_array(np.concatenate(means), chunks=-1))
    return {}


JOINED = "joined"
"""The stage that joins the vectors of a job with sides."""


def sides_stages(solved: tuple[str, ...]) -> tuple[StageSpec, ...]:
    """Return the stages of the sides and of the join, after those that solve the vectors of PSDVec."""

    def counting(job: PSDVecJob) -> dict[str, Any]:
        assert job.sides is not None
        return {"counting": asdict(job.sides.counting_options())}

    of_words, plan_of_counts = ("tokens", "vocabulary"), partial(plan_counts, pair="side_pair")
    return (
        StageSpec("sides_counts", of_words, counting, run_counts, plan_of_counts),
        StageSpec("sides", ("sides_counts", "vocabulary"), sides_parameters, run_sides, plan_sides),
        StageSpec(
            JOINED, (*solved, "sides"), lambda job: {"weights": weights_of(job)}, run_joined, plan_joined
        ),
    )
