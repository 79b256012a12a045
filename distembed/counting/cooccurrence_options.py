"""The definition of a co-occurrence: the window, its weights and the row blocks that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from distembed.counting import blocks
from distembed.counting.blocks import Units
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.options import NonNegativeInt, PositiveFloat, PositiveInt, check_options

Direction = Literal["symmetric", "left", "right"]

Positions = Literal["together", "apart"]

DistanceWeighting = Literal["flat", "harmonic", "ramp", "dynamic"]


@dataclass(frozen=True, kw_only=True)
class CooccurrenceOptions:
    """The definition of a co-occurrence, and the memory a task may use; see `count_cooccurrences`.

    Raises
    ------
    ValueError
        If a value is outside its range or is not one of its names.

    Examples
    --------
    >>> from distembed.counting import CooccurrenceOptions
    >>> options = CooccurrenceOptions(window=3, weighting="harmonic")
    >>> options.window, options.direction
    (3, 'symmetric')
    """

    window: PositiveInt = 5
    direction: Direction = "symmetric"
    positions: Positions = "together"
    weighting: DistanceWeighting = "flat"
    draw: NonNegativeInt | None = None
    subsample: PositiveFloat | None = None
    seed: NonNegativeInt = 0
    oov: Literal["keep_position", "remove"] = "keep_position"
    block_memory: int = BLOCK_MEMORY

    def __post_init__(self) -> None:
        check_options(self)
        if self.draw is not None and self.weighting != "dynamic":
            raise ValueError(f'draw needs weighting="dynamic"; weighting is {self.weighting!r}.')
        if self.positions == "apart" and (self.direction, self.weighting) != ("left", "flat"):
            raise ValueError(
                f'positions="apart" needs direction="left" and weighting="flat"; they are {self.direction!r} and '
                f"{self.weighting!r}."
            )
        if self.block_memory < 2**16:
            raise ValueError(f"block_memory is {self.block_memory} bytes; it must be at least 65536.")

    @property
    def units(self) -> Units:
        """Return the weights of the distances as exact integers; a drawn window counts each pair once."""
        return blocks.distance_units(self.window, "flat" if self.draw is not None else self.weighting)

    @property
    def n_positions(self) -> int:
        """Return how many columns each word has: one for each distance, where positions are counted apart."""
        return self.window if self.positions == "apart" else 1


def cooccurrence_row_blocks(
    counts: NDArray[np.int64],
    *,
    window: int,
    direction: Direction = "symmetric",
    positions: Positions = "together",
    n_tokens: int | None = None,
    block_memory: int = BLOCK_MEMORY,
) -> tuple[int, ...]:
    """Return the row boundaries of blocks with about equally many expected non-zeros.

    They depend only on the problem, never on the number of workers.

    Parameters
    ----------
    counts : int64 array (n_words,)
        The number of occurrences of each word.
    window : int
        The largest distance, in words.
    direction : {"left", "right", "symmetric"}
        See `count_cooccurrences`.
    positions : {"together", "apart"}
        See `count_cooccurrences`.
    n_tokens : int, optional
        The number of tokens of the corpus that are in the vocabulary; by default the sum of `counts`.
    block_memory : int
        The bytes a task may use. A block takes about an eighth of them, at 12 bytes per non-zero, because its
        merge also holds the partial counts that it adds.

    Returns
    -------
    tuple of int
        0 = b_0 < b_1 < ... = n_words; block k holds the rows b_k to b_{k+1} - 1.

    Raises
    ------
    ValueError
        If the vocabulary is empty, or the counts have 2**31 columns or more.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.counting import cooccurrence_row_blocks
    >>> counts = np.array([50_000, 20_000, 10_000, 10_000])
    >>> cooccurrence_row_blocks(counts, window=5)
    (0, 4)
    """
    counts = np.asarray(counts, np.int64)
    if len(counts) == 0:
        raise ValueError("The vocabulary is empty; build it with a smaller min_count.")
    sides, n_positions = 2 if direction == "symmetric" else 1, window if positions == "apart" else 1
    if n_positions * len(counts) >= 2**31:
        raise ValueError(
            f"{len(counts):,} words at {n_positions:,} distances apart have {n_positions * len(counts):,} columns, "
            "2**31 or more; use a smaller window or vocabulary."
        )
    # A row has as many entries at each distance.
    n_pairs = float(sides * window * (counts.sum() if n_tokens is None else n_tokens)) / n_positions
    return blocks.balanced_row_blocks(
        counts, n_pairs=n_pairs, entries_per_block=block_memory / 8 / 12 / n_positions
    )


def check_sums(options: CooccurrenceOptions, largest_count: int, what: str) -> int:
    """Return an upper bound of a count, in units of the weights, where no word occurs more often than so many times.

    Each token of the rarer word of a pair meets `window` others on either side, and one at each distance.

    Raises
    ------
    OverflowError
        If the bound does not fit the exact sums; `what` names the count.
    """
    sides = 2 if options.direction == "symmetric" else 1
    weights = options.units.weights
    of_token = weights.max() if options.positions == "apart" else weights.sum()
    return check_bound(sides * int(of_token) * largest_count, what)


def check_bound(bound: int, what: str) -> int:
    """Return an upper bound of a count; raise OverflowError if it does not fit the exact sums."""
    if bound >= 2**63:
        raise OverflowError(
            f'{what} could reach {bound} units, above 2**63; use weighting="flat" or a smaller window.'
        )
    return bound
