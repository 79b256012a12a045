"""Runs the starts of a factorization or a clustering, and finds those again that a stopped run has finished."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import dask.array as da
import numpy as np

from distembed.execution import compute, counted_from, heard_by, shared, tell
from distembed.lift import block, lift
from distembed.states import keep, keeping, kept, scope

State = TypeVar("State")

STARTS_AT_ONCE = 16
"""Starts of matrices in memory that run side by side; the states of all of them are kept when the last is done."""


def run_starts(
    run: Callable[[int], State],
    kind: type[State],
    n_starts: int,
    *,
    n_rounds: int,
    what: str,
    in_memory: bool,
) -> list[State]:
    """Return the results of all starts.

    Starts of matrices in memory are tasks that run side by side. Those of Dask arrays run one after the other, since
    each of their rounds is many tasks.

    Parameters
    ----------
    run : callable
        Called with the number of a start, in a scope of its own.
    kind : class of NamedTuples of arrays
        What it returns.
    n_starts : int
    n_rounds : int
        Rounds of a start at most.
    what : str
        The name under which `run` reports its rounds.
    in_memory : bool
        Whether the matrices are in memory.
    """
    found: dict[int, State] = {}
    if in_memory and n_starts > 1:
        found = {n: state for n in range(n_starts) if (state := kept(f"start-{n}", kind)) is not None}
        missing = [number for number in range(n_starts) if number not in found]
        for first in range(0, len(missing), STARTS_AT_ONCE):
            batch = missing[first : first + STARTS_AT_ONCE]
            numbers = da.from_array(np.array(batch), chunks=1)
            done = compute(lift(run_start, "s->s", numbers, dtype=object, step="start", run=shared(run)))
            for number, state in zip(batch, done, strict=True):
                found[number] = keep(f"start-{number}", partial(_itself, state), kind)
            tell("starts", len(found), n_starts)
        return [kind(*compute(found[number])) for number in range(n_starts)]
    for number in range(n_starts):
        with scope(f"start-{number}"), counted_from(what, number * n_rounds, n_starts * n_rounds):
            found[number] = run(number)
    return [found[number] for number in range(n_starts)]


def _itself(state: State) -> State:
    return state


@block(temporaries=2)
def run_start(numbers: Any, *, run: Callable[[int], State]) -> State:
    """Return the result of the start whose number is the only one."""
    # its rounds stay in memory and are not reported: the client reports and keeps whole starts
    with keeping(None), heard_by(lambda *_: None):
        return run(int(numbers[0]))
