"""Unicode normalization of text in batches, and the quick check of Unicode Standard Annex 15 of what is normalized.

A table gives each code point its canonical combining class, or UNSTABLE if the character may not occur in normalized
text or may combine with the character before it. Text is normalized if it holds no unstable character, and no mark of a
lower class than the mark before it.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.corpus.blocks import decode
from distembed.corpus.records import Batch

Form = Literal["nfc", "nfkc", "none"]
# Nothing is assigned between the end of plane 3 and the marks (variation selectors) at the start of plane 14.
ASSIGNED = (range(0x33480), range(0xE0100, 0xE01F0))
# Medial vowels and final consonants of Hangul, which join with what is before them by rule.
HANGUL_PARTS = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))


UNSTABLE = 255
# Bytes that are looked at together.
STEP = 64


@njit(cache=True, nogil=True)
def changing_spans(
    data: np.ndarray, words: np.ndarray, lead: int, starts: np.ndarray, stops: np.ndarray, table: np.ndarray
) -> np.ndarray:
    """Return which spans of text fail the quick check, bool (n,).

    `words` (uint64) views the bytes eight at a time from ``data[lead]`` on, as far as they are whole.
    """
    found = np.zeros(len(starts), np.bool_)
    for span in range(len(starts)):
        i, stop, last = starts[span], stops[span], 0
        while i < stop:
            if data[i] < 0x80:
                i, last = i + 1, 0
                # Nearly all text is ASCII in long runs.
                while (i - lead) & 7 == 0 and i >= lead and i + STEP <= stop:
                    some = words[(i - lead) >> 3]
                    for step in range(1, STEP >> 3):
                        some |= words[((i - lead) >> 3) + step]
                    if some & np.uint64(0x8080808080808080):
                        break
                    i += STEP
                continue
            point, width = decode(data, i)
            combining = int(table[point])
            if combining == UNSTABLE or 0 < combining < last:
                found[span] = True
                break
            i, last = i + width, combining
    return found


@lru_cache(maxsize=2)
def combining_classes(form: Form) -> NDArray[np.uint8]:
    """Return the table of the quick check, uint8 (0x110000,)."""
    name: Any = form.upper()
    table = np.zeros(0x110000, np.uint8)
    for points in ASSIGNED:
        characters = characters_of(points)
        classes = bytes(map(unicodedata.combining, characters))
        table[points.start : points.stop] = np.frombuffer(classes, np.uint8)
        # No other character changes where it stands alone.
        decompositions = zip(characters, map(unicodedata.decomposition, characters), strict=True)
        for character, decomposition in filter(itemgetter(1), decompositions):
            if unicodedata.normalize(name, character) != character:
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


def normalized(batch: Batch, form: Form) -> Batch:
    """Return a batch with its text in a normalization form; text that is normalized already is not copied.

    A document that comes in pieces is cut after white space, which combines with nothing.
    """
    if form == "none":
        return batch
    data, starts, stops, *_ = batch
    data = data.view()
    data.flags.writeable = False  # the kernel is compiled once, and not for a writable array as well
    # From the first aligned address on.
    lead = min(-data.ctypes.data % 8, len(data))
    words = data[lead : len(data) - (len(data) - lead) % 8].view(np.uint64)
    spans = changing_spans(data, words, lead, starts, stops, combining_classes(form))
    name: Any = form.upper()
    pieces, end, growth = list[NDArray[np.uint8]](), 0, np.zeros(len(starts), np.int64)
    for span in np.flatnonzero(spans):
        start, stop = int(starts[span]), int(stops[span])
        normal = unicodedata.normalize(name, data[start:stop].tobytes().decode()).encode()
        pieces += [data[end:start], np.frombuffer(normal, np.uint8)]
        growth[span], end = len(normal) - (stop - start), stop
    if not pieces:
        return batch
    shift = np.cumsum(growth)
    data = np.concatenate([*pieces, data[end:]])
    return batch._replace(data=data, starts=starts + shift - growth, stops=stops + shift)
