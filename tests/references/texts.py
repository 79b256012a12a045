"""Text vectors written plainly: one text, one token, one word at a time."""

from __future__ import annotations

import re

import numpy as np


def text_vectors(texts, words, vectors, counts, *, a=1e-3, fold=None):
    """Return sum over known tokens of a / (a + p) v / |v|, over their number; `fold` is a matrix that follows."""
    shares = np.asarray(counts, float) / np.sum(counts)
    found = np.zeros((len(texts), len(vectors[0])))
    for i, text in enumerate(texts):
        known = [words.index(token) for token in re.findall(r"[^\W\d_]+", text.lower()) if token in words]
        for row in known:
            vector = np.asarray(vectors[row], float)
            found[i] += a / (a + shares[row]) * vector / np.linalg.norm(vector) / len(known)
    return found if fold is None else found @ fold
