"""Child of test_storage_kills: fork, die by SIGKILL at the n-th write, run again, and check what was redone.

One process imports everything and forks for each kill point, before any thread has started.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import distributed  # noqa: F401 - each fork would import it otherwise, which is most of what a fork takes

import distembed.files
from distembed.storage import folder
from distembed.storage.folder import Folder
from tests.storage.examples import Calls, run_both

with suppress(ImportError):
    import pandas as pd  # noqa: F401 - likewise: pyarrow imports it where it is installed


def job(root: Path, scale: int = 1, version: int = 0) -> tuple[str, list[int], list[Any]]:
    """Run two stages to their end; return the digest, the blocks computed of the first, and what is wrong then."""
    calls = Calls()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a repair by other versions says that it removes what rests on it
        digest, problems = run_both(root, scale=scale, version=version, calls=calls)
    temporaries = [str(path) for path in root.glob("arrays.zarr/checkpoints/*/*/*")]
    return digest, calls.blocks, [*problems, *temporaries]


def damage(root: Path) -> None:
    """Spoil a block of each kind of a finished workspace, and the file of a whole array."""
    (root / "arrays.zarr/dense/c/1/0").write_bytes(b"spoilt")
    (root / "arrays.zarr/sparse/zarr.json").unlink()
    (root / "words.parquet").unlink()
    (root / "tokens/000002/part.txt").write_bytes(b"")


def nothing(root: Path) -> None:
    """Leave a workspace as it is."""


class Scenario(NamedTuple):
    """What a workspace was before the run that is killed: the scale it was made with (None: none), and its damage.

    The run that is killed has a scale, and a version of the code.
    """

    before: int | None
    spoil: Callable[[Path], None] = nothing
    scale: int = 1
    version: int = 0


SCENARIOS = {
    "fresh": Scenario(None),
    "changed parameters": Scenario(1, scale=2),
    "reopened": Scenario(1, damage),
    "reopened by another version": Scenario(1, damage, version=1),
}


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
    """Put a kill point before and after every write, sync, link, rename and removal below the workspace."""
    tick, new = die_at(point), folder._write_new

    def write_new(path: str, pieces: Any) -> None:
        data = b"".join(pieces)
        new(path, [data[: len(data) // 2]])
        tick()
        Path(path).unlink()
        new(path, [data])
        tick()

    def around(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            tick()
            result = real(*arguments, **options)
            tick()
            return result

        return call

    folder._write_new = write_new
    Folder.remove, Folder.sync = around(Folder.remove), around(Folder.sync)
    distembed.files.sync = around(distembed.files.sync)
    os.replace, os.link = around(os.replace), around(os.link)


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


def kill_in(root: Path, scenario: Scenario, step: int) -> int:
    """Kill at every `step`-th point until a run survives, and check each rerun; return how many were killed."""
    out, before = root / "out.json", root / "before"
    root.mkdir()
    if scenario.before is not None:
        in_child(lambda: job(before, scenario.before), out)
        scenario.spoil(before)
    in_child(lambda: job(root / "whole", scenario.scale, scenario.version), out)
    undisturbed = json.loads(out.read_text())[0]
    for n_killed, point in enumerate(itertools.count(1 + step // 2, step)):
        place = root / f"at-{point}"
        if before.exists():
            shutil.copytree(before, place)
        killed = in_child(
            lambda at=point, to=place: (arm(at), job(to, scenario.scale, scenario.version))[1], out
        )
        recorded = len(list(place.glob("journal/a/dense/0*.json")))
        recorded = 3 if (place / "manifest/a.json").exists() else recorded
        out.unlink(missing_ok=True)
        in_child(lambda to=place: job(to, scenario.scale, scenario.version), out)
        digest, computed, problems = json.loads(out.read_text())
        assert (digest, problems) == (undisturbed, []), (root.name, point)
        assert before.exists() or len(computed) == 3 - recorded, (root.name, point)
        if not killed:
            assert computed == []
            return n_killed
        assert killed == signal.SIGKILL
    raise AssertionError


def main() -> None:
    """Print how many runs of all scenarios were killed."""
    root, step = Path(sys.argv[1]), int(sys.argv[2])
    print(sum(kill_in(root / name, scenario, step) for name, scenario in SCENARIOS.items()))


if __name__ == "__main__":
    main()
