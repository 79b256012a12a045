"""What an unknown name was most likely meant to be: the known names that are spelled like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

ALIKE = 0.6
"""How alike two names are, from 0 to 1, where one is offered for the other."""


def spelled_like(name: str, known: Iterable[str], *, n: int = 1, alike: float = ALIKE) -> list[str]:
    """Return up to `n` known names that are spelled like a name, the most similar first."""
    return difflib.get_close_matches(name, list(known), n=n, cutoff=alike)


def did_you_mean(found: Sequence[str], *, otherwise: str) -> str:
    """Return the end of a sentence on an unknown name: what may have been meant, or else another advice."""
    return f"did you mean {' or '.join(found)}?" if found else otherwise
