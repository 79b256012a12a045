"""Psycholinguistic evaluations written plainly from the formulas, one pair at a time: the oracle."""

from __future__ import annotations

import math

from tests.references.evaluation import cosine, mean_ranks, spearman


def strengths(shares):
    """Return {(a, b): (S1, S2, S3)} of {(cue, target): W}, Jurgens and Stevens (2010), section 4.2."""
    cues = {a for a, _ in shares}

    def s2(a, b):
        return shares.get((a, b), 0.0) + shares.get((b, a), 0.0)

    return {
        (a, b): (share, s2(a, b), s2(a, b) + sum(s2(a, c) * s2(c, b) for c in cues))
        for (a, b), share in shares.items()
    }


def normed_priming(table, shares, measure, *, least=3, correlation=spearman):
    """Return the mean correlation over cues and the number of cues; S-Space: least=2, `tie_corrected_spearman`."""
    found = strengths(shares)
    correlations = []
    for cue in {a for a, _ in shares}:
        pairs = [(a, b) for a, b in shares if a == cue and a in table and b in table]
        x = [found[pair][measure] for pair in pairs]
        y = [cosine(table[a], table[b]) for a, b in pairs]
        if len(pairs) >= least and len(set(x)) > 1 and len(set(y)) > 1:
            correlations.append(correlation(x, y))
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


def tie_corrected_spearman(x, y):
    """Return Spearman's correlation by Siegel and Castellan (1988), formulas 9.6 and 9.7, as S-Space does."""
    cubed = len(x) ** 3 - len(x)
    ties = [sum(n**3 - n for n in (list(z).count(v) for v in set(z))) for z in (x, y)]
    squares = sum((a - b) ** 2 for a, b in zip(mean_ranks(x), mean_ranks(y), strict=True))
    spread = math.sqrt(cubed**2 - sum(ties) * cubed + ties[0] * ties[1])
    return (cubed - 6 * squares - sum(ties) / 2) / spread


def untied_spearman(x, y):
    """Return S-Space's coefficient of 2011: a sorted map of x keeps the last y of each, and n counts all pairs."""
    n, kept = len(x), dict(zip(x, y, strict=True))
    ranks = {b: rank for rank, b in enumerate(sorted(y))}
    squares = sum((rank - ranks[kept[a]]) ** 2 for rank, a in enumerate(sorted(kept)))
    return 1 - 6 * squares / (n * (n * n - 1))


def untied_normed_priming(table, shares, measure):
    """Return the mean of `untied_spearman` over cues with two known targets, and their number."""
    found = strengths(shares)
    values = []
    for cue in {a for a, _ in shares}:
        pairs = [(a, b) for a, b in shares if a == cue and a in table and b in table]
        if len(pairs) >= 2:
            x, y = [found[pair][measure] for pair in pairs], [cosine(table[a], table[b]) for a, b in pairs]
            values.append(untied_spearman(x, y))
    return sum(values) / len(values), len(values)


def priming_effect_sspace(table, pairs):
    """Return R, U, E of the pairs of one relation, all known, by the rule of S-Space's AbstractWordPrimingTest."""
    primes = {prime for prime, _ in pairs}
    related = [cosine(table[p], table[t]) for p, t in pairs]
    unrelated = [
        (cosine(table[p], table[t]) + sum(cosine(table[other], table[t]) for other in primes - {p}))
        / len(primes)
        for p, t in pairs
    ]
    r, u = math.fsum(related) / len(pairs), math.fsum(unrelated) / len(pairs)
    return r, u, r - u


def antonym_score(table, pairs):
    """Return the mean of 2 / (rank + rank): a rank counts the words, the first itself among them, that are nearer."""

    def rank(word, other):
        own = cosine(table[word], table[other])
        return sum(cosine(table[word], vector) > own for vector in table.values())

    return sum(2 / (rank(a, b) + rank(b, a)) for a, b in pairs) / len(pairs)


def separation(table, pairs, relation, control):
    """Return the mean over first words of the chance that a pair of the relation has the larger cosine."""
    values = []
    for word in {a for a, _, _ in pairs}:
        mine = [cosine(table[a], table[b]) for a, b, r in pairs if a == word and r == relation]
        theirs = [
            cosine(table[a], table[b])
            for a, b, r in pairs
            if a == word and (r == control if control else r != relation)
        ]
        if mine and theirs:
            won = sum((x > y) + (x == y) / 2 for x in mine for y in theirs)
            values.append(won / (len(mine) * len(theirs)))
    return sum(values) / len(values)
