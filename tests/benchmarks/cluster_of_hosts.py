"""Run a job on four hosts of a delaying, losing network, whole and with faults, and print the bytes of each stage.

    python -m tests.benchmarks.cluster_of_hosts jobs/quickstart.toml [--faults cut killed] [--set KEY=VALUE]

The hosts are network namespaces (`tests/hosts`): 1 ms from one to another, 0.1 % of the frames lost, TLS, a shared
folder, two of the four workers on each core of a machine of two. The digest of every line must be that of the first,
one process of two threads. `--stage` is the stage in which hosts fail.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal

from tests.benchmarks.measures import DISTEMBED, run_main, spent, tell, tell_head, tell_row
from tests.commands import digest, environment
from tests.hosts.network import WORKERS, Network, Wire, cluster, follow, registrations, wait_until

RUN_SECONDS = 3600.0
CUT_SECONDS = 60.0


def tell_wires(wires: list[Wire]) -> None:
    tell()
    tell_head("stage", "s", "client sent", "scheduler sent", "the four hosts sent")
    for wire in wires:
        sent = wire.sent["client"], wire.sent["scheduler"], sum(wire.sent[host] for host in WORKERS)
        tell_row(wire.stage, f"{wire.seconds:.1f}", *(f"{n_bytes / 1e3:,.0f} kB" for n_bytes in sent))


def cut_for_a_minute(hosts: Network) -> None:
    hosts.tell("cut h2")
    time.sleep(CUT_SECONDS)
    hosts.tell("join h2")


def kill_for_good(hosts: Network) -> None:
    hosts.tell("cut h3")
    hosts.kill("h3")


FAULTS = {"cut": cut_for_a_minute, "killed": kill_for_good}


def run(
    hosts: Network, job: Path, workspace: Path, options: tuple[str, ...], fault: str, stage: str
) -> list[Wire]:
    client = hosts.run_job(job, workspace, *options)
    if fault in FAULTS:
        wait_until((workspace / "manifest" / stage).exists, f"the start of {stage}", seconds=RUN_SECONDS)
        FAULTS[fault](hosts)
    wires = follow(hosts, client, workspace, seconds=RUN_SECONDS)
    if client.returncode:
        raise SystemExit(hosts.log("client").read_text())
    return wires


def main(
    job: Path, *options: str, faults: tuple[Literal["cut", "killed"], ...] = (*FAULTS,), stage: str = "tokens"
) -> None:
    job = job.resolve()
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        whole = Path(folder) / "alone"
        command = [*DISTEMBED, "run", job, "--workspace", whole, *options]
        quiet = {"stdout": subprocess.DEVNULL, "env": environment()}
        found = spent(subprocess.run, command, check=True, **quiet)
        tell(f"\none process: {found.wall:.1f} s, digest {digest(job, whole)}")
        for fault in ["none", *faults]:
            here = Path(folder) / fault
            here.mkdir()
            with cluster(here) as hosts:
                started = lambda hosts=hosts: all(registrations(hosts, host) for host in WORKERS)  # noqa: E731
                wait_until(started, "the start of the workers")
                found = spent(run, hosts, job, here / "w", options, fault, stage)
            tell(f"\n{fault}: {found.wall:.1f} s, digest {digest(job, here / 'w')}")
            tell_wires(found.result)


if __name__ == "__main__":
    run_main(main)
