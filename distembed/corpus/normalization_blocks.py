"""Compiled tests of whether UTF-8 text is normalized: the quick check of Unicode Standard Annex 15.

``table`` gives each code point its canonical combining class, or UNSTABLE if the character may not occur in
normalized text or may combine with the character before it. Text is normalized if it holds no unstable
character, and no mark of a lower class than the mark before it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from distembed.corpus.blocks import decode

UNSTABLE = 255
# Bytes that are looked at together.
STEP = 64


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def is_ascii(words: np.ndarray, k: int) -> bool:
    """Return whether `STEP` bytes, from 8-byte word `k` on, are all ASCII."""
    some = words[k]
    for step in range(1, STEP >> 3):
        some |= words[k + step]
    return some & np.uint64(0x8080808080808080) == 0


@njit(cache=True, nogil=True, _nrt=False)
def is_quickly_normalized(
    data: np.ndarray, words: np.ndarray, lead: int, i: int, stop: int, table: np.ndarray
) -> bool:
    """Return whether the quick check passes ``data[i:stop]``."""
    last = 0
    while i < stop:
        # Nearly all text is ASCII in long runs.
        if (i - lead) & 7 == 0 and i >= lead and i + STEP <= stop and is_ascii(words, (i - lead) >> 3):
            last = 0
            i += STEP
        elif data[i] < 0x80:
            last = 0
            i += 1
        else:
            point, width = decode(data, i)
            combining = int(table[point])
            if combining == UNSTABLE or 0 < combining < last:
                return False
            last = combining
            i += width
    return True


@njit(cache=True, nogil=True)
def changing_spans(
    data: np.ndarray, words: np.ndarray, lead: int, starts: np.ndarray, stops: np.ndarray, table: np.ndarray
) -> np.ndarray:
    """Return which spans of text fail the quick check, bool (n,).

    `words` (uint64) views the bytes eight at a time from ``data[lead]`` on, as far as they are whole.
    """
    found = np.zeros(len(starts), np.bool_)
    for span in range(len(starts)):
        found[span] = not is_quickly_normalized(data, words, lead, starts[span], stops[span], table)
    return found
