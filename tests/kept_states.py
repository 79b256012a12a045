"""States that stay in memory, for tests of what a computation keeps and of how it is resumed."""

from __future__ import annotations

import dask.array as da


class KilledError(Exception):
    """What ends a computation that may store no more."""


class KeptStates:
    """`distembed.states.States` in memory: `stored` are the names of all that was stored, in order.

    To store more than `most` arrays is a `KilledError`.
    """

    in_memory = False

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.arrays: dict[str, da.Array] = {}
        self.stored: list[str] = []

    def find(self, name: str) -> da.Array | None:
        """Return the array of a name, if there is one."""
        return self.arrays.get(name)

    def store(self, name: str, array: da.Array) -> da.Array:
        """Compute an array and hold it."""
        if self.most is not None and len(self.stored) >= self.most:
            raise KilledError(name)
        self.arrays[name] = array.persist()
        self.stored.append(name)
        return self.arrays[name]

    def names(self) -> list[str]:
        """Return the names of all that is held."""
        return list(self.arrays)

    def forget(self, name: str) -> None:
        """Let go of an array."""
        del self.arrays[name]
