"""The execution of tasks: aligned arrays, one BLAS thread each, what a graph carries, and who hears how far it is.

Every application of a function to blocks in this package relies on two rules, which `lift` and `fold` keep:

- A block function is given aligned, C-contiguous arrays (`BlockFunction`), and so is the caller who asks for a
  result (`compute`). An array that comes from another process is not aligned, and a product or a sum of an
  unaligned array, or of one in another order, has other last bits and is several times slower.
- A block function runs with one BLAS thread (`one_blas_thread`), whoever computes the array that it is part of,
  because Dask already runs one task per core and because the number of BLAS threads changes the last bits of a
  product. What is computed without blocks is written inside `one_blas_thread`.
"""

from __future__ import annotations

import copy
import functools
import gc
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.base import get_scheduler, normalize_token, tokenize
from dask.delayed import Delayed
from dask.utils import funcname, key_split
from distributed import Client
from threadpoolctl import ThreadpoolController

# --- who hears how far it is -----------------------------------------------------------------------------------


T = TypeVar("T")

Listener = Callable[[str, int, int | None], None]
"""Called with a plural noun ("rounds"), how many are finished, and of how many; None where that is not known."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Let a variable have a value while the block runs."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def heard_by(listener: Listener | None) -> AbstractContextManager[None]:
    """Let a listener hear, for the length of the block, what this thread finishes; None lets nobody."""
    return holding(_LISTENER, listener)


def tell(what: str, done: int, total: int | None = None) -> None:
    """Report that `done` of `total` rounds, passes or the like are finished, to whoever listens.

    Where a tolerance ends them, there is no total to be told.
    """
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def counted_from(what: str, before: int, total: int) -> Iterator[None]:
    """Report the rounds inside the block as those that follow `before` of `total`, and nothing of another name."""
    outer = _LISTENER.get()

    def forward(found: str, done: int, _: int | None) -> None:
        if outer is not None and found == what:
            outer(what, before + done, total)

    with heard_by(forward):
        yield


@contextmanager
def uncollected() -> Iterator[None]:
    """Put off Python's search for cycles of objects until the block is left; decorates functions, too.

    While libraries are imported and small files are read, it searches all that was imported so far, again and again,
    and frees next to nothing: a tenth of the time of `distembed plan`.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# --- where it is computed --------------------------------------------------------------------------------------


_IN_THREAD: ContextVar[bool] = ContextVar("in_thread", default=False)


@contextmanager
def in_this_thread() -> Iterator[None]:
    """Let `compute` and `persist` work in this thread while the block runs; decorates functions, too.

    A task that computes a collection of its own would otherwise wait for the workers, of which it is one.
    """
    with holding(_IN_THREAD, value=True):
        yield


