"""Halves of evaluation sets: options are chosen on one and confirmed on the other."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from distembed.evaluation.wordsets import EvaluationSet


def half_of(word_set: EvaluationSet, *, development: bool) -> EvaluationSet:
    """Return one half of a set: the one to choose by, or the one to confirm the choice on.

    Items of the same first word (a cue, a prime, a question) are in the same half, by a checksum of the word.
    """
    first = [item[0].lower() for item in word_set.items]
    return word_set.part(
        np.array([crc32(word.encode()) % 2 == int(development) for word in first], dtype=bool)
    )
