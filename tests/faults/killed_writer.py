"""Child of test_storage_kills: a stage of many slow blocks, killed from outside."""

from __future__ import annotations

import sys
import time
from typing import Any

import dask
import dask.array as da
import numpy as np

from distembed.storage import lock
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
    stage = workspace.stage("slow", parameters={}, inputs={})
    with dask.config.set(scheduler="threads", num_workers=2):
        stage.store("x", lazy.map_blocks(slow, dtype=float), dims=("i", "j"), units="", meaning="")
    stage.commit()
    return computed


def main() -> None:
    """Write to a workspace: its folder, the seconds of a block, and perhaps those of a beat of its lock."""
    lock.BEAT_SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else lock.BEAT_SECONDS
    with Workspace.create(sys.argv[1], owner="killed writer") as ws:
        write(ws, pause=float(sys.argv[2]))


if __name__ == "__main__":
    main()
