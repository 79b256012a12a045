"""Compiled search for the rows of CSV, of which pyarrow parses the good ones.

By itself it takes all of a file after an open quote for one row, and a carriage return for the end of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from distembed.dtypes import Int64s

LINE_FEED, RETURN, QUOTE = 10, 13, 34


class Rows(NamedTuple):
    """The rows of delimited text that are not empty.

    Attributes
    ----------
    starts : int64 (n,), where each begins
    n_fields : int64 (n,), how many fields it has; 0 where it is no row, because something follows the quote that closes
        a field, or a carriage return stands alone
    stop : where the last row ends
    opened : the quote that is open where the text ends, or -1
    is_lost : whether that quote is not closed, however the text goes on: what closes it was to open another, on another
        line
    """

    starts: Int64s
    n_fields: Int64s
    stop: int
    opened: int
    is_lost: bool


def find_rows(data: bytes | memoryview, delimiter: str, *, has_quotes: bool = True) -> Rows:
    """Return the whole rows of a text that begins with one; a row ends with a line feed.

    `has_quotes` says whether quotes enclose fields.
    """
    array = np.frombuffer(data, np.uint8)
    starts, n_fields = np.empty((2, np.count_nonzero(array == LINE_FEED)), np.int64)
    n_rows, *rest = _find_rows(array, ord(delimiter), has_quotes, starts, n_fields)
    return Rows(starts[:n_rows], n_fields[:n_rows], *rest)


@njit(cache=True, nogil=True, _nrt=False)
def _find_rows(
    data: np.ndarray, delimiter: int, has_quotes: bool, starts: np.ndarray, n_fields: np.ndarray
) -> tuple[int, int, int, bool]:
    """Fill in where each row begins and its fields; return the number of rows, and the rest of `Rows`."""
    n_rows, stop, opened, n, wrong, is_long = 0, 0, -1, 1, False, False
    i = 0
    while i < len(data):
        byte = data[i]
        after = data[i + 1] if i + 1 < len(data) else np.uint8(LINE_FEED)
        if opened >= 0:
            if byte == QUOTE and after == QUOTE:
                i += 1
            elif byte == QUOTE:
                is_stray = after not in (delimiter, LINE_FEED, RETURN)
                if is_stray and is_long:
                    return n_rows, stop, opened, True
                opened, wrong = -1, wrong or is_stray
            elif byte == LINE_FEED:
                is_long = True
        elif byte == LINE_FEED:
            if i > stop + 1 or (i == stop + 1 and data[stop] != RETURN):
                starts[n_rows] = stop
                n_fields[n_rows] = 0 if wrong else n
                n_rows += 1
            stop, n, wrong = i + 1, 1, False
        elif byte == delimiter:
            n += 1
        elif byte == RETURN:
            wrong |= after != LINE_FEED
        elif byte == QUOTE and has_quotes and (i == stop or data[i - 1] == delimiter):
            opened, is_long = i, False
        i += 1
    return n_rows, stop, opened, False
