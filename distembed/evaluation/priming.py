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

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from distembed.dtypes import Float64s, Int64s, Mask
from distembed.evaluation import blocks
from distembed.evaluation.scoring import Asked, Measure, Space, cosine_table, known_cosines
from distembed.evaluation.sparse_space import SparseSpace

MIN_TARGETS = 3
"""Known targets that a cue needs: with two, a rank correlation is 1 or -1 whatever the vectors."""
MIN_UNTIED = 2
"""Known targets that a cue needs by the rule of S-Space's first public code."""
UNTIED = ", untied strengths"
"""What the name of the task by the rule of S-Space's first public code ends in."""
UNTIED_METRIC = "spearman of untied strengths, n of all"
WORDS_AT_ONCE = 4096  # cosines of a block of words with those of a set: megabytes
RANK_TIE = 1e-7
"""Cosines nearer than this share a rank: those of unit vectors in single precision differ by less."""
PRIMING_EFFECT = "priming effect"
DELAYS = ("200 ms", "1200 ms")


def associations(asked: Asked, cosines: Float64s) -> Iterator[Measure]:
    """Yield the mean correlation over cues for S1, S2 and S3, by the paper's rule and by `UNTIED`.

    A cue whose strengths or cosines are all equal has no correlation: left out, or 0 with unknown="zero".
    `UNTIED` gives it a value; each of its scores is followed by that of random cosines.
    """
    is_skipping = asked.policy.unknown == "skip"
    cues, targets = _number_words(asked.one.items)
    groups = _groups(cues, asked.used, MIN_UNTIED if is_skipping else 1)
    n_known, n_cues = np.bincount(cues[asked.known], minlength=1), len(np.unique(cues))

    def over_cues(metric: str, values: list[float], least: int, **options: Any) -> Measure:
        points = np.array([
            value for value, group in zip(values, groups, strict=True) if group.size >= least or not is_skipping
        ])  # fmt: skip
        points = points[np.isfinite(points)] if is_skipping else np.nan_to_num(points)
        counted = points.size if is_skipping else int((n_known >= least).sum())
        return Measure(metric, (points,), counts=(counted, n_cues), **options)

    strengths = blocks.associative_strengths(cues, targets, asked.one.values)
    for name, of_pairs in strengths.items():
        own = [float(blocks.spearman(of_pairs[g], cosines[g])) for g in groups]
        yield over_cues(f"{name} spearman", own, MIN_TARGETS)
    task = f"normed priming{UNTIED}"
    for name, of_pairs in strengths.items():
        own = [blocks.spearman_of_untied(of_pairs[g], cosines[g]) for g in groups]
        yield over_cues(f"{name} {UNTIED_METRIC}", own, MIN_UNTIED, task=task)
        by_chance = [blocks.chance_of_untied(of_pairs[g]) for g in groups]
        yield over_cues(f"{name} chance", by_chance, MIN_UNTIED, task=task, has_interval=False)


def _number_words(pairs: Sequence[tuple[str, ...]]) -> tuple[Int64s, Int64s]:
    """Return the words of the pairs as numbers, equal where the words are."""
    _, numbers = np.unique(np.array([word for pair in pairs for word in pair]), return_inverse=True)
    numbers = numbers.astype(np.int64).reshape(-1, 2)
    return numbers[:, 0], numbers[:, 1]


def _groups(keys: Int64s, used: Mask, least: int) -> list[Int64s]:
    """Return the places of each key that are used, for the keys that have at least `least`."""
    places = np.flatnonzero(used)
    places = places[np.argsort(keys[places], kind="stable")]
    cuts = np.flatnonzero(np.diff(keys[places])) + 1
    return [group for group in np.split(places, cuts) if group.size >= max(least, 1)]


# ------------------------------------------------------------------------------------------ semantic priming


def priming(asked: Asked, cosines: Float64s) -> Iterator[Measure]:
    """Yield R, U and E of each relation, and the correlation of cosine with priming in ms.

    The most frequent relation comes first; a pair counts in each of its own.
    """
    _, targets = _number_words(asked.one.items)
    members: dict[str, list[int]] = {}
    for i, names in enumerate(asked.one.groups):
        for name in names:
            members.setdefault(name, []).append(i)
    for relation in sorted(members, key=lambda name: (-len(members[name]), name)):
        of_relation = np.array(members[relation])
        used = of_relation[asked.used[of_relation]]
        between = cosine_table(asked.space, asked.rows[used, 0], asked.rows[used, 1])
        related, unrelated = np.diag(between), blocks.unrelated_cosines(between, targets[used])
        counts = int(asked.known[of_relation].sum()), len(of_relation)
        for part, points in (("related", related), ("unrelated", unrelated), ("effect", related - unrelated)):
            yield Measure(
                f"{relation} {part}", (points[np.isfinite(points)],), counts=counts, task=PRIMING_EFFECT,
                has_interval=part == "effect",
            )  # fmt: skip
    for delay, milliseconds in zip(DELAYS, asked.one.values.T, strict=True):
        measured = np.isfinite(milliseconds)
        x, y = cosines[asked.used & measured], milliseconds[asked.used & measured]
        counts = int((asked.known & measured).sum()), len(asked.known)
        yield Measure(f"{delay} spearman", (x, y), blocks.spearman, counts)


# -------------------------------------------------------------------------------------------------- antonyms


def antonyms(asked: Asked, _: Float64s) -> Iterator[Measure]:
    """Yield the mean over pairs of 2 / (r + s), r and s the ranks of each word among the other's neighbors.

    The rank is one more than the number of words whose cosine is larger; the word itself is left out. S-Space counts
    the word itself as the one more, so that its ranks are the same wherever no two vectors have one direction.
    """
    if isinstance(asked.space, SparseSpace) and not asked.space.is_whole:
        raise TypeError(
            f"{asked.one.name} asks for ranks among all words, and the sparse space holds some of them: give all "
            "words, and is_whole=True"
        )
    points, pairs = np.zeros(len(asked.rows)), asked.rows[asked.known]
    ranks = [_neighbor_ranks(asked.space, pairs[:, sides]) for sides in ([0, 1], [1, 0])]
    points[asked.known] = 2 / (ranks[0] + ranks[1])
    yield Measure("2 / (rank + rank)", (points[asked.used],))


def _neighbor_ranks(vectors: Space, pairs: Int64s) -> Int64s:
    """Return the rank of the second word of each pair (n, 2) among the neighbors of the first, from 1."""
    own, ranks = known_cosines(vectors, pairs), np.ones(len(pairs), dtype=np.int64)
    for start in range(0, len(vectors), WORDS_AT_ONCE):
        block = np.arange(start, min(start + WORDS_AT_ONCE, len(vectors)))
        above = cosine_table(vectors, pairs[:, 0], block) > own[:, None] + RANK_TIE
        ranks += np.count_nonzero(above & (pairs[:, :1] != block) & (pairs[:, 1:] != block), axis=1)
    return ranks
