"""Subwords written plainly: n-grams by strings as in fastText, the average of their vectors, the ridge by solve."""

from __future__ import annotations

import numpy as np


def ngrams(word, min_n, max_n):
    """Return the n-grams of ``<word>`` by characters, in the order of fastText."""
    marked = f"<{word}>"
    found = []
    for start in range(len(marked)):
        for n in range(min_n, max_n + 1):
            stop = start + n
            alone = n == 1 and (start == 0 or stop == len(marked))
            if stop <= len(marked) and not alone:
                found.append(marked[start:stop])
    return found


def fnv1a(text):
    """Return the hash of fastText: FNV-1a of 32 bits over bytes that are extended with their sign."""
    h = 2166136261
    for byte in text.encode("utf-8", "surrogatepass"):
        signed = byte - 256 if byte >= 128 else byte
        h = ((h ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return h


def averaging(words, rows, min_n, max_n, key=lambda ngram: ngram):
    """Return A (n × p) for the row of each n-gram, or of what `key` makes of it."""
    A = np.zeros((len(words), len(rows)))
    for i, word in enumerate(words):
        found = ngrams(word, min_n, max_n)
        for ngram in found:
            if key(ngram) in rows:
                A[i, rows[key(ngram)]] += 1 / len(found)
    return A


def ridge(A, vectors, weights, lam):
    """Return Z and the mean m of ``min sum_w c_w ‖v_w - m - A_w Z‖² + lam ‖Z‖²``, m the weighted mean."""
    mean = weights @ vectors / weights.sum()
    inner = A.T @ (weights[:, None] * A) + lam * np.eye(A.shape[1])
    return np.linalg.solve(inner, A.T @ (weights[:, None] * (vectors - mean))), mean
