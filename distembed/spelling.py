"""What an unknown name was most likely meant to be: the known names that are spelled like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ALIKE = 0.6
"""How alike two names are, from 0 to 1, where one is offered for the other."""

STEM = 4
"""Letters at the beginning that forms of a word share, and the fewest of a word that is part of a compound."""


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str, n: int = 1, alike: float = ALIKE) -> str:
    """Return the end of a sentence on an unknown name: up to `n` that are spelled like it, or another advice."""
    found = difflib.get_close_matches(name, list(known), n=n, cutoff=alike)
    return f"did you mean {' or '.join(found)}?" if found else otherwise


def is_form_of(one: str, other: str) -> bool:
    """Return whether two words begin alike, or one is part of the other, as inflections and compounds.

    Examples
    --------
    >>> from distembed.spelling import is_form_of
    >>> [is_form_of("Tabelle", word) for word in ("tabellen", "Texttabelle", "Spalte")]
    [True, True, False]
    """
    short, long = sorted((one.casefold(), other.casefold()), key=len)
    return len(short) >= STEM and (short in long or short[:STEM] == long[:STEM])
