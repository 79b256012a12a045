"""Damage a file of each kind of finished workspaces in each way, and ask verify, the readers and the next run.

    python -m tests.campaigns corruption --seed 0 --times 200 [--systems psdvec imputation]

The kinds are those of the files that are found in the workspaces of small jobs: names that differ in digits alone are
of one kind. A file is flipped (a bit), truncated, emptied, deleted, swapped with another of its kind, or replaced by an
older version of itself, from a run of the same job with another setting; or in its place is a pipe, a socket, a folder,
a link to it, or a file that may not be read. Then `verify` has to name the file, or its stage; a command that reads
(`READERS`) has to print what it printed before, or to end with an error; and `run` has to end with the digest of before
without making another block again. What `verify` does not name may change nothing of what readers print.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import distembed as de
from benchmarks.measures import tell
from tests.campaigns.kills import job_words
from tests.commands import run, succeed
from tests.storage.test_damage import FAULTS, bound_by_modes
from tests.test_promises import SYSTEMS, block_of, times

READERS = {
    "psdvec": (
        "neighbors {w} word1 word7",
        "evaluate {w} --sets {here}/sets",
        "explain {w} word1 word7",
        "status {w}",
        "export {w} --to {w}.txt",
    ),
    "topics": ("explain {w} d1", "status {w}", "export {w} --to {w}.csv"),
    "imputation": ("status {w}", "export {w} --to {w}.parquet"),
    "wordspaces": ("neighbors {w} a0 b1", "status {w}", "export {w} --to {w}.txt"),
    "transfer": ("status {w}", "export {w} --to {w}.csv"),
    "comparison": ("explain {w} ra", "status {w}", "export {w} --to {w}.csv"),
}
OLDER = {
    "psdvec": "psdvec.n_iter=3",
    "topics": "topics.max_iter=5",
    "imputation": "imputation.min_degree=5",
    "wordspaces": "recipes.lsa.n_components=3",
    "transfer": "representation.n_components=3",
    "comparison": "psdvec.n_iter=3",
}
"""A setting by which a run made an older version of a workspace."""
RECORDED_JOB = "job.toml"
"""It is no result: where a run cannot read it, it ends in a sentence that names it, until somebody removes it."""
REPLACED = ("pipe", "socket", "folder", "link to the same", "unreadable")
WAYS = ("flipped", "truncated", "emptied", "deleted", "swapped", "older", *REPLACED)


def kind_of(name: str) -> str:
    return re.sub(r"\d+", "0", name)


class Whole:
    """A finished job in a folder: its workspace, an older one, its digest, and what its readers print."""

    def __init__(self, room: Path, system: str) -> None:
        self.system, self.folder = system, room / system
        self.workspace, self.older = self.folder / "made", self.folder / "older"
        self.folder.mkdir()
        SYSTEMS[system].write(self.folder)
        for place, more in ((self.older, ("--set", OLDER[system])), (self.workspace, ())):
            succeed(*self.words(place), *more)
        self.files = sorted(times(self.workspace))
        self.digest = de.Workspace.open(self.workspace).digest()
        self.read = {line: self.said(line, self.workspace) for line in READERS[system]}
        assert all(self.read.values()), f"a reader of {system} reads nothing: {self.read}"

    def words(self, workspace: Path) -> list[str]:
        """Return the words of the run of the job in a workspace."""
        named = {"{here}/w": str(workspace), "{here}/job.toml": str(self.folder / "job.toml")}
        return [named.get(word, word) for word in job_words(self.system)]

    def said(self, line: str, workspace: Path) -> str:
        """Return what a command that reads prints, but for times, and writes; "" where it says that it cannot."""
        words = line.format(w=workspace, here=self.folder).split()
        target = Path(words[-1] if "export" in words else self.folder / "none")
        target.unlink(missing_ok=True)
        done = run(*words)
        if done.exit_code:
            return "" if isinstance(done.exception, SystemExit) else repr(done.exception)
        if "are not in the workspace any more" in done.stdout:  # it shows less than it did
            return ""
        written = target.read_bytes().hex() if target.is_file() else ""
        return re.sub(r"[\d.]+ (min|s)\b", "", done.stdout).replace(str(workspace), "w") + written

    def damaged(self, name: str, way: str, drawn: random.Random) -> dict[str, bytes | None]:
        """Return new contents of files (None: no file); none where the file cannot be damaged so."""
        data = (self.workspace / name).read_bytes()
        middle, old = len(data) // 2, self.older / name
        if way == "swapped":
            for other in drawn.sample(self.files, len(self.files)):
                is_near = kind_of(other) == kind_of(name) or Path(other).parent == Path(name).parent
                found = (self.workspace / other).read_bytes()
                if is_near and Path(other).suffix == Path(name).suffix and found != data:
                    return {name: found, other: data}
            return {}
        if way in REPLACED:
            return {name: data}
        changed = {
            "flipped": data[:middle]
            + bytes(byte ^ 1 for byte in data[middle : middle + 1])
            + data[middle + 1 :],
            "truncated": data[:-3],
            "emptied": b"",
            "deleted": None,
            "older": old.read_bytes() if old.exists() else data,
        }[way]
        return {} if changed == data else {name: changed}

    def tried(self, name: str, way: str, drawn: random.Random) -> tuple[str, str] | None:
        """Damage a file of a copy; return "" or that it is not named, and what is wrong; None if it stays as it is."""
        contents = self.damaged(name, way, drawn)
        if not contents:
            return None
        copy = self.folder / "copy"  # as long as the name of the workspace: tables are as wide as it
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.workspace, copy, copy_function=os.link)
        for each, data in contents.items():
            (copy / each).unlink()  # which has a second name in the workspace that stays whole
            if data is not None:
                (copy / each).write_bytes(data)
        if way in REPLACED:
            FAULTS[way][0](copy / name)
        with bound_by_modes():
            return self.judged(copy, name, way)

    def judged(self, copy: Path, name: str, way: str) -> tuple[str, str]:
        """Return "" or that verify does not name a damaged file of a copy, and what is wrong with readers and a run."""
        found = run("verify", copy).output
        is_named = name in found or f"stage {Path(name).stem} is not committed" in found
        misread = [
            line.split()[0] for line in self.read if self.said(line, copy) not in ("", self.read[line])
        ]
        wrong = [*misread, *self.wrong_after_a_run(copy, () if way == "swapped" else (name,))]
        return "" if is_named else "not named by verify", "; ".join(wrong)

    def wrong_after_a_run(self, copy: Path, damaged: tuple[str, ...]) -> list[str]:
        """Return what is wrong after a run that mends; of an array only the blocks of a damaged file are made again."""
        before = times(copy)
        done = run(*self.words(copy))
        if done.exit_code and damaged == (RECORDED_JOB,) and RECORDED_JOB in done.output:
            (copy / RECORDED_JOB).rename(copy / "aside")
            done = run(*self.words(copy))
        if done.exit_code:
            return [f"run: exit code {done.exit_code}: {done.output[-500:]}"]
        workspace, after = de.Workspace.open(copy), times(copy)
        if (problems := workspace.verify()) or workspace.digest() != self.digest:
            return [str(problem) for problem in problems] or ["another digest"]
        own = tuple(block_of(name) for name in damaged if name.startswith("arrays.zarr/"))
        others = [
            name for name in before if re.match(r"arrays\.zarr/.*/c/", name) and not name.startswith(own)
        ]
        return [f"{name} was made again" for name in others if own and after.get(name) != before[name]]


def damages(whole: Whole, *, seed: int, times: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield so many damages: the file and the way, each kind and way once, and what is wrong."""
    drawn = random.Random(f"{seed} {whole.system}")
    every = [(kind, way) for kind in sorted(set(map(kind_of, whole.files))) for way in WAYS]
    drawn.shuffle(every)

    def each() -> Iterator[tuple[str, str, str, str]]:
        for kind, way in every:
            name = drawn.choice([name for name in whole.files if kind_of(name) == kind])
            if found := whole.tried(name, way, drawn):
                yield name, way, *found

    yield from islice(each(), times)
    assert de.Workspace.open(whole.workspace).digest() == whole.digest


def main(*, seed: int = 0, times: int = 200, systems: tuple[str, ...] = (*READERS,), room: str = "") -> None:
    n_done = n_faults = 0
    with tempfile.TemporaryDirectory(prefix="corruption-", dir=room or None) as place:
        for system in systems:
            whole = Whole(Path(place), system)
            for name, way, unnamed, wrong in damages(whole, seed=seed, times=max(1, times // len(systems))):
                n_done, n_faults = n_done + 1, n_faults + bool(wrong)
                if unnamed or wrong:
                    tell(f"seed {seed} {system} {name} {way}: {'; '.join(filter(None, (unnamed, wrong)))}")
    tell(f"{n_done} damages, {n_faults} misread or not mended")
    sys.exit(bool(n_faults))
