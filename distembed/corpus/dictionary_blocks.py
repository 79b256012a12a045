"""A compiled hash table of words with open addressing, in arrays: slots of key and id, and an arena of bytes.

- A word of at most 8 bytes is its own key: its bytes as one little-endian integer, never zero in the low
  byte.
- The key of a longer word is a hash whose low byte is zero; the word is compared with its bytes in the arena.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def key_of(words: np.ndarray, length: int) -> np.uint64:
    """Return the table key of a word of `length` bytes: itself, or a hash whose low byte is zero."""
    if length <= 8:
        return words[0]
    h = np.uint64(length)
    for k in range((length + 7) >> 3):
        h = (h ^ words[k]) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    return (h << np.uint64(8)) | np.uint64(0)


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def first_slot(key: np.uint64, mask: int) -> np.int64:
    """Return the slot at which the search for `key` begins."""
    h = key * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64((h >> np.uint64(32)) & np.uint64(mask))


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def same_word(words: np.ndarray, length: int, arena: np.ndarray, start: int, other_length: int) -> bool:
    """Return whether the long word in `words` equals the one in the arena."""
    if length != other_length:
        return False
    for k in range((length + 7) >> 3):  # noqa: SIM110 - compiled
        if words[k] != arena[start + k]:
            return False
    return True


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def find_slot(
    key: np.uint64,
    words: np.ndarray,
    length: int,
    slots: np.ndarray,
    arena: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
) -> np.int64:
    """Return the slot that holds the word, or the empty slot where it belongs."""
    mask = len(slots) - 1
    slot = first_slot(key, mask)
    while slots[slot, 1] != 0:
        if slots[slot, 0] == key:
            if length <= 8:
                return slot
            other = np.int64(slots[slot, 1]) - 1
            if same_word(words, length, arena, starts[other], lengths[other]):
                return slot
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True, _nrt=False)
def fill_slots(
    slots: np.ndarray, arena: np.ndarray, starts: np.ndarray, lengths: np.ndarray, n_words: int
) -> None:
    """Enter the first `n_words` words into an empty table, in the order of their ids."""
    for word in range(n_words):
        units = arena[starts[word] : starts[word + 1]]
        key = key_of(units, lengths[word])
        slot = find_slot(key, units, lengths[word], slots, arena, starts, lengths)
        slots[slot, 0] = key
        slots[slot, 1] = word + 1


@njit(cache=True, nogil=True, _nrt=False)
def tally(
    ids: np.ndarray, stops: np.ndarray, documents: np.ndarray, stats: np.ndarray, n_tokens: np.ndarray
) -> None:
    """Count the tokens and the documents of each word, and the tokens of each document.

    Parameters
    ----------
    ids : int32 array
        Ids of words; negative ones are no tokens.
    stops, documents : int64 array (n,)
        The end of the ids of each document, and its number.
    stats : int64 array (n_words, 3)
        The tokens, the documents and the last document of each word, which are added to.
    n_tokens : int64 array (n,)
        Output: the tokens of each document.
    """
    begin = 0
    for row in range(len(stops)):
        n, document = 0, documents[row]
        for k in range(begin, stops[row]):
            word = ids[k]
            if word >= 0:
                n += 1
                stats[word, 0] += 1
                if stats[word, 2] != document:
                    stats[word, 2] = document
                    stats[word, 1] += 1
        begin = stops[row]
        n_tokens[row] = n


@njit(cache=True, nogil=True)
def word_hashes(data: np.ndarray, bounds: np.ndarray, seed: int) -> np.ndarray:
    """Return the FNV-1a hash of the bytes of each word, mixed, uint64 (n,).

    Parameters
    ----------
    data : uint8 array
        The bytes of the words.
    bounds : int32 array (n + 1,)
        The offset at which each word begins, and the end of the last.
    seed : int
        A number mixed into the hash: the hashes of two seeds are independent.
    """
    hashes = np.empty(len(bounds) - 1, np.uint64)
    for word in range(len(hashes)):
        h = np.uint64(0xCBF29CE484222325)
        for k in range(bounds[word], bounds[word + 1]):
            h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
        # FNV alone would deal the words of one bucket into few others, whatever the seed.
        h ^= np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        for _ in range(2):
            h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        hashes[word] = h
    return hashes
