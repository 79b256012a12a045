"""The definition of a co-occurrence: the window, its weights and the row blocks that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from distembed.counting import blocks
from distembed.counting.blocks import Units
from distembed.options import NonNegativeInt, PositiveFloat, PositiveInt, check_options
from distembed.states import block_memory

Direction = Literal["symmetric", "left", "right"]

DistanceWeighting = Literal["flat", "harmonic", "ramp", "dynamic"]


@dataclass(frozen=True, kw_only=True)
class CooccurrenceOptions:
    """The definition of a co-occurrence; see `count_cooccurrences`.

    Raises
    ------
    ValueError
        If a value is outside its range or is not one of its names.

    Examples
    --------
    >>> from distembed.counting.cooccurrence_options import CooccurrenceOptions
    >>> options = CooccurrenceOptions(window=3, weighting="harmonic")
    >>> options.window, options.direction
    (3, 'symmetric')
    """

    window: PositiveInt = 5
    direction: Direction = "symmetric"
    weighting: DistanceWeighting = "flat"
    subsample: PositiveFloat | None = None
    seed: NonNegativeInt = 0
    oov: Literal["keep_position", "remove"] = "keep_position"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def units(self) -> Units:
        """Return the weights of the distances as exact integers."""
        return blocks.distance_units(self.window, self.weighting)


def cooccurrence_row_blocks(
    counts: NDArray[np.int64],
    *,
    window: int,
    direction: Direction = "symmetric",
    n_tokens: int | None = None,
) -> tuple[int, ...]:
    """Return the row boundaries of blocks with about equally many expected non-zeros.

    They depend only on the problem and on the memory of a task, never on the number of workers. A block takes about an
    eighth of `distembed.block_memory`, at 12 bytes per non-zero, because its merge also holds the partial counts that
    it adds.

    Parameters
    ----------
    counts : int64 array (n_words,)
        The number of occurrences of each word.
    window : int
        The largest distance, in words.
    direction : {"left", "right", "symmetric"}
        See `count_cooccurrences`.
    n_tokens : int, optional
        The number of tokens of the corpus that are in the vocabulary; by default the sum of `counts`.

    Returns
    -------
    tuple of int
        0 = b_0 < b_1 < ... = n_words; block k holds the rows b_k to b_{k+1} - 1.

    Raises
    ------
    ValueError
        If the vocabulary is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.counting.cooccurrence_options import cooccurrence_row_blocks
    >>> counts = np.array([50_000, 20_000, 10_000, 10_000])
    >>> cooccurrence_row_blocks(counts, window=5)
    (0, 4)
    """
    counts = np.asarray(counts, np.int64)
    if len(counts) == 0:
        raise ValueError("The vocabulary is empty; build it with a smaller min_count.")
    sides = 2 if direction == "symmetric" else 1
    n_pairs = float(sides * window * (counts.sum() if n_tokens is None else n_tokens))
    return blocks.balanced_row_blocks(counts, n_pairs=n_pairs, entries_per_block=block_memory() / 8 / 12)


def check_sums(options: CooccurrenceOptions, largest_count: int, what: str) -> int:
    """Return an upper bound of a count, in units of the weights, where no word occurs more often than so many times.

    Each token of the rarer word of a pair meets `window` others on either side, and one at each distance.

    Raises
    ------
    OverflowError
        If the bound does not fit the exact sums; `what` names the count.
    """
    sides = 2 if options.direction == "symmetric" else 1
    return check_bound(sides * int(options.units.weights.sum()) * largest_count, what)


def check_bound(bound: int, what: str) -> int:
    """Return an upper bound of a count; raise OverflowError if it does not fit the exact sums."""
    if bound >= 2**63:
        raise OverflowError(
            f'{what} could reach {bound} units, above 2**63; use weighting="flat" or a smaller window.'
        )
    return bound
