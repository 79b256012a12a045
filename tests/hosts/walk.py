"""A walk from an empty folder to a finished job on four hosts, with the kill of one worker in the middle.

    python -m tests.hosts.walk TEXT

It prints the commands that a user types, what they print, and the seconds that each takes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.commands import has_begun
from tests.hosts.network import SCHEDULER, WORKERS, Network, cluster, registrations, wait_until

JOB, WORKSPACE = "psdvec.toml", "psdvec-workspace"
SMALL_BLOCKS = ("--set", "corpus.partition_bytes=256KiB", "--set", "resources.block_memory=2MiB")
"""So that each host has some of them."""
VICTIM = "h3"
STEP_SECONDS = 600.0


class Step(NamedTuple):
    """A command that ended: its words after `distembed`, its seconds, its exit code and what it printed."""

    command: str
    seconds: float
    code: int
    printed: str


class Walk:
    """The commands of one user, in a folder that every host sees."""

    def __init__(self, hosts: Network, folder: Path) -> None:
        self.folder, self._hosts = folder, hosts

    def start(self, *words: str) -> None:
        self._hosts.log("client").unlink(missing_ok=True)
        self._command, self._begin = " ".join(words), time.monotonic()
        program = (sys.executable, "-m", "distembed.cli.main")
        self._hosts.start("client", "env", f"--chdir={self.folder}", *program, *words)

    def finish(self) -> Step:
        code = self._hosts.started["client"].wait(STEP_SECONDS)
        seconds = time.monotonic() - self._begin
        return Step(self._command, seconds, code, self._hosts.log("client").read_text())

    def do(self, *words: str) -> Step:
        self.start(*words)
        return self.finish()


def kill_in(hosts: Network, workspace: Path, stage: str) -> None:
    """Kill the worker of a host in the middle of a stage."""
    wait_until(lambda: has_begun(workspace, stage), f"the start of {stage}", seconds=STEP_SECONDS)
    time.sleep(2.0)
    hosts.kill(VICTIM)
    assert not (workspace / "manifest" / f"{stage}.json").exists(), f"{stage} was done before the kill"


def walk(hosts: Network, folder: Path, text: Path) -> list[Step]:
    """Write a job, plan it, run it on four hosts of which one loses its worker in the core, verify it, run it alone."""
    user = Walk(hosts, folder)
    steps = [user.do("new", "psdvec", str(text)), user.do("plan", JOB, *SMALL_BLOCKS)]
    user.start("run", JOB, *SMALL_BLOCKS, "--scheduler", SCHEDULER, *hosts.tls("client"))
    kill_in(hosts, folder / WORKSPACE, "core")
    steps += [user.finish(), user.do("status", WORKSPACE), user.do("verify", WORKSPACE)]
    steps.append(user.do("run", JOB, *SMALL_BLOCKS, "--workspace", "alone"))
    return [*steps, user.do("verify", "alone")]


def main(text: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="walk-") as room, cluster(Path(room)) as hosts:
        wait_until(lambda: all(registrations(hosts, host) for host in WORKERS), "the start of the workers")
        folder = Path(room) / "walk"
        folder.mkdir()
        for step in walk(hosts, folder, text.resolve()):
            print(
                f"$ distembed {step.command}   # {step.seconds:.1f} s, exit {step.code}\n{step.printed}",
                flush=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
