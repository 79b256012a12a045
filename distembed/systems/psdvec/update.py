"""Vectors after a change of the counts: what is kept of those before, how new ones start from them, and the drift.

The stage `previous` is the first of a job with `psdvec.update`: before anything is counted again, it copies the vectors
that the workspace has. The stage `core` starts from the copy, or leaves it as it is, and `drift` compares the two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import Vocabulary
from distembed.costs import Cost
from distembed.display import plural
from distembed.execution import compute
from distembed.factorization.drift import drift_cost, drift_of
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import core_weighting, objective_of
from distembed.factorization.psdvec_update import KnownVectors, completed_vectors
from distembed.job.model import JobError
from distembed.job.stage import Context, StageSpec, vectors_at
from distembed.job.withdrawals import read_withdrawals
from distembed.linalg.costs import copy_cost
from distembed.linalg.operators import column_powers
from distembed.neighbors.costs import RowSizes
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import PARTIAL_COUNTS, TOKENS, VOCABULARY, vocabulary_of
from distembed.stages.given_counts import GIVEN_PARTS, GIVEN_VOCABULARY
from distembed.storage.schema import digest_of_json
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import outputs
from distembed.systems.psdvec.job import PSDVecJob
from distembed.systems.psdvec.sizes import PSDVecSizes

PREVIOUS, DRIFT = "previous", "drift"
"""The stages of a job with `psdvec.update`, the first and the last but one."""

WEIGHTS = ("noncore_cutoff", "noncore_scale")
"""What a fit knows of the weights of words that come later."""


def solved_vectors(workspace: Workspace) -> da.Array:
    """Return the vectors of all words as core and regression gave them, before views or spelling are added, lazily."""
    stored = _stored(workspace)
    core = outputs.CORE_VECTORS.read(workspace)
    if len(core) == corpus_outputs.VOCABULARY.read(workspace).num_rows:
        return core
    if outputs.NONCORE_VECTORS.name in stored:
        return da.concatenate([core, outputs.NONCORE_VECTORS.read(workspace)])
    return outputs.VECTORS.read(workspace)


def _stored(workspace: Workspace) -> set[str]:
    return {name for stage in workspace.stages().values() for name in stage.outputs}


# --- what was there before ----------------------------------------------------------------------------------------


def previous_parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return what decides the counts: with other ones, the vectors that are there are those before."""
    counted = (TOKENS, VOCABULARY, PARTIAL_COUNTS) if job.counts is None else (GIVEN_VOCABULARY, GIVEN_PARTS)
    return {name: value for spec in counted for name, value in spec.parameters(job).items()}


def plan_previous(job: PSDVecJob, sizes: PSDVecSizes) -> Cost:
    """Return the plan of copying the vectors."""
    n_bytes = RowSizes(sizes.corpus.n_words, job.psdvec.n_components, itemsize=4).n_bytes
    return copy_cost(n_bytes, n_bytes)._replace(exact=False)


def run_previous(ctx: Context) -> dict[str, Any]:
    """Copy the words and vectors of a finished workspace, and what their fit knows of weights; nothing where none are.

    Raises
    ------
    JobError
        If they have another number of components, or a copy is damaged whose original is gone.
    """
    last = _workspace_before(ctx)
    if last is None:
        return {"n_words": 0}
    names = [outputs.VECTORS.name, corpus_outputs.VOCABULARY.name]
    source = digest_of_json([last.describe(name).digest for name in names])
    _check_source(ctx, source)
    vocabulary, vectors = vocabulary_of(last), solved_vectors(last)
    _check_width(ctx.job, vectors.shape[1], "the earlier vectors")
    ctx.store(outputs.PREVIOUS_SOURCE, da.from_array(np.frombuffer(source.encode(), np.uint8), chunks=-1))
    ctx.store_table(outputs.PREVIOUS_WORDS, pa.table({"word": vocabulary.array, "count": vocabulary.counts}))
    ctx.store(outputs.PREVIOUS_VECTORS, vectors)
    objective = outputs.OBJECTIVE.read(last)["weighted_squared_error"][-1].as_py()
    return {"n_words": len(vocabulary), "objective": objective, **_weights(ctx.job, last)}


def _workspace_before(ctx: Context) -> Workspace | None:
    """Return the workspace that holds the vectors before: that of the last content, or the one that is written.

    None holds them where there are none, where several are merged, or where a text was withdrawn from which they were
    learned: nothing of it may stay.
    """
    last = ctx.earlier[0] if len(ctx.earlier) == 1 else ctx.workspace
    if read_withdrawals(last) != read_withdrawals(ctx.workspace):
        return None
    needed = {outputs.VECTORS.name, outputs.CORE_VECTORS.name, corpus_outputs.VOCABULARY.name}
    return last if needed <= _stored(last) else None


