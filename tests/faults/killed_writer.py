"""Child of test_lock: a stage of many slow blocks, or an item that waits, killed."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client

from distembed.files import replacing
from distembed.job.provenance import made_with
from distembed.storage import lock
from distembed.storage.records import LockedError
from distembed.storage.workspace import Workspace

N_BLOCKS = 60


def write(workspace: Workspace, *, pause: float) -> list[int]:
    """Store and commit; return the blocks that were computed."""
    computed = []

    def slow(block: Any, block_id: tuple[int, ...]) -> Any:
        computed.append(block_id[0])
        time.sleep(pause)
        return block * 2

    lazy = da.from_array(np.arange(N_BLOCKS * 8.0).reshape(-1, 4), chunks=(2, 4))
    stage = workspace.stage("slow", parameters={}, inputs={}, made_with=made_with())
    with dask.config.set(scheduler="threads", num_workers=2):
        stage.store("x", lazy.map_blocks(slow, dtype=float), dims=("i", "j"), units="", meaning="")
    stage.commit()
    return computed


def write_when_open(index: int, prefix: str, *, gate: Path) -> dict[str, int]:
    """Write the file of an item when there is a file `open`, and tell in a file `ended` what came of it."""
    (gate / "begun").touch()
    while not (gate / "open").exists():
        time.sleep(0.01)
    told = "written"
    try:
        with replacing(prefix + ".txt") as partial_file:
            Path(partial_file).write_text("late")
    except LockedError as error:
        told = f"LockedError: {error}"
    (gate / "half").write_text(told)
    (gate / "half").rename(gate / "ended")
    return {}


def main() -> None:
    """Write to a workspace: its folder, the seconds of a block, and perhaps those of a beat of its lock.

    With a scheduler and a folder, write the item that waits there on a worker.
    """
    root, pause, *more = sys.argv[1:]
    lock.BEAT_SECONDS = float(more[0]) if more else lock.BEAT_SECONDS
    with Workspace.create(root, owner="killed writer") as ws:
        if len(more) < 2:
            write(ws, pause=float(pause))
            return
        with Client(more[1]):
            stage = ws.stage("waiting", parameters={}, inputs={})
            stage.store_files("items", 1, partial(write_when_open, gate=Path(more[2])))


if __name__ == "__main__":
    main()
