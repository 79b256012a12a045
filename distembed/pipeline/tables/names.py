"""The match of the names of a table with the words of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from distembed.pipeline.tables.files import TableError, some


def match_names(
    names: Sequence[str], words: Sequence[str], *, ignore_case: bool, ignore_underscores: bool
) -> NDArray[np.int64]:
    """Return the row among `words` of each name, int64, shape (n,), -1 where there is none.

    A name takes the word that is spelled like it; only a name without one takes the first word that differs from
    it in no more than what is ignored (vector files have their frequent words first).

    Raises
    ------
    TableError
        If no name has a word, or two names would take the same.
    """
    fold = _folding(ignore_case=ignore_case, ignore_underscores=ignore_underscores)
    exact = {word: row for row, word in enumerate(words)}
    folded = {fold(word): row for row, word in reversed(list(enumerate(words)))}
    rows = [exact.get(name, -1) for name in names]
    rows = [folded.get(fold(name), -1) if row < 0 else row for name, row in zip(names, rows, strict=True)]
    taken: dict[int, str] = {}
    for name, row in zip(names, rows, strict=True):
        if row >= 0 and taken.setdefault(row, name) != name:
            raise TableError(
                f"the names {taken[row]!r} and {name!r} both match the word {words[row]!r}: rename or drop one"
            )
    if not taken:
        raise TableError(
            f"no name of the table ({some(names)}) is a word with a vector ({some(words)}): see [matching]"
        )
    return np.array(rows, dtype=np.int64)


def _folding(*, ignore_case: bool, ignore_underscores: bool) -> Callable[[str], str]:
    def fold(name: str) -> str:
        name = "_".join(name.replace("_", " ").split()) if ignore_underscores else name
        return name.casefold() if ignore_case else name

    return fold
