"""What counts as a co-occurrence: the options of counting, checked before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.options import NonNegativeInt, PositiveFloat, PositiveInt, check_options

if TYPE_CHECKING:
    from distembed.counting.blocks import Units

Direction = Literal["symmetric", "left", "right"]
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
        if self.block_memory < 2**16:
            raise ValueError(f"block_memory is {self.block_memory} bytes; it must be at least 65536.")

    @property
    def units(self) -> Units:
        """Return the weights of the distances as exact integers; a drawn window counts each pair once."""
        from distembed.counting import blocks  # noqa: PLC0415 - numba; a job file is checked without it

        return blocks.distance_units(self.window, "flat" if self.draw is not None else self.weighting)


def check_sums(options: CooccurrenceOptions, largest_count: int, what: str) -> int:
    """Return an upper bound of a count, in units of the weights, where no word occurs more often than so many times.

    Each token of the rarer word of a pair meets `window` others on either side.

    Raises
    ------
    OverflowError
        If the bound does not fit the exact sums; `what` names the count.
    """
    sides = 2 if options.direction == "symmetric" else 1
    return checked_sum(sides * int(options.units.weights.sum()) * largest_count, what)


def checked_sum(bound: int, what: str) -> int:
    """Return the upper bound of a sum, or raise OverflowError where it does not fit 64 bits; `what` names the sum."""
    if bound >= 2**63:
        raise OverflowError(
            f'{what} could reach {bound} units, above 2**63; use weighting="flat" or a smaller window.'
        )
    return bound
