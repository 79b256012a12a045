"""Runs many independent block tasks on the current Dask scheduler and reports each result as it completes.

The client learns of a finished block at once and records it, so that a run that is killed loses only the
blocks being computed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask import threaded
from dask.callbacks import Callback
from dask.system import CPU_COUNT
from dask.utils import funcname
from distributed import Client, as_completed, futures_of

from distembed.execution import client_in_force

LOCAL_GRAPH_ITEMS = 4_096
"""Items of a graph that this process runs: Dask's local schedulers begin in time that grows with the square of them.

Four thousand take 0.1 s before the first begins, and 32,000 took 10 s.
"""
RETRIES = 3
"""Times a block is tried again after its worker died."""


def run_each(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    done: Callable[[Any], None],
    *,
    step: str = "",
) -> None:
    """Call ``function(item)`` as one Dask task per item and ``done(result)`` here as each completes.

    `step` is what the names of the tasks begin with; that of the function if it is not given.
    """
    boxes = boxed_all(list(items))
    # The function, and what it holds, stands once in the graph and not in each of its tasks.
    step, new = step or funcname(function).strip("_"), uuid.uuid4().hex
    once = dask.delayed(function, name=f"shared-{step}-{new}", traverse=False)
    size = max(len(boxes), 1) if client_in_force() is not None else LOCAL_GRAPH_ITEMS
    for first in range(0, len(boxes), size):
        todo = da.from_array(boxes[first : first + size], chunks=1, name=f"{step}-item-{new}-{first}")
        called = todo.map_blocks(
            _call, function=once, name=f"{step}-{new}-{first}", dtype=object, meta=np.empty(0, object)
        )
        run_blocks(called, done)


def run_blocks(results: da.Array, done: Callable[[Any], None], *, is_here: bool = False) -> None:
    """Compute an object array of one-element chunks and call ``done(element)`` here as each completes.

    Where `is_here`, threads of this process compute the blocks, also where a cluster is in force.

    Raises
    ------
    Exception
        Any exception that the first failing task raised. Earlier results have been passed to `done`.
    """
    client = client_in_force()
    if client is not None and not is_here:
        _run_on(client, results, done)
        return
    keys = set(dask.core.flatten(results.__dask_keys__()))

    def finished(key: Any, result: Any, *_: Any) -> None:
        if key in keys:
            done(result.flat[0])

    # Not as a context: Dask lets whichever thread computes next take the callbacks that are in force.
    callbacks = [*Callback.active, (None, None, None, finished, None)]
    chosen = dask.config.get("scheduler", None) if client is None else None
    # compute() would fuse a lone block into its own last task, whose key is none of these.
    if chosen not in (None, "threads", "threading", threaded.get) or dask.config.get("pool", None):
        results.persist(callbacks=callbacks)
        return
    # Dask's own threads would continue their tasks after Ctrl-C, and write after the lock is released.
    pool = ThreadPoolExecutor(dask.config.get("num_workers", None) or CPU_COUNT)
    try:
        # The function and not its name: for a name, or none, Dask imports `distributed`, a tenth of a second.
        results.persist(callbacks=callbacks, pool=pool, scheduler=threaded.get)
    finally:
        pool.shutdown(cancel_futures=True)


def boxed(value: object, ndim: int = 1) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an object array with `value` as its only element."""
    box = np.empty((1,) * ndim, dtype=object)
    box.flat[0] = value
    return box


def boxed_all(items: Sequence[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an object array of `items`, even where they are tuples."""
    boxes = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        boxes[index] = item
    return boxes


def _call(box: np.ndarray[Any, np.dtype[Any]], *, function: Callable[[Any], Any]) -> Any:
    return boxed(function(box[0]))


def _run_on(client: Client, results: da.Array, done: Callable[[Any], None]) -> None:
    futures = futures_of(client.persist(results, retries=RETRIES))
    try:
        # Not `with_results`: a future whose result is under way when the connection is lost would never come.
        for batch in as_completed(futures).batches():
            failed = [future for future in batch if future.status in {"error", "cancelled"}]
            others = [future for future in batch if future not in failed]
            for future, result in zip(others, client.gather(others), strict=True):
                done(result.flat[0])
                # Else the scheduler would write a recorded block again when the worker that holds its result is lost.
                future.release()
            for future in failed:
                future.result()  # raises
    finally:
        # After a failure or Ctrl-C the blocks still running finish on their own and are not recorded. A client
        # that has lost its scheduler would wait for it.
        if client.status == "running":
            client.cancel(futures)
