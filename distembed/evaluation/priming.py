"""Scores of word vectors on psycholinguistic sets: association norms, semantic priming, relations.

- *Normed priming*: for each cue, Spearman's correlation between the strength of association with its targets
  and their cosine with the cue; the score is the mean over cues. Jurgens and Stevens (2010), section 4.2.
- *Priming effect*: mean cosine of related primes and targets (R), of each prime with all other targets of
  its relation (U), and E = R - U; and Spearman's correlation of the cosine with the priming measured in ms.
- *Separation*: the chance that a pair of one relation has a larger cosine than a pair of another with the
  same first word, in the mean over first words; 0.5 is no separation. For antonyms this is antonymy:
  "Antonym over Synonym" at 0.5 says that the vectors cannot tell opposites from synonyms.

A cue, a pair or a first word counts once; intervals are over these items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.evaluation import blocks, priming_blocks
from distembed.evaluation.scoring import (
    Policy,
    Score,
    Space,
    bootstrap_interval,
    cosine_table,
    known_and_used,
    known_cosines,
    mean_score,
    row_table,
)
from distembed.evaluation.wordsets import AssociationSet, PrimingSet, RelationSet

MIN_TARGETS = 3  # known targets of a cue: with two, a rank correlation is 1 or -1 whatever the vectors
MAX_BOOTSTRAP_ITEMS = 10_000  # resampled means cost a gather: under a second up to here
DELAYS = ("200 ms", "1200 ms")
CONTROL = "random"
OPPOSITES, ALIKE = "Antonym", "Synonym"


class RelationPriming(NamedTuple):
    """Priming of one relation: mean cosines, the effect with its interval, the mean priming in ms."""

    relation: str
    related: float
    unrelated: float
    effect: float
    interval: tuple[float, float] | None
    milliseconds: tuple[float, float]
    known: int
    total: int


def evaluate_associations(vectors: Space, norms: AssociationSet, policy: Policy) -> list[Score]:
    """Return the mean correlation over cues for S1, S2 and S3; a cue is known with `MIN_TARGETS` targets.

    A cue whose strengths or cosines are all equal has no correlation: left out, or 0 with unknown="zero".
    """
    rows = row_table(vectors, norms.pairs, policy).reshape(-1, 2)
    (known, used), cosines = known_and_used(rows, policy), known_cosines(vectors, rows)
    cues, targets = _numbered(norms.pairs)
    strengths = priming_blocks.associative_strengths(cues, targets, norms.strengths)
    n_known = int((np.bincount(cues[known], minlength=1) >= MIN_TARGETS).sum())
    counts = n_known, len(np.unique(cues))
    groups = _groups(cues, used, MIN_TARGETS if policy.unknown == "skip" else 1)
    return [
        _association_score(norms.name, measure, [(values[g], cosines[g]) for g in groups], counts, policy)
        for measure, values in strengths._asdict().items()
    ]


def _association_score(
    name: str,
    measure: str,
    samples: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    counts: tuple[int, int],
    policy: Policy,
) -> Score:
    points = np.array([blocks.spearman(x, y) for x, y in samples])
    defined = np.isfinite(points)
    points = points[defined] if policy.unknown == "skip" else np.where(defined, points, 0)
    if policy.unknown == "skip":
        counts = points.size, counts[1]
    task = ("normed priming", f"{measure} spearman")
    return mean_score(name, task, points, counts, policy, max_items=MAX_BOOTSTRAP_ITEMS)


def _numbered(pairs: Sequence[tuple[str, str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the words of the pairs as numbers, equal where the words are."""
    _, numbers = np.unique(np.array([word for pair in pairs for word in pair]), return_inverse=True)
    numbers = numbers.astype(np.int64).reshape(-1, 2)
    return numbers[:, 0], numbers[:, 1]


def _groups(keys: NDArray[np.int64], used: NDArray[np.bool_], least: int) -> list[NDArray[np.int64]]:
    """Return the places of each key that are used, for the keys that have at least `least`."""
    places = np.flatnonzero(used)
    places = places[np.argsort(keys[places], kind="stable")]
    cuts = np.flatnonzero(np.diff(keys[places])) + 1
    return [group for group in np.split(places, cuts) if group.size >= max(least, 1)]


# ------------------------------------------------------------------------------------------ semantic priming


def evaluate_priming(vectors: Space, priming: PrimingSet, policy: Policy) -> list[Score]:
    """Return R, U and E of each relation, and the correlation of cosine with priming in ms at both delays."""
    scores = [
        Score(
            priming.name,
            "priming effect",
            f"{row.relation} {part}",
            value,
            row.known,
            row.total,
            str(policy),
            ends,
        )
        for row in priming_by_relation(vectors, priming, policy)
        for part, value, ends in (
            ("related", row.related, None),
            ("unrelated", row.unrelated, None),
            ("effect", row.effect, row.interval),
        )
    ]
    return [*scores, *_priming_correlations(vectors, priming, policy)]


