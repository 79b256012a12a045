"""Exit codes of a run: 2 for what another try meets again, 1 where it may help, 3 where the same command goes on."""

from __future__ import annotations

import os
import shutil

import pytest
from distributed import Client

import distembed as de
from distembed.job import cluster
from distembed.storage.records import FORMAT, VERSION, WORKSPACE_FILE, Header, dumped
from tests.commands import run

NEWER = dumped(Header(format=FORMAT, version=VERSION + 1))
FAULTS = [
    ("", {}, "", 0, "nothing to do"),
    ("w text", {}, "", 2, "matches no file"),
    ("job.toml", {}, "", 2, "job.toml"),
    ("", {"job.toml": b"\nblock_memry = '1MiB'\n"}, "", 2, "block_memory"),
    ("", {}, "--until nowhere", 2, "the job has no stage 'nowhere'"),
    ("w", {}, "--set resources.memory_limit=100MiB", 2, "lower resources.block_memory"),
    ("w", {"w/letter.txt": b"mine"}, "", 2, "holds other things"),
    ("", {f"w/{WORKSPACE_FILE}": NEWER}, "", 2, "of another version of distembed"),
    ("w", {"w": b"mine"}, "", 2, "w is a file: a workspace needs a folder of its own"),
    ("", {"mine": b"mine"}, "--workspace {tiny}/mine/w", 2, "{tiny}/mine"),
    ("w text", {"text/a.txt": b"\xff\xfe\x00"}, "", 2, "text"),
    ("w", {}, "--set vocabulary.min_count=100000", 2, "The vocabulary is empty"),
    ("w", {}, "--set psdvec.n_core=100000", 2, "n_core is 100000"),
    ("w", {}, "--scheduler tcp://127.0.0.1:1", 1, "no Dask scheduler answers"),
]
"""What is removed, what is written (a job file is added to), the options, the exit code, and a part of the sentence."""


@pytest.mark.parametrize(("removed", "written", "options", "code", "sentence"), FAULTS)
def test_the_exit_code_says_whether_another_try_helps(
    tiny, monkeypatch, removed, written, options, code, sentence
):
    monkeypatch.setattr(cluster, "Client", lambda *where, **how: Client(*where, **how | {"timeout": 0.1}))
    for name in removed.split():
        shutil.rmtree(tiny / name) if (tiny / name).is_dir() else (tiny / name).unlink()
    for name, data in written.items():
        (tiny / name).parent.mkdir(exist_ok=True)
        before = (tiny / name).read_bytes() if name == "job.toml" else b""
        (tiny / name).write_bytes(before + data)
    words = options.format(tiny=tiny).split()
    done = run("run", tiny / "job.toml", "--workspace", tiny / "w", *words)
    assert (done.exit_code, sentence.format(tiny=tiny) in done.output) == (code, True), done.output
    assert "Traceback" not in done.output
    assert code == 0 or len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_second_run_goes_on_later(tiny):
    with de.Workspace.create(tiny / "w", owner="the first run"):
        done = run("run", tiny / "job.toml")
    assert done.exit_code == 3, done.output
    for part in ("the first run", f"process {os.getpid()}"):
        assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
