"""Damage a file of each kind of finished workspaces in each way, and ask verify, the readers and the next run.

    python -m tests.campaigns corruption --seed 0 --times 200 [--systems psdvec imputation]

The kinds are those of the files that are found in the workspaces of small jobs: names that differ in digits alone are
of one kind. A file is flipped (a bit), truncated, emptied, deleted, swapped with another of its kind, or replaced by an
older version of itself, from a run of the same job with another setting. Then `verify` has to name the file, or its
stage; a command that reads (`READERS`) has to print what it printed before, or to end with an error; and `run` has to
end with the digest of before without making another block again. What `verify` does not name may change nothing of what
readers print.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import distembed as de
from benchmarks.measures import tell
from tests.campaigns.kills import SYSTEMS, job_words
from tests.commands import run
from tests.test_promises import block_of, spoil
from tests.test_promises import times as times_of

READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "psdvec": (
        ("neighbors", "{w}", "word1", "word7"),
        ("evaluate", "{w}", "--sets", "{job}/sets"),
        ("explain", "{w}", "word1", "word7"),
        ("status", "{w}"),
        ("export", "{w}", "--to", "{w}.txt"),
    ),
    "topics": (("explain", "{w}", "d1"), ("status", "{w}"), ("export", "{w}", "--to", "{w}.csv")),
    "imputation": (("status", "{w}"), ("export", "{w}", "--to", "{w}.parquet")),
}
OLDER = {
    "psdvec": "psdvec.n_iter=3",
    "topics": "topics.max_iter=5",
    "imputation": "imputation.min_degree=5",
}
"""A setting by which a run made an older version of a workspace."""


class Whole(NamedTuple):
    """A finished job: its system, folder, workspace, older workspace, digest, and what its readers print."""

    system: str
    folder: Path
    workspace: Path
    older: Path
    digest: str
    read: list[str]


class Damage(NamedTuple):
    """A damaged file and what became of it: named by verify, wrong reading commands, and what is wrong after a run."""

    system: str
    file: str
    way: str
    named: bool
    misread: list[str]
    fault: str


def kinds(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each kind."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(re.sub(r"\d+", "0", name), []).append(name)
    return groups


def swap(workspace: Path, name: str, whole: Whole, drawn: random.Random) -> bool:
    """Swap a file with another of its kind, or of its folder and ending; return whether they differ."""
    same = kinds([*times_of(workspace)])[re.sub(r"\d+", "0", name)]
    near = [str(p.relative_to(workspace)) for p in (workspace / name).parent.iterdir() if p.is_file()]
    others = [other for other in {*same, *near} if Path(other).suffix == Path(name).suffix and other != name]
    for other in drawn.sample(sorted(others), len(others)):
        one, two = (workspace / name).read_bytes(), (workspace / other).read_bytes()
        if one != two:
            replace(workspace / name, two)
            replace(workspace / other, one)
            return True
    return False


def older(workspace: Path, name: str, whole: Whole, drawn: random.Random) -> bool:
    """Put an older version of a file in its place; return whether there is another one."""
    data = (whole.older / name).read_bytes() if (whole.older / name).exists() else b""
    if not data or data == (workspace / name).read_bytes():
        return False
    replace(workspace / name, data)
    return True


def replace(path: Path, data: bytes) -> None:
    """Write a new file: the old one has a second name in the workspace that stays whole."""
    path.unlink()
    path.write_bytes(data)


def plain(change: Callable[[Path], None]) -> Callable[[Path, str, Whole, random.Random], bool]:
    def damage(workspace: Path, name: str, whole: Whole, drawn: random.Random) -> bool:
        data = (workspace / name).read_bytes()
        replace(workspace / name, data)
        change(workspace / name)
        return not (workspace / name).exists() or (workspace / name).read_bytes() != data

    return damage


WAYS: dict[str, Callable[[Path, str, Whole, random.Random], bool]] = {
    "flipped": plain(lambda path: spoil(path, 0)),
    "truncated": plain(lambda path: spoil(path, 1)),
    "emptied": plain(lambda path: path.write_bytes(b"") and None),
    "deleted": plain(Path.unlink),
    "swapped": swap,
    "older": older,
}


def finish(room: Path, system: str) -> Whole:
    """Run a job twice, the older version with another setting."""
    folder = room / system
    folder.mkdir()
    SYSTEMS[system].write(folder)
    words = job_words(system)
    for name, more in (("older", ("--set", OLDER[system])), ("w", ())):
        done = run(*filled(words, folder, folder / name), *more)
        assert done.exit_code == 0, done.output
    workspace = folder / "w"
    read = [said(words, folder, workspace) for words in READERS[system]]
    assert all(read), f"a reader of {system} reads nothing: {READERS[system]}"
    digest = de.Workspace.open(workspace).digest()
    return Whole(system, folder, workspace, folder / "older", digest, read)


def filled(words: Sequence[str], folder: Path, workspace: Path) -> list[str]:
    names = {"{here}/w": str(workspace), "{here}": str(folder), "{w}": str(workspace), "{job}": str(folder)}
    for name, value in names.items():
        words = [word.replace(name, value) for word in words]
    return [*words]


def said(words: Sequence[str], folder: Path, workspace: Path) -> str:
    """Return what a command that reads prints, but for times, and writes; "" where it ends with an error."""
    target = Path(filled(words, folder, workspace)[-1])
    target = target if "export" in words else folder / "none"
    target.unlink(missing_ok=True)
    done = run(*filled(words, folder, workspace))
    if done.exit_code:
        return "" if not done.exception or isinstance(done.exception, SystemExit) else repr(done.exception)
    written = target.read_bytes().hex() if target.is_file() else ""
    return re.sub(r"[\d.]+ (min|s)\b", "", done.stdout).replace(str(workspace), "w") + written


def tried(whole: Whole, name: str, way: str, drawn: random.Random) -> Damage | None:
    """Damage a file of a copy; return what came of it, or None where this file cannot be damaged so."""
    copy = whole.folder / "c"  # as long as the name of the workspace: tables are as wide as it
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole.workspace, copy, copy_function=os.link)
    if not WAYS[way](copy, name, whole, drawn):
        return None
    job = filled(job_words(whole.system), whole.folder, copy)
    found = run("verify", copy).output
    named = name in found or f"stage {Path(name).stem} is not committed" in found
    read = [said(words, whole.folder, copy) for words in READERS[whole.system]]
    pairs = zip(READERS[whole.system], read, whole.read, strict=True)
    misread = [words[0] for words, now, before in pairs if now not in ("", before)]
    return Damage(whole.system, name, way, named, misread, fault_of_run(whole, name, way, copy, job))


def fault_of_run(whole: Whole, name: str, way: str, copy: Path, job: list[str]) -> str:
    """Return what is wrong after a run that mends, "" for nothing."""
    before = times_of(copy)
    done = run(*job)
    if done.exit_code:
        return f"run: exit code {done.exit_code}: {done.output[-500:]}"
    workspace = de.Workspace.open(copy)
    if problems := workspace.verify():
        return str(problems[0])
    if workspace.digest() != whole.digest:
        return "another digest"
    after = times_of(copy)
    if name.startswith("arrays.zarr/") and way != "swapped":
        own = block_of(name)
        others = [n for n in before if n.startswith("arrays.zarr/") and "/c/" in n and not n.startswith(own)]
        if made := [other for other in others if after.get(other) != before[other]]:
            return f"{made[0]} was made again"
    return ""


def damages(room: Path, systems: Sequence[str], *, seed: int, times: int) -> Iterator[Damage]:
    """Yield so many damages, of kinds and ways that the seed chooses, each pair once; those of the systems in turn."""
    for system in systems:
        whole = finish(room, system)
        files = kinds([*times_of(whole.workspace)])
        drawn = random.Random(f"{seed} {system}")
        every = [(kind, way) for kind in files for way in WAYS]
        drawn.shuffle(every)
        found = (tried(whole, drawn.choice(files[kind]), way, drawn) for kind, way in every)
        yield from islice((one for one in found if one), max(1, times // len(systems)))
        assert de.Workspace.open(whole.workspace).digest() == whole.digest


def main(*, seed: int = 0, times: int = 200, systems: tuple[str, ...] = (*READERS,), room: str = "") -> None:
    n_done = n_faults = 0
    with tempfile.TemporaryDirectory(prefix="corruption-", dir=room or None) as place:
        for one in damages(Path(place), systems, seed=seed, times=times):
            unnamed = [] if one.named else ["not named by verify"]
            n_done, n_faults = n_done + 1, n_faults + bool(one.fault or one.misread)
            if one.fault or one.misread or unnamed:
                what = "; ".join([*unnamed, *one.misread, one.fault])
                tell(f"seed {seed} {one.system} {one.file} {one.way}: {what}")
    tell(f"{n_done} damages, {n_faults} misread or not mended")
    sys.exit(bool(n_faults))
