"""Names that a job does not know, refused with those that are spelt like them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from distembed.spelling import did_you_mean, spelled_like

COMPARED = 20_000
"""Names, at most, that an unknown one is compared with: a tenth of a second."""


def refuse_unknown(what: str, name: str, names: Sequence[str]) -> NoReturn:
    """Raise KeyError for a name that is not there, with up to three that are spelt like it, or the first ones."""
    close = spelled_like(name, names[:COMPARED], n=3)
    advice = did_you_mean([*map(repr, close)], otherwise=f"the first are {', '.join(names[:3])}")
    raise KeyError(f"there is no {what} {name!r} among {len(names):,}; {advice}")
