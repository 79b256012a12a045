"""Scores of word vectors on psycholinguistic sets: association norms, semantic priming, antonyms.

- *Normed priming*: for each cue with three known targets, Spearman's correlation between the strength of association
  with its targets and their cosine with the cue; the score is the mean over cues. Jurgens and Stevens (2010), section
  4.2.
- *Priming effect*: mean cosine of related primes and targets (R), of each prime with all other targets of
  its relation (U), and E = R - U; and Spearman's correlation of the cosine with the priming measured in ms.
- *Antonyms*: 2 / (r + s) of each pair, where r and s are the ranks of the two words among the neighbors of each other;
  1 where both are the nearest. Deese (1965); scored as by S-Space's `DeeseAntonymEvaluation`.

Normed priming has a second rule, of the first public code of S-Space, the program of Jurgens and Stevens, named "...,
untied strengths": of equal strengths only one target counts, and a cue with two known targets has a value. USF norms
are full of equal strengths, so this rule gives random vectors a high score; that chance level stands beside it.

A cue or a pair counts once; intervals are over these items.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from distembed.evaluation import blocks
from distembed.evaluation.scoring import (
    Policy,
    Score,
    Space,
    correlation_score,
    cosine_table,
    known_and_used,
    known_cosines,
    mean_score,
    row_table,
)
from distembed.evaluation.sparse_space import SparseSpace
from distembed.evaluation.wordsets import AntonymSet, AssociationSet, PrimingSet

MIN_TARGETS = 3
"""Known targets that a cue needs: with two, a rank correlation is 1 or -1 whatever the vectors."""
MIN_UNTIED = 2
"""Known targets that a cue needs by the rule of S-Space's first public code."""
UNTIED = ", untied strengths"
"""What the name of the task by the rule of S-Space's first public code ends in."""
UNTIED_METRIC = "spearman of untied strengths, n of all"
MAX_BOOTSTRAP_ITEMS = 10_000  # resampled means cost a gather: under a second up to here
WORDS_AT_ONCE = 4096  # cosines of a block of words with those of a set: megabytes
RANK_TIE = 1e-7
"""Cosines nearer than this share a rank: those of unit vectors in single precision differ by less."""
PRIMING_EFFECT = "priming effect"
DELAYS = ("200 ms", "1200 ms")


def evaluate_associations(vectors: Space, norms: AssociationSet, policy: Policy) -> list[Score]:
    """Return the mean correlation over cues for S1, S2 and S3, by the paper's rule and by `UNTIED`.

    A cue whose strengths or cosines are all equal has no correlation: left out, or 0 with unknown="zero".
    `UNTIED` gives it a value; each of its scores is followed by that of random cosines.
    """
    rows = row_table(vectors, norms.pairs, policy)
    (known, used), cosines = known_and_used(rows, policy), known_cosines(vectors, rows)
    cues, targets = _number_words(norms.pairs)
    groups = _groups(cues, used, 1 if policy.unknown == "zero" else MIN_UNTIED)
    strengths = blocks.associative_strengths(cues, targets, norms.strengths)
    points = {
        measure: np.array([blocks.spearman(values[g], cosines[g]) for g in groups])
        for measure, values in strengths.items()
    }
    n_known, sizes = np.bincount(cues[known], minlength=1), np.array([g.size for g in groups], dtype=np.int64)
    n_cues = len(np.unique(cues))
    counts, untied = ((int((n_known >= least).sum()), n_cues) for least in (MIN_TARGETS, MIN_UNTIED))
    scores = [
        _association_score(
            (norms.name, "normed priming", f"{measure} spearman"),
            values if policy.unknown == "zero" else values[sizes >= MIN_TARGETS],
            counts,
            policy,
        )
        for measure, values in points.items()
    ]
    for measure, values in strengths.items():
        own = np.array([blocks.spearman_of_untied(values[g], cosines[g]) for g in groups])
        by_chance = np.array([blocks.chance_of_untied(values[g]) for g in groups])
        names = norms.name, f"normed priming{UNTIED}"
        score = _association_score((*names, f"{measure} {UNTIED_METRIC}"), own, untied, policy)
        chance = _association_score((*names, f"{measure} chance"), by_chance, untied, policy)
        scores += [score, chance._replace(interval=None)]
    return scores


def _association_score(
    names: tuple[str, str, str], points: NDArray[np.float64], counts: tuple[int, int], policy: Policy
) -> Score:
    defined = np.isfinite(points)
    points = points[defined] if policy.unknown == "skip" else np.where(defined, points, 0)
    if policy.unknown == "skip":
        counts = points.size, counts[1]
    return mean_score(names[0], names[1:], points, counts, policy, max_items=MAX_BOOTSTRAP_ITEMS)


