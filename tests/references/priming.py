"""Psycholinguistic evaluations written plainly from the formulas, one pair at a time: the oracle."""

from __future__ import annotations

import math

from tests.references.evaluation import cosine, spearman


def strengths(shares):
    """Return {(a, b): (S1, S2, S3)} of {(cue, target): W}, Jurgens and Stevens (2010), section 4.2."""
    cues = {a for a, _ in shares}

    def s2(a, b):
        return shares.get((a, b), 0.0) + shares.get((b, a), 0.0)

    return {
        (a, b): (share, s2(a, b), s2(a, b) + sum(s2(a, c) * s2(c, b) for c in cues))
        for (a, b), share in shares.items()
    }


def normed_priming(table, shares, measure):
    """Return the mean correlation over cues with three known targets, and their number."""
    found = strengths(shares)
    correlations = []
    for cue in {a for a, _ in shares}:
        pairs = [(a, b) for a, b in shares if a == cue and a in table and b in table]
        x = [found[pair][measure] for pair in pairs]
        y = [cosine(table[a], table[b]) for a, b in pairs]
        if len(pairs) >= 3 and len(set(x)) > 1 and len(set(y)) > 1:
            correlations.append(spearman(x, y))
    return sum(correlations) / len(correlations), len(correlations)


def priming_effect(table, pairs):
    """Return R, U, E of the pairs of one relation, all known; Pado and Lapata (2007)."""
    related = [cosine(table[p], table[t]) for p, t in pairs]
    unrelated = []
    for prime, target in pairs:
        others = [cosine(table[prime], table[t]) for _, t in pairs if t != target]
        unrelated.append(sum(others) / len(others))
    r, u = math.fsum(related) / len(pairs), math.fsum(unrelated) / len(pairs)
    return r, u, r - u


def antonym_score(table, pairs):
    """Return the mean of 2 / (rank + rank): a rank counts the words, the first itself among them, that are nearer."""

    def rank(word, other):
        own = cosine(table[word], table[other])
        return sum(cosine(table[word], vector) > own for vector in table.values())

    return sum(2 / (rank(a, b) + rank(b, a)) for a, b in pairs) / len(pairs)
