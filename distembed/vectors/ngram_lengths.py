"""The lengths of the n-grams of a word, checked."""

from __future__ import annotations


def check_lengths(min_n: int, max_n: int) -> None:
    """Raise ValueError unless ``1 <= min_n <= max_n``."""
    if not 1 <= min_n <= max_n:
        raise ValueError(f"min_n is {min_n} and max_n is {max_n}: give 1 <= min_n <= max_n, such as 3 and 6")