def where(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of `dask.compute` with those of this thread: the scheduler of one that is a task itself."""
    return {"scheduler": "synchronous", **options} if _IN_THREAD.get() else options


# --- block functions --------------------------------------------------------------------------------------------


class BlockFunction:
    """A function of blocks that gets aligned and C-contiguous arrays, and runs with one BLAS thread, wherever it runs.

    It has the docstring and the signature of the function, and is pickled where that is. Its name, which Dask gives to
    tasks, is that of the function, of which a `partial` is one, without the underscore of a private one.

    Parameters
    ----------
    function : callable
        Called with `aligned` arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__name__ = step_of(function)

    def __call__(self, /, *arguments: Any, **options: Any) -> Any:
        """Return what the function returns for the same arguments, aligned."""
        function: Callable[..., Any] = self.__wrapped__  # type: ignore[attr-defined]
        with one_blas_thread():
            return function(*aligned(arguments), **aligned(options))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the function, without a copy of its docstring, as the content that a task sends to another process."""
        return BlockFunction, (self.__wrapped__,)  # type: ignore[attr-defined]

    def __dask_tokenize__(self) -> Any:
        """Return the token of the function, from which Dask derives the names of tasks."""
        return "block function", normalize_token(self.__wrapped__)  # type: ignore[attr-defined]


def step_of(function: Callable[..., Any]) -> str:
    """Return the name of a function as that of a step of a task."""
    return str(funcname(function)).strip("_")


def aligned(value: Any) -> Any:
    """Return arrays as aligned and C-contiguous ones; only those that are not are copied.

    Parameters
    ----------
    value : array, CSR or CSC block, list, tuple or dict of such, or any other object
        An object of another kind is returned unchanged. For a sparse block its three arrays are meant.

    Returns
    -------
    object
        A value of the same kind.
    """
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["C", "A"])
    if isinstance(value, list):
        return [aligned(item) for item in value]
    if isinstance(value, tuple):
        items = [aligned(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if type(value) is dict:
        return {key: aligned(item) for key, item in value.items()}
    if not hasattr(value, "indptr"):
        return value
    fine = {name: aligned(getattr(value, name)) for name in ("data", "indices", "indptr")}
    if any(fine[name] is not getattr(value, name) for name in fine):
        # A shallow copy, which keeps what the block knows of itself: that its indices are sorted, for one.
        value = copy.copy(value)
        for name, part in fine.items():
            setattr(value, name, part)
    return value


def delayed(value: Any, **options: Any) -> Any:
    """Return `dask.delayed` of a value, or of a function that is given aligned arrays."""
    is_function = callable(value) and not isinstance(value, Delayed)
    return dask.delayed(BlockFunction(value) if is_function else value, **options)


def compute(collection: Any, **options: Any) -> Any:
    """Return the result of a Dask collection, or of a list or tuple of them, with aligned arrays.

    Parameters
    ----------
    collection : Dask array, Delayed, list or tuple
        A list or a tuple is computed at once, and its items share what they have in common. An array in memory is
        returned.
    **options
        Those of `dask.compute`.
    """
    if isinstance(collection, np.ndarray):  # Dask would take a hash of it
        return collection
    return aligned(dask.compute(collection, **where(options))[0])


def partitions_of(collection: Any) -> list[Delayed]:
    """Return the partitions of a Dask series, frame or bag, or the blocks of an array, as `dask.delayed` values."""
    parts = collection.to_delayed()
    return list(parts.ravel() if isinstance(parts, np.ndarray) else parts)


# --- small graphs ----------------------------------------------------------------------------------------------


LARGEST_LITERAL = 1 << 20
"""Bytes of a value that a graph may carry to a cluster, where Dask warns of ten times as many in all."""


def _itself(value: Any) -> Any:
    return value


def whole(array: Any) -> da.Array:
    """Return an array in memory as a Dask array of one block, which all blocks of another may read."""
    is_sparse = hasattr(array, "indptr")
    array = array if is_sparse else np.asarray(array)
    place = sent(array)
    if place is array and not is_sparse:
        return da.from_array(array, chunks=-1, name=f"shared-{tokenize(array)}")
    meta = array[:0, :0] if is_sparse else np.empty((0,) * array.ndim, array.dtype)
    value = shared(array) if place is array else place
    name = f"{key_split(value.key)}-block-{tokenize(value, array.shape, meta)}"
    return da.from_delayed(value, array.shape, meta=meta, name=name)


def sent(value: Any) -> Any:
    """Return a large value as the result of a task of the cluster in force, any other value as it is.

    Every graph that held such a value would be as large. The scheduler keeps the task, so that the death of the workers
    that hold its result costs a transfer; what a client scatters would be lost with them.

    Parameters
    ----------
    value : Any
        It is large if its arrays have more than `LARGEST_LITERAL` bytes.
    """
    # a Delayed answers any attribute with another one
    if isinstance(value, da.Array | Delayed | type):
        return value
    parts = [value.data, value.indices, value.indptr] if hasattr(value, "indptr") else [value]
    is_large = sum(getattr(part, "nbytes", 0) for part in parts) > LARGEST_LITERAL
    return shared(value) if is_large and client_in_force() is not None else value


def shared(value: Any) -> Delayed:
    """Return a value of any kind, which is not looked into, as one task that all who need it refer to.

    As an option of `map_blocks` it is in the graph once; an array or an object itself would be in each task of it that
    is sent to another process. A cluster in force has it at once, as what is `sent`.
    """
    cluster = client_in_force()
    if cluster is None:
        return dask.delayed(value, traverse=False, name=f"shared-{tokenize(value)}")
    name = f"shared-{uuid.uuid4().hex}"
    with warnings.catch_warnings():  # of a value that is sent once, in place of every graph that needs it
        warnings.filterwarnings("ignore", "Sending large graph")
        return dask.delayed(cluster.submit(_itself, value, key=name))


def client_in_force() -> Any:
    """Return the client of the distributed scheduler in force, None where there is none."""
    if "distributed" not in sys.modules:  # it takes a third of a second, and no client is without it
        return None

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


# --- one thread ------------------------------------------------------------------------------------------------


class _Limit:
    """The libraries that are limited to one thread while anyone uses the limit."""

    def __init__(self) -> None:
        self.n_uses = 0
        self.before: dict[str, tuple[Any, int]] = {}

    def begin(self, libraries: list[Any]) -> None:
        """Limit libraries of several threads to one, including those loaded since the first use."""
        self.n_uses += 1
        for library in libraries:
            if library.filepath not in self.before and (n_threads := library.num_threads) != 1:
                self.before[library.filepath] = library, n_threads
                _set_threads(library, 1)

    def end(self) -> None:
        """Restore the number of threads that every library had before the first use, after the last."""
        self.n_uses -= 1
        if not self.n_uses:
            for library, n_threads in self.before.values():
                _set_threads(library, n_threads)
            self.before.clear()


class _ThreadLimit(_Limit, threading.local):
    """The limit of one thread: OpenMP counts its threads for each thread that calls it."""


_PROCESS_LIMIT, _THREAD_LIMIT, _LOCK = _Limit(), _ThreadLimit(), threading.Lock()


def _set_threads(library: Any, n_threads: int) -> None:
    """Set the number of threads of a library, from any thread.

    By default, threadpoolctl 3.8 allows only the thread that first changed those of OpenBLAS to do so.
    """
    release = getattr(library, "clear_controlling_thread", lambda **_: None)
    release(force=True)
    library.set_num_threads(n_threads)
    release(force=True)


@functools.lru_cache(maxsize=1)
def _libraries(n_modules: int) -> tuple[Any, ...]:  # noqa: ARG001 - it is what the answer depends on
    """Return the libraries of this process that compute with threads, as of so many imported modules.

    Python brings its libraries with its modules, so that they are looked for again when there are more. A search takes
    five milliseconds, in which no other thread of Python goes on: longer than finding the neighbors of a word.
    """
    return tuple(ThreadpoolController().lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS in this process, and OpenMP in this thread, to one thread while the block runs.

    Blocks may be nested and may overlap in several threads: the first to begin sets the limit of BLAS and the
    last to end removes it. NumPy's and SciPy's BLAS are loaded first. An OpenMP library that is loaded inside
    a block is limited from the next block on, so import it before.
    """
    libraries = _libraries(len(sys.modules))
    per_thread = [
        one for one in libraries if "openmp" in {one.user_api, getattr(one, "threading_layer", None)}
    ]
    with _LOCK:
        _PROCESS_LIMIT.begin([library for library in libraries if library not in per_thread])
    _THREAD_LIMIT.begin(per_thread)
    try:
        yield
    finally:
        _THREAD_LIMIT.end()
        with _LOCK:
            _PROCESS_LIMIT.end()
