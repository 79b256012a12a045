"""Earlier counts in another numbering: rows and columns renumbered, and the pairs of words that are new."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from distembed.counting.blocks import BORDER, OUTSIDE, Run

_jit = numba.njit(cache=True, nogil=True)


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


@_jit
def _near(words, gained, window, left):  # type: ignore[no-untyped-def]
    done, n_left = 0, 0
    for place in range(len(words)):
        word = words[place]
        if word >= 0 and gained[word]:
            last = min(place + window + 1, len(words))
            for beside in range(max(place - window, done), last):
                left[beside] = words[beside]
            n_left += last - max(place - window, done)
            done = last
        elif place >= done:
            left[place] = BORDER if word == BORDER else OUTSIDE
    return n_left


def near_gained(words: NDArray[np.int32], gained: NDArray[np.bool_], window: int) -> NDArray[np.int32] | None:
    """Return a stream in which only words within a window of a word that is new are left, and borders; None if none is.

    A word outside the vocabulary, or a border, within a window of a new word stays what it is, too.
    """
    left = np.empty_like(words)
    return left if _near(words, gained, window, left) else None


def select_pairs(run: Run, gained: NDArray[np.bool_]) -> Run:
    """Return the entries of a run of all rows of whose two words one at least is new."""
    rows = np.repeat(gained, np.diff(run.indptr))
    chosen = rows | gained[run.indices]
    return select_entries(run, chosen)


def select_entries(run: Run, chosen: NDArray[np.bool_]) -> Run:
    """Return the chosen entries of a run."""
    before = np.concatenate([[0], np.cumsum(chosen, dtype=np.int64)])
    return Run(before[run.indptr], run.indices[chosen], run.values[chosen])