def _check_source(ctx: Context, source: str) -> None:
    """Refuse to mend a copy from other vectors than those that it was made of."""
    copied = (outputs.PREVIOUS_SOURCE, outputs.PREVIOUS_WORDS, outputs.PREVIOUS_VECTORS)
    if not any(ctx.stage.is_stored(output.name) for output in copied):
        return
    stored = ctx.stage.is_stored(outputs.PREVIOUS_SOURCE.name)
    known = bytes(compute(ctx.stage.array(outputs.PREVIOUS_SOURCE.name))).decode() if stored else ""
    if known != source:
        raise JobError(
            f"the copy of the earlier vectors in {ctx.workspace.url} is damaged, and these are gone: set "
            'psdvec.update = "scratch", or restore the folder'
        )


def _weights(job: PSDVecJob, last: Workspace) -> dict[str, str]:
    """Return how the fit weighs later words, as strings: as its noncore words, or as its core where it has none."""
    learned = last.stages()["vectors"].facts
    if all(name in learned for name in WEIGHTS):
        return {name: learned[name] for name in WEIGHTS}
    if corpus_outputs.COOCCURRENCE.name not in _stored(last):
        return {}
    options = PSDVec(**job.psdvec.options)
    counts = corpus_outputs.COOCCURRENCE.read(last)
    found = core_weighting(counts, options.smoothing, options.weight_cutoff)
    return dict(zip(WEIGHTS, (str(found.cutoff), str(found.scale)), strict=True))


class Previous(NamedTuple):
    """Vectors that are there, with their words."""

    words: Vocabulary
    vectors: NDArray[np.float32]


def previous_vectors(ctx: Context) -> Previous | None:
    """Return the vectors before, in memory; None where there are none.

    Raises
    ------
    JobError
        If they have another number of components.
    """
    facts = ctx.workspace.stages()[PREVIOUS].facts
    if not facts["n_words"]:
        ctx.reporter.note("core: the workspace has no earlier vectors: they are solved from scratch")
        return None
    table = outputs.PREVIOUS_WORDS.read(ctx.workspace)
    unknown = np.full(table.num_rows, -1, np.int64)
    words = Vocabulary(table["word"].combine_chunks(), table["count"].to_numpy(), unknown)
    vectors = np.asarray(compute(outputs.PREVIOUS_VECTORS.read(ctx.workspace)))
    _check_width(ctx.job, vectors.shape[1], "the earlier vectors")
    return Previous(words, vectors)


def _check_width(job: PSDVecJob, width: int, what: str) -> None:
    """Refuse vectors of another number of components than the job asks for."""
    if width != job.psdvec.n_components:
        raise JobError(
            f"{what} have {width} components and psdvec.n_components is {job.psdvec.n_components}: give "
            f'psdvec.n_components = {width}, or psdvec.update = "scratch" without psdvec.core_vectors'
        )


def given_vectors(job: PSDVecJob) -> Previous:
    """Return the finished vectors that `psdvec.core_vectors` names.

    Raises
    ------
    JobError
        If they have another number of components.
    """
    path = job.psdvec.core_vectors
    assert path is not None
    found = vectors_at(path)
    _check_width(job, found.vectors.shape[1], f"the vectors in {path}")
    zeros = np.zeros(len(found.words), np.int64)
    words = Vocabulary(list(found.words), zeros, zeros)
    return Previous(words, np.asarray(found.vectors, np.float32))


def known_among(previous: Previous, words: Vocabulary, n_core: int) -> KnownVectors:
    """Return the vectors that words have already; those of the first words are what others are solved against."""
    rows = previous.words.index(words.array)
    is_known = rows >= 0
    vectors = np.zeros((len(words), previous.vectors.shape[1]), np.float32)
    vectors[is_known] = previous.vectors[rows[is_known]]
    return KnownVectors(vectors, is_known, is_known & (np.arange(len(words)) < n_core))


def known_vectors(ctx: Context, words: Vocabulary, n_core: int) -> KnownVectors | None:
    """Return the vectors that the words of a job have already; None where it solves all of them.

    Raises
    ------
    JobError
        If no word of the core has one.
    """
    section = ctx.job.psdvec
    if section.core_vectors is not None:
        found, n_core, what = given_vectors(ctx.job), len(words), f"the vectors in {section.core_vectors}"
    elif section.update != "scratch":
        before = previous_vectors(ctx)
        if before is None:
            return None
        found, what = before, "the earlier vectors"
    else:
        return None
    known = known_among(found, words, n_core)
    if not known.is_core.any():
        raise JobError(
            f"{what} have none of the words of the core: are they of one language, and written in one case?"
        )
    n_known = int(known.is_known.sum())
    ctx.reporter.note(f"core: {plural(n_known, 'word')} known, {plural(len(words) - n_known, 'word')} new")
    return known


def warm_start(
    model: PSDVec,
    counts: da.Array,
    word_counts: NDArray[np.floating],
    row_totals: NDArray[np.floating],
    known: KnownVectors,
) -> NDArray[np.float32]:
    """Return vectors of the core words to start from: those that they have, and new ones solved against these."""
    n_core = len(word_counts)
    vectors, is_known, is_core = known
    core = KnownVectors(vectors[:n_core], is_known[:n_core], is_core[:n_core])
    return completed_vectors(model, counts, word_counts, row_totals, core)