def _number_words(pairs: Sequence[tuple[str, str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
    """Return R, U and E of each relation, and the correlation of cosine with priming in ms.

    The most frequent relation comes first; a pair counts in each of its own.
    """
    rows = row_table(vectors, priming.pairs, policy)
    _, targets = _number_words(priming.pairs)
    members: dict[str, list[int]] = {}
    for i, names in enumerate(priming.relations):
        for name in names:
            members.setdefault(name, []).append(i)
    scores = list[Score]()
    for relation in sorted(members, key=lambda name: (-len(members[name]), name)):
        of = members[relation]
        scores += _relation_scores(vectors, (priming.name, relation), rows[of], targets[of], policy)
    return [*scores, *_priming_correlations(vectors, priming, policy)]


def _relation_scores(
    vectors: Space,
    names: tuple[str, str],
    rows: NDArray[np.int64],
    targets: NDArray[np.int64],
    policy: Policy,
) -> list[Score]:
    """Return R, U and E of one relation of a set."""
    known, used = known_and_used(rows, policy)
    cosines = cosine_table(vectors, rows[used, 0], rows[used, 1])
    related, counts = np.diag(cosines), (int(known.sum()), len(rows))
    unrelated = blocks.unrelated_cosines(cosines, targets[used])
    set_name, relation = names
    effects = (related - unrelated)[np.isfinite(unrelated)]
    return [
        Score(set_name, PRIMING_EFFECT, f"{relation} related", _mean(related), *counts, str(policy), None),
        Score(
            set_name, PRIMING_EFFECT, f"{relation} unrelated", _mean(unrelated), *counts, str(policy), None
        ),
        mean_score(set_name, (PRIMING_EFFECT, f"{relation} effect"), effects, counts, policy),
    ]


def _mean(values: NDArray[np.float64]) -> float:
    values = values[np.isfinite(values)]
    return float(values.mean()) if values.size else float("nan")


def _priming_correlations(vectors: Space, priming: PrimingSet, policy: Policy) -> list[Score]:
    rows = row_table(vectors, priming.pairs, policy)
    (known, used), cosines = known_and_used(rows, policy), known_cosines(vectors, rows)
    scores = list[Score]()
    for delay, milliseconds in zip(DELAYS, priming.milliseconds.T, strict=True):
        measured = np.isfinite(milliseconds)
        x, y = cosines[used & measured], milliseconds[used & measured]
        counts = int((known & measured).sum()), len(known)
        names = priming.name, "priming", f"{delay} spearman"
        scores.append(correlation_score(names, x, y, counts, policy, max_items=MAX_BOOTSTRAP_ITEMS))
    return scores


# -------------------------------------------------------------------------------------------------- antonyms


def evaluate_antonyms(vectors: Space, antonyms: AntonymSet, policy: Policy) -> list[Score]:
    """Return the mean over pairs of 2 / (r + s), r and s the ranks of each word among the other's neighbors.

    The rank is one more than the number of words whose cosine is larger; the word itself is left out. S-Space counts
    the word itself as the one more, so that its ranks are the same wherever no two vectors have one direction.
    """
    if isinstance(vectors, SparseSpace) and not vectors.is_whole:
        raise TypeError(
            f"{antonyms.name} asks for ranks among all words, and the sparse space holds some of them: give all "
            "words, and is_whole=True"
        )
    rows = row_table(vectors, antonyms.pairs, policy)
    known, used = known_and_used(rows, policy)
    points = np.zeros(len(rows))
    ranks = [_neighbor_ranks(vectors, rows[known][:, sides]) for sides in ([0, 1], [1, 0])]
    points[known] = 2 / (ranks[0] + ranks[1])
    counts = int(known.sum()), len(rows)
    return [mean_score(antonyms.name, ("antonyms", "2 / (rank + rank)"), points[used], counts, policy)]


def _neighbor_ranks(vectors: Space, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of the second word of each pair (n, 2) among the neighbors of the first, from 1."""
    own, ranks = known_cosines(vectors, pairs), np.ones(len(pairs), dtype=np.int64)
    for start in range(0, len(vectors), WORDS_AT_ONCE):
        block = np.arange(start, min(start + WORDS_AT_ONCE, len(vectors)))
        above = cosine_table(vectors, pairs[:, 0], block) > own[:, None] + RANK_TIE
        ranks += np.count_nonzero(above & (pairs[:, :1] != block) & (pairs[:, 1:] != block), axis=1)
    return ranks
