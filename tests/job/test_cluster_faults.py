"""What fails around the work: workers that die, blocks that kill their worker, a scheduler that dies, Ctrl-C."""

from __future__ import annotations

import io
import logging
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import psutil
import pytest
from dask.system import CPU_COUNT
from distributed import Client
from distributed.comm import CommClosedError

import distembed as de
from distembed.execution import heard_by
from distembed.job import cluster, workers
from distembed.job.model import ResourcesSection
from distembed.job.workers import Workers
from tests.commands import dask_cluster, digest, forget_stage, has_begun
from tests.processes import distembed, start

Finished = tuple[Path, str, str]


def write_number(index: int, prefix: str) -> dict[str, Any]:
    time.sleep(0.2)
    Path(prefix + ".txt").write_text(str(index))
    return {"number": index}


def kill_the_worker_of_3(index: int, prefix: str) -> dict[str, Any]:
    if index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return write_number(index, prefix)


def store_numbers(
    folder: Path,
    crew: Workers,
    make: Callable[[int, str], dict[str, Any]],
    *,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> list[int]:
    """Store twelve numbered files as a stage of the run does; return the numbers of all."""
    crew.start()
    with de.Workspace.create(str(folder), owner="a test") as workspace:
        stage = workspace.stage("numbers", parameters={}, inputs={})
        with crew.watched("numbers"), crew.metered(), heard_by(progress):
            items = stage.store_files("parts", 12, make)
        stage.commit()
    return [item.summary["number"] for item in items]


@pytest.mark.cluster
def test_a_cluster_that_shrinks_to_nothing_and_comes_back_finishes_the_stage(
    tmp_path: Path,
) -> None:
    killed: list[int] = []
    with Workers(scheduler="processes", n_workers=2, memory_limit=2**30) as crew:

        def kill_all_workers(what: str, done: int, total: int | None) -> None:
            if done and not killed:
                assert crew.client is not None
                killed.extend(crew.client.run(os.getpid).values())
                for process in killed:
                    os.kill(process, signal.SIGKILL)

        numbers = store_numbers(tmp_path / "w", crew, write_number, progress=kill_all_workers)
    assert numbers == list(range(12))


@pytest.mark.cluster
def test_a_block_that_kills_its_worker_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ALLOWED_FAILURES", 1)  # each death takes as long as a start
    finished: list[int] = []
    with Workers(scheduler="processes", n_workers=2, memory_limit=2**30) as crew:
        with pytest.raises(OSError, match="stage numbers: each of 2 workers") as raised:
            store_numbers(
                tmp_path / "w",
                crew,
                kill_the_worker_of_3,
                progress=lambda _, done, __: finished.append(done),
            )
        message = str(raised.value)
        for part in ("a task parts-write died", "block_memory", "finished is kept"):
            assert part in message
    again: list[int] = []
    with Workers(n_workers=2) as crew:
        numbers = store_numbers(
            tmp_path / "w", crew, write_number, progress=lambda _, done, __: again.append(done)
        )
    assert numbers == list(range(12))
    assert again[0] == finished[-1] > 0


@pytest.mark.cluster
def test_the_death_of_the_scheduler_is_one_sentence_and_the_run_goes_on_without_it(
    job: Path, finished: Finished, copy: Path, tmp_path: Path
) -> None:
    forget_stage(copy, "core")
    with dask_cluster(tmp_path, n_workers=1) as address:
        with Client(address) as client:
            scheduler = client.run_on_scheduler(os.getpid)
        process = start("run", str(job), "--workspace", str(copy), "--scheduler", address)
        while process.poll() is None and not has_begun(copy, "core"):
            time.sleep(0.02)
        os.kill(scheduler, signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    assert f"stage core: the Dask scheduler at {address}, or each of its workers" in output
    assert "Traceback" not in output
    done = distembed("run", str(job), "--workspace", str(copy))
    assert done.returncode == 0, done.stderr
    assert digest(job, copy) == finished[1]


def test_a_scheduler_that_is_gone_names_no_worker() -> None:
    """`KeyError: workers` ended a run whose scheduler died just before a stage."""
    crew = Workers(client=fake_client("closed"))
    assert crew.memory_limits() == {}


def fake_client(status: str) -> Any:
    """Return what `watched` knows of a client."""
    return SimpleNamespace(
        scheduler=SimpleNamespace(address="tcp://s"),
        status=status,
        scheduler_info=lambda **_: {},
    )


class ClosedClientError(Exception):
    """As Dask's of that name, which is none of the others."""


@pytest.mark.parametrize("kind", [OSError, RuntimeError, CancelledError, ClosedClientError])
def test_a_lost_connection_is_one_sentence_wherever_it_is_met(kind: type[Exception]) -> None:
    gone = fake_client("closed")
    told = pytest.raises(ConnectionError, match="stage core: the Dask scheduler at tcp://s, or each")
    with told, cluster.watched(gone, "core"):
        raise kind("Timed out trying to connect to tcp://s")


def test_a_connection_that_is_closed_before_the_client_knows_it_is_the_same_sentence() -> None:
    """`in <TCP (closed) ConnectionPool.gather ...>: Connection reset by peer` ended a run."""
    client = fake_client("running")
    told = pytest.raises(ConnectionError, match="stage core: the Dask scheduler at tcp://s, or each")
    with told, cluster.watched(client, "core"):
        raise CommClosedError("in <TCP (closed) ConnectionPool.gather>")


def test_the_tasks_of_a_stage_are_a_span_with_its_name() -> None:
    client = fake_client("closed")
    with cluster.watched(client, "core"):
        assert dask.get_annotations()["span"]["name"] == ("core",)
    assert "span" not in dask.get_annotations()


def test_what_loses_its_connection_logs_no_traceback() -> None:
    """The sender of batches met a closed connection now and then, and its traceback stood beside the sentence."""
    loggers = [logging.getLogger(name) for name in cluster.CONNECTION_LOGGERS]
    with cluster._without_tracebacks():
        assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
    assert all(logger.isEnabledFor(logging.ERROR) for logger in loggers)


def test_the_scheduler_of_local_workers_logs_no_traceback() -> None:
    """It logs, as critical, that the client which Ctrl-C closes hears no more of the tasks that end."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger("distributed").addHandler(handler)
    scheduler = logging.getLogger("distributed.scheduler")
    try:
        with Workers(scheduler="processes", n_workers=1) as crew:
            crew.start()
            scheduler.critical("Closed comm")
        assert not heard.getvalue()
        scheduler.critical("told again")
        assert heard.getvalue() == "told again\n"
    finally:
        logging.getLogger("distributed").removeHandler(handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "SIGKILL"])
def test_a_stopped_run_leaves_no_worker_process(job: Path, tmp_path: Path, number: int) -> None:
    workspace = tmp_path / "w"
    process = start("run", str(job), "--workspace", str(workspace), "--scheduler", "processes")
    while process.poll() is None and not has_begun(workspace, "tokens"):
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal sends Ctrl-C to the workers too
    else:
        os.kill(process.pid, number)
    output, _ = process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
    assert "Traceback" not in output
    assert number == signal.SIGKILL or output.splitlines()[-1].startswith(
        "distembed: stopped; nothing finished"
    )


def test_a_meter_that_cannot_ask_the_cluster_stays_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Workers, "memory", lambda _: (_ for _ in ()).throw(OSError("gone")))
    with Workers().metered() as spent:
        pass
    assert spent["peak_total_bytes"] == 0
    assert capsys.readouterr().err == ""


def test_more_workers_than_cores_or_memory_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CPU_COUNT", 2)
    monkeypatch.setattr(workers, "memory_of_machine", lambda: 2**34)
    assert Workers(n_workers=2).warnings() == []
    (cores,) = Workers(n_workers=64).warnings()
    assert "64 workers for 2 cores" in cores
    (memory,) = Workers(n_workers=2, scheduler="processes", memory_limit=2**35).warnings()
    assert "2 processes may take 64.0 GiB of the 16.0 GiB here" in memory
    assert Workers(n_workers=64, scheduler="tcp://127.0.0.1:1").warnings() == []


def test_a_share_of_the_cores_is_what_workers_are_counted_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with 2 of 64 cores ran 64 threads."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64 * CPU_COUNT)
    assert Workers().n_local == ResourcesSection().n_workers == CPU_COUNT
