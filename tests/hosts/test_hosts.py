"""What only hosts of their own show: a cable that is cut, a firewall of one direction, and a host without power."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.commands import digest, has_begun, succeed
from tests.hosts.network import SCHEDULER, Network, NoNamespacesError, cluster, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

RUN_SECONDS = 500.0
CUT_SECONDS = 60.0
SMALLER_BLOCKS = ("--set", "resources.block_memory=1MiB")


@pytest.fixture
def hosts(tmp_path):
    try:
        with cluster(tmp_path) as made:
            yield made
    except NoNamespacesError as error:
        pytest.skip(str(error))


def begun(hosts: Network, job: Path, workspace: Path, stage: str) -> subprocess.Popen[bytes]:
    """Run a job on the client's host, and wait for the start of a stage."""
    client = hosts.run_job(job, workspace, *SMALLER_BLOCKS)
    wait_until(lambda: has_begun(workspace, stage), f"the start of {stage}", seconds=RUN_SECONDS)
    return client


@pytest.fixture(scope="module")
def alone(job, tmp_path_factory) -> str:
    """Return the digest of a run in one process."""
    workspace = tmp_path_factory.mktemp("alone") / "w"
    succeed("run", job, "--workspace", workspace, *SMALLER_BLOCKS)
    return digest(job, workspace)


@pytest.mark.parametrize(
    ("stage", "orders"),
    [
        ("tokens", ["cut h2", "wait", "join h2"]),
        ("tokens", ["cut h3", "kill h3"]),  # a host without power does not say farewell to its connections
        ("core", ["drop h2 scheduler"]),
        ("core", ["drop scheduler h2"]),
    ],
)
def test_what_happens_to_a_worker_changes_nothing(hosts, job, alone, tmp_path, stage, orders):
    client = begun(hosts, job, tmp_path / "w", stage)
    for order in orders:
        time.sleep(CUT_SECONDS) if order == "wait" else hosts.obey(order)
    assert client.wait(RUN_SECONDS) == 0, hosts.log("client").read_text()
    assert digest(job, tmp_path / "w") == alone
    if "join h2" in orders:
        wait_until(lambda: hosts.registrations("h2") >= 2, "the return of the host", seconds=4 * CUT_SECONDS)


@pytest.mark.parametrize(
    ("orders", "again"),
    [
        (["cut scheduler", "kill scheduler"], ["join scheduler", "start scheduler"]),
        (["drop client scheduler"], ["pass client scheduler"]),
        (["drop scheduler client"], ["pass scheduler client"]),
    ],
)
def test_a_scheduler_out_of_reach_ends_the_run_with_a_sentence_and_a_rerun_resumes_it(
    hosts, job, alone, tmp_path, orders, again
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
    client = hosts.run_job(job, workspace, *SMALLER_BLOCKS)
    assert client.wait(RUN_SECONDS) == 0, hosts.log("client").read_text()
    assert digest(job, workspace) == alone
