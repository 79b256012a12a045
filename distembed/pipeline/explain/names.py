"""Names that a job does not know, refused with those that are spelt like them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NoReturn

LIKE = 0.6
"""How alike two names are, from 0 to 1, where one is offered for the other."""

COMPARED = 20_000
"""Names, at most, that an unknown one is compared with: a tenth of a second."""


def refuse_unknown(what: str, name: str, names: Sequence[str]) -> NoReturn:
    """Raise KeyError for a name that is not there, with up to three that are spelt like it, or the first ones."""
    close = difflib.get_close_matches(name, [*names[:COMPARED]], cutoff=LIKE)
    advice = (
        f"did you mean {' or '.join(map(repr, close))}?" if close else f"the first are {', '.join(names[:3])}"
    )
    raise KeyError(f"there is no {what} {name!r} among {len(names):,}; {advice}")
