"""Finished vectors that `psdvec.core_vectors` names: their words keep them, all others are solved against them."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import objective_of, pairs_between
from distembed.job.model import JobError
from distembed.job.stage import Context, vectors_at
from distembed.linalg.operators import column_powers
from distembed.stages.corpus import vocabulary_of
from distembed.systems.psdvec import outputs
from distembed.systems.psdvec.job import PSDVecJob
from distembed.vectors import WordVectors

LEARNED = ("noncore_cutoff", "noncore_scale", "total_count")
"""What the estimator learns with the words that it solves for those that come later."""


def check_given_vectors(job: PSDVecJob) -> list[str]:
    """Open the finished vectors of core words, where a job names some, and return how long they are."""
    if job.psdvec.core_vectors is None:
        return []
    width = _given_vectors(job, max_words=1).vectors.shape[1]
    return [f"core: finished vectors of {width} dimensions"]


def _given_vectors(job: PSDVecJob, *, max_words: int | None = None) -> WordVectors:
    """Return the finished vectors that a job names.

    Raises
    ------
    JobError
        If they have another number of components than the job asks for.
    """
    path = job.psdvec.core_vectors
    assert path is not None
    found = vectors_at(path, max_words=max_words)
    width = found.vectors.shape[1]
    if width != job.psdvec.n_components:
        raise JobError(
            f"the vectors in {path} have {width} components and psdvec.n_components is {job.psdvec.n_components}: give "
            f"psdvec.n_components = {width}, or leave psdvec.core_vectors out"
        )
    return found


def store_given_core(
    ctx: Context, model: PSDVec, counts: da.Array, core_counts: da.Array, row_totals: NDArray[np.floating]
) -> dict[str, Any]:
    """Store the vectors of all words as those of the core: the given ones as they are, others solved against them.

    Raises
    ------
    JobError
        If no word of the vocabulary has a given vector, or these have another number of components.
    """
    vocabulary, given = vocabulary_of(ctx.workspace), _given_vectors(ctx.job)
    rows = given.index(vocabulary.words)
    known, new = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
    if not len(known):
        raise JobError(
            f"the vectors in {ctx.job.psdvec.core_vectors} have none of the words of the core: are they of one "
            "language, and written in one case?"
        )
    ctx.reporter.note(f"core: {plural(len(known), 'word')} known, {plural(len(new), 'word')} new")
    word_counts, n_core = vocabulary.counts.astype(float), len(core_counts)
    found = np.zeros((len(rows), given.vectors.shape[1]), np.float32)
    found[known] = given.vectors[rows[known]]
    model.set_core(da.from_array(found[known]), word_counts[known], row_totals[known])
    if len(new):
        pairs = pairs_between(counts, new, known), pairs_between(counts, known, new)
        found[new] = compute(model.fit_noncore(*pairs, word_counts[new], row_totals[new]))
    vectors = da.from_array(found, chunks=("auto", -1))
    objective, weighting = objective_of(
        core_counts, word_counts[:n_core], row_totals[:n_core], vectors[:n_core], model
    )
    squares = np.sort(np.asarray(compute(column_powers(vectors, 2))))[::-1]
    ctx.store(outputs.CORE_VECTORS, vectors)
    ctx.store_table(outputs.EIGENVALUES, pa.table({"eigenvalue": squares}))
    ctx.store_table(outputs.OBJECTIVE, pa.table({"weighted_squared_error": [objective]}))
    learned = {name: str(getattr(model, f"{name}_")) for name in LEARNED if getattr(model, f"{name}_", None)}
    return {"n_core": len(word_counts), "weight_cutoff": str(weighting.cutoff), **learned}
