"""States that stay in memory, for tests of what a computation keeps and of how it is resumed."""

from __future__ import annotations

import dask.array as da


class KeptStates:
    """`distembed.states.States` in memory: `stored` are the names of all that was stored, in order."""

    in_memory = False

    def __init__(self) -> None:
        self.arrays: dict[str, da.Array] = {}
        self.stored: list[str] = []

    def find(self, name: str) -> da.Array | None:
        """Return the array of a name, if there is one."""
        return self.arrays.get(name)

    def store(self, name: str, array: da.Array) -> da.Array:
        """Compute an array and hold it."""
        self.arrays[name] = array.persist()
        self.stored.append(name)
        return self.arrays[name]

    def names(self) -> list[str]:
        """Return the names of all that is held."""
        return list(self.arrays)

    def forget(self, name: str) -> None:
        """Let go of an array."""
        del self.arrays[name]
