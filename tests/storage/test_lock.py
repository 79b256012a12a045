"""One writer, whatever machine, container or clock: who is alive keeps the lock, who is gone loses it."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import numpy as np
import psutil
import pyarrow as pa
import pytest

from distembed.files import replacing
from distembed.storage import lock
from distembed.storage.records import LockedError
from distembed.storage.workspace import Workspace
from tests.commands import environment
from tests.faults import killed_writer
from tests.processes import Process
from tests.storage.examples import META, dense_array, store_all, write_item

ELSEWHERE, OF_THE_HEIR = "another kernel", b"of the heir"


@pytest.fixture
def impatient(monkeypatch):
    """Let a heartbeat stand still after a tenth of a second."""
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(lock, "STALE_SECONDS", 0.1)


@pytest.fixture
def foreign(tmp_path):
    """Return what makes the lock of a workspace one of a run that cannot be seen from here."""

    def change(**hidden):
        file = tmp_path / "ws/lock.json"
        file.write_text(json.dumps(json.loads(file.read_bytes()) | (hidden or {"kernel": ELSEWHERE})))

    return change


def create(root, **options):
    return Workspace.create(root / "ws", owner="second", **options)


@pytest.mark.usefixtures("impatient")
def test_what_a_lock_says_of_its_owner_decides_whether_another_run_takes_it_over(tmp_path):
    """That of the dead, and one that a power cut has spoilt; one that says too little is left to the user."""
    file = tmp_path / "ws/lock.json"
    with create(tmp_path):
        mine = json.loads(file.read_bytes())
    dead = {**mine, "pid": 2**22 + 1}  # above the largest
    of_the_dead = (dead, {**dead, "host": "elsewhere"}, {**mine, "started": mine["started"] - 100})
    for content in (*(json.dumps(owner).encode() for owner in of_the_dead), b"", b"\0\0", b'{"host": "a'):
        file.write_bytes(content)
        assert Workspace.open(tmp_path / "ws").writer() == ""
        create(tmp_path).close()
        assert not list(tmp_path.glob("ws/lock*"))
    file.symlink_to("/dev/zero")
    create(tmp_path).close()
    names_no_file = ({**dead, "token": token} for token in ("../../victim", "\x1b[2J", "0" * 33, 7, None))
    for owner in ({}, {key: dead[key] for key in ("pid", "host", "started", "token")}, *names_no_file):
        file.write_text(json.dumps(owner))
        with pytest.raises(LockedError, match=r"remove .*lock\.json and run again"):
            create(tmp_path)


def test_a_clock_that_steps_makes_nobody_dead(tmp_path, monkeypatch):
    with create(tmp_path):
        real = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + 3600)
        with pytest.raises(LockedError, match=f"process {os.getpid()} "):
            create(tmp_path)


@pytest.mark.parametrize("hidden", [{"kernel": ELSEWHERE}, {"started": None}])
def test_an_owner_elsewhere_keeps_the_lock_while_its_heart_beats(tmp_path, monkeypatch, foreign, hidden):
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.2)
    said: list[str] = []
    with create(tmp_path):
        foreign(**hidden)
        with pytest.raises(LockedError, match="taken over after 120 s without a heartbeat"):
            create(tmp_path, watching=said.append)
    assert len(said) == 1
    assert "does not change for 120 s" in said[0]
    assert not list(tmp_path.glob("ws/lock*"))


@pytest.mark.usefixtures("impatient")
def test_an_owner_elsewhere_whose_heart_stands_still_loses_the_lock_and_commits_nothing(tmp_path, foreign):
    with create(tmp_path) as robbed:
        stage = store_all(robbed)
        foreign()
        with create(tmp_path) as heir:
            for write in (stage.commit, lambda: stage.store_bytes("more", b"x")):
                with pytest.raises(LockedError, match=r"was taken over by second .*commits nothing"):
                    write()
            assert heir.stages() == {}
        with pytest.raises(LockedError, match="is gone"):
            stage.commit()
        with create(tmp_path) as third:
            robbed.close()
            third.write_file("notes.txt", b"whose lock was left alone")
    assert Workspace.open(tmp_path / "ws").stages() == {}


def succeed(root):
    """Let another run take a workspace over: its lock, and blocks that it has written."""
    (root / "ws/lock.json").write_text(json.dumps({"token": "0" * 32, "job": "heir"}))
    for place in ("words/c/0", "words/000000"):
        block = root / "ws/arrays.zarr" / place
        shutil.rmtree(block, ignore_errors=True)
        block.mkdir(parents=True)
        (block / "0").write_bytes(OF_THE_HEIR)


def files_of(root):
    """Return all files of a workspace but the heartbeats, which a thread writes at its own time."""
    files = (path for path in (root / "ws").rglob("*") if path.is_file() and path.suffix != ".beat")
    return {str(path): path.read_bytes() for path in files}


def block(stage, meanwhile):
    lazy = dense_array()[:4].map_blocks(
        lambda rows: (meanwhile(), rows)[1], meta=np.empty((0, 0), np.float32)
    )
    stage.store("words", lazy, **META)


def table_of_pieces(stage, meanwhile):
    def pieces():
        yield pa.table({"word": ["cat"]})
        meanwhile()
        yield pa.table({"word": ["dog"]})

    stage.store_batches("words", pa.schema({"word": pa.string()}), pieces(), n_rows=2)


def items(stage, meanwhile):
    stage.store_files("words", 1, lambda index, prefix: (meanwhile(), write_item(index, prefix))[1])


def items_in_pieces(stage, meanwhile):
    def make(_, prefix):
        with replacing(prefix) as first:
            Path(first).write_text("x")
        Path(prefix).unlink()
        for wakes in (meanwhile, bool):
            with contextlib.suppress(LockedError), replacing(prefix) as other:
                wakes()
                Path(other).write_text("x")
        assert not list(Path(prefix).parent.iterdir())
        return {}

    stage.store_files("words", 1, make)


WAYS = [block, table_of_pieces, items, items_in_pieces]


@pytest.mark.parametrize("way", WAYS)
def test_a_robbed_owner_that_wakes_as_it_stores_writes_records_and_removes_nothing(tmp_path, way):
    with create(tmp_path) as robbed, dask.config.set(scheduler="threads"):
        stage = robbed.stage("a", parameters={}, inputs={})
        with pytest.raises(LockedError, match="commits nothing more"):
            way(stage, lambda: succeed(tmp_path))
        assert not list(tmp_path.glob("ws/words.parquet*"))
        assert [path.name for path in tmp_path.glob("ws/journal/a/*/*")] == ["output.json"]
        there = files_of(tmp_path)
        assert {data for name, data in there.items() if "arrays.zarr/words" in name} == {OF_THE_HEIR}
        for write in (
            lambda: robbed.write_file("notes.txt", b""),
            lambda: stage.store_bytes("y", b""),
            lambda: stage.store_files("z", 1, write_item),
            stage.reopen,
        ):
            with contextlib.suppress(LockedError):
                write()
        assert files_of(tmp_path) == there


def wait_for(file):
    end = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.cluster
def test_the_worker_of_a_killed_client_writes_nothing_once_another_run_has_begun(tmp_path, cluster):
    """The workers of a scheduler that somebody else has started go on when the client is gone."""
    root, gate = tmp_path / "ws", tmp_path / "gate"
    gate.mkdir()
    client = Process(str(root), "0", "10", cluster, str(gate), program=killed_writer.__name__)
    wait_for(gate / "begun")
    client.send_signal(signal.SIGKILL)
    client.communicate()
    with create(tmp_path) as heir:
        before = files_of(tmp_path)
        (gate / "open").touch()
        wait_for(gate / "ended")
        assert "was taken over by second" in (gate / "ended").read_text()
        assert files_of(tmp_path) == before
        assert len(killed_writer.write(heir, pause=0)) == killed_writer.N_BLOCKS
        assert heir.verify() == []


def test_a_lock_that_a_third_run_has_taken_meanwhile_is_not_removed(tmp_path, monkeypatch):
    """Two runs find the same dead lock: the slower one may not remove that of the faster."""
    file = tmp_path / "ws/lock.json"
    with create(tmp_path):
        mine = json.loads(file.read_bytes())
    file.write_text(json.dumps({**mine, "started": 1}))
    guard, held = lock._guard, json.dumps({**mine, "token": "f" * 32})

    @contextlib.contextmanager
    def overtaken(folder):
        with guard(folder):
            handle = os.open(file.parent, os.O_RDONLY)
            with pytest.raises(BlockingIOError):  # one process at a time compares and removes
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(handle)
            file.write_text(held)
            yield

    monkeypatch.setattr(lock, "_guard", overtaken)
    with pytest.raises(LockedError, match="is being written by second"):
        create(tmp_path)
    assert file.read_text() == held


def isolated(*words):
    """Return a command in namespaces of its own: other processes, and another host name."""
    script = 'hostname elsewhere && exec "$@"'
    options = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]
    return [*options, script, "-", *words]


needs_namespaces = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(isolated("true"), capture_output=True, check=False).returncode != 0,
    reason="needs the right to make namespaces",
)


@needs_namespaces
def test_containers_do_not_rob_each_other_and_a_killed_one_is_succeeded(tmp_path, monkeypatch):
    root = tmp_path / "ws"
    command = isolated(sys.executable, "-m", killed_writer.__name__, str(root), "1", "0.1")
    process = subprocess.Popen(command, env=environment())
    while not list(root.glob("journal/slow/x/0*.json")):
        assert process.poll() is None
        time.sleep(0.01)
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.3)
    with pytest.raises(LockedError, match=r"killed writer \(process \d+ of .* on elsewhere, since"):
        create(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(lock, "STALE_SECONDS", 1.0)
    with create(tmp_path) as heir:
        assert len(killed_writer.write(heir, pause=0)) < killed_writer.N_BLOCKS
        assert heir.verify() == []
    assert not list(root.glob("lock*"))
