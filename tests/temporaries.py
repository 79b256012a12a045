"""Measures how much block functions hold beside their arguments and their result, in units of their largest array."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import dask
import numpy as np
import pyarrow as pa

from distembed import execution, lift

LEAST_BYTES = 200_000
"""Arrays from this size on: beside smaller ones the objects of Python count."""


def size_of(value: Any) -> int:
    """Return the bytes of an array, a CSR block, or whatever holds some."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.nbytes
    if hasattr(value, "indptr"):
        return sum(getattr(value, name).nbytes for name in ("data", "indices", "indptr"))
    if isinstance(value, pa.Table):
        return value.nbytes
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(size_of, value)) if isinstance(value, list | tuple | np.ndarray) else 0


def largest_of(values: Any) -> int:
    """Return the bytes of the largest single array among values."""
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return max(map(largest_of, values), default=0)
    return size_of(values)


def named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a `partial` is of."""
    while isinstance(function, partial):
        function = function.func
    return function


@contextmanager
def measured() -> Iterator[dict[Callable[..., Any], list[tuple[float, int]]]]:
    """Yield what each block function that runs inside took beside arguments and result, in multiples of its largest.

    The first call of a function, which may compile what it calls, counts only if there is no other.
    """
    found: dict[Callable[..., Any], list[tuple[float, int]]] = defaultdict(list)
    plain = execution.BlockFunction.__call__
    peaks: list[int] = []  # of the functions that run within each other, the outermost first

    def run_block(function: Callable[..., Any], /, *blocks: Any, **options: Any) -> Any:
        if peaks:
            peaks[-1] = max(peaks[-1], tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
        else:  # no other code is slowed down
            tracemalloc.start()
        peaks.append(0)
        begin, arrow = tracemalloc.get_traced_memory()[0], pa.total_allocated_bytes()
        try:
            made = execution.aligned(function(*blocks, **options))
        finally:
            highest = max(peaks.pop(), tracemalloc.get_traced_memory()[1])
            if peaks:
                peaks[-1] = max(peaks[-1], highest)
            else:
                tracemalloc.stop()
        peak = highest - begin + max(0, pa.total_allocated_bytes() - arrow)
        largest = max(largest_of(blocks), largest_of(options), largest_of(made))
        if largest >= LEAST_BYTES:
            found[named(function)].append((max(0, peak - size_of(made)) / largest, largest))
        return made

    def call(self: execution.BlockFunction, /, *arguments: Any, **options: Any) -> Any:
        function = self.__wrapped__  # type: ignore[attr-defined]
        if hasattr(named(function), "temporaries"):
            return run_block(function, *arguments, **options)
        return plain(self, *arguments, **options)

    with (
        mock.patch.object(lift, "run_block", run_block),
        mock.patch.object(execution.BlockFunction, "__call__", call),
        dask.config.set(scheduler="synchronous"),
    ):
        yield found
    for calls in found.values():
        del calls[: len(calls) > 1]


def assert_declared(found: dict[Callable[..., Any], list[tuple[float, int]]], *functions: Any) -> None:
    """Refuse block functions that hold more than they declare, or less by more than half of their largest array."""
    most = {function.__name__: max(multiple for multiple, _ in found[function]) for function in functions}
    declared = {function.__name__: lift.temporaries_of(function) for function in functions}
    wrong = {name: n for name, n in most.items() if not declared[name] - 0.5 <= n <= declared[name] + 0.05}
    assert not wrong, {name: (declared[name], n) for name, n in wrong.items()}
