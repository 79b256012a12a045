"""The stages of PSDVec, after those of the corpus: counts to vectors and scores.

The estimator and the evaluation are imported by the stages that use them: scikit-learn and scipy.stats take a second.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.execution import Checkpoint, persist
from distembed.linalg.chunks import VALUES_PER_BLOCK, balanced_chunks
from distembed.pipeline.context import Context, StageSpec, read_vectors, sections
from distembed.pipeline.corpus_stages import (
    corpus_files,
    counting_parameters,
    run_cooccurrence,
    run_partial_counts,
    run_tokens,
    run_vocabulary,
    vocabulary_of,
)
from distembed.pipeline.psdvec.config import PSDVecJob
from distembed.pipeline.psdvec.plan import Kept, core_memory
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.weighting.pmi import marginals

if TYPE_CHECKING:
    from distembed.evaluation.scoring import Score
    from distembed.factorization.psdvec import PSDVec


# --- counts -> vectors -----------------------------------------------------------------------------------------


NONCORE_OPTIONS = {"ridge", "bands", "background_weight", "uniform_weight"}


def core_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return the options of the factorization that its core depends on."""
    return {"psdvec": job.psdvec.model_dump(mode="json", exclude=NONCORE_OPTIONS)}


def psdvec_of(ctx: Context, checkpoint: Checkpoint = persist) -> PSDVec:
    """Return the estimator of a job."""
    from distembed.factorization.psdvec import PSDVec

    return PSDVec(**ctx.job.psdvec.model_dump(), checkpoint=checkpoint)


def kept_in_memory(ctx: Context, n_core: int, n_pairs: int) -> Kept:
    """Tell which states of the core stay in the memory of the workers because there is room."""
    memory, resources = core_memory(ctx.job, n_core, n_pairs), ctx.job.resources
    if limits := ctx.workers.memory_limits():
        return memory.kept_in_cluster(limits)
    return memory.kept_in_process(resources.memory_limit, resources.n_workers)


def storing(stored: Checkpoint, kept: Kept) -> Checkpoint:
    """Return a checkpoint that stores all states but those that are kept in memory.

    A run that is killed begins its round anew, which takes less than storing every state does; what a killed worker
    held Dask computes again. The vectors of each round are always stored.
    """

    def keep(name: str, make: Callable[[], da.Array]) -> da.Array:
        state = name.rsplit("/", maxsplit=1)[-1]
        in_memory = {
            "all": state != "vectors",
            "bases": state.startswith(("basis-", "product-")),
            "none": False,
        }[kept]
        return persist(name, make) if in_memory else stored(name, make)

    return keep


