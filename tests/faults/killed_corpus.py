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

from tests.faults.killed_at_every_write import arm, in_child
from tests.growing_corpus import count, digests, texts, write_file, write_job

FILES = {"a.jsonl": texts(1), "c.jsonl": texts(2)}


def add(root: Path) -> None:
    """Add a file."""
    write_file(root, "b.jsonl", texts(3))
    count(root)


def take_out(root: Path) -> None:
    """Remove a file, so that another gets its number."""
    (root / "text" / "a.jsonl").unlink(missing_ok=True)
    count(root)


CHANGES: dict[str, Callable[[Path], None]] = {"add": add, "remove": take_out}


def there(place: Path) -> dict[str, str]:
    """Return the digests of a workspace, {} where there is none."""
    return digests(place) if (place / "workspace.json").exists() else {}


def kill_in(root: Path, work: Callable[[Path], None], step: int) -> dict[str, Any]:
    """Kill a change at every `step`-th point; return the digests before and after, those found, those of reruns."""
    root.mkdir()
    out, whole = root / "out.json", root / "whole"
    write_job(whole, FILES)
    in_child(lambda: (count(whole), there(whole / "w"))[1], out)
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
        in_child(lambda to=place: (work(to), there(to / "w"))[1], out)
        found["rerun"].append(json.loads(out.read_text()))
        shutil.rmtree(place)
        point += step
    return found


def main() -> None:
    """Print what becomes of a change, in a folder, that is killed at every so many points."""
    name, top, step = sys.argv[1:]
    print(json.dumps(kill_in(Path(top) / name, CHANGES[name], int(step))))
