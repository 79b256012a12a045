"""Checkpoints of the Python API: the states of what is computed inside a block, in a folder of the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distembed.states import keeping
from distembed.storage.workspace import Workspace

STAGE = "states"


@contextmanager
def checkpoints(folder: str | Path) -> Iterator[None]:
    """Keep the states of all that is computed inside the block in a folder, so that it can be resumed.

    A program that is killed and started again goes on from the newest states of the same data and the same options. A
    state is removed as soon as a later one replaces it; the folder may be removed when the work is done.

    Parameters
    ----------
    folder : str or path
        A folder that does not exist, is empty, or was made by this function; or its address in an object store.

    Raises
    ------
    LockedError
        If another program writes into it.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).random((60, 20))
    >>> with de.checkpoints("states"):
    ...     model = de.NMF(3, max_iter=20, tol=0).fit(rows)
    >>> model.word_factors_.shape
    (20, 3)
    """
    with (
        Workspace.create(str(folder), owner="checkpoints") as workspace,
        keeping(workspace.stage(STAGE, parameters={}, inputs={})),
    ):
        yield
