"""How alike the starts of a factorization are, and the topics that they have in common.

Topics of several starts are compared by the cosines of their word factors. They are grouped by spherical k-means on
these cosines alone, so that the factors themselves never have to be held together. Kotliar et al., eLife 8 (2019), and
Alexandrov & Vesselinov (2014) group the topics of many starts in this way; here no topic is left out, and the topic of
a group is its mean direction in place of its median (docs/papers/semantic_nmf.md has both).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, silhouette_samples

from distembed.dtypes import Float64s, Int64s
from distembed.temporaries import block

Ints = Int64s

GROUPING_ROUNDS = 100
"""Most rounds of k-means on the topics of all starts."""


class Agreement(NamedTuple):
    """How far the labels of two starts agree, for every pair of starts."""

    nmi: Float64s
    ari: Float64s
    """Normalized mutual information and adjusted Rand index, 1 on the diagonal. Float64 arrays (starts, starts)."""


def label_agreement(labels: Ints) -> Agreement:
    """Return how far the labels of each two starts agree, over the documents that have a label in both.

    Parameters
    ----------
    labels : int64 array (starts, documents)
        -1 for a document without a topic.
    """
    n_starts = len(labels)
    nmi, ari = np.ones((n_starts, n_starts)), np.ones((n_starts, n_starts))
    for one, other in combinations(range(n_starts), 2):
        both = (labels[one] >= 0) & (labels[other] >= 0)
        pair = labels[one][both], labels[other][both]
        nmi[one, other] = nmi[other, one] = normalized_mutual_info_score(*pair)
        ari[one, other] = ari[other, one] = adjusted_rand_score(*pair)
    return Agreement(nmi, ari)


def mean_agreement(table: Float64s) -> Float64s:
    """Return the mean agreement of each start with the others, (starts,); 1 for a start that is alone."""
    n_starts = len(table)
    return (table.sum(axis=1) - 1) / (n_starts - 1) if n_starts > 1 else np.ones(1)


class TopicGroups(NamedTuple):
    """The topics of several starts in groups of topics that are alike."""

    labels: Ints
    """Int64 array (topics of all starts,)."""
    cosines: Float64s
    """The cosine of each topic with the mean direction of each group. Float64 array (topics of all starts, groups)."""


def topic_cosines(gram: Float64s) -> Float64s:
    """Return the cosines of topics from the products of their word factors, WᵀW; 0 for a topic without words."""
    lengths = np.sqrt(np.diag(gram))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.asarray(gram * scale * scale[:, np.newaxis])


def group_topics(cosines: Float64s, n_groups: int) -> TopicGroups:
    """Group topics by spherical k-means on their cosines; every start in turn gives the first groups.

    Parameters
    ----------
    cosines : float64 array (topics, topics)
        The topics of a start stand together, `n_groups` of each.
    n_groups : int
    """
    tries = (
        _settle(cosines, cosines[:, first : first + n_groups]) for first in range(0, len(cosines), n_groups)
    )
    return max(tries, key=lambda found: round(float(found.cosines.max(axis=1).sum()), 9))


def _settle(cosines: Float64s, to_groups: Float64s) -> TopicGroups:
    labels = to_groups.argmax(axis=1)
    for _ in range(GROUPING_ROUNDS):
        members = np.eye(to_groups.shape[1])[labels]
        sums = cosines @ members
        squares = np.einsum("tg,tg->g", members, sums)
        lengths, none = np.sqrt(np.maximum(squares, 0)), np.full_like(sums, -1.0)  # of a group that is empty
        to_groups = np.asarray(np.divide(sums, lengths, out=none, where=squares > 0))
        moved = to_groups.argmax(axis=1)
        if (moved == labels).all():
            break
        labels = moved
    return TopicGroups(labels.astype(np.int64), to_groups)


def mixing_of(gram: Float64s, groups: TopicGroups) -> Float64s:
    """Return the matrix that makes the mean topics of groups out of all topics, (topics, groups).

    Topics have unit length before they are averaged. An empty group takes the topic farthest from its own group, of
    those that are not alone in theirs.
    """
    n_groups = groups.cosines.shape[1]
    labels = groups.labels.copy()
    own = groups.cosines[np.arange(len(labels)), labels]
    for group in range(n_groups):
        if not (labels == group).any():
            sizes = np.bincount(labels, minlength=n_groups)
            labels[np.argmin(np.where(sizes[labels] > 1, own, np.inf))] = group
    members = np.eye(n_groups)[labels] / np.bincount(labels, minlength=n_groups)
    lengths = np.sqrt(np.diag(gram))[:, np.newaxis]
    return np.divide(members, lengths, out=np.zeros_like(members), where=lengths > 0)


STABLE = 0.8
"""The silhouette from which a group of topics is called stable.

The published programs of NMFk differ: T-ELF takes 0.8 by default, as here; pyDNMFk 0.9, together with a test that the
error falls; NMFk.jl 0.5 (docs/papers/semantic_nmf.md compares them).
"""


class GroupStability(NamedTuple):
    """How well the topics of several starts fall into groups."""

    least: float
    mean: float
    """The least and the mean over groups of the mean silhouette of a group; 1 is perfect, 0 is no group."""


def group_stability(cosines: Float64s, n_groups: int) -> GroupStability:
    """Return how well the topics of several starts, `n_groups` of each, fall into groups, by the distance 1 - cosine.

    A silhouette (Rousseeuw 1987) is 0 where there is one group, or each topic is a group.
    """
    labels = group_topics(cosines, n_groups).labels
    sizes, silhouettes = np.bincount(labels, minlength=n_groups), np.zeros(len(labels))
    if 1 < np.count_nonzero(sizes) < len(labels):
        distances = 1 - cosines
        np.fill_diagonal(distances, 0)
        silhouettes = silhouette_samples(distances, labels, metric="precomputed")
    sums = np.bincount(labels, silhouettes, minlength=n_groups)
    means = np.divide(sums, sizes, out=np.full(n_groups, -1.0), where=sizes > 0)
    return GroupStability(float(means.min()), float(means.mean()))


def largest_stable(n_topics: Sequence[int], least: Sequence[float]) -> int | None:
    """Return the largest number of topics whose least silhouette is at least `STABLE`, None where there is none."""
    return max(
        (n for n, silhouette in zip(n_topics, least, strict=True) if silhouette >= STABLE), default=None
    )


@block(temporaries=1)
def mix_topics(words: Any, mixing: Float64s) -> Float64s:
    """Return the word factors of mean topics for a block of words."""
    return np.asarray(words.astype(np.float64, copy=False) @ mixing)
