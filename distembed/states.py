"""States of a computation that takes long: kept where a context says, found again, and forgotten when they are past.

A function that iterates calls `keep(name, make)` for each state that is worth storing. In a job the context is the
running stage, and a run that was killed finds its states on disk; `de.checkpoints` is the same for users of the Python
API. Without a context a state stays in memory. No signature mentions any of it.

Names are those of one computation: a `scope` holds the fingerprint of its options and inputs, so that two fits in one
stage never see each other's states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import dask
import dask.array as da
import numpy as np
from dask.base import normalize_token, tokenize
from dask.utils import parse_bytes
from scipy.sparse import csr_array

from distembed.execution import holding, where

State = Any  # an array, or a NamedTuple of arrays

BLOCK_MEMORY = 64 * 2**20
"""Bytes of one task where `distembed.block_memory` of Dask's configuration says nothing else."""


def block_memory() -> int:
    """Return the memory of one task, bytes: `distembed.block_memory` of Dask's configuration.

    It decides how arrays are cut, and so the last bits of results. Only the client reads it.
    """
    return int(parse_bytes(dask.config.get("distembed.block_memory", BLOCK_MEMORY)))


@normalize_token.register(csr_array)
def _content_of(matrix: csr_array) -> Any:
    """Return what a CSR array is told apart by: not what it has found out of itself, such as that it is sorted."""
    return (
        "csr",
        matrix.shape,
        [normalize_token(getattr(matrix, name)) for name in ("data", "indices", "indptr")],
    )


WITHIN = ".within/"
"""What stands in names between that of a state and those of the states that it is made of."""


class States(Protocol):
    """Where states lie: arrays by name, as a stage of a workspace stores them."""

    states: str
    """What the names of states begin with."""

    def is_stored(self, name: str) -> bool:
        """Return whether an array is stored as a whole."""

    def array(self, name: str) -> da.Array:
        """Return the array of a name."""

    def store(
        self, name: str, array: da.Array, *, dims: Sequence[str], units: str, meaning: str, temporary: bool
    ) -> da.Array:
        """Store an array and return it opened."""

    def announced(self) -> list[str]:
        """Return the names of all arrays, those too that are not stored as a whole."""

    def forget(self, name: str) -> None:
        """Remove an array."""


class _Place(NamedTuple):
    """Where states lie, what their names begin with, and whether a state around them will end them.

    Those stay in memory where there is room.
    """

    states: States
    has_room: bool
    prefix: str
    is_inside: bool = False


_PLACE: ContextVar[_Place | None] = ContextVar("place", default=None)


def keeping(states: States | None, *, has_room: bool = False) -> AbstractContextManager[None]:
    """Let `keep` store states there while the block runs; None lets them stay in memory.

    Where memory `has_room`, those do that are forgotten with the state around them.
    """
    return holding(_PLACE, None if states is None else _Place(states, has_room, states.states))


@contextmanager
def scope(name: str, *of: Any) -> Iterator[None]:
    """Let the names inside the block belong to one computation: a name, and options and inputs that are told apart.

    Parameters
    ----------
    name : str
        Such as "lsa", or "start-3".
    *of : any objects
        What decides the states: options, arrays in memory (by their content) and Dask arrays (by their names).
    """
    place = _PLACE.get()
    if place is None:
        yield
        return
    own = f"{name}-{tokenize(*of)[:12]}" if of else name
    with holding(_PLACE, place._replace(prefix=f"{place.prefix}{own}/")):
        yield


def keep(
    name: str,
    make: Callable[[], State],
    kind: Any = None,
    *,
    number: int | None = None,
    made_again: bool = False,
) -> State:
    """Return the state stored under a name; make and store it if it is not there.

    What is kept while it is made is forgotten once it is stored.

    Parameters
    ----------
    name : str
    make : callable
        Returns a Dask array, or a NamedTuple of Dask arrays and NumPy arrays.
    kind : class of NamedTuple, optional
        What `make` returns; by default one array.
    number : int, optional
        The number of the state in a series, of which the states before are forgotten; see `newest`.
    made_again : bool
        Whether a run that goes on may make it again: it costs less than to store and read it, where memory has room.

    Returns
    -------
    Dask array, or NamedTuple of Dask arrays
        Read from disk. Without a context what `make` returns, its Dask arrays persisted.
    """
    place, full = _PLACE.get(), name if number is None else f"{name}-{number:05d}"
    if place is None or ((place.is_inside or made_again) and place.has_room):
        made = make()
        if kind is not None:
            return kind(*dask.persist(*made, **where({})))
        return made.persist(**where({})) if isinstance(made, da.Array) else made
    place = place._replace(prefix=f"{place.prefix}{full}")
    found = _find(place, kind)
    if found is not None:
        return found
    with holding(_PLACE, place._replace(prefix=f"{place.prefix}{WITHIN}", is_inside=True)):
        made = make()
        for each, value in zip(_names(place, kind), [made] if kind is None else made, strict=True):
            array = value if isinstance(value, da.Array) else da.from_array(np.atleast_1d(value), chunks=-1)
            dims = ("row", "column", *(f"axis_{axis}" for axis in range(2, array.ndim)))[: array.ndim]
            place.states.store(each, array, dims=dims, units="", meaning="A state.", temporary=True)
    _forget(place, name, number)
    return _find(place, kind)


def kept(name: str, kind: Any = None) -> State | None:
    """Return the state stored under a name, None where it is not stored."""
    place = _PLACE.get()
    return None if place is None else _find(place._replace(prefix=f"{place.prefix}{name}"), kind)


def newest(name: str, kind: Any = None) -> tuple[int, State]:
    """Return the number and the state of the newest of a series that is stored; (0, None) where there is none."""
    place = _PLACE.get()
    if place is None or (place.is_inside and place.has_room):
        return 0, None
    for number in sorted(_numbers(place, name), reverse=True):
        found = _find(place._replace(prefix=f"{place.prefix}{name}-{number:05d}"), kind)
        if found is not None:
            return number, found
    return 0, None


def _names(place: _Place, kind: Any) -> list[str]:
    return [place.prefix] if kind is None else [f"{place.prefix}/{field}" for field in kind._fields]


def _find(place: _Place, kind: Any) -> State | None:
    names = _names(place, kind)
    if not all(map(place.states.is_stored, names)):
        return None
    found = map(place.states.array, names)
    return next(found) if kind is None else kind(*found)


def _numbers(place: _Place, name: str) -> set[int]:
    begin = f"{place.prefix}{name}-"
    rest = [each.removeprefix(begin) for each in place.states.announced() if each.startswith(begin)]
    heads = [each.partition("/")[0].partition(".")[0] for each in rest]
    return {int(head) for head in heads if head.isdigit()}


def _forget(place: _Place, name: str, number: int | None) -> None:
    """Forget what was kept while a state was made, and the states before it in its series."""
    old = [f"{place.prefix}{WITHIN}"]
    if number is not None:
        base = place.prefix.removesuffix(f"{name}-{number:05d}")
        before = [one for one in _numbers(place._replace(prefix=base), name) if one < number]
        old += [f"{base}{name}-{one:05d}{end}" for one in before for end in (WITHIN, "/", "")]
    for each in place.states.announced():
        if any(each.startswith(one) if one.endswith("/") else each == one for one in old):
            place.states.forget(each)
