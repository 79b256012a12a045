"""The Word-Embedding Association Test written plainly from Caliskan et al. (2017), one word at a time: the oracle."""

from __future__ import annotations

import math
from itertools import combinations

from tests.references.evaluation import cosine


def association(table, word, first, second):
    """Return s(w, A, B)."""
    near = [sum(cosine(table[word], table[a]) for a in each) / len(each) for each in (first, second)]
    return near[0] - near[1]


def weat(table, x_words, y_words, first, second):
    """Return the effect size and the share of all partitions that reach the observed difference of means."""
    x, y = ([association(table, w, first, second) for w in words] for words in (x_words, y_words))
    pooled = x + y
    mean = sum(pooled) / len(pooled)
    spread = math.sqrt(sum((s - mean) ** 2 for s in pooled) / len(pooled))

    def difference(inside):
        outside = [i for i in range(len(pooled)) if i not in inside]
        return sum(pooled[i] for i in inside) / len(inside) - sum(pooled[i] for i in outside) / len(outside)

    observed = difference(range(len(x)))
    every = [difference(inside) for inside in combinations(range(len(pooled)), len(x))]
    return observed / spread, sum(d >= observed - 1e-12 for d in every) / len(every)
