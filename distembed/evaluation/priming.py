"""Scores of word vectors on psycholinguistic sets: association norms, semantic priming, antonyms.

- *Normed priming*: for each cue with three known targets, Spearman's correlation between the strength of association
  with its targets and their cosine with the cue; the score is the mean over cues. Jurgens and Stevens (2010), section
  4.2.
- *Priming effect*: mean cosine of related primes and targets (R), of each prime with all other targets of
  its relation (U), and E = R - U; and Spearman's correlation of the cosine with the priming measured in ms.
- *Antonyms*: 2 / (r + s) of each pair, where r and s are the ranks of the two words among the neighbors of each other;
  1 where both are the nearest. Deese (1965); scored as by S-Space's `DeeseAntonymEvaluation`.

A cue or a pair counts once; intervals are over these items.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Int64s
from distembed.evaluation.scoring import Asked, Measure, cosine_table, known_cosines, spearman
from distembed.evaluation.sparse_space import SparseSpace

MIN_TARGETS = 3
"""Known targets that a cue needs: with two, a rank correlation is 1 or -1 whatever the vectors."""
WORDS_AT_ONCE = 4096  # cosines of a block of words with those of a set: megabytes
RANK_TIE = 1e-7
"""Cosines nearer than this share a rank: those of unit vectors in single precision differ by less."""
PRIMING_EFFECT = "priming effect"
DELAYS = ("200 ms", "1200 ms")


def associations(asked: Asked, cosines: Float64s) -> Iterator[Measure]:
    """Yield the mean correlation over cues for S1, S2 and S3.

    A cue whose strengths or cosines are all equal has no correlation: left out, or 0 with unknown="zero".
    """
    is_skipping = asked.policy.unknown == "skip"
    words = np.array([word for pair in asked.one.items for word in pair])
    cues, targets = np.unique(words, return_inverse=True)[1].astype(np.int64).reshape(-1, 2).T
    n_known, n_cues = np.bincount(cues[asked.known], minlength=1), len(np.unique(cues))
    places = np.flatnonzero(asked.used)
    places = places[np.argsort(cues[places], kind="stable")]
    groups = np.split(places, np.flatnonzero(np.diff(cues[places])) + 1)
    least = MIN_TARGETS if is_skipping else 1
    for name, strengths in associative_strengths(cues, targets, asked.one.values).items():
        own = [float(spearman(strengths[g], cosines[g])) for g in groups if g.size >= least]
        points = np.array(
            [value for value in own if math.isfinite(value)] if is_skipping else np.nan_to_num(own)
        )
        counted = points.size if is_skipping else int((n_known >= MIN_TARGETS).sum())
        yield Measure(f"{name} spearman", (points,), counts=(counted, n_cues))


def associative_strengths(cues: Int64s, targets: Int64s, shares: Float64s) -> dict[str, Float64s]:
    r"""Return the three strengths of each pair by their names, float64 (n,) each.

    Jurgens and Stevens (2010), section 4.2, after Steyvers, Shiffrin and Nelson (2004): W_ab is the share of people who
    answer word b to cue a.

    .. math:: S1_{ab} = W_{ab}, \quad S2_{ab} = W_{ab} + W_{ba}, \quad
              S3_{ab} = S2_{ab} + \sum_c S2_{ac} S2_{cb}

    c runs over the cues. W is 0 where nobody answered and for words that were no cue. Only the listed pairs
    of S2² are computed.

    Parameters
    ----------
    cues, targets : int64 (n,)
        Words as numbers from 0; no pair twice.
    shares : float64 (n,)
        W of each pair.
    """
    n_words = int(max(cues.max(), targets.max())) + 1
    W = csr_array((shares, (cues, targets)), shape=(n_words, n_words))
    S2 = csr_array(W + W.T)
    through_cues = S2[:, np.unique(cues)]
    direct = np.asarray(S2[cues, targets]).ravel()
    indirect = np.asarray(through_cues[cues].multiply(through_cues[targets]).sum(axis=1)).ravel()
    return {"S1": shares, "S2": direct, "S3": direct + indirect}


# ------------------------------------------------------------------------------------------ semantic priming


def priming(asked: Asked, cosines: Float64s) -> Iterator[Measure]:
    """Yield R, U and E of each relation, and the correlation of cosine with priming in ms.

    The most frequent relation comes first; a pair counts in each of its own.
    """
    targets = np.unique(np.array([target for _, target in asked.one.items]), return_inverse=True)[1]
    members: dict[str, list[int]] = {}
    for i, names in enumerate(asked.one.groups):
        for name in names:
            members.setdefault(name, []).append(i)
    for relation in sorted(members, key=lambda name: (-len(members[name]), name)):
        of_relation = np.array(members[relation])
        used = of_relation[asked.used[of_relation]]
        between = cosine_table(asked.space, asked.rows[used, 0], asked.rows[used, 1])
        # U of each prime is its mean cosine with the targets of all other pairs, NaN if there are none. A pair with the
        # same target word is none of these. Padó and Lapata (2007), section 4.1.
        other, related = targets[used, None] != targets[used], np.diag(between)
        n_others, sums = other.sum(axis=1), np.where(other, between, 0).sum(axis=1)
        unrelated = np.divide(sums, n_others, out=np.full(len(sums), np.nan), where=n_others > 0)
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
        yield Measure(f"{delay} spearman", (x, y), spearman, counts)


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
    points, rows, space = np.zeros(len(asked.rows)), asked.rows[asked.known], asked.space
    total = np.zeros(len(rows), np.int64)
    for pairs in (rows, rows[:, ::-1]):
        own, ranks = known_cosines(space, pairs), np.ones(len(pairs), dtype=np.int64)
        for start in range(0, len(space), WORDS_AT_ONCE):
            block = np.arange(start, min(start + WORDS_AT_ONCE, len(space)))
            above = cosine_table(space, pairs[:, 0], block) > own[:, None] + RANK_TIE
            ranks += np.count_nonzero(above & (pairs[:, :1] != block) & (pairs[:, 1:] != block), axis=1)
        total += ranks
    points[asked.known] = 2 / total
    yield Measure("2 / (rank + rank)", (points[asked.used],))
