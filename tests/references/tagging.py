"""Taggers written plainly: all sequences of tags by enumeration, and the spans as `conlleval` decides word by word."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np


def sequence_score(scores, transitions, tags):
    """Return the sum of the scores of the tags of one sentence and of the transitions between them."""
    return sum(scores[t, y] for t, y in enumerate(tags)) + sum(transitions[a, b] for a, b in pairwise(tags))


def enumerated(scores, transitions):
    """Return log Z, the probability of each tag at each word, the expected pairs and the best tags of a sentence."""
    n, q = scores.shape
    every = list(product(range(q), repeat=n))
    values = np.array([sequence_score(scores, transitions, tags) for tags in every])
    log_z = np.log(np.exp(values).sum())
    marginals, pairs = np.zeros((n, q)), np.zeros((q, q))
    for tags, probability in zip(every, np.exp(values - log_z), strict=True):
        for t, y in enumerate(tags):
            marginals[t, y] += probability
        for a, b in pairwise(tags):
            pairs[a, b] += probability
    return log_z, marginals, pairs, every[int(values.argmax())]


def conlleval_spans(tags):
    """Return the spans (start, stop, kind) by the two rules of `conlleval`: where a chunk ends, where one begins."""
    split = [("O", "")] + [(tag[0], tag[2:]) for tag in tags] + [("O", "")]
    split = [({"U": "S", "L": "E"}.get(position, position), kind) for position, kind in split]
    found, start = [], None
    for place, ((before, kind_before), (now, kind)) in enumerate(pairwise(split)):
        ends = before in "BI" and now in "BSO"
        ends = ends or before in "ES" or (before != "O" and kind_before != kind)
        begins = now in "BS" or (before in "ESO" and now in "EI")
        begins = begins or (now != "O" and kind_before != kind)
        if ends and start is not None:
            found.append((start, place, kind_before))
            start = None
        if begins:
            start = place
    return found
