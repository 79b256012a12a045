"""The word factors that several starts of a factorization have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute
from distembed.factorization.consensus_blocks import (
    GroupStability,
    group_stability,
    group_topics,
    mix_topics,
    mixing_of,
    topic_cosines,
)
from distembed.lift import fold, lift, total
from distembed.linalg.blocks import gram
from distembed.typing import refuse_collection

Array = Any  # numpy.ndarray, csr_array or dask.array.Array

SUM_FAN_IN = 4
"""Partial sums added at a time; with words × rank partial sums it bounds the memory of one addition."""


Choose = Literal["consensus", "objective"]
"""What is kept of several starts."""


class Start(NamedTuple):
    """What is known of one start of a fit."""

    labels: Int64s
    """int64 (documents,), -1 for a document without words."""
    objective: Float64s
    """One value per round: a loss of NMF, the sum of cosines of spherical k-means."""
    words: Floats
    """The word factors, or the centers as columns. Float64 (words, topics)."""


POOLED_BYTES = 16
"""Bytes per word and topic of all starts together while they are compared: single, double, and a copy in C order."""


def consensus_words(starts: Sequence[Array]) -> Float64s:
    """Return the word factors that several starts have in common, (d, k) float64.

    The topics of all starts, of unit length, are grouped into k by the cosines of their words, and each group has its
    mean. Reads the word factors twice, in blocks of words where they are Dask arrays: once for the cosines and once for
    the means.

    Parameters
    ----------
    starts : sequence of arrays (d, k)
        The word factors of each start.
    """
    for start in starts:
        refuse_collection(start, "a start")
    n_topics = starts[0].shape[1]
    pooled = _side_by_side(starts)
    gram = _gram(pooled)
    mixing = mixing_of(gram, group_topics(topic_cosines(gram), n_topics))
    return np.asarray(compute(lift(mix_topics, "wt,tk->wk", pooled, mixing, dtype=np.float64)))


def topic_stability(starts: Sequence[Array]) -> GroupStability:
    """Return how well the topics of several starts fall into groups, by the cosines of their words.

    Parameters
    ----------
    starts : sequence of arrays (d, k)
        The word factors of each start.
    """
    return group_stability(topic_cosines(_gram(_side_by_side(starts))), starts[0].shape[1])


def _gram(pooled: Array) -> Float64s:
    width = pooled.shape[1]
    found = fold(total(gram), "wt", pooled, shape=(width, width), fan_in=SUM_FAN_IN)
    return np.asarray(compute(found))


def _side_by_side(starts: Sequence[Array]) -> Array:
    single = [start.astype(np.float32) for start in starts]
    if any(isinstance(start, da.Array) for start in single):
        return da.concatenate(single, axis=1).rechunk({1: -1})
    return np.concatenate(single, axis=1)
