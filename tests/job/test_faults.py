"""What ends a run: signals, workers that die, blocks that kill their worker, a scheduler that dies."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import dask
import psutil
import pytest
from dask.system import CPU_COUNT
from distributed import Client
from distributed.comm import CommClosedError

import distembed as de
from distembed.cli import main
from distembed.execution import heard_by
from distembed.job import cluster, workers
from distembed.job.model import JobError, ResourcesSection
from distembed.job.workers import Workers
from distembed.stopping import STOPPED_TEXT
from tests.commands import dask_cluster, forget_stage, has_begun, succeed
from tests.processes import Process, start

CORE = ("--until", "core")
PROCESSES = ("--scheduler", "processes", "--workers", "1")


def wait_for(stage: str, process: Process, workspace: Path) -> None:
    """Wait until a run has begun a stage."""
    while process.poll() is None and not has_begun(workspace, stage):
        time.sleep(0.02)
    assert process.poll() is None, "the run ended before it could be stopped"


def core_of(workspace: Path) -> str:
    return de.Workspace.open(workspace).stages()["core"].digest


@pytest.mark.parametrize(
    ("number", "reaches", "options"),
    [
        (signal.SIGINT, "all processes, as of a terminal", PROCESSES),
        (signal.SIGTERM, "the run", ()),
        (signal.SIGKILL, "the run", PROCESSES),
    ],
)
def test_a_signal_ends_a_run_and_its_workers_and_the_same_command_goes_on(
    job, finished, tmp_path, number, reaches, options
):
    workspace = tmp_path / "w"
    process = start("run", str(job), "--workspace", str(workspace), *options)
    wait_for("tokens", process, workspace)
    children = psutil.Process(process.pid).children(recursive=True)
    assert bool(children) == bool(options)
    (os.kill if reaches == "the run" else os.killpg)(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert psutil.wait_procs(children, timeout=20)[1] == []
    assert "Traceback" not in output
    if number != signal.SIGKILL:
        assert process.returncode == 3, output
        assert output.splitlines()[-1].startswith("distembed: stopped; nothing finished is lost")
        assert not list(workspace.glob("lock*"))
        succeed("run", job, "--workspace", workspace, "--until", "vocabulary")
        one, other = (
            de.Workspace.open(place).stages()["vocabulary"].digest for place in (workspace, finished[0])
        )
        assert one == other


def interrupted_and_broken(kind: str) -> None:
    """Be interrupted twice, or in the middle of an import, which then ends with another error."""

    def command(**_: Any) -> None:
        main.STOPPING.set()
        raise {"abort": click.Abort(), "name": NameError("functoolz"), "exit": SystemExit(1)}[kind]

    main.cli = command  # type: ignore[assignment]
    main.main()


def interrupted_beside_a_thread() -> None:
    """Be interrupted while a thread starts, which leaves it in no list of those that its pool wakes at the end."""

    def command(**_: Any) -> None:
        threading.Thread(target=threading.Event().wait).start()
        raise KeyboardInterrupt

    main.cli = command  # type: ignore[assignment]
    main.main()


def told_in_a_block(number: str) -> None:
    """Be told to end in a block that goes on."""
    main.STOP_SECONDS = 0.1
    main.end_on_signals()
    try:
        signal.raise_signal(int(number))
    except KeyboardInterrupt:
        time.sleep(600)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (interrupted_beside_a_thread, ()),
        *((interrupted_and_broken, (kind,)) for kind in ("abort", "name", "exit")),
        *((told_in_a_block, (str(int(one)),)) for one in main.STOP_SIGNALS),
    ],
)
def test_what_does_not_end_does_not_hold_up_the_end(program, words):
    process = Process(*words, program=program, apart=True)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (3, f"distembed: {STOPPED_TEXT}\n")


@pytest.fixture
def told(monkeypatch) -> Iterator[list[type[BaseException]]]:
    """Handle signals as a command does, in this process; yields the errors in finalizers that are told."""
    errors: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: errors.append(dropped.exc_type))
    # Under nohup SIGHUP is ignored.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, *main.STOP_SIGNALS)}
    before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(main, "end_in_time", lambda: None)
    main.end_on_signals()
    yield errors
    for number, handler in before.items():
        signal.signal(number, handler)


class Ended:
    """Calls a function when it ends."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def __del__(self) -> None:
        self.call()


