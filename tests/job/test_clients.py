"""A job on the client that a notebook or a script has: of `dask scheduler`, or of another tool's cluster."""

from __future__ import annotations

from pathlib import Path

import dask
import pytest
from distributed import Client, get_task_stream

import distembed as de
from distembed.job.provenance import Joining
from distembed.job.workers import Workers

WAIT = 60.0


@pytest.mark.cluster
def test_a_run_uses_the_client_in_force_and_leaves_it_as_it_was(tiny: Path, cluster: str) -> None:
    with Client(cluster) as client:
        client.wait_for_workers(1, timeout=WAIT)
        with get_task_stream(client) as stream:
            run = de.run_job(tiny / "job.toml", workspace=tiny / "again")
        assert any("tokens-write" in str(task["key"]) for task in stream.data), "no task ran on the workers"
        assert client.submit(sum, [1, 2]).result(timeout=WAIT) == 3

        assert not any(client.run(has_plugin).values())
    assert run.ran
    assert de.Workspace.open(tiny / "again").digest() == de.Workspace.open(tiny / "w").digest()


def has_plugin(dask_worker: object) -> bool:
    return Joining.name in dask_worker.plugins  # type: ignore[attr-defined]


@pytest.mark.cluster
def test_threads_are_taken_where_they_are_named_in_spite_of_a_client(cluster: str) -> None:
    with Client(cluster) as client:
        assert Workers().client is client
        with Workers(scheduler="threads") as workers:
            workers.start()
            assert workers.client is None
            assert not workers.is_remote
            assert dask.delayed(sum)([1, 2]).compute() == 3


@pytest.mark.cluster
@pytest.mark.slow
def test_a_job_runs_on_a_cluster_of_dask_jobqueue(tiny: Path, tmp_path: Path) -> None:
    jobqueue = pytest.importorskip("dask_jobqueue.local", reason="needs dask-jobqueue: distembed[cluster]")
    with (
        jobqueue.LocalCluster(cores=1, processes=1, memory="1GiB", local_directory=str(tmp_path)) as started,
        Client(started) as client,
    ):
        started.scale(1)
        client.wait_for_workers(1, timeout=WAIT)
        de.run_job(tiny / "job.toml", workspace=tiny / "again")
    assert de.Workspace.open(tiny / "again").digest() == de.Workspace.open(tiny / "w").digest()
