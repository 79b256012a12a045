"""Kill it, damage it, lock it: a rerun finishes with the same bytes, and every failure is one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from distributed import Client

from distembed.cli import main
from distembed.cli.main import STOP_SIGNALS, end_on_signals
from distembed.stopping import STOPPED_TEXT
from distembed.storage.workspace import Workspace
from tests.commands import dask_cluster, digest, environment, has_begun, run
from tests.processes import Process, distembed, kill_group, start

Finished = tuple[Path, str, str]


def stop_in(stage: str, process: Process, workspace: Path, number: int) -> None:
    """Send a signal once a stage has begun to write; a short stage may have ended when it arrives."""
    while process.poll() is None and not has_begun(workspace, stage):
        time.sleep(0.02)
    time.sleep(0.3 if stage == "core" else 0.02)
    assert process.poll() is None, "the run ended before it could be stopped"
    kill_group(process, number)


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGINT, ()),
        # Two runs on worker processes; the store, which goes on, is that of threads.
        pytest.param(signal.SIGKILL, ("--scheduler", "processes"), marks=pytest.mark.slow),
    ],
    ids=["Ctrl-C", "SIGKILL of all processes"],
)
def test_a_run_stopped_in_the_core_ends_with_the_same_bytes(
    job: Path, finished: Finished, tmp_path: Path, number: int, options: tuple[str, ...]
) -> None:
    """There the worker processes hold most; tests/test_promises.py kills a run of threads in each stage."""
    workspace = tmp_path / "w"
    stop_in("core", start("run", str(job), "--workspace", str(workspace), *options), workspace, number)
    done = distembed("run", str(job), "--workspace", str(workspace), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert digest(job, workspace) == finished[1]


def test_a_stopped_command_ends_beside_a_thread_that_never_does() -> None:
    """An interrupt while a thread starts leaves it in no list of those that its pool wakes at the end."""
    program = (
        "import threading\nfrom distembed.cli import main\n"
        "def run(**_):\n    threading.Thread(target=threading.Event().wait).start()\n    raise KeyboardInterrupt\n"
        "main.cli = run\nmain.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, check=False)
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("number", "options"), [(signal.SIGTERM, ("--scheduler", "processes")), (signal.SIGHUP, ())], ids=str
)
def test_a_run_that_is_told_to_end_gives_its_lock_back_and_stops_its_workers(
    job: Path, tmp_path: Path, number: int, options: tuple[str, ...]
) -> None:
    workspace = tmp_path / "w"
    process = start("run", str(job), "--workspace", str(workspace), *options)
    while process.poll() is None and not has_begun(workspace, "tokens"):
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    assert output.strip().splitlines()[-1].startswith("distembed: stopped; nothing finished is lost")
    assert not list(workspace.glob("lock*"))
    assert not any(child.is_running() for child in psutil.wait_procs(children, timeout=20)[1])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[type[BaseException]]]:
    """Handle signals as a command does, in this process; yields the errors in finalizers that are told."""
    errors: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: errors.append(dropped.exc_type))
    # Under nohup SIGHUP is ignored.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, *STOP_SIGNALS)}
    before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(main, "end_in_time", lambda: None)
    end_on_signals()
    yield errors
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_interrupt_that_python_drops_is_raised_again(told: list[type[BaseException]]) -> None:
    """Where it is raised in a callback of C code, Python goes on."""

    class Referent:
        """Its end is heard by a weak reference: a callback that needs no collection of others' garbage."""

    referents = [Referent()]
    reference = weakref.ref(referents[0], lambda _: signal.raise_signal(signal.SIGINT))

    def dropped_and_waited() -> None:
        referents.clear()
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        dropped_and_waited()
    assert reference() is None
    assert not told


@pytest.mark.parametrize("number", [signal.SIGINT, *STOP_SIGNALS])
def test_the_failing_finalizer_of_what_an_interrupt_left_half_made_is_not_told(
    told: list[type[BaseException]], number: int
) -> None:
    """A future of Dask that was interrupted before it had its client printed a traceback below the sentence."""

    class Half:
        def __del__(self) -> None:
            raise AttributeError

    Half()
    assert told == [AttributeError]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    Half()
    assert told == [AttributeError]


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_block_that_goes_on_does_not_hold_up_the_end(number: int) -> None:
    """Threads that compute are waited for, so that none writes after the lock is released."""
    begin = (  # under nohup, SIGHUP would stay ignored
        f"import signal, time; signal.signal({int(number)}, signal.SIG_DFL); from distembed.cli import main; "
        "main.STOP_SECONDS = 0.1; main.end_on_signals()"
    )
    block = f"try:\n    signal.raise_signal({int(number)})\nexcept KeyboardInterrupt:\n    time.sleep(600)"
    command = [sys.executable, "-c", f"{begin}\n{block}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment()
    )
    assert (done.returncode, done.stderr) == (3, f"distembed: {STOPPED_TEXT}\n")


@pytest.mark.cluster
def test_a_cluster_changes_no_bit_though_a_worker_dies_in_the_core(
    job: Path, finished: Finished, tmp_path: Path
) -> None:
    """The states of the core lie in the memory of the workers: what is lost with one is computed again."""
    workspace = tmp_path / "w"
    with dask_cluster(tmp_path) as address:
        with Client(address) as client:
            client.wait_for_workers(2)
            workers = list(client.run(os.getpid).values())
        process = start("run", str(job), "--workspace", str(workspace), "--scheduler", address)
        while process.poll() is None and not has_begun(workspace, "core"):
            time.sleep(0.02)
        assert process.poll() is None, "the run ended before a worker could be killed"
        os.kill(workers[0], signal.SIGKILL)
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert digest(job, workspace) == finished[1]


def test_verify_says_who_is_writing(job: Path, copy: Path) -> None:
    with Workspace.create(copy, owner="another run"):
        done = run("verify", job, "--workspace", copy)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"being written by another run (process {os.getpid()} ")


def test_a_second_run_on_a_locked_workspace_is_refused(job: Path, tmp_path: Path) -> None:
    # this process is the first run: one that computes something may be over before the second begins
    with Workspace.create(tmp_path / "w", owner="the first run"):
        done = distembed("run", str(job), "--workspace", str(tmp_path / "w"))
    assert done.returncode == 3
    assert f"process {os.getpid()}" in done.stderr
    assert "the first run" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_written(job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    folder.mkdir(mode=0o500)
    # root may write anywhere, so for root the workspace lies below a file
    if os.geteuid() == 0:
        folder = tmp_path / "file"
        folder.write_text("not a folder")
    done = distembed("run", str(job), "--workspace", str(folder / "w"))
    assert done.returncode == 2
    assert str(folder) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
