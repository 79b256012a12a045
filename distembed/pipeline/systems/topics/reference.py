"""The pair counts that words are associated by, or judged by: of the collection itself or of another workspace."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.corpus import Vocabulary
from distembed.execution import map_blocks
from distembed.linalg.operators import transpose_row_blocks
from distembed.pipeline.corpus import stages as corpus_stages
from distembed.pipeline.systems.topics.config import TopicsJob
from distembed.storage.workspace import Workspace
from distembed.weighting.pmi import marginals


class ReferenceCounts(NamedTuple):
    """Symmetric counts of word pairs, and their sums by word."""

    vocabulary: Vocabulary
    counts: da.Array
    totals: NDArray[np.floating[Any]]


def pair_counts(workspace: Workspace, url: str | None) -> ReferenceCounts:
    """Return the pair counts of the workspace at `url`, by default of this one; left contexts become both sides."""
    other = workspace if url is None else Workspace.open(url)
    counts = other.array("cooccurrence")
    if other.describe("cooccurrence").spec.dims[0] == "left_word":
        counts = _added(counts, transpose_row_blocks(counts))
    return ReferenceCounts(corpus_stages.vocabulary_of(other), counts, marginals(counts).rows)


def check_semantic(job: TopicsJob) -> list[str]:
    """Open the workspace whose counts the association of words is taken from, where it is another."""
    return _check_reference(job.semantic.workspace)


def check_coherence(job: TopicsJob) -> list[str]:
    """Open the workspace whose counts judge the topics, where it is another."""
    return _check_reference(job.coherence.workspace)


def _check_reference(url: str | None) -> list[str]:
    if url is None:
        return []
    n_words = Workspace.open(url).describe("cooccurrence").spec.shape[0]
    return [f"pair counts of {n_words:,} words in {url}"]


def _added(left: da.Array, right: da.Array) -> da.Array:
    return map_blocks(operator.add, left, right, dtype=left.dtype, meta=left._meta)
