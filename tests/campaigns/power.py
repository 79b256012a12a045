"""Cut the power at every step of a run: try disks that lost any of the writes and names that were not synced.

    python -m tests.campaigns power --seed 0 --times 500 [--runs fresh job]

A process runs two stages with an output of each kind (`tests/faults/killed_at_every_write.py` has the scenarios: a new
workspace, changed parameters, a repair, a repair by another version), or a small job with its report. Before and after
each sync, rename, link and removal it looks at all files. A disk may keep of each name any state since the last sync of
its folder, and of each file any content since its last sync, or a part of it, or zeros. For each step, the seed chooses
such disks: the one that kept nothing unsynced, the one that kept all names and no unsynced content, and random ones
between. On each of them

- every stage whose commit is there is whole, and `verify` says so;
- `verify` names no file that is as it was written, and no other reader finds a damaged one that `verify` does not name;
- the same run ends with the digest of the undisturbed one, and `verify` finds nothing.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measures import tell
from distembed.storage import lock
from distembed.storage.catalog import Catalog
from distembed.storage.folder import Folder
from distembed.storage.verify import check_blocks
from distembed.storage.workspace import Workspace
from tests.commands import run
from tests.faults.killed_at_every_write import SCENARIOS, Scenario, in_child, job
from tests.small_jobs import imputation

FOLDER = -1
"""What a name of a folder leads to, in place of the number of a file."""
Names = dict[str, int | None]


class Disk(NamedTuple):
    """What a disk may hold: of each name what it may lead to, and of each file what it may contain, the newest last."""

    names: dict[str, tuple[int | None, ...]]
    contents: dict[int, tuple[bytes, ...]]


class Recorder:
    """The files below a folder, looked at before and after each step, and what a disk may hold after each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disks: list[tuple[str, Disk]] = []
        self._names: dict[str, tuple[int | None, ...]] = {}
        self._contents: dict[int, tuple[bytes, ...]] = {}
        self._files: dict[int, tuple[int, tuple[int, int]]] = {}
        self._n_files = 0
        self._turn = threading.RLock()  # commits sync by many threads
        self.look()
        # what was there before is on the disk
        self._names = {name: kept[-1:] for name, kept in self._names.items()}
        self._contents = {number: kept[-1:] for number, kept in self._contents.items()}

    def look(self) -> None:
        """Note new names, and new contents, as what the disk may keep."""
        now: Names = {}
        before, self._files = self._files, {}
        for folder, folders, files in os.walk(self.root):
            now |= {f"{folder}/{name}": FOLDER for name in folders}
            now |= {f"{folder}/{name}": self._file(f"{folder}/{name}", before) for name in files}
        for name in {*now, *self._names}:
            kept = self._names.get(name, (None,))
            if kept[-1] != now.get(name):
                self._names[name] = (*kept, now.get(name))

    def _file(self, path: str, before: Mapping[int, tuple[int, tuple[int, int]]]) -> int:
        stat = Path(path).stat()
        state = (stat.st_mtime_ns, stat.st_size)
        number, was = self._files.get(stat.st_ino) or before.get(stat.st_ino) or (self._n_files, None)
        if was is None:
            self._n_files += 1
        if state != was:
            self._contents[number] = (*self._contents.get(number, (b"",)), Path(path).read_bytes())
        self._files[stat.st_ino] = (number, state)
        return number

    def synced(self, path: str) -> None:
        """Forget all but the newest state of a file, or of the names in a folder."""
        if Path(path).is_dir():
            inside = [name for name in self._names if name.rpartition("/")[0] == path]
            self._names |= {name: self._names[name][-1:] for name in inside}
        elif (number := self._files.get(Path(path).stat().st_ino)) is not None:
            self._contents[number[0]] = self._contents[number[0]][-1:]

    def step(self, what: str) -> None:
        """Note what the disk may hold now."""
        self.disks.append((what, Disk(dict(self._names), dict(self._contents))))

    def around(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a function of the system that looks before and after it."""

        def call(*arguments: Any, **options: Any) -> Any:
            with self._turn:
                self.look()
                path = str(arguments[-1])
                if name == "sync":
                    path = str(Path(f"/proc/self/fd/{path}").readlink())
                result = real(*arguments, **options)
                self.look()
                if name == "sync":
                    self.synced(path)
                self.step(f"{name} {path.removeprefix(f'{self.root}/')}")
            return result

        return call


def record(root: Path, work: Callable[[], Any], out: Path) -> None:
    """Run a piece of work in a process that writes down what a disk may hold of a folder after each of its steps."""

    def recorded() -> None:
        recorder = Recorder(root)
        os.fsync = recorder.around(os.fsync, "sync")
        os.replace, os.link = recorder.around(os.replace, "rename"), recorder.around(os.link, "link")
        os.unlink = recorder.around(os.unlink, "remove")
        shutil.rmtree = recorder.around(shutil.rmtree, "remove")
        lock.BEAT_SECONDS = 1e6
        work()
        out.write_bytes(pickle.dumps(recorder.disks))

    assert in_child(recorded, out.with_suffix(".json")) == 0
    assert out.exists(), "the run that was to be recorded failed"


# --- a disk after the power is back ----------------------------------------------------------------------------


def chosen(kept: tuple[Any, ...], way: str, drawn: random.Random) -> Any:
    if way == "lost":
        return kept[0]
    return drawn.choice(kept) if way == "any" else kept[-1]


def torn(content: tuple[bytes, ...], way: str, drawn: random.Random) -> bytes:
    """Return what the disk kept of a file that was not synced."""
    if len(content) == 1 or way == "kept":
        return content[-1]
    newest = content[-1]
    return drawn.choice((content[0], b"\0" * len(newest), newest[: len(newest) // 2], newest))


def make_disk(disk: Disk, before: Path, after: Path, way: str, drawn: random.Random) -> None:
    """Write what a disk has kept of the folder `before` into the folder `after`."""
    after.mkdir()
    for name in sorted(disk.names):
        kept, place = chosen(disk.names[name], way, drawn), after / Path(name).relative_to(before)
        if kept is None or not place.parent.is_dir():
            continue
        if kept == FOLDER:
            place.mkdir()
        else:
            place.write_bytes(torn(disk.contents[kept], way, drawn))


WAYS = ("lost", "names", "any", "any")
"""What is kept: nothing that was not synced; all names, but not the contents; any of both."""


def lacking(root: Path) -> dict[str, set[str]]:
    """Return of each committed stage the files that are not what its commit says."""
    folder, found = Folder.at(root), {}
    for stage in Catalog(folder, is_writer=False).manifests().values():
        found[stage.stage] = {problem.file for problem in check_blocks(folder, stage.outputs.values())}
    return found


def faults_of_commits(root: Path, live: Path) -> list[str]:
    """Return what is wrong with the committed stages, and with what `verify` says of them.

    A stage that was being made again, whose commit was withdrawn, may be damaged where it comes back; so may be what
    was damaged before the power was cut, in the workspace as its run has seen it, `live`.
    """
    if not (root / "workspace.json").exists():
        return []
    found, before = lacking(root), lacking(live)
    named = {problem.file for problem in Workspace.open(root).verify()}
    told = [f"verify does not name {file}" for bad in found.values() for file in bad - named]
    for stage, bad in found.items():
        lost = bad - before.get(stage, bad)
        told += [f"stage {stage} is committed and the disk lost {file}" for file in lost]
    return told


def fault(root: Path, live: Path, scenario: Scenario, digest: str, work: Callable[..., Any]) -> str:
    """Return what is wrong with a workspace after a power cut, or with the run that follows, "" for nothing."""
    try:
        if found := faults_of_commits(root, live):
            return found[0]
        now, _, problems = work(root, scenario.scale, scenario.version)
    except Exception as error:  # noqa: BLE001 (any error is what is looked for)
        return f"{type(error).__name__}: {error}"
    if problems:
        return str(problems[0])
    return "" if now == digest else "another digest"


def whole_job(root: Path, _scale: int = 1, _version: int = 0) -> tuple[str, list[int], list[Any]]:
    """Run a small job with its report, as `job` runs two stages."""
    if not (root.parent / "job.toml").exists():
        imputation.write(root.parent)
    done = run("run", root.parent / "job.toml", "--workspace", root)
    assert done.exit_code == 0, done.output
    workspace = Workspace.open(root)
    return workspace.digest(), [], workspace.verify()


RUNS = {**dict.fromkeys(SCENARIOS, job), "job": whole_job}


def cuts(room: Path, *, seed: int, times: int, runs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield so many power cuts, the same number in each of some runs, at steps that the seed chooses.

    The first is where the power was cut and what the disk kept, the second what was wrong then, "" for nothing.
    """
    lock.POLL_SECONDS = 0.01
    for name in runs:
        work, scenario = RUNS[name], SCENARIOS.get(name, Scenario(None))
        drawn, root, out = random.Random(f"{seed} {name}"), room / name / "w", room / name / "disks"
        root.parent.mkdir()
        if scenario.before is not None:
            in_child(lambda at=root, given=scenario: job(at, given.before), out)
            scenario.spoil(root)
        else:
            root.mkdir()
        shutil.copytree(root, room / name / "whole")
        record(root, lambda at=root, given=scenario, do=work: do(at, given.scale, given.version), out)
        digest = work(room / name / "whole", scenario.scale, scenario.version)[0]
        disks = pickle.loads(out.read_bytes())
        every = [(step, way) for step in range(len(disks)) for way in WAYS]
        points = sorted(drawn.sample(range(len(every)), min(times // len(runs), len(every))))
        for step, way in (every[point] for point in points):
            what, disk = disks[step]
            after, live = room / name / "after", room / name / "live"
            make_disk(disk, root, after, way, random.Random(f"{seed} {name} {step} {way}"))
            make_disk(disk, root, live, "kept", drawn)
            yield f"{name}, step {step} ({what}), {way}", fault(after, live, scenario, digest, work)
            shutil.rmtree(after)
            shutil.rmtree(live)


def main(*, seed: int = 0, times: int = 500, runs: tuple[str, ...] = (*RUNS,)) -> None:
    with tempfile.TemporaryDirectory(prefix="power-") as room:
        done = list(cuts(Path(room), seed=seed, times=times, runs=runs))
    faults = [(where, wrong) for where, wrong in done if wrong]
    for where, wrong in faults:
        tell(f"seed {seed}, {where}: {wrong}")
    tell(f"{len(done)} cuts, {len(faults)} faults")
    sys.exit(bool(faults))