def test_an_interrupt_that_python_drops_is_raised_again(told):
    """Where it is raised in a callback of C code, Python goes on."""
    referents = [Ended(int)]
    reference = weakref.ref(referents[0], lambda _: signal.raise_signal(signal.SIGINT))

    def dropped_and_waited() -> None:
        referents.clear()
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        dropped_and_waited()
    assert reference() is None
    assert not told


@pytest.mark.parametrize("number", [signal.SIGINT, *main.STOP_SIGNALS])
def test_the_failing_finalizer_of_what_an_interrupt_left_half_made_is_not_told(told, number):
    """A future of Dask that was interrupted before it had its client printed a traceback below the sentence."""
    Ended(lambda: {}["absent"])
    assert told == [KeyError]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    Ended(lambda: {}["absent"])
    assert told == [KeyError]


# --- workers and schedulers that die ---------------------------------------------------------------------------------


def write_number(index: int, prefix: str) -> dict[str, Any]:
    time.sleep(0.1)
    Path(prefix + ".txt").write_text(str(index))
    return {"number": index}


def kill_the_worker_of_3(index: int, prefix: str) -> dict[str, Any]:
    if index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return write_number(index, prefix)


def store_numbers(
    folder: Path, crew: Workers, make: Callable[[int, str], dict[str, Any]], *, progress: Callable[[int], Any]
) -> list[int]:
    """Store eight numbered files as a stage of the run does; return the numbers of all."""
    crew.start()
    with de.Workspace.create(str(folder), owner="a test") as workspace:
        stage = workspace.stage("numbers", parameters={}, inputs={})
        with crew.watched("numbers"), crew.metered(), heard_by(lambda _, done, __: progress(done)):
            items = stage.store_files("parts", 8, make)
        stage.commit()
    return [item.summary["number"] for item in items]


@pytest.mark.cluster
def test_dead_workers_are_replaced_and_a_block_that_kills_them_is_named_and_the_others_are_kept(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster, "ALLOWED_FAILURES", 1)  # each death takes as long as a start
    killed: list[int] = []
    finished: list[int] = []
    with Workers(scheduler="processes", n_workers=1, memory_limit=2**30) as crew:

        def kill_all_workers(done: int) -> None:
            if done and not killed:
                killed.extend(crew.client.run(os.getpid).values())
                os.kill(killed[0], signal.SIGKILL)

        assert store_numbers(tmp_path / "v", crew, write_number, progress=kill_all_workers) == [*range(8)]
        with pytest.raises(OSError, match="stage numbers: each of 2 workers") as raised:
            store_numbers(tmp_path / "w", crew, kill_the_worker_of_3, progress=finished.append)
    for part in ("a task parts-write died", "block_memory", "finished is kept"):
        assert part in str(raised.value)
    again: list[int] = []
    with Workers(n_workers=2) as crew:
        assert store_numbers(tmp_path / "w", crew, write_number, progress=again.append) == [*range(8)]
    assert again[0] == finished[-1] > 0


@pytest.mark.cluster
def test_the_death_of_a_worker_changes_no_bit_and_that_of_the_scheduler_is_one_sentence(
    job, finished, tmp_path
):
    """The states of the core lie in the memory of the workers: what is lost with one is computed again."""
    workspace = tmp_path / "w"
    with dask_cluster(tmp_path) as address:
        with Client(address) as client:
            client.wait_for_workers(2)
            scheduler, worker = client.run_on_scheduler(os.getpid), min(client.run(os.getpid).values())
        for victim, code in ((worker, 0), (scheduler, 3)):
            process = start("run", str(job), "--workspace", str(workspace), "--scheduler", address, *CORE)
            wait_for("core", process, workspace)
            os.kill(victim, signal.SIGKILL)
            output, _ = process.communicate(timeout=300)
            assert process.returncode == code, output
            if victim == worker:
                assert core_of(workspace) == core_of(finished[0])
                forget_stage(workspace, "core")
    assert f"stage core: the Dask scheduler at {address}, or each of its workers" in output
    assert "Traceback" not in output
    succeed("run", job, "--workspace", workspace, *CORE)
    assert core_of(workspace) == core_of(finished[0])


