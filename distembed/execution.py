"""How tasks run: one BLAS thread each, fixed-shape reductions, named checkpoints.

Nothing here computes anything of its own. Every lift over blocks in this package relies on three rules:

- a task uses one BLAS thread (`one_blas_thread`), because Dask already runs one task per core and because
  the number of BLAS threads changes the last bits of a product;
- the shape of a reduction depends on the number of blocks, never on the number of workers;
- an iterative function hands each state worth keeping to a `Checkpoint`, which a job answers from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import dask.array as da
from threadpoolctl import threadpool_limits


class Checkpoint(Protocol):
    """Keep the array made by `make` under `name`, or return the one kept before."""

    def __call__(self, name: str, make: Callable[[], da.Array]) -> da.Array:
        """Return the array `name`; call `make` only if it is not kept yet."""
        ...


def persist(name: str, make: Callable[[], da.Array]) -> da.Array:  # noqa: ARG001
    """Keep an array in the memory of the workers: the `Checkpoint` of a run without a workspace."""
    return make().persist()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP pools to one thread for the length of the block, in this process."""
    with threadpool_limits(limits=1):
        yield
