"""Child of test_storage_kills: fork, die by SIGKILL at the n-th write, run again, and report what was redone.

One process imports everything and forks for each kill point, before any thread has started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
from zarr.storage import LocalStore

from distembed.storage import Workspace
from distembed.storage.files import Folder
from tests.storage.examples import Calls, store_all


def job(root: Path) -> tuple[str, list[int], list[Any]]:
    """Run one stage to its end; return the digest, the blocks computed and what verify finds."""
    calls = Calls()
    with Workspace.create(root, owner="killed") as workspace, dask.config.set(scheduler="sync"):
        if not workspace.stage("a", parameters={"scale": 1}, inputs={}).is_committed:
            stage = store_all(workspace, calls=calls)
            stage.checkpoint("round_1", lambda: stage.array("dense"))
            stage.commit()
        workspace.drop_temporary("a")
        return workspace.digest(), calls.blocks, workspace.verify()


def die_at(point: int) -> Callable[[], None]:
    """Count writes; at number `point` write half, or nothing, and die."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count == point:
            os.kill(os.getpid(), signal.SIGKILL)

    return tick


def arm(point: int) -> None:
    """Put a kill point before and after every write, link and removal below the workspace."""
    tick = die_at(point)
    chunk, whole, remove, create = LocalStore.set, Folder.write, Folder.remove, Folder.create

    async def set_chunk(self: LocalStore, key: str, value: Any) -> None:
        tick()
        await chunk(self, key, value)
        tick()

    def around(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            tick()
            result = real(*arguments, **options)
            tick()
            return result

        return call

    LocalStore.set = set_chunk
    Folder.write, Folder.remove, Folder.create = around(whole), around(remove), around(create)


def in_child(work: Callable[[], Any], out: Path) -> int:
    """Fork, run `work`, write its result as JSON; return the signal that ended it, 0 for none."""
    pid = os.fork()
    if pid == 0:
        try:
            out.write_text(json.dumps(work()))
        except BaseException:  # noqa: BLE001 (the child ends here, whatever happened)
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def main(root: Path, step: int) -> None:
    """Kill at every `step`-th point until a run survives."""
    out, reports, point = root / "out.json", [], 1
    while True:
        place = root / f"at-{point}"
        killed = in_child(lambda at=point, to=place: (arm(at), job(to))[1], out)
        recorded = len(list(place.glob("manifest/a/dense/blocks/*.json")))
        in_child(lambda to=place: job(to), out)
        digest, computed, problems = json.loads(out.read_text())
        out.unlink()
        reports.append({"point": point, "digest": digest, "recorded": recorded, "computed": len(computed)})
        reports[-1] |= {"problems": problems, "killed": killed}
        if not killed:
            break
        point += step
    print(json.dumps(reports))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
