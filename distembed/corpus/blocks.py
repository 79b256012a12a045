"""Compiled scanner of UTF-8 bytes: text to the token ids of a partition.

The scanner passes once over the bytes, creates no Python object and can be resumed: everything it knows is in the
arrays of `ScanState`, so that it stops where its table has to grow, and goes on with a larger one. It keeps a table of
the words seen so far, whose ids count up in order of first appearance: a hash table with open addressing, in
arrays. A word of at most 8 bytes is its own key: its bytes as one little-endian integer, never zero in the low byte.
The key of a longer word is a hash whose low byte is zero; the word is compared with its bytes in the arena.

Letters: ``v`` is the entry of a character in the class table (flags, and its lower-case code point in the low
21 bits).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

# Flags of a character, above the 21 bits of its lower-case code point.
POINT = 0x1FFFFF
WORD = 1 << 21  # belongs to a token
EXTEND = 1 << 22  # belongs to the token before it, begins none (combining marks)
APOSTROPHE = 1 << 23  # belongs to a token between two of its characters
NEWLINE = 1 << 24
SPACE = 1 << 25
STOP = 1 << 26  # ends a sentence when white space follows
HARD_STOP = 1 << 27  # ends a sentence in any case (ideographic full stop)
CLOSER = 1 << 28  # quotation marks and brackets between a full stop and its white space
LOWER = 1 << 29  # a lower-case letter: no sentence begins with it
IGNORED = 1 << 30  # neither part of a word nor a border of one (soft hyphens, direction marks)
MIDDLE = 1 << 31  # belongs to a token between two letters, in any text (the middle dot of Catalan)

MAX_TOKEN_BYTES = 1024
TOKEN_WORDS = MAX_TOKEN_BYTES // 8 + 2
CHUNK = 1 << 13
"""Bytes of text before which the table grows, if need be: no words of theirs take more entries, or units."""

# Fields of the state array.
SPAN, POSITION, LENGTH, HELD, SENTENCE, SEGMENT_TOKENS, DOCUMENT_TOKENS = range(7)
N_WORDS, N_IDS, N_LONG_TOKENS, LAST_LENGTH, LAST_LETTER, N_FIELDS = range(7, 13)

# border=, as a number
BORDER_DOCUMENT, BORDER_LINE, BORDER_SENTENCE = range(3)


class ScanState(NamedTuple):
    """What a scanner knows."""

    fields: np.ndarray
    """The counters named above. Int64 array (N_FIELDS,)."""
    token: np.ndarray
    """The bytes of the unfinished token. Uint64 array (TOKEN_WORDS,)."""
    slots: np.ndarray
    """The key and id + 1 of each table entry; id 0 marks an empty slot. Uint64 array (2**k, 2)."""
    arena: np.ndarray
    """The bytes of the words, each padded to whole 8-byte units. Uint64 array."""
    starts: np.ndarray
    """The first arena unit of each word. Int64 array (limit + 1,)."""
    lengths: np.ndarray
    """The number of bytes of each word. Int32 array (limit,)."""


def new_state(*, capacity: int = 1 << 15) -> ScanState:
    """Return the state of a scanner that has seen nothing, with room for `capacity` words."""
    return ScanState(
        fields=np.zeros(N_FIELDS, np.int64),
        token=np.zeros(TOKEN_WORDS, np.uint64),
        slots=np.zeros((2 * capacity, 2), np.uint64),
        arena=np.zeros(2 * capacity + TOKEN_WORDS, np.uint64),
        starts=np.zeros(capacity + 1, np.int64),
        lengths=np.zeros(capacity, np.int32),
    )


def grow_state(state: ScanState) -> ScanState:
    """Return the same state with room for twice as many words."""
    capacity = 2 * len(state.lengths)
    bigger = new_state(capacity=capacity)
    n_words = int(state.fields[N_WORDS])
    used = int(state.starts[n_words])
    arena = np.zeros(max(len(bigger.arena), 2 * used + TOKEN_WORDS), np.uint64)
    arena[:used] = state.arena[:used]
    bigger.starts[: n_words + 1] = state.starts[: n_words + 1]
    bigger.lengths[:n_words] = state.lengths[:n_words]
    grown = bigger._replace(fields=state.fields, token=state.token, arena=arena)
    fill_slots(grown, n_words)
    return grown


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
def find_slot(state: ScanState, key: np.uint64, words: np.ndarray, length: int) -> np.int64:
    """Return the slot that holds the word, or the empty slot where it belongs."""
    slots, starts = state.slots, state.starts
    mask = len(slots) - 1
    slot = first_slot(key, mask)
    while slots[slot, 1] != 0:
        if slots[slot, 0] == key:
            if length <= 8:
                return slot
            other = np.int64(slots[slot, 1]) - 1
            n_units = (length + 7) >> 3 if length == state.lengths[other] else 0
            k = 0
            while k < n_units and words[k] == state.arena[starts[other] + k]:
                k += 1
            if 0 < k == n_units:
                return slot
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True, _nrt=False)
def fill_slots(state: ScanState, n_words: int) -> None:
    """Enter the first `n_words` words into an empty table, in the order of their ids."""
    for word in range(n_words):
        units = state.arena[state.starts[word] : state.starts[word + 1]]
        key = key_of(units, state.lengths[word])
        slot = find_slot(state, key, units, state.lengths[word])
        state.slots[slot, 0] = key
        state.slots[slot, 1] = word + 1


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def identify(state: ScanState, token: np.ndarray, length: int) -> np.int64:
    """Return the id of a token, adding a new word to the table, which has room."""
    f, key = state.fields, key_of(token, length)
    slot = find_slot(state, key, token, length)
    if state.slots[slot, 1] != 0:
        return np.int64(state.slots[slot, 1]) - 1
    word, n_units = f[N_WORDS], (length + 7) >> 3
    start = state.starts[word]
    for k in range(n_units):
        state.arena[start + k] = token[k]
    state.starts[word + 1] = start + n_units
    state.lengths[word] = length
    state.slots[slot, 0] = key
    state.slots[slot, 1] = word + 1
    f[N_WORDS] = word + 1
    return word


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def end_token(state: ScanState, ids: np.ndarray) -> None:
    """Finish the current token, if any; the first id of a segment but that of the document comes after a border."""
    f = state.fields
    length = f[LENGTH]
    if length > MAX_TOKEN_BYTES:
        f[N_LONG_TOKENS] += 1
    elif length > 0:
        if f[SEGMENT_TOKENS] == 0 and f[DOCUMENT_TOKENS] > 0:
            ids[f[N_IDS]] = -1
            f[N_IDS] += 1
        ids[f[N_IDS]] = identify(state, state.token, length)
        f[N_IDS] += 1
        f[SEGMENT_TOKENS] += 1
        f[DOCUMENT_TOKENS] += 1
    for k in range((min(length, MAX_TOKEN_BYTES) + 7) >> 3):
        state.token[k] = 0
    f[LENGTH] = f[HELD] = f[LAST_LETTER] = 0


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def push_byte(state: ScanState, byte: int) -> None:
    """Append one byte to the current token; beyond the maximum length only the length is counted."""
    f = state.fields
    length = f[LENGTH]
    if length < MAX_TOKEN_BYTES:
        state.token[length >> 3] |= np.uint64(byte) << np.uint64((length & 7) << 3)
    f[LENGTH] = length + 1


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def push_point(state: ScanState, point: int) -> None:
    """Append one code point to the current token, as UTF-8."""
    if point < 0x80:
        push_byte(state, point)
        return
    if point < 0x800:
        push_byte(state, 0xC0 | (point >> 6))
    else:
        if point < 0x10000:
            push_byte(state, 0xE0 | (point >> 12))
        else:
            push_byte(state, 0xF0 | (point >> 18))
            push_byte(state, 0x80 | ((point >> 12) & 0x3F))
        push_byte(state, 0x80 | ((point >> 6) & 0x3F))
    push_byte(state, 0x80 | (point & 0x3F))


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def decode(data: np.ndarray, i: int) -> tuple[np.int64, int]:
    """Return the code point that begins at `i`, which is not ASCII, and its width in bytes."""
    lead = np.int64(data[i])
    if lead < 0xE0:
        width, point = 2, lead & 0x1F
    elif lead < 0xF0:
        width, point = 3, lead & 0x0F
    else:
        width, point = 4, lead & 0x07
    for k in range(1, width):
        point = (point << 6) | (np.int64(data[i + k]) & 0x3F)
    return point, width


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def take_letters(state: ScanState, data: np.ndarray, i: int, stop: int, table: np.ndarray) -> int:
    """Append the run of ASCII word characters at `i` to the token; return where the run ends.

    This loop reads nearly every byte of English text: eight bytes are collected in a register before they are
    stored.
    """
    length = state.fields[LENGTH]
    key = state.token[min(length, MAX_TOKEN_BYTES) >> 3]
    while i < stop and data[i] < 0x80:
        v = table[data[i]]
        if v & WORD == 0:
            break
        if length < MAX_TOKEN_BYTES:
            key |= np.uint64(v & 0x7F) << np.uint64((length & 7) << 3)
            if length & 7 == 7:
                state.token[length >> 3] = key
                key = np.uint64(0)
        length += 1
        i += 1
    if length < MAX_TOKEN_BYTES:
        state.token[length >> 3] = key
    state.fields[LENGTH] = length
    state.fields[LAST_LETTER] = 0
    return i


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def is_hebrew(point: int) -> bool:
    """Return whether a letter is Hebrew."""
    return 0x05D0 <= point <= 0x05F2 or 0xFB1D <= point <= 0xFB4F


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def hold(fields: np.ndarray, v: int) -> bool:
    """Hold back a character that belongs to the token if a letter follows; return False if it never does.

    HELD is its code point, negative where the letter must be Hebrew (quotation marks between two Hebrew
    letters).
    """
    if fields[LENGTH] == 0 or fields[HELD] != 0:
        return False
    point = v & POINT
    if v & (APOSTROPHE | MIDDLE):
        fields[HELD] = point
    elif point in (0x22, 0x27) and is_hebrew(fields[LAST_LETTER]):
        fields[HELD] = -point
    return fields[HELD] != 0


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def note_punctuation(fields: np.ndarray, v: int) -> None:
    """Update the sentence state: 1 after a full stop, 2 after white space following it, 3 after a hard stop.

    A full stop after a single letter is an initial ("J. Smith") and does not end a sentence.
    """
    if v & HARD_STOP:
        fields[SENTENCE] = 3
    elif v & STOP and fields[SENTENCE] < 2:
        initial = fields[LAST_LENGTH] == 1 and v & POINT == 0x2E
        fields[SENTENCE] = 0 if initial else 1
    elif v & SPACE:
        if fields[SENTENCE] == 1:
            fields[SENTENCE] = 2
    elif v & CLOSER == 0 and fields[SENTENCE] == 1:
        fields[SENTENCE] = 0
    fields[LAST_LENGTH] = 0


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def separate(state: ScanState, v: int, border: int, ids: np.ndarray) -> None:
    """End the token before a character that is not part of a word, and the segment if the border requires it."""
    f = state.fields
    if hold(f, v):
        return
    length = f[LENGTH]
    lead = np.int64(state.token[0] & np.uint64(0xFF))
    is_letter = length == 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    end_token(state, ids)
    if border == BORDER_DOCUMENT:
        return
    if length > 0:
        f[LAST_LENGTH] = 1 if is_letter else length
    if v & NEWLINE:
        f[SEGMENT_TOKENS] = f[SENTENCE] = 0
    elif border == BORDER_SENTENCE:
        note_punctuation(f, v)


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def begin_character(state: ScanState, v: int, ids: np.ndarray) -> None:
    """Prepare for a word character: end the sentence before it, or add the held character to the token."""
    f = state.fields
    if f[SENTENCE] != 0:
        if f[SENTENCE] == 3 or (f[SENTENCE] == 2 and v & LOWER == 0):
            f[SEGMENT_TOKENS] = 0
        f[SENTENCE] = 0
    held = f[HELD]
    if held < 0 and not is_hebrew(v & POINT):
        end_token(state, ids)
    elif held != 0:
        push_point(state, abs(held))
        f[HELD] = 0


@njit(cache=True, nogil=True, _nrt=False)
def take_known_words(
    state: ScanState, data: np.ndarray, i: int, stop: int, table: np.ndarray, special: int, ids: np.ndarray
) -> int:
    """Process the words at `i` while they are the common case; return where the first other word begins.

    The common case is an ASCII word of at most 8 bytes that is in the table already, followed by a character
    that only separates. Everything stays in registers; the result is that of the general path.
    """
    f, slots = state.fields, state.slots
    mask, first_id = len(slots) - 1, f[N_IDS]
    n_ids = first_id
    while i < stop:
        key, k, v = np.uint64(0), i, np.int64(WORD)
        while k < stop and k - i <= 8 and data[k] < 0x80:
            v = np.int64(table[data[k]])
            if v & WORD == 0:
                break
            key |= np.uint64(v & 0x7F) << np.uint64((k - i) << 3)
            k += 1
        if v & (WORD | special):
            break
        if k > i:
            slot = first_slot(key, mask)
            while slots[slot, 1] != 0 and slots[slot, 0] != key:
                slot = (slot + 1) & mask
            if slots[slot, 1] == 0:
                break
            ids[n_ids] = np.int64(slots[slot, 1]) - 1
            n_ids += 1
        i = k + 1
    f[N_IDS] = n_ids
    f[DOCUMENT_TOKENS] += n_ids - first_id
    f[SEGMENT_TOKENS] += n_ids - first_id
    return i


@njit(cache=True, nogil=True, _nrt=False)
def scan_span(
    state: ScanState, data: np.ndarray, i: int, stop: int, table: np.ndarray, border: int, ids: np.ndarray
) -> int:
    """Scan the characters that begin in `data[i:stop]`; return the end of the last."""
    f = state.fields
    special = APOSTROPHE | (NEWLINE if border == BORDER_LINE else 0)
    while i < stop:
        if border != BORDER_SENTENCE and f[LENGTH] == 0 and f[SEGMENT_TOKENS] > 0:
            i = take_known_words(state, data, i, stop, table, special, ids)
            if i == stop:
                break
        width, v = 1, np.int64(0)
        if data[i] < 0x80:
            v = np.int64(table[data[i]])
        else:
            point, width = decode(data, i)
            v = np.int64(table[point])
        if v & WORD or (v & EXTEND and f[LENGTH] > 0 and f[HELD] == 0):
            if f[SENTENCE] | f[HELD] != 0:
                begin_character(state, v, ids)
            if data[i] < 0x80:
                i = take_letters(state, data, i, stop, table)
                continue
            push_point(state, v & POINT)
            if v & WORD:  # after a mark, the letter before it is still the last letter
                f[LAST_LETTER] = v & POINT
        elif v & IGNORED == 0:
            separate(state, v, border, ids)
        i += width
    return i


@njit(cache=True, nogil=True, _nrt=False)
def has_room(state: ScanState) -> bool:
    """Return whether the table has room for the words of the next `CHUNK` bytes, and for one that has begun."""
    n_words = state.fields[N_WORDS]
    n_free = min(len(state.lengths) - n_words, len(state.arena) - TOKEN_WORDS - state.starts[n_words])
    return n_free > CHUNK


@njit(cache=True, nogil=True, _nrt=False)
def scan(
    state: ScanState,
    data: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    table: np.ndarray,
    border: int,
    ids: np.ndarray,
    id_stops: np.ndarray,
) -> bool:
    """Scan spans of UTF-8 text, each a document.

    Parameters
    ----------
    state : ScanState
        The state of the scanner, changed in place.
    data : uint8 array
        The text.
    starts, stops : int64 array (n,)
        The spans.
    table : uint32 array (0x110000,)
        The class table.
    border : int
        What a window never crosses: BORDER_DOCUMENT, BORDER_LINE or BORDER_SENTENCE.
    ids : int32 array
        Output of at least ``data.size + 2`` entries: ids, and -1 at borders inside a document.
    id_stops : int64 array (n,)
        Output: for each document the end of its ids.

    Returns
    -------
    bool
        Whether all is scanned; otherwise call again with a grown state, which goes on at the same place.
    """
    f = state.fields
    for span in range(f[SPAN], len(starts)):
        i, stop = max(f[POSITION], starts[span]), stops[span]
        while i < stop:
            if not has_room(state):
                f[SPAN], f[POSITION] = span, i
                return False
            i = scan_span(state, data, i, min(i + CHUNK, stop), table, border, ids)
        end_token(state, ids)
        f[SEGMENT_TOKENS] = f[SENTENCE] = f[DOCUMENT_TOKENS] = 0
        id_stops[span] = f[N_IDS]
    return True
