"""Run a job on four hosts of a delaying, losing network, whole and with faults, and print the bytes of each stage.

    python -m tests.benchmarks.cluster_of_hosts jobs/quickstart.toml [--faults cut killed] [--set KEY=VALUE]

The hosts are network namespaces (`tests/hosts`): 1 ms from one to another, 0.1 % of the frames lost, TLS, a shared
folder, two of the four workers on each core of a machine of two. The digest of every line must be that of the first,
one process of two threads.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.hosts.network import WORKERS, Network, Wire, cluster, follow, registrations, wait_until
from tests.pipeline.conftest import digest, environment

RUN_SECONDS = 3600.0
CUT_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--faults", nargs="*", choices=[*FAULTS], default=[*FAULTS])
    parser.add_argument("--stage", default="tokens", help="the stage in which hosts fail")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    given = parser.parse_args()
    job, words = given.job.resolve(), [word for pair in given.settings for word in ("--set", pair)]
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        alone = Path(folder) / "alone"
        begin = time.perf_counter()
        program = [
            sys.executable,
            "-m",
            "distembed.cli.main",
            "run",
            str(job),
            "--workspace",
            str(alone),
            *words,
        ]
        subprocess.run(program, check=True, stdout=subprocess.DEVNULL, env=environment())
        tell("one process", time.perf_counter() - begin, digest(job, alone))
        for fault in ["none", *given.faults]:
            here = Path(folder) / fault
            here.mkdir()
            with cluster(here) as hosts:
                wait_until(
                    lambda: all(registrations(hosts, host) for host in WORKERS), "the start of the workers"
                )
                begin = time.perf_counter()
                wires = NO_FAULT_OR[fault](hosts, job, here / "w", words, given.stage)
                tell(fault, time.perf_counter() - begin, digest(job, here / "w"))
                print_wires(wires)


def tell(what: str, seconds: float, found: str) -> None:
    print(f"\n{what}: {seconds:.1f} s, digest {found}", flush=True)


def print_wires(wires: list[Wire]) -> None:
    print("\n| stage | s | client sent | scheduler sent | the four hosts sent |\n|---|--:|--:|--:|--:|")
    for wire in wires:
        client, scheduler = (f"{wire.sent[name] / 1e3:,.0f} kB" for name in ("client", "scheduler"))
        own = sum(wire.sent[host] for host in WORKERS)
        print(
            f"| {wire.stage} | {wire.seconds:.1f} | {client} | {scheduler} | {own / 1e3:,.0f} kB |",
            flush=True,
        )


def run(hosts: Network, job: Path, workspace: Path, words: list[str], stage: str) -> list[Wire]:
    """Run the job with nothing amiss."""
    del stage
    return finish(hosts, hosts.run_job(job, workspace, *words), workspace)


def run_with_a_cut(hosts: Network, job: Path, workspace: Path, words: list[str], stage: str) -> list[Wire]:
    """Cut one host off for a minute."""
    client = start(hosts, job, workspace, words, stage)
    hosts.tell("cut h2")
    time.sleep(CUT_SECONDS)
    hosts.tell("join h2")
    return finish(hosts, client, workspace)


def run_with_a_killed_host(
    hosts: Network, job: Path, workspace: Path, words: list[str], stage: str
) -> list[Wire]:
    """Take one host away for good."""
    client = start(hosts, job, workspace, words, stage)
    hosts.tell("cut h3")
    hosts.kill("h3")
    return finish(hosts, client, workspace)


def start(
    hosts: Network, job: Path, workspace: Path, words: list[str], stage: str
) -> subprocess.Popen[bytes]:
    client = hosts.run_job(job, workspace, *words)
    wait_until((workspace / "manifest" / stage).exists, f"the start of {stage}", seconds=RUN_SECONDS)
    return client


def finish(hosts: Network, client: subprocess.Popen[bytes], workspace: Path) -> list[Wire]:
    wires = follow(hosts, client, workspace, seconds=RUN_SECONDS)
    if client.returncode:
        raise SystemExit(hosts.log("client").read_text())
    return wires


Scenario = Callable[[Network, Path, Path, list[str], str], list[Wire]]
FAULTS: dict[str, Scenario] = {
    "cut": run_with_a_cut,
    "killed": run_with_a_killed_host,
}
NO_FAULT_OR: dict[str, Scenario] = {"none": run, **FAULTS}

if __name__ == "__main__":
    main()