def run_core(ctx: Context) -> dict[str, Any]:
    """Solve the core words jointly."""
    from distembed.factorization.psdvec_core import sliced

    counts = ctx.workspace.array("cooccurrence")
    word_counts = vocabulary_of(ctx.workspace).counts
    row_totals = marginals(counts).rows
    n_core = psdvec_of(ctx).core_size(counts.shape[0])
    row_nonzeros = np.asarray(ctx.workspace.table("row_nonzeros")["n_nonzero"])
    kept = kept_in_memory(ctx, n_core, int(row_nonzeros.sum()))
    # The blocks of the counts are made for all rows and columns: in the core they would be many and small. Its own,
    # like those, take at most an eighth of the block memory, at 8 bytes a value.
    block_values = ctx.job.resources.block_memory // 8 // 8
    row_chunks = balanced_chunks(row_nonzeros[:n_core], min(VALUES_PER_BLOCK, block_values))
    core_counts = sliced(counts, (0, n_core), (0, n_core)).rechunk({0: row_chunks})
    if kept == "all":
        core_counts = core_counts.persist()
    model = psdvec_of(ctx, storing(ctx.stage.checkpoint, kept))
    model.fit_core(core_counts, word_counts[:n_core], row_totals[:n_core])
    ctx.stage.store(
        "core_vectors",
        model.core_vectors_,
        dims=("word", "component"),
        units="",
        meaning="Vectors of the core words; their products approximate smoothed PMI.",
        progress=ctx.progress("core vectors"),
    )
    ctx.stage.store_table("row_totals", pa.table({"n_pairs": row_totals}))
    ctx.stage.store_table("eigenvalues", pa.table({"eigenvalue": model.eigenvalues_}))
    ctx.stage.store_table("objective", pa.table({"weighted_squared_error": model.objective_}))
    return {"n_core": n_core, "weight_cutoff": str(model.weight_cutoff_)}


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Solve the noncore words against the core, and put all vectors together."""
    from distembed.factorization.psdvec_core import sliced

    core = ctx.workspace.array("core_vectors")
    counts = ctx.workspace.array("cooccurrence")
    n_core, n_words = core.shape[0], counts.shape[0]
    vectors, learnt = core, {}
    if n_core < n_words:
        word_counts = vocabulary_of(ctx.workspace).counts
        row_totals = np.asarray(ctx.workspace.table("row_totals")["n_pairs"])
        model = psdvec_of(ctx, ctx.stage.checkpoint).set_core(core, word_counts[:n_core], row_totals[:n_core])
        noncore = model.fit_noncore(
            sliced(counts, (n_core, n_words), (0, n_core)),
            sliced(counts, (0, n_core), (n_core, n_words)),
            word_counts[n_core:],
            row_totals[n_core:],
        )
        vectors = da.concatenate([core, noncore])
        names = ("noncore_cutoff", "noncore_scale", "total_count")
        learnt = {name: str(getattr(model, f"{name}_")) for name in names}
    ctx.stage.store(
        "vectors",
        vectors,
        dims=("word", "component"),
        units="",
        meaning="Word vectors; row i is word i of vocabulary.parquet.",
        progress=ctx.progress("vectors"),
    )
    return {"n_noncore": n_words - n_core, **learnt}


# --- vectors -> numbers ----------------------------------------------------------------------------------------


def judged_vectors(job: PSDVecJob, workspace: Workspace) -> WordVectors:
    """Return the word vectors as the evaluation and the report see them."""
    vectors = read_vectors(workspace)
    section = job.evaluation
    if not (section.remove_mean or section.n_components_removed):
        return vectors
    return vectors.postprocess(
        remove_mean=section.remove_mean, n_components_removed=section.n_components_removed
    )


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Score the vectors on every evaluation set."""
    from distembed.evaluation import words as evaluation

    scores = []
    if ctx.job.evaluation.sets:
        scores = evaluation.evaluate(judged_vectors(ctx.job, ctx.workspace), ctx.job.evaluation.sets)
    rows = evaluation.score_records(scores)
    ctx.stage.store_bytes("evaluation.json", json.dumps(rows, indent=1, sort_keys=True).encode() + b"\n")
    return {"n_sets": len(scores)}


def scores_of(workspace: Workspace) -> list[Score]:
    """Return the scores of a finished workspace."""
    from distembed.evaluation.scoring import Score

    rows = json.loads(workspace.read_bytes("evaluation.json"))
    return [Score(**{**row, "value": math.nan if row["value"] is None else row["value"]}) for row in rows]


STAGES: tuple[StageSpec, ...] = (
    StageSpec("tokens", (), sections("corpus"), run_tokens, corpus_files),
    StageSpec("vocabulary", ("tokens",), sections("vocabulary"), run_vocabulary),
    StageSpec("partial_counts", ("tokens", "vocabulary"), counting_parameters, run_partial_counts),
    StageSpec("cooccurrence", ("partial_counts",), counting_parameters, run_cooccurrence),
    StageSpec("core", ("cooccurrence", "vocabulary"), core_parameters, run_core),
    StageSpec("vectors", ("core",), sections("psdvec"), run_vectors),
    StageSpec(
        "evaluation", ("vectors",), sections("evaluation"), run_evaluation, lambda job: job.evaluation.sets
    ),
)
