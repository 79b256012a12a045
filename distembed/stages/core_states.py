"""Which states of PSDVec's core a run keeps in memory, and which it stores."""

from __future__ import annotations

from collections.abc import Callable

import dask.array as da

from distembed.execution import Checkpoint, persist
from distembed.factorization.psdvec_core import ROUND_VECTORS
from distembed.factorization.psdvec_costs import CoreOptions, Kept, core_memory
from distembed.job.stage import Context
from distembed.linalg.eigen import BASIS, PRODUCT


def kept_in_memory(ctx: Context, n_core: int, n_pairs: int) -> Kept:
    """Return which intermediate arrays of core mode stay in the memory of the workers because there is room."""
    resources = ctx.job.resources
    memory = core_memory(CoreOptions.of(ctx.job.psdvec), n_core, n_pairs, resources.block_memory)
    if limits := ctx.workers.memory_limits():
        return memory.kept_in_cluster(list(limits.values()))
    return memory.kept_in_process(resources.process_memory, resources.n_workers)


def storing(stored: Checkpoint, kept: Kept) -> Checkpoint:
    """Return a checkpoint that stores all intermediate arrays except those that are kept in memory.

    A run that is killed starts its round again, which takes less than storing every state does; what a killed worker
    held Dask computes again. The vectors of each round are always stored.
    """

    def keep(name: str, make: Callable[[], da.Array]) -> da.Array:
        state, _, number = name.rsplit("/", maxsplit=1)[-1].partition("-")
        is_basis = bool(number) and state in (BASIS, PRODUCT)
        in_memory = {Kept.ALL: state != ROUND_VECTORS, Kept.BASES: is_basis, Kept.NONE: False}[kept]
        return persist(name, make) if in_memory else stored(name, make)

    return keep
