"""A walk from an empty folder to a finished job on four hosts, with the kill of one worker in the middle."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.commands import has_begun
from tests.hosts.network import SCHEDULER, Network, wait_until

JOB, WORKSPACE = "psdvec.toml", "psdvec-workspace"
SMALL_BLOCKS = ("--set", "corpus.partition_bytes=256KiB", "--set", "resources.block_memory=2MiB")
"""So that each host has some of them."""
VICTIM = "h3"
STEP_SECONDS = 600.0


class Step(NamedTuple):
    """A command that ended: its words after `distembed`, its exit code and what it printed."""

    command: str
    code: int
    printed: str


def kill_in(hosts: Network, workspace: Path, stage: str) -> None:
    """Kill the worker of a host in the middle of a stage."""
    wait_until(lambda: has_begun(workspace, stage), f"the start of {stage}", seconds=STEP_SECONDS)
    time.sleep(2.0)
    hosts.kill(VICTIM)
    assert not (workspace / "manifest" / f"{stage}.json").exists(), f"{stage} was done before the kill"


def walk(hosts: Network, folder: Path, text: Path) -> list[Step]:
    """Write a job, plan it, run it on four hosts of which one loses its worker in the core, verify it, run it alone."""
    steps = []
    for words in (
        ("new", "psdvec", str(text)),
        ("plan", JOB, *SMALL_BLOCKS),
        ("run", JOB, *SMALL_BLOCKS, "--scheduler", SCHEDULER, *hosts.tls("client")),
        ("status", WORKSPACE),
        ("verify", WORKSPACE),
        ("run", JOB, *SMALL_BLOCKS, "--workspace", "alone"),
        ("verify", "alone"),
    ):
        hosts.log("client").unlink(missing_ok=True)
        program = (sys.executable, "-m", "distembed.cli.main")
        client = hosts.start("client", "env", f"--chdir={folder}", *program, *words)
        if "--scheduler" in words:
            kill_in(hosts, folder / WORKSPACE, "core")
        code = client.wait(STEP_SECONDS)
        steps.append(Step(" ".join(words), code, hosts.log("client").read_text()))
    return steps
