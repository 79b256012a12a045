"""Compiled search for the rows of CSV, of which pyarrow parses the good ones.

By itself it takes all of a file after an open quote for one row, and a carriage return for the end of a row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LINE_FEED, RETURN, QUOTE = 10, 13, 34


@njit(cache=True, nogil=True, _nrt=False)
def find_rows(  # noqa: C901 - one loop over the bytes
    data: np.ndarray, delimiter: int, has_quotes: bool, starts: np.ndarray, n_fields: np.ndarray
) -> tuple[int, int, int, bool]:
    """Find the rows of a table that are not empty.

    Parameters
    ----------
    data : uint8 array
        The text from the beginning of a row on.
    delimiter : int
        The byte between fields.
    has_quotes : bool
        Whether quotes enclose fields.
    starts, n_fields : int64 array
        Output, as long as the text has lines: where each row begins, and how many fields it has; 0 where it is no row,
        because something follows the quote that closes a field, or a carriage return stands alone.

    Returns
    -------
    n_rows, stop, opened : int
        The number of whole rows, where the last of them ends, and the quote that is open where the text ends, or -1.
    is_lost : bool
        Whether that quote is not closed, however the text goes on: what closes it was to open another, on another line.
    """
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
