"""Starts of a factorization or a clustering: they run, are found again, are compared, and have topics in common.

Topics of several starts are compared by the cosines of their word factors. They are grouped by spherical k-means on
these cosines alone, so that the factors themselves never have to be held together. Kotliar et al., eLife 8 (2019), and
Alexandrov & Vesselinov (2014) group the topics of many starts in this way; here no topic is left out, and the topic of
a group is its mean direction in place of its median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Literal, NamedTuple, TypeVar

import dask.array as da
import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute, counted_from, heard_by, shared, tell
from distembed.lift import block, lift
from distembed.linalg.blocks import gram
from distembed.states import keep, keeping, kept, scope

State = TypeVar("State")

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


STARTS_AT_ONCE = 16
"""Starts of matrices in memory that run side by side; the states of all of them are kept when the last is done."""


def run_starts(
    run: Callable[[int], State],
    kind: type[State],
    n_starts: int,
    *,
    n_rounds: int,
    what: str,
    in_memory: bool,
) -> list[State]:
    """Return the results of all starts.

    Starts of matrices in memory are tasks that run side by side. Those of Dask arrays run one after the other, since
    each of their rounds is many tasks.

    Parameters
    ----------
    run : callable
        Called with the number of a start, in a scope of its own.
    kind : class of NamedTuples of arrays
        What it returns.
    n_starts : int
    n_rounds : int
        Rounds of a start at most.
    what : str
        The name under which `run` reports its rounds.
    in_memory : bool
        Whether the matrices are in memory.
    """
    found: dict[int, State] = {}
    if in_memory and n_starts > 1:
        found = {n: state for n in range(n_starts) if (state := kept(f"start-{n}", kind)) is not None}
        missing = [number for number in range(n_starts) if number not in found]
        for first in range(0, len(missing), STARTS_AT_ONCE):
            batch = missing[first : first + STARTS_AT_ONCE]
            numbers = da.from_array(np.array(batch), chunks=1)
            done = compute(lift(run_start, "s->s", numbers, dtype=object, step="start", run=shared(run)))
            for number, state in zip(batch, done.tolist(), strict=True):
                found[number] = keep(f"start-{number}", partial(kind, *state), kind)
            tell("starts", len(found), n_starts)
        return [kind(*compute(found[number])) for number in range(n_starts)]
    for number in range(n_starts):
        with scope(f"start-{number}"), counted_from(what, number * n_rounds, n_starts * n_rounds):
            found[number] = run(number)
    return [found[number] for number in range(n_starts)]


@block(temporaries=2)
def run_start(numbers: Any, *, run: Callable[[int], State]) -> State:
    """Return the result of the start whose number is the only one."""
    # its rounds stay in memory and are not reported: the client reports and keeps whole starts
    with keeping(None), heard_by(lambda *_: None):
        return run(int(numbers[0]))


# --- how alike starts are ----------------------------------------------------------------------------------------


GROUPING_ROUNDS = 100
"""Most rounds of k-means on the topics of all starts."""


def label_agreement(labels: Sequence[Int64s]) -> tuple[Float64s, Float64s]:
    """Return how far the labels of each two starts agree, over the documents that have a label in both.

    Parameters
    ----------
    labels : sequence of int64 arrays (documents,)
        -1 for a document without a topic.

    Returns
    -------
    nmi, ari : float64 arrays (starts, starts)
        Normalized mutual information and adjusted Rand index, 1 on the diagonal.
    """
    n_starts = len(labels)
    nmi, ari = np.ones((n_starts, n_starts)), np.ones((n_starts, n_starts))
    for one, other in combinations(range(n_starts), 2):
        both = (labels[one] >= 0) & (labels[other] >= 0)
        pair = labels[one][both], labels[other][both]
        nmi[one, other] = nmi[other, one] = normalized_mutual_info_score(*pair)
        ari[one, other] = ari[other, one] = adjusted_rand_score(*pair)
    return nmi, ari


def mean_agreement(table: Float64s) -> Float64s:
    """Return the mean agreement of each start with the others, (starts,); 1 for a start that is alone."""
    n_starts = len(table)
    return (table.sum(axis=1) - 1) / (n_starts - 1) if n_starts > 1 else np.ones(1)


# --- what they have in common ------------------------------------------------------------------------------------


def consensus_words(starts: Sequence[Floats]) -> Float64s:
    """Return the word factors that several starts have in common, (d, k) float64.

    The topics of all starts, of unit length, are grouped into k by the cosines of their words, and each group has its
    mean.

    Parameters
    ----------
    starts : sequence of arrays (d, k)
        The word factors of each start.
    """
    pooled = np.concatenate([start.astype(np.float32) for start in starts], axis=1)
    products, n_groups = np.asarray(gram(pooled), np.float64), starts[0].shape[1]
    lengths = np.sqrt(np.diag(products))
    # 0 for a topic without words
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    labels = group_topics(products * scale * scale[:, np.newaxis], n_groups)
    members = np.eye(n_groups)[labels] / np.bincount(labels, minlength=n_groups)
    mixing = np.divide(
        members, lengths[:, np.newaxis], out=np.zeros_like(members), where=lengths[:, np.newaxis] > 0
    )
    return np.asarray(pooled.astype(np.float64) @ mixing)


def group_topics(cosines: Float64s, n_groups: int) -> Int64s:
    """Group topics by spherical k-means on their cosines; every start in turn gives the first groups.

    An empty group takes the topic farthest from its own group, of those that are not alone in theirs.

    Parameters
    ----------
    cosines : float64 array (topics, topics)
        The topics of a start stand together, `n_groups` of each.
    n_groups : int

    Returns
    -------
    int64 array (topics,)
        The group of each topic.
    """
    tries = []
    for first in range(0, len(cosines), n_groups):
        to_groups = cosines[:, first : first + n_groups]
        labels = to_groups.argmax(axis=1)
        for _ in range(GROUPING_ROUNDS):
            members = np.eye(n_groups)[labels]
            sums = cosines @ members
            squares = np.einsum("tg,tg->g", members, sums)
            lengths, none = np.sqrt(np.maximum(squares, 0)), np.full_like(sums, -1.0)
            to_groups = np.asarray(np.divide(sums, lengths, out=none, where=squares > 0))
            moved = to_groups.argmax(axis=1)
            if (moved == labels).all():
                break
            labels = moved
        tries.append((labels, to_groups.max(axis=1)))
    labels, own = max(tries, key=lambda found: round(float(found[1].sum()), 9))
    for group in range(n_groups):
        if not (labels == group).any():
            sizes = np.bincount(labels, minlength=n_groups)
            labels[np.argmin(np.where(sizes[labels] > 1, own, np.inf))] = group
    return labels.astype(np.int64)
