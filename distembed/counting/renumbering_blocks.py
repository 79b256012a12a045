"""Renumber the rows and columns of earlier counts, and find the parts of a text that are now read differently."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from distembed.counting.blocks import BORDER, OUTSIDE, Run, Stream, StreamRules, TokenRows, uniform

# None allocates memory. Where one could, each array that is passed on is counted: that took 27 of 32 ns a token.
_jit = numba.njit(cache=True, nogil=True, _nrt=False)


@_jit
def _take_rows(indptr, indices, values, rows, columns, out_indptr, out_indices, out_values):  # type: ignore[no-untyped-def]
    """Copy the entries of some rows whose columns stay; with no room they are only counted."""
    storing, out = len(out_indices) > 0, np.int64(0)
    for place in range(len(rows)):
        out_indptr[place] = out
        if rows[place] < 0:
            continue
        for entry in range(indptr[rows[place]], indptr[rows[place] + 1]):
            column = columns[indices[entry]]
            if column >= 0:
                if storing:
                    out_indices[out] = column
                    out_values[out] = values[entry]
                out += 1
    out_indptr[len(rows)] = out
    return out


def renumber_rows(run: Run, rows: NDArray[np.integer[Any]], columns: NDArray[np.int32]) -> Run:
    """Return the rows of a run in another order, -1 for an empty one, with the new number of each column.

    Entries of columns whose new number is -1 are left out. The entries of a row keep their order, so that their columns
    need not rise.

    Raises
    ------
    ValueError
        If the run is not one, as only a forged file holds: the kernel would read beside its arrays.
    """
    n_entries = int(run.indptr[-1])
    is_run = np.all(np.diff(run.indptr) >= 0) and run.indptr[0] == 0 and n_entries <= len(run.indices)
    if not is_run or (n_entries and not 0 <= run.indices.min() <= run.indices.max() < len(columns)):
        raise ValueError(f"a block of counts has rows or columns that are not there, of {len(columns)} words")
    indptr = np.empty(len(rows) + 1, np.int64)
    nothing = (np.empty(0, np.int32), np.empty(0, run.values.dtype))
    old = (run.indptr, run.indices, run.values)
    n = _take_rows(*old, rows, columns, indptr, *nothing)
    taken = Run(indptr, np.empty(n, np.int32), np.empty(n, run.values.dtype))
    _take_rows(*old, rows, columns, *taken)
    return taken


class Changes:
    """Two streams of one text, read by old and new rules, whose counts differ exactly as those of the whole text do.

    A stream holds what the other reading has not, and the words within a window of that on either side. Pairs of words
    that both readings have are in both streams, and cancel.

    Parameters
    ----------
    old, new : StreamRules
        The two readings, with the same random numbers and the same place for words outside the vocabulary.
    window : int
    position : int
        The tokens of the partition before the first row.
    """

    def __init__(self, old: StreamRules, new: StreamRules, window: int, position: int = 0) -> None:
        self._old, self._new = old, new
        self._before = np.empty(
            (window, 2), np.int32
        )  # words that are near what comes, and their drawn windows
        # Document, tokens so far; the next row of `before` to be filled, how many are, whether words were left out
        # since the last that was taken; how many are still to be taken.
        self._state = np.array([-1, position, 0, 0, 1, 0], np.int64)

    def of(self, rows: TokenRows) -> list[Stream]:
        """Return the next piece of the old stream and of the new one."""
        size = (
            2 * (int(rows.offsets[-1] - rows.offsets[0]) + len(self._before)) + 1
        )  # as many borders at most
        words, ends = np.empty((2, size), np.int32), np.zeros(2, np.int64)
        reach = np.zeros((2, size if self._new.draw else 0), np.int32)
        _changed(*rows, self._old, self._new, self._before, self._state, words, reach, ends)
        document, position = self._state[:2].tolist()
        return [Stream(words[k, :n], reach[k, :n], document, position) for k, n in enumerate(ends)]


@_jit
def _word(rules, ident, position):  # type: ignore[no-untyped-def]
    word = rules.lookup[ident]
    if word != OUTSIDE and len(rules.keep) and uniform(rules.drop_key, position) >= rules.keep[ident]:
        return np.int32(OUTSIDE)
    return word


@_jit
def _put(out, stream, word, limit):  # type: ignore[no-untyped-def]
    words, reach, ends, close = out
    if word == OUTSIDE and close:
        return
    words[stream, ends[stream]] = word
    if reach.shape[1]:
        reach[stream, ends[stream]] = limit
    ends[stream] += 1


@_jit
def _put_both(out, word, limit):  # type: ignore[no-untyped-def]
    _put(out, 0, word, limit)
    _put(out, 1, word, limit)


@_jit
def _changed(documents, offsets, ids, old, new, before, state, words, reach, ends):  # type: ignore[no-untyped-def]
    document, position, slot, n_before, is_apart, n_after = state
    out, window = (words, reach, ends, new.close), len(before)
    for row in range(len(documents)):
        if documents[row] != document:
            document, n_before, is_apart, n_after = documents[row], 0, 1, 0
        for place in range(offsets[row], offsets[row + 1]):
            if ids[place] < 0:
                n_before, is_apart, n_after = 0, 1, 0
                continue
            number = np.uint64(position)
            position += 1
            first, second = _word(old, ids[place], number), _word(new, ids[place], number)
            if first == second and second == OUTSIDE and new.close:
                continue
            limit = 1 + np.int32(uniform(new.draw_key, number) * new.draw) if new.draw else 0
            if first == second and not n_after:
                before[slot, 0], before[slot, 1] = second, limit
                slot = slot + 1 if slot + 1 < window else 0
                is_apart |= n_before == window
                n_before = min(n_before + 1, window)
                continue
            if is_apart:
                _put_both(out, np.int32(BORDER), 0)
            for held in range(slot - n_before, slot):
                _put_both(out, before[held, 0], before[held, 1])
            _put(out, 0, first, limit)
            _put(out, 1, second, limit)
            n_before, is_apart, n_after = 0, 0, n_after - 1 if first == second else window
    state[0], state[1], state[2] = document, position, slot
    state[3], state[4], state[5] = n_before, is_apart, n_after


def select_entries(run: Run, chosen: NDArray[np.bool_]) -> Run:
    """Return the chosen entries of a run."""
    before = np.concatenate([[0], np.cumsum(chosen, dtype=np.int64)])
    return Run(before[run.indptr], run.indices[chosen], run.values[chosen])
