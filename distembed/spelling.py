"""What an unknown name was most likely meant to be: the known names that are spelled like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ALIKE = 0.6
"""How alike two names are, from 0 to 1, where one is offered for the other."""


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str, n: int = 1, alike: float = ALIKE) -> str:
    """Return the end of a sentence on an unknown name: up to `n` that are spelled like it, or another advice."""
    found = difflib.get_close_matches(name, list(known), n=n, cutoff=alike)
    return f"did you mean {' or '.join(found)}?" if found else otherwise