def client_of(status: str, **workers: int) -> Any:
    """Return what a run knows of a client, whose workers have so many bytes each."""
    named = {"workers": {name: {"memory_limit": limit} for name, limit in workers.items()}} if workers else {}
    return SimpleNamespace(
        scheduler=SimpleNamespace(address="tcp://s"), status=status, scheduler_info=lambda **_: named
    )


class ClosedClientError(Exception):
    """As Dask's of that name, which is none of the others."""


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *(("closed", kind) for kind in (OSError, RuntimeError, CancelledError, ClosedClientError)),
        ("running", CommClosedError),  # a connection that is closed before the client knows it
    ],
)
def test_a_lost_connection_is_one_sentence_wherever_it_is_met(status, error):
    told = pytest.raises(ConnectionError, match="stage core: the Dask scheduler at tcp://s, or each")
    with told, cluster.watched(client_of(status), "core"):
        raise error("Timed out trying to connect to tcp://s")


def test_the_tasks_of_a_stage_are_a_span_with_its_name():
    with cluster.watched(client_of("closed"), "core"):
        assert dask.get_annotations()["span"]["name"] == ("core",)
    assert "span" not in dask.get_annotations()


def test_what_loses_its_connection_logs_no_traceback():
    """The sender of batches met a closed connection now and then, and its traceback stood beside the sentence."""
    loggers = [logging.getLogger(name) for name in cluster.CONNECTION_LOGGERS]
    with cluster._without_tracebacks():
        assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
    assert all(logger.isEnabledFor(logging.ERROR) for logger in loggers)


def test_a_meter_that_cannot_ask_the_cluster_stays_silent(monkeypatch, capsys):
    monkeypatch.setattr(Workers, "memory", lambda _: {}["gone"])
    with Workers().metered() as spent:
        pass
    assert spent["peak_total_bytes"] == 0
    assert capsys.readouterr().err == ""


# --- workers and what there is for them -------------------------------------------------------------------------------


def test_more_workers_than_cores_or_memory_are_a_warning(monkeypatch):
    monkeypatch.setattr(workers, "CPU_COUNT", 2)
    monkeypatch.setattr(workers, "memory_of_machine", lambda: 2**34)
    for options, sentence in (
        ({"n_workers": 2}, ""),
        ({"n_workers": 64, "scheduler": "tcp://127.0.0.1:1"}, ""),
        ({"n_workers": 64}, "64 workers for 2 cores"),
        (
            {"n_workers": 2, "scheduler": "processes", "memory_limit": 2**35},
            "2 processes may take 64.0 GiB of the 16.0 GiB here",
        ),
    ):
        found = Workers(**options).warnings()
        assert [sentence in one for one in found] == [True] * bool(sentence)


def test_a_share_of_the_cores_is_what_workers_are_counted_by(monkeypatch):
    """A container with 2 of 64 cores ran 64 threads."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64 * CPU_COUNT)
    assert Workers().n_local == ResourcesSection().n_workers == CPU_COUNT


def test_workers_with_less_memory_than_a_task_are_named():
    crew = Workers(client=client_of("running", a=600 << 20, b=601 << 20))
    crew.check_memory(600 << 20)
    sentence = (
        r"largest task of this job need 601.0 MiB, more than the memory limit of a \(600.0 MiB\): start workers "
        "with dask worker --memory-limit 601MiB"
    )
    with pytest.raises(JobError, match=sentence):
        crew.check_memory(601 << 20)
    Workers(client=client_of("closed")).check_memory(601 << 20)  # a scheduler that is gone names no worker


def test_all_processes_of_a_run_together_take_more_than_the_largest():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE):
        for client, is_more in ((None, False), (client_of("running", a=1), True)):
            largest, together = Workers(client=client).memory()
            assert (together > largest) == is_more
