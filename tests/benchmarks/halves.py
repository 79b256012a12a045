"""Halves of evaluation sets: options are chosen on one and confirmed on the other."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from distembed.evaluation.wordsets import WordSet, some_items


def half_of(word_set: WordSet, *, development: bool) -> WordSet:
    """Return one half of a set: the one to choose by, or the one to confirm the choice on.

    Items of the same first word (a cue, a prime, a question) are in the same half, by a checksum of the word.
    """
    items = word_set[1]
    first = [item if isinstance(item, str) else item[0] for item in items]
    chosen = np.array([crc32(word.lower().encode()) % 2 == int(development) for word in first], dtype=bool)
    half: WordSet = some_items(word_set, chosen)
    return half