def store_frozen(
    ctx: Context,
    model: PSDVec,
    counts: da.Array,
    core_counts: da.Array,
    row_totals: NDArray[np.floating],
    known: KnownVectors,
) -> dict[str, Any]:
    """Store the vectors of all words as those of the core: known ones as they are, others solved against them."""
    word_counts, n_core = vocabulary_of(ctx.workspace).counts.astype(float), len(core_counts)
    learned = _learned_before(ctx)
    vectors = da.from_array(
        completed_vectors(model, counts, word_counts, row_totals, known, learned=learned), chunks=("auto", -1)
    )
    objective, weighting = objective_of(
        core_counts, word_counts[:n_core], row_totals[:n_core], vectors[:n_core], model
    )
    squares = np.sort(np.asarray(compute(column_powers(vectors, 2))))[::-1]
    ctx.store(outputs.CORE_VECTORS, vectors)
    ctx.store_table(outputs.EIGENVALUES, pa.table({"eigenvalue": squares}))
    ctx.store_table(outputs.OBJECTIVE, pa.table({"weighted_squared_error": [objective]}))
    names = (*WEIGHTS, "total_count")
    later = {name: str(getattr(model, f"{name}_")) for name in names if getattr(model, f"{name}_", None)}
    return {"n_core": len(word_counts), "weight_cutoff": str(weighting.cutoff), **later}


def _learned_before(ctx: Context) -> dict[str, float] | None:
    """Return the weights of the fit that the vectors before come from; None where they come from a file."""
    if ctx.job.psdvec.core_vectors is not None:
        return None
    facts = ctx.workspace.stages()[PREVIOUS].facts
    found = {name: float(facts[name]) for name in WEIGHTS if name in facts}
    return found if len(found) == len(WEIGHTS) else None


def starts_from_vectors(job: PSDVecJob) -> bool:
    """Return whether the core of a job is given, or starts from vectors."""
    return job.psdvec.update != "scratch" or job.psdvec.core_vectors is not None


def check_given_vectors(job: PSDVecJob) -> list[str]:
    """Open the finished vectors of core words, where a job names some, and return how long they are."""
    if job.psdvec.core_vectors is None:
        return []
    width = vectors_at(job.psdvec.core_vectors, max_words=1).vectors.shape[1]
    _check_width(job, width, f"the vectors in {job.psdvec.core_vectors}")
    return [f"core: finished vectors of {width} dimensions"]


# --- how far words moved ------------------------------------------------------------------------------------------


def plan_drift(job: PSDVecJob, sizes: PSDVecSizes) -> Cost:
    """Return the plan of comparing the vectors with those before."""
    return drift_cost(sizes.corpus.n_words, job.psdvec.n_components)


def run_drift(ctx: Context) -> dict[str, Any]:
    """Store how far each word moved that had a vector before, and how many of its nearest words are the same."""
    workspace, before = ctx.workspace, ctx.workspace.stages()[PREVIOUS].facts
    now = vocabulary_of(workspace)
    if not before["n_words"]:
        return {"n_shared": 0, "n_new": len(now), "n_gone": 0}
    table = outputs.PREVIOUS_WORDS.read(workspace)
    unknown = np.zeros(table.num_rows, np.int64)
    old = Vocabulary(table["word"].combine_chunks(), unknown, unknown)
    rows = old.index(now.array)
    shared = np.flatnonzero(rows >= 0)
    first = np.asarray(compute(outputs.PREVIOUS_VECTORS.read(workspace)))[rows[shared]]
    second = np.asarray(compute(solved_vectors(workspace)))[shared]
    found = drift_of(first, second, is_turned=ctx.job.psdvec.update != "frozen")
    columns = {
        "word": now.array.take(pa.array(shared)),
        "count": now.counts[shared],
        "cosine": found.cosines,
        "neighbors_kept": pa.array(found.neighbors_kept, from_pandas=True),
    }
    ctx.store_table(outputs.DRIFT, pa.table(columns))
    objective = outputs.OBJECTIVE.read(workspace)["weighted_squared_error"][-1].as_py()
    return {
        "n_shared": len(shared),
        "n_new": len(now) - len(shared),
        "n_gone": len(old) - len(shared),
        "neighbors_kept": found.share_kept,
        "objective_before": before["objective"],
        "objective": objective,
    }


def _no_parameters(_job: PSDVecJob) -> dict[str, Any]:
    return {}


PREVIOUS_STAGE = StageSpec(PREVIOUS, (), previous_parameters, run_previous, plan_previous)
DRIFT_STAGE = StageSpec(DRIFT, (PREVIOUS, "vocabulary", "vectors"), _no_parameters, run_drift, plan_drift)
