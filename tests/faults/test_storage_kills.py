"""Kill a writer at every write point and at random moments: the rerun gives the same bytes."""

import json
import os
import signal
import time

import pytest

from distembed.storage.records import LockedError
from distembed.storage.workspace import Workspace
from tests.faults import killed_at_every_write, killed_writer
from tests.processes import Process


def start(module, *arguments):
    return Process(*map(str, arguments), program=module.__name__)


def check_kills(tmp_path, step):
    """Check the reruns of every scenario; return in how many a run was killed."""
    process = start(killed_at_every_write, tmp_path, step)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    found, undisturbed = json.loads(printed.splitlines()[-1])
    for name, reports in found.items():
        *killed, whole = reports
        assert killed
        assert all(report["killed"] == signal.SIGKILL for report in killed)
        assert whole["computed"] == 0
        for report in reports:
            assert report["digest"] == undisturbed[name], (name, report)
            assert report["problems"] == [], (name, report)
            if name == "fresh":
                assert report["computed"] == 3 - report["recorded"], report
    return sum(len(reports) - 1 for reports in found.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_at_some_write_points(tmp_path):
    assert check_kills(tmp_path, 449) > 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_at_every_write_point(tmp_path):
    assert check_kills(tmp_path, 1) > 500


def test_kill_at_random_moments_with_threads(tmp_path):
    with Workspace.create(tmp_path / "whole", owner="test") as workspace:
        killed_writer.write(workspace, pause=0)
        expected = workspace.digest()
    root = tmp_path / "killed"
    for n_blocks in (1, 9):
        process = start(killed_writer, root, 0.1)
        while len(records := list(root.glob("journal/slow/x/0*.json"))) < n_blocks:
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert len(records) < killed_writer.N_BLOCKS
    recorded = {path.name for path in root.glob("journal/slow/x/0*.json")}
    with Workspace.create(root, owner="test") as workspace:
        computed = killed_writer.write(workspace, pause=0)
        assert workspace.digest() == expected
        assert workspace.verify() == []
    assert {f"{block:06d}.json" for block in computed} == (
        {f"{block:06d}.json" for block in range(killed_writer.N_BLOCKS)} - recorded
    )


def test_two_processes_contend_for_the_lock(tmp_path):
    root = tmp_path / "ws"
    process = start(killed_writer, root, 1)
    while not list(root.glob("journal/slow/x/0*.json")):
        assert process.poll() is None
        time.sleep(0.005)
    with pytest.raises(LockedError, match=f"killed writer .process {process.pid} of "):
        Workspace.create(root, owner="second")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert not (root / "lock.json").exists()
    with Workspace.create(root, owner="second") as workspace:
        assert len(killed_writer.write(workspace, pause=0)) < killed_writer.N_BLOCKS
