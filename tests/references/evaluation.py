"""Word-level evaluation written plainly from the formulas, one word at a time: the oracle."""

from __future__ import annotations

import math

from scipy.stats import spearmanr


def cosine(u, v):
    product = sum(float(a) * float(b) for a, b in zip(u, v, strict=True))
    lengths = math.sqrt(sum(float(a) ** 2 for a in u)) * math.sqrt(sum(float(b) ** 2 for b in v))
    return product / lengths if lengths else 0.0


def spearman(x, y):
    return spearmanr(x, y).statistic


def answer(table, a, a2, b, *, method):
    """Return the word of `table` (word -> vector) that is to b as a2 is to a."""
    best, best_score = None, -math.inf
    for word, vector in table.items():
        if word in (a, a2, b):
            continue
        to_a, to_a2, to_b = (cosine(vector, table[other]) for other in (a, a2, b))
        score = to_a2 - to_a + to_b if method == "add" else (to_a2 + 1) * (to_b + 1) / (to_a + 1.001)
        if score > best_score:
            best, best_score = word, score
    return best
