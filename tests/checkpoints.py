"""A checkpoint that keeps arrays in memory, for the tests of estimators that are asked again."""

from __future__ import annotations

from collections.abc import Callable

import dask.array as da


class Kept(dict[str, da.Array]):
    """Arrays by name; `made` are the names of those that were computed, in order."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, name: str, make: Callable[[], da.Array]) -> da.Array:
        if name not in self:
            self[name] = make().persist()
            self.made.append(name)
        return self[name]
