"""Unicode normalization of text in batches, and the quick check of Unicode Standard Annex 15 of what is normalized.

A table gives each code point its canonical combining class, or UNSTABLE if the character may not occur in normalized
text or may combine with the character before it. Text is normalized if it holds no unstable character, and no mark of a
lower class than the mark before it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.corpus.blocks import decode
from distembed.corpus.records import Batch

Form = Literal["NFC", "NFKC"]
# Nothing is assigned between the end of plane 3 and the marks (variation selectors) at the start of plane 14.
ASSIGNED = (range(0x33480), range(0xE0100, 0xE01F0))
# Medial vowels and final consonants of Hangul, which join with what is before them by rule.
HANGUL_PARTS = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))


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


@lru_cache(maxsize=2)
def combining_classes(form: Form) -> NDArray[np.uint8]:
    """Return the table of the quick check, uint8 (0x110000,)."""
    table = np.zeros(0x110000, np.uint8)
    for points in ASSIGNED:
        classes = bytes(map(unicodedata.combining, characters_of(points)))
        table[points.start : points.stop] = np.frombuffer(classes, np.uint8)
    for character, decomposition in _decompositions():
        if unicodedata.normalize(form, character) != character:
            table[ord(character)] = UNSTABLE
        parts = decomposition.split()
        if len(parts) == 2 and parts[0][0] != "<":
            first, second = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(first) + chr(second)) == character:
                table[second] = UNSTABLE
    for points in HANGUL_PARTS:
        table[points.start : points.stop] = UNSTABLE
    return table


def characters_of(points: range) -> str:
    """Return the characters of a range of code points, decoded together: `chr` takes as long as all that is asked."""
    return np.arange(points.start, points.stop, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


def _decompositions() -> Iterator[tuple[str, str]]:
    """Yield each character that has a decomposition, with it: no other one changes where it stands alone."""
    for points in ASSIGNED:
        characters = characters_of(points)
        found = zip(characters, map(unicodedata.decomposition, characters), strict=True)
        yield from ((character, decomposition) for character, decomposition in found if decomposition)


def aligned_words(data: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], int]:
    """Return the bytes as 8-byte words from the first aligned address on, and the number of bytes before it."""
    lead = min(-data.ctypes.data % 8, len(data))
    n_words = (len(data) - lead) // 8
    return data[lead : lead + 8 * n_words].view(np.uint64), lead


class Normalizer:
    """Brings batches of text into a normalization form.

    A document that comes in pieces is cut after white space, which combines with nothing.
    """

    def __init__(self, form: Form):
        self.form, self.table = form, combining_classes(form)

    def __call__(self, batch: Batch) -> Batch:
        """Return a batch with its text normalized; text that is already normalized is not copied."""
        words, lead = aligned_words(batch.data)
        spans = changing_spans(batch.data, words, lead, batch.starts, batch.stops, self.table)
        pieces, end = [], 0
        growth = np.zeros(len(batch.starts), np.int64)
        for span in np.flatnonzero(spans):
            start, stop = int(batch.starts[span]), int(batch.stops[span])
            normal = unicodedata.normalize(self.form, batch.data[start:stop].tobytes().decode()).encode()
            pieces += [batch.data[end:start], np.frombuffer(normal, np.uint8)]
            growth[span], end = len(normal) - (stop - start), stop
        if not pieces:
            return batch
        shift = np.cumsum(growth)
        data = np.concatenate([*pieces, batch.data[end:]])
        return batch._replace(data=data, starts=batch.starts + shift - growth, stops=batch.stops + shift)
