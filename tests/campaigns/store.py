"""Apply random operations to a store, and compare it with a plain model after each.

    python -m tests.campaigns store --seed 0 --times 200 [--steps 25]

The steps are a run (with one of three parameters, by one of two versions), a run that is killed at a random write,
damage to a file, `verify`, the opening of a finished stage, a second writer, and a writer that wakes up after another
machine took its workspace. The model knows which parameter was finished last, which files were damaged since, and the
digest of each parameter. A failure prints the steps that lead to it, made as few as possible.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from benchmarks.measures import tell
from distembed.storage import lock
from distembed.storage.records import LOCK_FILE, LockedError
from distembed.storage.workspace import Workspace
from tests.faults.killed_at_every_write import arm, in_child, job
from tests.storage.examples import made_with

SCALES, VERSIONS, N_WRITES = st.integers(1, 3), st.integers(0, 1), 900


class Store(RuleBasedStateMachine):
    """A workspace; the scale and version that were finished last (None: unfinished), and what was damaged since.

    A stage that is whole is kept, whichever version made it: until a run ends, stages of the last one that did, and of
    all that were killed since, may be `kept`.
    """

    digests: ClassVar[dict[tuple[int, int], str]] = {}
    n_steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.room = Path(tempfile.mkdtemp(prefix="store-"))
        self.root = self.room / "w"
        self.finished: tuple[int, int] | None = None
        self.kept: set[tuple[int, int]] = set()
        self.damaged: set[str] = set()

    @invariant()
    def is_counted(self) -> None:
        type(self).n_steps += 1

    def teardown(self) -> None:
        shutil.rmtree(self.room)
        tell(f"{self.n_steps:,} steps so far")

    def expected(self, scale: int, version: int) -> str:
        """Return the digest of a run in a new workspace."""
        if (scale, version) not in self.digests:
            self.digests[scale, version] = job(self.room / f"{scale}-{version}", scale, version)[0]
        return self.digests[scale, version]

    def files(self) -> list[str]:
        """Return the files of the workspace, by their names in it."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return sorted(name for name in found if not name.startswith("lock"))

    def is_whole(self) -> bool:
        return self.finished is not None and not self.damaged

    @rule(scale=SCALES, version=VERSIONS)
    def run(self, scale: int, version: int) -> None:
        digest, computed, problems = job(self.root, scale, version)
        assert problems == []
        if self.is_whole() and self.finished[0] == scale:
            assert (computed, digest) == ([], self.expected(*self.finished))
        else:
            found = [one for one in (0, 1) if digest == self.expected(scale, one)]
            assert len(found) == 1
            assert found[0] == version or (scale, found[0]) in self.kept
            self.finished = (scale, found[0])
        self.kept, self.damaged = {self.finished}, set()

    @rule(scale=SCALES, version=VERSIONS, point=st.integers(1, N_WRITES))
    def run_killed(self, scale: int, version: int, point: int) -> None:
        killed = in_child(lambda: (arm(point), job(self.root, scale, version))[1], self.room / "out")
        if not killed:
            self.run(scale, version)
        else:
            self.finished = None
            self.kept.add((scale, version))

    @precondition(lambda self: self.finished is not None)
    @rule(number=st.integers(0, 10**6), way=st.integers(0, 2))
    def damage(self, number: int, way: int) -> None:
        names = [name for name in self.files() if twin_of(name) not in self.damaged]  # one of two vouches
        name = names[number % len(names)]
        path = self.root / name
        data = bytearray(path.read_bytes())
        if way == 2 or not data:
            path.unlink()
        elif way == 1:
            path.write_bytes(data[:-1])
        else:
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        self.damaged.add(name)

    @precondition(lambda self: self.finished is not None)
    @rule()
    def verify(self) -> None:
        named = {problem.file for problem in Workspace.open(self.root).verify()}
        assert named == self.damaged

    @precondition(lambda self: self.is_whole())
    @rule()
    def reopen(self) -> None:
        assert self.finished is not None
        scale, version = self.finished
        with Workspace.create(self.root, owner="test") as workspace:
            stage = workspace.stage("a", parameters={"scale": scale}, inputs={}, made_with=made_with(version))
            stage.reopen([])
        digest, computed, problems = job(self.root, scale, version)
        assert (digest, computed, problems) == (self.expected(scale, version), [], [])

    @precondition(lambda self: self.root.exists())
    @rule()
    def second_writer(self) -> None:
        with Workspace.create(self.root, owner="first") as first:
            self.damaged -= {problem.file for problem in first.repaired}
            with pytest.raises(LockedError, match="first"):
                Workspace.create(self.root, owner="second")

    @precondition(lambda self: self.is_whole())
    @rule(scale=SCALES)
    def woken_writer(self, scale: int) -> None:
        """A writer is paused, another one takes over and finishes, and the first goes on."""
        assert self.finished is not None
        old = Workspace.create(self.root, owner="paused")
        (self.root / LOCK_FILE).unlink()  # as the other machine does after the heartbeat has stood still
        assert job(self.root, *self.finished) == (self.expected(*self.finished), [], [])
        before = self.files()
        with pytest.raises(LockedError):
            old.stage("c", parameters={"scale": scale}, inputs={}).store_bytes("x", b"x")
        old.close()
        assert self.files() == before


def twin_of(name: str) -> str:
    """Return the other file with the commit of a stage."""
    if not name.startswith("manifest/"):
        return ""
    return name.replace("copies/", "") if "copies/" in name else name.replace("manifest/", "manifest/copies/")


def main(*, seed: int = 0, times: int = 200, steps: int = 25) -> None:
    lock.POLL_SECONDS = 0.01
    options: dict[str, Any] = {"max_examples": times, "stateful_step_count": steps, "deadline": None}
    chosen = hypothesis.settings(**options, database=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(hypothesis.seed(seed)(Store), settings=chosen)
    tell(f"{Store.n_steps:,} steps, each as the model says")
