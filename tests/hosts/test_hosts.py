"""A job on four hosts that have their own addresses, over TLS, on a network that delays and loses frames."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.commands import DUMP, digest, has_begun, succeed
from tests.hosts.network import (
    SCHEDULER,
    WORKERS,
    Network,
    NoNamespacesError,
    Wire,
    cluster,
    follow,
    registrations,
    wait_until,
)
from tests.hosts.walk import WORKSPACE, walk

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

Finished = tuple[Path, str, str]
RUN_SECONDS = 500.0
CUT_SECONDS = 60.0
SMALLER_BLOCKS = ("--set", "resources.block_memory=1MiB")


@pytest.fixture
def hosts(tmp_path):
    try:
        with cluster(tmp_path) as made:
            wait_until(lambda: all(registrations(made, host) for host in WORKERS), "the start of the workers")
            yield made
    except NoNamespacesError as error:
        pytest.skip(str(error))


def begun(hosts: Network, job: Path, workspace: Path, stage: str, *words: str) -> subprocess.Popen[bytes]:
    """Run a job on the client's host, and wait for the start of a stage."""
    client = hosts.run_job(job, workspace, *words)
    wait_until(lambda: has_begun(workspace, stage), f"the start of {stage}", seconds=RUN_SECONDS)
    return client


def succeeded(hosts: Network, job: Path, workspace: Path) -> tuple[str, list[Wire]]:
    """Wait for the end of the run on the client's host; return the digest of what it made, and what went over wires."""
    client = hosts.started["client"]
    wires = follow(hosts, client, workspace, seconds=RUN_SECONDS)
    assert client.returncode == 0, hosts.log("client").read_text()
    return digest(job, workspace), wires


def test_four_hosts_give_the_bytes_of_one_process(hosts, job, finished, tmp_path):
    hosts.run_job(job, tmp_path / "w")
    found, wires = succeeded(hosts, job, tmp_path / "w")
    assert found == finished[1]
    # Every host has worked, and the results went to the shared folder and not over the network.
    assert all(sum(wire.sent[host] for wire in wires) > 10_000 for host in WORKERS)


def test_a_walk_from_an_empty_folder_survives_the_kill_of_a_worker(hosts, tmp_path):
    datapath = pytest.importorskip("gensim.test.utils", reason="the text lies in gensim's wheel").datapath
    folder = tmp_path / "walk"
    folder.mkdir()
    steps = walk(hosts, folder, Path(datapath(DUMP.rsplit("/", 1)[1])))
    for step in steps:
        assert step.code == 0, f"{step.command}\n{step.printed}"
    _, _, _, status, verify, _, same = steps
    assert ": finished" in status.printed
    assert (folder / WORKSPACE / "report" / "index.html").stat().st_size > 10_000
    assert verify.printed == same.printed
    assert verify.printed.startswith("digest ")


@pytest.mark.parametrize(
    ("stage", "orders"),
    [
        ("tokens", ["cut h2", "wait", "join h2"]),
        ("tokens", ["cut h3", "kill h3"]),  # a host without power does not say farewell to its connections
        ("core", ["drop h2 scheduler"]),
        ("core", ["drop scheduler h2"]),
    ],
)
def test_what_happens_to_a_worker_changes_nothing(hosts, job, tmp_path, stage, orders):
    begun(hosts, job, tmp_path / "w", stage, *SMALLER_BLOCKS)
    for order in orders:
        hosts.obey(order, wait=CUT_SECONDS)
    found, _ = succeeded(hosts, job, tmp_path / "w")
    succeed("run", job, "--workspace", tmp_path / "alone", *SMALLER_BLOCKS)
    assert found == digest(job, tmp_path / "alone")
    if "join h2" in orders:
        wait_until(lambda: registrations(hosts, "h2") >= 2, "the return of the host", seconds=4 * CUT_SECONDS)


@pytest.mark.parametrize(
    ("orders", "again"),
    [
        (["cut scheduler", "kill scheduler"], ["join scheduler", "start scheduler"]),
        (["drop client scheduler"], ["pass client scheduler"]),
        (["drop scheduler client"], ["pass scheduler client"]),
    ],
)
def test_a_scheduler_out_of_reach_ends_the_run_with_a_sentence_and_a_rerun_resumes_it(
    hosts, job, finished, tmp_path, orders, again
):
    workspace = tmp_path / "w"
    client = begun(hosts, job, workspace, "core")
    for order in orders:
        hosts.obey(order)
    assert client.wait(RUN_SECONDS) == 3, hosts.log("client").read_text()
    printed = hosts.log("client").read_text()
    assert re.search(rf"the Dask scheduler at {SCHEDULER}, ", printed)
    assert ("kill scheduler" in orders) or re.search(r"out of reach \(\w+\)", printed)
    assert "Traceback" not in printed
    for order in again:
        hosts.obey(order)
    hosts.run_job(job, workspace)
    assert succeeded(hosts, job, workspace)[0] == finished[1]
