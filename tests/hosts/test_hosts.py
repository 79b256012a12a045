"""A job on four hosts that have their own addresses, over TLS, on a network that delays and loses frames."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import DUMP, digest, has_begun, succeed
from tests.hosts.network import (
    SCHEDULER,
    WORKERS,
    Network,
    NoNamespacesError,
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
def hosts(tmp_path: Path) -> Iterator[Network]:
    try:
        with cluster(tmp_path) as made:
            wait_until(lambda: all(registrations(made, host) for host in WORKERS), "the start of the workers")
            yield made
    except NoNamespacesError as error:
        pytest.skip(str(error))


def started(workspace: Path, stage: str) -> None:
    wait_until(lambda: has_begun(workspace, stage), f"the start of {stage}", seconds=RUN_SECONDS)


def alone(job: Path, folder: Path) -> str:
    """Return the digest of the job by one process, in blocks of which each host gets some."""
    succeed("run", job, "--workspace", folder / "alone", *SMALLER_BLOCKS)
    return digest(job, folder / "alone")


def succeeded(hosts: Network, job: Path, workspace: Path) -> str:
    """Wait for the end of the run on the client's host; return the digest of what it made."""
    client = hosts.started["client"]
    follow(hosts, client, workspace, seconds=RUN_SECONDS)
    assert client.returncode == 0, hosts.log("client").read_text()
    return digest(job, workspace)


def test_four_hosts_give_the_bytes_of_one_process(
    hosts: Network, job: Path, finished: Finished, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    client = hosts.run_job(job, workspace)
    wires = follow(hosts, client, workspace, seconds=RUN_SECONDS)
    assert client.returncode == 0, hosts.log("client").read_text()
    assert digest(job, workspace) == finished[1]
    # Every host has worked, and the results went to the shared folder and not over the network.
    assert all(sum(wire.sent[host] for wire in wires) > 10_000 for host in WORKERS)


def test_a_walk_from_an_empty_folder_survives_the_kill_of_a_worker(hosts: Network, tmp_path: Path) -> None:
    datapath = pytest.importorskip("gensim.test.utils", reason="the text lies in gensim's wheel").datapath
    folder = tmp_path / "walk"
    folder.mkdir()
    new, plan, run, status, verify, alone, same = walk(hosts, folder, Path(datapath(DUMP.rsplit("/", 1)[1])))
    for step in (new, plan, run, status, verify, alone, same):
        assert step.code == 0, f"{step.command}\n{step.printed}"
    assert ": finished" in status.printed
    assert (folder / WORKSPACE / "report" / "index.html").stat().st_size > 10_000
    assert verify.printed == same.printed
    assert verify.printed.startswith("digest ")


def test_a_host_that_is_cut_off_for_a_minute_changes_nothing(
    hosts: Network, job: Path, finished: Finished, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    hosts.run_job(job, workspace)
    started(workspace, "tokens")
    hosts.tell("cut h2")
    time.sleep(CUT_SECONDS)
    hosts.tell("join h2")
    assert succeeded(hosts, job, workspace) == finished[1]
    wait_until(lambda: registrations(hosts, "h2") >= 2, "the return of the host", seconds=4 * CUT_SECONDS)


def test_a_host_that_is_gone_for_good_changes_nothing(
    hosts: Network, job: Path, finished: Finished, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    hosts.run_job(job, workspace)
    started(workspace, "tokens")
    hosts.tell("cut h3")  # a host without power does not say farewell to its connections
    hosts.kill("h3")
    assert succeeded(hosts, job, workspace) == finished[1]


def test_a_rerun_resumes_what_a_dead_scheduler_ended(
    hosts: Network, job: Path, finished: Finished, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    client = hosts.run_job(job, workspace)
    started(workspace, "core")
    hosts.tell("cut scheduler")
    hosts.kill("scheduler")
    assert client.wait(RUN_SECONDS) == 3
    printed = hosts.log("client").read_text()
    assert f"the Dask scheduler at {SCHEDULER}, or each" in printed
    assert "Traceback" not in printed
    hosts.tell("join scheduler")
    hosts.start_scheduler()
    hosts.run_job(job, workspace)
    assert succeeded(hosts, job, workspace) == finished[1]


@pytest.mark.parametrize("direction", ["h2 scheduler", "scheduler h2"])
def test_a_firewall_of_one_direction_before_a_worker_changes_nothing(
    hosts: Network, job: Path, tmp_path: Path, direction: str
) -> None:
    workspace = tmp_path / "w"
    hosts.run_job(job, workspace, *SMALLER_BLOCKS)
    started(workspace, "core")
    hosts.tell(f"drop {direction}")
    assert succeeded(hosts, job, workspace) == alone(job, tmp_path)


@pytest.mark.parametrize("direction", ["client scheduler", "scheduler client"])
def test_a_firewall_of_one_direction_before_the_scheduler_ends_the_run_with_a_sentence(
    hosts: Network, job: Path, finished: Finished, tmp_path: Path, direction: str
) -> None:
    workspace = tmp_path / "w"
    client = hosts.run_job(job, workspace)
    started(workspace, "core")
    hosts.tell(f"drop {direction}")
    assert client.wait(RUN_SECONDS) == 3, hosts.log("client").read_text()
    printed = hosts.log("client").read_text()
    assert re.search(rf"the Dask scheduler at {SCHEDULER}, .* out of reach \(\w+\)", printed)
    assert "Traceback" not in printed
    hosts.tell(f"pass {direction}")
    hosts.run_job(job, workspace)
    assert succeeded(hosts, job, workspace) == finished[1]
