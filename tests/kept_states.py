"""States that stay in memory, for tests of what a computation keeps and of how it is resumed."""

from __future__ import annotations

from typing import Any

import dask.array as da


class KilledError(Exception):
    """What ends a computation that may store no more."""


class KeptStates:
    """`distembed.states.States` in memory: `stored` are the names of all that was stored, in order.

    To store more than `most` arrays is a `KilledError`.
    """

    states = ""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.arrays: dict[str, da.Array] = {}
        self.stored: list[str] = []

    def is_stored(self, name: str) -> bool:
        return name in self.arrays

    def array(self, name: str) -> da.Array:
        return self.arrays[name]

    def store(self, name: str, array: da.Array, **_: Any) -> da.Array:
        """Compute an array and hold it."""
        if self.most is not None and len(self.stored) >= self.most:
            raise KilledError(name)
        self.arrays[name] = array.persist()
        self.stored.append(name)
        return self.arrays[name]

    def announced(self) -> list[str]:
        return list(self.arrays)

    def forget(self, name: str) -> None:
        del self.arrays[name]