def priming_by_relation(
    vectors: Space, priming: PrimingSet, policy: Policy | None = None
) -> list[RelationPriming]:
    """Return the priming of each relation, the most frequent first; a pair counts in each of its own."""
    policy = policy or Policy()
    rows = row_table(vectors, priming.pairs, policy).reshape(-1, 2)
    _, targets = _numbered(priming.pairs)
    found = [
        _relation_priming(vectors, relation, members, (rows, targets, priming.milliseconds), policy)
        for relation, members in _members(priming.relations).items()
    ]
    return sorted(found, key=lambda row: (-row.total, row.relation))


def _members(relations: Iterable[Iterable[str]]) -> dict[str, NDArray[np.int64]]:
    members: dict[str, list[int]] = {}
    for i, names in enumerate(relations):
        for name in names:
            members.setdefault(name, []).append(i)
    return {name: np.array(places) for name, places in members.items()}


def _relation_priming(
    vectors: Space,
    relation: str,
    members: NDArray[np.int64],
    table: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    policy: Policy,
) -> RelationPriming:
    rows, targets, milliseconds = table[0][members], table[1][members], table[2][members]
    known, used = known_and_used(rows, policy)
    cosines = cosine_table(vectors, rows[used, 0], rows[used, 1])
    related, unrelated = np.diag(cosines), priming_blocks.unrelated_cosines(cosines, targets[used])
    counts = int(known.sum()), len(members)
    effect = mean_score("", ("", ""), (related - unrelated)[np.isfinite(unrelated)], counts, policy)
    means = _mean(related), _mean(unrelated), effect.value, effect.interval
    first, second = (_mean(column) for column in milliseconds[used].T)
    return RelationPriming(relation, *means, (first, second), *counts)


def _mean(values: NDArray[np.float64]) -> float:
    values = values[np.isfinite(values)]
    return float(values.mean()) if values.size else float("nan")


def _priming_correlations(vectors: Space, priming: PrimingSet, policy: Policy) -> list[Score]:
    rows = row_table(vectors, priming.pairs, policy).reshape(-1, 2)
    (known, used), cosines = known_and_used(rows, policy), known_cosines(vectors, rows)
    scores = []
    for delay, milliseconds in zip(DELAYS, priming.milliseconds.T, strict=True):
        measured = np.isfinite(milliseconds)
        value, ends = _correlation(cosines[used & measured], milliseconds[used & measured], policy)
        counts = int((known & measured).sum()), len(known)
        scores.append(Score(priming.name, "priming", f"{delay} spearman", value, *counts, str(policy), ends))
    return scores


def _correlation(
    x: NDArray[np.float64], y: NDArray[np.float64], policy: Policy
) -> tuple[float, tuple[float, float] | None]:
    value = float(blocks.spearman(x, y)) if x.size > 1 else float("nan")
    return value, bootstrap_interval(
        lambda draw: blocks.spearman(x[draw], y[draw]), x.size, policy, max_items=MAX_BOOTSTRAP_ITEMS
    )


# ------------------------------------------------------------------------------------------------- relations


def evaluate_relations(vectors: Space, pairs: RelationSet, policy: Policy) -> list[Score]:
    """Return how each relation separates from the random pairs, or from all others where there are none.

    A set with antonyms and synonyms has "Antonym over Synonym" as well. Known and total are pairs of the
    relation; a first word counts when it has a known pair on both sides.
    """
    rows = row_table(vectors, pairs.pairs, policy).reshape(-1, 2)
    (known, used), cosines = known_and_used(rows, policy), known_cosines(vectors, rows)
    first_words, _ = _numbered(pairs.pairs)
    relations = np.array(pairs.relations)
    groups = _groups(first_words, used, 2)
    return [
        mean_score(
            pairs.name,
            ("separation", f"{relation} over {control}"),
            _separations(cosines, relations, groups, relation, control),
            (int(known[relations == relation].sum()), int((relations == relation).sum())),
            policy,
            max_items=MAX_BOOTSTRAP_ITEMS,
        )
        for relation, control in _contrasts(list(dict.fromkeys(pairs.relations)))
    ]


def _contrasts(relations: Sequence[str]) -> list[tuple[str, str]]:
    names = sorted(relations)
    if CONTROL in names:
        return [(name, CONTROL) for name in names if name != CONTROL]
    contrasts = [(name, "others") for name in names]
    return [*contrasts, (OPPOSITES, ALIKE)] if {OPPOSITES, ALIKE} <= set(names) else contrasts


def _separations(
    cosines: NDArray[np.float64],
    relations: NDArray[np.str_],
    groups: Sequence[NDArray[np.int64]],
    relation: str,
    control: str,
) -> NDArray[np.float64]:
    """Return the separation of each first word that has pairs on both sides."""
    mine = relations == relation
    theirs = ~mine if control == "others" else relations == control
    sides = ((cosines[g[mine[g]]], cosines[g[theirs[g]]]) for g in groups)
    return np.array([priming_blocks.chance_of_larger(a, b) for a, b in sides if a.size and b.size])
