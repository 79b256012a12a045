"""Applies functions of blocks to whole arrays: `lift` from blocks to blocks, `fold` from blocks to a sum.

A block function knows no Dask: it takes NumPy arrays and CSR blocks and returns one. `lift` calls it for each block of
Dask arrays, lazily, and at once where all arrays are in memory: a matrix in memory is one block of the same thing.
`fold` adds what a function finds of each block in a tree of fixed shape, so that the bits of a sum do not depend on the
workers. Both give the function aligned, C-contiguous arrays and one BLAS thread, and name tasks after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.blockwise import Blockwise
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import key_split
from scipy.sparse import csr_array

from distembed.execution import BlockFunction, aligned, client_in_force, one_blas_thread, sent, step_of, whole
from distembed.temporaries import block as block  # noqa: PLC0414 - callers find it beside `lift`
from distembed.temporaries import temporaries_of as temporaries_of  # noqa: PLC0414

Array = Any  # numpy.ndarray, csr_array or dask.array.Array

LISTED = "*"
"""The axis of a list of blocks that one task makes; no array of a caller has it."""

OPTION = "option_"
"""What the names of options begin with in a graph, where `blockwise` has options of its own.

Each is one of its own, too: what is sent inside of a dictionary, a cluster may have forgotten before it has the graph.
"""

FAN_IN = 8
"""Partial sums that one task adds."""


def lift(
    function: Callable[..., Any],
    indices: str,
    *arrays: Array,
    dtype: Any = np.float32,
    sparse: bool = False,
    sizes: Mapping[str, Any] | None = None,
    step: str = "",
    **options: Any,
) -> Array:
    """Apply a function of blocks to arrays: at once if all are in memory, else lazily, in one task for each block.

    Parameters
    ----------
    function : callable
        Called with a block of each array and the options. Where the result is of several parts (`dtype` is object) it
        returns a NamedTuple, of which `part` takes one and `fold` adds others.
    indices : str
        The axes of the arrays and of the result, such as ``"wc,cr->wr"``. An axis of an array that the result lacks is
        given whole: its blocks are joined, or given as a list where the letter is upper case. An array in memory is cut
        like the Dask arrays along the axes that it shares with the result.
    *arrays : Dask arrays, NumPy arrays or CSR arrays
    dtype : dtype
        Of the result.
    sparse : bool
        Whether the blocks of the result are CSR arrays.
    sizes : mapping, optional
        The size, or the sizes of the blocks, of axes of the result that no array has or that have others there.
    step : str
        The name of the tasks; by default that of the function.
    **options
        Further arguments of the function. Large ones are sent to a cluster once.

    Returns
    -------
    Dask array, or what the function returns
    """
    inputs, out = indices.split("->")
    axes = inputs.split(",")
    if not any(isinstance(array, da.Array) for array in arrays):
        blocks = [[array] if _is_list(names) else array for array, names in zip(arrays, axes, strict=True)]
        with one_blas_thread():
            return run_block(function, *aligned(blocks), **aligned(options))
    lazy = _cut_alike(arrays, axes, out)
    chunks = {
        name: cut
        for array, names in reversed([*zip(lazy, axes, strict=True)])
        for name, cut in zip(names, array.chunks, strict=True)
    }
    chunks |= {
        name: size if isinstance(size, tuple) else (size,)
        for name, size in (sizes or {}).items()
        if name not in chunks
    }
    adjusted = {name: (sizes or {}).get(name, chunks[name]) for name in out}
    for number, (array, names) in enumerate(zip(lazy, axes, strict=True)):
        if _is_list(names) and (listed := _listed(array, names, out)) is not None:
            lazy[number], axes[number] = listed, LISTED
    placed = [_placed(array, names, out) for array, names in zip(lazy, axes, strict=True)]
    meta = csr_array((0, 0), dtype=dtype) if sparse else np.empty((0,) * len(out), dtype)
    ways = [
        (tuple(axis for axis, name in enumerate(place) if name not in out), _is_list(names), names == LISTED)
        for place, names in zip(placed, axes, strict=True)
    ]
    lifted = BlockFunction(partial(_call, function, ways, len(out) if dtype is object else 0))
    lifted.__name__ = step or step_of(function)
    new = {name: chunks[name] for name in out if not any(name in names for names in placed)}
    return da.blockwise(
        lifted, out, *chain(*zip(map(_apart, lazy, axes, [out] * len(axes)), placed, strict=True)),
        dtype=dtype, meta=meta, new_axes=new, adjust_chunks=adjusted, concatenate=None, align_arrays=False,
        **{f"{OPTION}{name}": sent(value) for name, value in options.items()},
    )  # fmt: skip


def _is_list(names: str) -> bool:
    return bool(names) and not names.islower()


def _cut_alike(arrays: tuple[Array, ...], axes: list[str], out: str) -> list[da.Array]:
    """Return arrays as Dask arrays; those in memory in the chunks of the others along the axes of the result.

    Raises
    ------
    ValueError
        If the blocks of two arrays do not lie beside each other; blocks of one row stand for any.
    """
    chunks: dict[str, tuple[int, ...]] = {}
    for array, names in zip(arrays, axes, strict=True):
        if isinstance(array, da.Array):
            chunks = {
                name: cut for name, cut in zip(names, array.chunks, strict=True) if name in out
            } | chunks
    lazy = []
    for array, names in zip(arrays, axes, strict=True):
        if isinstance(array, da.Array):
            for name, cut in zip(names, array.chunks, strict=True):
                other = chunks.get(name, cut)
                if 1 not in (len(cut), len(other)) and {1} not in (set(cut), set(other)) and cut != other:
                    raise ValueError(
                        f"arrays are cut differently along the axis {name}: into {len(cut)} blocks of {cut[0]:,} and "
                        f"more, and into {len(other)} of {other[0]:,}: rechunk one like the other"
                    )
            lazy.append(array)
        elif any(len(chunks.get(name, ())) > 1 for name in names):
            cut = tuple(chunks.get(name, (n,)) for name, n in zip(names, np.shape(array), strict=True))
            lazy.append(da.from_array(array, chunks=cut))
        else:
            lazy.append(whole(array))
    return lazy


def _placed(array: da.Array, names: str, out: str) -> str:
    """Return axes of an array in terms of those of the result, where it has one block along each other axis.

    Dask joins what makes such an array with the task that reads it, as it joins no other.
    """
    spare = [name for name in out if name not in names]
    place = ""
    for name, n_blocks in zip(names, array.numblocks, strict=True):
        is_free = name not in out and n_blocks == 1 and spare and not _is_list(names)
        place += spare.pop() if is_free else name
    return place


def _apart(array: da.Array, names: str, out: str) -> da.Array:
    """Return an array that all blocks of a result read as one that is computed once, and not in each of their tasks."""
    if (
        set(names) & set(out)
        or array.npartitions > 1
        or not isinstance(array.dask.layers.get(array.name), Blockwise)
    ):
        return array
    name, key = f"once-{array.name}", (array.name, *(0,) * array.ndim)
    return array_of_tasks(name, {(name, *key[1:]): (as_it_is, key)}, [array], array.chunks, array._meta)


def _listed(array: da.Array, names: str, out: str) -> da.Array | None:
    """Return all blocks of an array along the one axis that a result lacks as a list that one task makes.

    In one process it costs nothing, and each task of the result has one argument in place of one for each block. On a
    cluster, where no worker has all blocks, and of an array that is cut along another axis, too, it is None.
    """
    missing = [axis for axis, name in enumerate(names) if name not in out]
    if len(missing) != 1 or array.numblocks[missing[0]] != array.npartitions or client_in_force() is not None:
        return None
    keys = [(array.name, *place) for place in np.ndindex(*array.numblocks)]
    name = f"{key_split(array.name)}-list-{tokenize(array.name)}"
    tasks = {(name, 0): (BlockFunction(_boxed), keys)}
    return array_of_tasks(name, tasks, [array], ((1,),), np.empty(0, object))


def _call(
    function: Callable[..., Any], ways: list[tuple[Any, ...]], n_axes: int, *found: Any, **named: Any
) -> Any:
    """Call a block function with blocks as `blockwise` gives them: in lists, along the axes that the result lacks."""
    blocks = [_joined(block, *way) for block, way in zip(found, ways, strict=True)]
    options = {name.removeprefix(OPTION): value for name, value in named.items()}
    made = run_block(function, *blocks, **options)
    return _boxed(made, n_axes) if n_axes else made


def run_block(function: Callable[..., Any], /, *blocks: Any, **options: Any) -> Any:
    """Return what a block function returns, aligned and C-contiguous."""
    return aligned(function(*blocks, **options))


def _joined(found: Any, axes: tuple[int, ...], is_list: bool, is_listed: bool) -> Any:
    if not axes:
        return _unboxed(found)
    if is_listed:
        return [_unboxed(piece) for piece in _unboxed(found[0])]
    if len(axes) == 2:  # lists of lists
        found = [_one(pieces, axes[1]) for pieces in found]
    return [_unboxed(piece) for piece in found] if is_list else _unboxed(_one(found, axes[0]))


def _one(pieces: list[Any], axis: int) -> Any:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=axis)


def _boxed(value: Any, n_axes: int = 1) -> Any:
    box = np.empty((1,) * n_axes, object)
    box[(0,) * n_axes] = value
    return box


def _unboxed(value: Any) -> Any:
    is_box = isinstance(value, np.ndarray) and value.dtype == object and value.size == 1
    return value.item() if is_box else value


def part(
    array: Array,
    name: str,
    like: da.Array | None = None,
    *,
    columns: int = 0,
    dtype: Any = None,
    sparse: bool = False,
) -> Array:
    """Return one part of what a lifted function returns as a NamedTuple: rows in the chunks of another array."""
    if not isinstance(array, da.Array):
        return getattr(array, name)
    assert like is not None
    kind, sizes = {"dtype": dtype or like.dtype, "sparse": sparse}, {"w": like.chunks[0], "c": columns}
    return lift(_part_of, "wc->wc", array, **kind, sizes=sizes, step=name, name=name)


@block(temporaries=0.5)
def _part_of(parts: Any, name: str) -> Any:
    return getattr(parts, name)


class Sum(NamedTuple):
    """A sum over blocks: what a function finds of one, how findings are added, and what is made of the sum of all."""

    chunk: Callable[..., Any]
    combine: Callable[[list[Any]], Any]
    finalize: Callable[[Any], Any]


def total(chunk: Callable[..., Any]) -> Sum:
    """Return the plain sum of what a function finds of each block."""
    return Sum(chunk, _add, as_it_is)


def _add(parts: list[Any]) -> Any:
    return np.stack(parts).sum(axis=0)


def as_it_is(value: Any) -> Any:
    """Return a value."""
    return value


def fold(
    row: Sum,
    indices: str,
    *arrays: Array,
    shape: tuple[int, ...],
    dtype: Any = np.float64,
    fan_in: int = FAN_IN,
    **options: Any,
) -> Array:
    """Add what a function finds of each row block, in a tree of fixed shape.

    Parameters
    ----------
    row : Sum
        ``total(function)``, or with other ways to combine.
    indices : str
        The axes of the arrays as in `lift`, ``"wa,wb"``. The blocks are the row blocks of the first array.
    *arrays : Dask arrays, NumPy arrays or CSR arrays
    shape, dtype
        Of the result.
    fan_in : int
        Findings that one task adds.
    **options
        Further arguments of the function.

    Returns
    -------
    Dask array of one block, or what `finalize` returns where all arrays are in memory
    """
    if not any(isinstance(array, da.Array) for array in arrays):
        with one_blas_thread():
            found = lift(row.chunk, f"{indices}->", *arrays, **options)
            return aligned(row.finalize(row.combine([found])))
    rows = indices.partition(",")[0]
    found = lift(
        row.chunk, f"{indices}->{rows}", *arrays, dtype=object, sizes=dict.fromkeys(rows, 1), **options
    )
    return _tree(found, step_of(row.chunk), row.combine, row.combine, row.finalize, shape, dtype, fan_in)


def total_of_part(
    array: Array, name: str, *, shape: tuple[int, ...], dtype: Any = np.float64, fan_in: int = FAN_IN
) -> Array:
    """Return the sum over blocks of one part of what a lifted function returns as a NamedTuple, without more tasks."""
    if not isinstance(array, da.Array):
        return getattr(array, name)
    first = partial(_add_parts, name=name)
    return _tree(array, name, first, _add, as_it_is, shape, dtype, fan_in)


def _add_parts(parts: list[Any], name: str) -> Any:
    return _add([getattr(one, name) for one in parts])


def _tree(
    found: da.Array,
    step: str,
    first: Callable[..., Any],
    combine: Callable[..., Any],
    finalize: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: Any,
    fan_in: int,
) -> da.Array:
    """Return the sum of the row blocks of an array, the first of them added by a function of its own."""
    keys: list[tuple[Any, ...]] = [
        (found.name, number, *(0,) * (found.ndim - 1)) for number in range(found.numblocks[0])
    ]
    name = f"{step}-sum-{tokenize(found.name, first, combine, finalize, fan_in)}"
    tasks: dict[tuple[Any, ...], Any] = {}
    is_last, add = False, first
    while not is_last:
        groups = [keys[begin : begin + fan_in] for begin in range(0, len(keys), fan_in)]
        is_last, level = len(groups) == 1, f"{len(tasks)}"
        keys = [(name, *(0,) * len(shape)) if is_last else (name, level, n) for n in range(len(groups))]
        function = BlockFunction(partial(_combined, add, finalize if is_last else None, shape))
        tasks |= {key: (function, group) for key, group in zip(keys, groups, strict=True)}
        add = combine
    meta = np.empty((0,) * len(shape), dtype)
    return array_of_tasks(name, tasks, [found], tuple((n,) for n in shape), meta)


def _combined(
    combine: Callable[..., Any], finalize: Callable[..., Any] | None, shape: tuple[int, ...], parts: list[Any]
) -> Any:
    found = combine([_unboxed(one) for one in parts])
    return found if finalize is None else np.reshape(aligned(finalize(found)), shape)


def task_function(function: Callable[..., Any], **options: Any) -> BlockFunction:
    """Return a block function with its options as the function of the tasks of `array_of_tasks`."""
    made = BlockFunction(partial(run_block, function, **options))
    made.__name__ = step_of(function)
    return made


def array_of_tasks(
    name: str, tasks: Mapping[Any, Any], sources: Iterable[da.Array], chunks: Any, meta: Any
) -> da.Array:
    """Return an array of the blocks ``(name, i, ...)`` among tasks that read one another and blocks of other arrays.

    For what `lift` and `fold` cannot say, such as one task for each pair of blocks. Dask joins none of these tasks.

    Parameters
    ----------
    name : str
    tasks : mapping of key to task
        ``(task_function(f), key, ...)``; keys other than those of the blocks have names of their own.
    sources : Dask arrays
        Whose blocks the tasks read.
    chunks, meta
        Of the array, as Dask has them.
    """
    graph = HighLevelGraph.from_collections(name, MaterializedLayer(tasks), dependencies=list(sources))  # type: ignore[arg-type]
    return da.Array(graph, name, chunks, meta=meta)


def first_rows(array: Array) -> Array:
    """Return the number of the first row of each block: an argument of `lift` with the index of the rows."""
    if not isinstance(array, da.Array):
        return np.zeros(1, np.int64)
    return da.from_array(np.cumsum([0, *array.chunks[0][:-1]], dtype=np.int64), chunks=1)
