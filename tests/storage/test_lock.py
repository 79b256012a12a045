"""One writer, whatever machine, container or clock: who is alive keeps the lock, who is gone loses it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from distembed.storage import LockedError, Workspace, lock
from distembed.storage.files import Folder
from tests.faults import killed_writer
from tests.faults.test_storage_kills import ENVIRONMENT, TOP
from tests.storage.examples import META, dense_array, store_all

ELSEWHERE = "another kernel"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a heartbeat stand still after a tenth of a second."""
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(lock, "STALE_SECONDS", 0.1)


@pytest.fixture
def foreign(tmp_path: Path) -> Callable[..., None]:
    """Return what makes the lock of a workspace one of a run that cannot be seen from here."""

    def change(**hidden: Any) -> None:
        file = tmp_path / "ws/lock.json"
        file.write_text(json.dumps(json.loads(file.read_bytes()) | (hidden or {"kernel": ELSEWHERE})))

    return change


def create(root: Path, **options: Any) -> Workspace:
    return Workspace.create(root / "ws", owner="second", **options)


def test_a_clock_that_steps_makes_nobody_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with create(tmp_path):
        real = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + 3600)
        with pytest.raises(LockedError, match=f"process {os.getpid()} "):
            create(tmp_path)


@pytest.mark.parametrize("hidden", [{"kernel": ELSEWHERE}, {"started": None}])
def test_an_owner_elsewhere_keeps_the_lock_while_its_heart_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreign: Callable[..., None], hidden: dict[str, Any]
) -> None:
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
def test_an_owner_elsewhere_whose_heart_stands_still_loses_the_lock_and_commits_nothing(
    tmp_path: Path, foreign: Callable[..., None]
) -> None:
    with create(tmp_path) as robbed:
        stage = store_all(robbed)
        foreign()
        with create(tmp_path) as heir:
            for write in (stage.commit, lambda: stage.store_bytes("more", b"x"), stage.discard):
                with pytest.raises(LockedError, match=r"was taken over by second .*commits nothing"):
                    write()
            assert heir.stages() == {}
        with pytest.raises(LockedError, match="is gone"):
            stage.commit()
    assert Workspace.open(tmp_path / "ws").stages() == {}


def test_a_robbed_owner_leaves_the_lock_of_its_heir_alone(tmp_path: Path) -> None:
    robbed = create(tmp_path)
    (tmp_path / "ws/lock.json").unlink()
    with create(tmp_path):
        lock = (tmp_path / "ws/lock.json").read_bytes()
        robbed.close()
        assert (tmp_path / "ws/lock.json").read_bytes() == lock


def test_a_robbed_owner_records_no_further_block(tmp_path: Path) -> None:
    def rob(block: np.ndarray) -> np.ndarray:
        (tmp_path / "ws/lock.json").unlink(missing_ok=True)
        return block

    with create(tmp_path) as robbed:
        stage = robbed.stage("a", parameters={}, inputs={})
        with pytest.raises(LockedError, match="is gone"):
            stage.store("x", dense_array().map_blocks(rob, meta=np.empty((0, 0), np.float32)), **META)
    assert (tmp_path / "ws/manifest/a/x/output.json").exists()
    assert not list((tmp_path / "ws/manifest/a/x").rglob("blocks/*.json"))


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_links_has_a_lock_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(old: str, new: str) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("distembed.storage.files.os.link", refuse)
        folder = Folder.at(tmp_path)
        folder.create("lock.json", b"{}")
        with pytest.raises(FileExistsError):
            folder.create("lock.json", b"other")
    assert [path.name for path in tmp_path.iterdir()] == ["lock.json"]
    assert (tmp_path / "lock.json").read_bytes() == b"{}"


def test_a_dead_lock_is_compared_and_removed_by_one_process_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "ws"
    with create(tmp_path):
        dead = {**json.loads((root / "lock.json").read_bytes()), "started": 1}
    (root / "lock.json").write_text(json.dumps(dead))
    real, held = Folder.remove, []

    def remove(self: Folder, name: str) -> None:
        if name == "lock.json":
            handle = os.open(root, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.append(False)
            except BlockingIOError:
                held.append(True)
            finally:
                os.close(handle)
        real(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "remove", remove)
        heir = create(tmp_path)
    heir.close()
    assert held == [True]


def isolated(*words: str) -> list[str]:
    """Return a command in namespaces of its own: other processes, and another host name."""
    script = 'hostname elsewhere && exec "$@"'
    return [
        "unshare",
        "--uts",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        script,
        "-",
        *words,
    ]


needs_namespaces = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(isolated("true"), capture_output=True, check=False).returncode != 0,
    reason="needs the right to make namespaces",
)


@needs_namespaces
def test_containers_do_not_rob_each_other_and_a_killed_one_is_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "ws"
    command = isolated(sys.executable, "-m", killed_writer.__name__, str(root), "0.05", "0.1")
    process = subprocess.Popen(command, env=ENVIRONMENT, cwd=TOP)
    while not list(root.glob("manifest/slow/x/blocks/*.json")):
        assert process.poll() is None
        time.sleep(0.01)
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.3)
    with pytest.raises(LockedError, match=r"process \d+ of .* on elsewhere \(job killed writer"):
        create(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(lock, "STALE_SECONDS", 1.0)
    with create(tmp_path) as heir:
        assert len(killed_writer.write(heir, pause=0)) < killed_writer.N_BLOCKS
        assert heir.verify() == []
    assert not list(root.glob("lock*"))
