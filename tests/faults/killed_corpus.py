"""Child of test_killed_corpus: fork, die by SIGKILL at the n-th write of a change of a corpus, and report what is left.

The process forks for each kill point, before any thread has started.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distembed.stages.merging import merge
from distembed.stages.withdrawing import withdraw
from tests.faults.killed_at_every_write import arm, in_child
from tests.growing_corpus import count, digests, texts, write_file, write_job

FILES = {"a.jsonl": texts(1), "c.jsonl": texts(2)}


def add(root: Path) -> None:
    """Add a file."""
    write_file(root, "b.jsonl", texts(3))
    count(root)


def take_out(root: Path) -> None:
    """Withdraw documents and a file."""
    withdraw(str(root / "w"), documents=["a-3", "a-5"], files=["c.jsonl"])


def join(root: Path) -> None:
    """Merge two workspaces into a third, `w`."""
    merge([str(root / "one"), str(root / "two")], to=str(root / "w"))


def count_one(root: Path) -> None:
    """Count a corpus as it is before it changes."""
    write_job(root, FILES)
    count(root)


def count_two(root: Path) -> None:
    """Count two corpora apart."""
    for name, (file, documents) in zip(("one", "two"), FILES.items(), strict=True):
        write_job(root / f"of-{name}", {file: documents})
        count(root / f"of-{name}", str(root / name))


Change = tuple[Callable[[Path], None], Callable[[Path], None]]
CHANGES: dict[str, Change] = {
    "add": (count_one, add),
    "withdraw": (count_one, take_out),
    "merge": (count_two, join),
}


def there(place: Path) -> dict[str, str]:
    """Return the digests of a workspace, {} where there is none."""
    return digests(place) if (place / "workspace.json").exists() else {}


def kill_in(root: Path, change: Change, step: int) -> dict[str, Any]:
    """Kill a change at every `step`-th point; return the digests before and after, those found, those of reruns."""
    root.mkdir()
    (prepare, work), out = change, root / "out.json"
    whole = root / "whole"
    in_child(lambda: (prepare(whole), there(whole / "w"))[1], out)
    found: dict[str, Any] = {"before": json.loads(out.read_text()), "killed": [], "rerun": []}
    shutil.copytree(whole, root / "undisturbed")
    in_child(lambda: (work(root / "undisturbed"), there(root / "undisturbed/w"))[1], out)
    found["after"] = json.loads(out.read_text())
    point, signal = step, 1
    while signal:
        place = root / f"at-{point}"
        shutil.copytree(whole, place)
        signal = in_child(lambda at=point, to=place: (arm(at), work(to))[1], out)
        in_child(lambda to=place: there(to / "w"), out)
        found["killed"].append(json.loads(out.read_text()))
        in_child(lambda to=place: (finished(work, to), there(to / "w"))[1], out)
        found["rerun"].append(json.loads(out.read_text()))
        shutil.rmtree(place)
        point += step
    return found


def finished(work: Callable[[Path], None], root: Path) -> None:
    """Give the command again; it may have been killed after its end."""
    try:
        work(root)
    except ValueError as error:
        if "already" not in str(error):
            raise


def main() -> None:
    """Print what becomes of a change, in a folder, that is killed at every so many points."""
    name, top, step = sys.argv[1:]
    print(json.dumps(kill_in(Path(top) / name, CHANGES[name], int(step))))
