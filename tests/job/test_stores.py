"""A job on an object store: a real S3 server, which the configuration of fsspec names."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import dask.array as da
import fsspec
import pytest
from fsspec.config import conf, set_conf_env, set_conf_files

from distembed.cli.main import main
from distembed.job.provenance import Joining, made_with
from distembed.storage import lock
from distembed.storage.folder import Folder
from distembed.storage.records import DamagedError, LockedError
from distembed.storage.workspace import Workspace
from tests.commands import digest_here, run, succeed
from tests.job.failing_store import FAULTS, FailingStore, failing_store
from tests.processes import Process

PLACE, INPUT = "s3://texts/w", "s3://texts/a.txt"
TEXT = "the sea and the wind of the north\na ship on the sea and a man on the ship\n" * 20
JOB = f"""
[job]
workspace = "{PLACE}"
[corpus]
paths = ["{INPUT}"]
[vocabulary]
min_count = 1
[psdvec]
n_components = 3
first_passes = 2
[resources]
workers = 1
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="a real S3 server: pip install 'distembed[test]'")
    started = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    yield "http://{}:{}".format(*started.get_host_and_port())
    started.stop()


@pytest.fixture
def endpoint(server, monkeypatch) -> str:
    """Return the address of the server, whose one bucket holds a text."""
    s3fs = pytest.importorskip("s3fs", reason="pip install 'distembed[cloud]'")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    configure(monkeypatch, server)
    # Before a client asks again for what failed, it waits: here a twentieth of that.
    real_sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *rest: real_sleep(seconds / 20, *rest))
    with urlopen(Request(f"{server}/moto-api/reset", method="POST")):
        s3fs.S3FileSystem.clear_instance_cache()
    fsspec.filesystem("s3").mkdir("texts")
    fsspec.filesystem("s3").pipe_file(INPUT, TEXT.encode())
    return server


def configure(monkeypatch: pytest.MonkeyPatch, url: str, *, attempts: int | None = None) -> None:
    """Let fsspec reach S3 at an address, as its variable does that a process reads when it starts."""
    options: dict[str, Any] = {"endpoint_url": url}
    if attempts is not None:
        options["config_kwargs"] = {"retries": {"max_attempts": attempts}}
    monkeypatch.setitem(conf, "s3", options)
    monkeypatch.setenv("FSSPEC_S3", json.dumps(options))


@pytest.fixture
def proxy(endpoint, monkeypatch) -> Iterator[FailingStore]:
    """Yield a proxy of the server that fails when it is told to, and that nobody asks again."""
    with failing_store(int(endpoint.rpartition(":")[2])) as store:
        configure(monkeypatch, store.url, attempts=0)
        yield store


@pytest.fixture
def small(tmp_path) -> Path:
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path / "job.toml"


def store_ones(workspace: Workspace, n: int = 4) -> None:
    """Store a column of blocks of ones, unless it is there."""
    stage = workspace.stage("s", parameters={}, inputs={})
    assert stage.damaged_blocks() == []
    stage.store("ones", da.ones((n, 2), chunks=(1, 2)), dims=("row", "column"), units="1", meaning="Ones.")
    stage.commit()


def run_with_files_of_stores(*_: str) -> None:
    """Read the user's files of stores, as fsspec does when it is imported, and run a command."""
    set_conf_files(os.environ["FSSPEC_CONFIG_DIR"], conf)
    main()


def test_a_job_runs_on_a_store_that_the_configuration_of_fsspec_names(endpoint, small, monkeypatch):
    # a file of the user's configuration, which local worker processes read, too
    (small.parent / "stores.json").write_text(json.dumps({"s3": {"endpoint_url": endpoint}}))
    monkeypatch.setenv("FSSPEC_CONFIG_DIR", str(small.parent))
    monkeypatch.delenv("FSSPEC_S3")
    words = ("run", str(small), "--scheduler", "processes", "--until", "tokens")
    process = Process(*words, program=run_with_files_of_stores)
    output, _ = process.communicate(300)
    assert process.returncode == 0, output
    assert f"workspace  {PLACE}" in output
    assert fsspec.filesystem("s3").exists(f"{PLACE}/manifest/tokens.json")
    standing = run("status", small)
    assert standing.exit_code == 3, standing.output
    assert re.search(r"tokens +[0-9.]+ s\b", standing.output)


def print_refusal(joining: str) -> None:
    set_conf_env(conf)
    print(pickle.loads(Path(joining).read_bytes()).refusal())


@pytest.mark.usefixtures("endpoint")
def test_a_worker_without_keys_is_told_that_it_needs_its_own(tmp_path, monkeypatch):
    with Workspace.create(PLACE, owner="a") as workspace:
        joining = Joining(made_with(), workspace.url, workspace.check_lock)
        assert not joining.refusal()
        (tmp_path / "joining").write_bytes(pickle.dumps(joining))
        with monkeypatch.context() as patch:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                patch.delenv(name)
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            patch.setenv("HOME", str(tmp_path))
            process = Process(str(tmp_path / "joining"), program=print_refusal, apart=True)
        assert process.communicate(60)[0] == (
            f"does not reach the workspace {PLACE} (Unable to locate credentials): give it the keys and FSSPEC_ "
            "variables of this run in its own environment\n"
        )


# --- a store that fails ----------------------------------------------------------------------------------------------


def test_a_file_whose_answer_was_lost_is_our_own(proxy, monkeypatch):
    configure(monkeypatch, proxy.url)
    proxy.next.append(("PUT", "/lock.json", "reset_after"))
    with Workspace.create(PLACE, owner="a"):
        assert proxy.counted["reset_after"] == 1
        with pytest.raises(FileExistsError):
            Folder.at(PLACE).create("lock.json", b"of another run")


def test_a_block_of_a_store_that_fails_is_not_called_damaged(proxy):
    with Workspace.create(PLACE, owner="a") as workspace:
        store_ones(workspace)

        def total() -> float:
            return float(workspace.array("ones").compute(scheduler="synchronous").sum())

        block = rf"store of {PLACE}/arrays.zarr/ones/c/\d/0"
        for fault, error, sentence, call in (
            ("broken", ConnectionError, " failed", total),
            ("denied", PermissionError, r"\S* refuses access \(Access Denied\): check", total),
            ("denied", PermissionError, r"\S* refuses access \(Access Denied\): check", workspace.verify),
        ):
            proxy.next[:] = [("GET", "/c/0/0", fault)] * 20
            with pytest.raises(error, match=block + sentence):
                call()
        proxy.next.clear()
        assert total() == 8


FAILED = r"the object store of {} failed, also when it was asked again \(We failed\)"
REFUSED = r"the object store of {} refuses access \(.+\)"
FAILING = [
    ("GET", "", "denied", "run", 2, REFUSED.format(r"s3://texts\S*") + ": check which keys"),
    ("PUT", "/stage.json", "broken", "run", 1, FAILED.format(PLACE)),
    ("PUT", ".parquet", "denied", "run", 2, REFUSED.format(rf"{PLACE}\S*") + ": check which keys"),
    ("", "", "", "run", 0, ""),
    ("HEAD", "", "denied", "status", 2, REFUSED.format(rf"{PLACE}/workspace.json")),
    # a finished block that cannot be read for the moment is neither damaged nor computed again
    ("GET", ".parquet", "broken", "verify", 1, rf"the object store of {PLACE}/tokens/\S+\.parquet failed"),
    ("", "", "", "run", 0, "nothing to do"),
    ("GET", "/a.txt", "broken", "plan --workspace w", 1, FAILED.format(INPUT)),
]
"""The method and the end of the path of requests that fail, how, the command, its exit code, and the sentence."""


def test_a_store_that_goes_on_failing_is_named_and_the_run_can_be_given_again(proxy, small, monkeypatch):
    monkeypatch.chdir(small.parent)
    for method, name, fault, words, code, sentence in FAILING:
        proxy.next[:] = [(method, name, fault)] * 20
        command, *options = words.split()
        done = run(command, small, *options, *(("--until", "tokens") if command == "run" else ()))
        proxy.next.clear()
        assert (done.exit_code, done.output) == (code, done.output)
        assert re.search(sentence, done.output), done.output
        assert "Traceback" not in done.output
        assert "damaged" not in done.output


def test_a_store_that_fails_at_random_changes_nothing(endpoint, small, monkeypatch):
    shares = dict.fromkeys(FAULTS, 0.01)
    until = ("--until", "vocabulary")
    with failing_store(int(endpoint.rpartition(":")[2]), shares, seed=1, stall_seconds=0.1) as store:
        configure(monkeypatch, store.url, attempts=9)
        succeed("run", small, *until)
        assert len(store.counted) > 3, store.counted  # the requests, and faults of several kinds
    configure(monkeypatch, endpoint)
    here = small.parent / "w"
    succeed("run", small, "--workspace", here, *until)
    one, other = (Workspace.open(place).stages()["vocabulary"].digest for place in (PLACE, here))
    assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_whole_job_on_a_store_that_fails_at_random(endpoint, job, finished, seed, monkeypatch):
    shares = dict.fromkeys(FAULTS, 0.01) | {"stalled": 0.001}
    with failing_store(int(endpoint.rpartition(":")[2]), shares, seed=seed, stall_seconds=20) as store:
        configure(monkeypatch, store.url)
        for _ in range(3):  # a failure that no retry overcame ends a run, which is then given again
            done = run("run", job, "--workspace", PLACE)
            if done.exit_code == 0:
                break
            assert f"the object store of {PLACE} failed" in done.output
        assert done.exit_code == 0, done.output
        store.share.clear()
        assert digest_here(job, PLACE) == f"digest {finished[1]}"


# --- what a store holds, and what is asked of it ---------------------------------------------------------------------


@pytest.mark.usefixtures("endpoint")
def test_an_object_with_other_content_is_damage_and_no_failure_of_its_store():
    with Workspace.create(PLACE, owner="test") as workspace:
        store_ones(workspace)
    damaged = ["arrays.zarr/ones/c/1/0", "manifest/s.json"]
    for name, content in zip(damaged, (b"abc", b""), strict=True):
        fsspec.filesystem("s3").pipe_file(f"{PLACE}/{name}", content)
    workspace = Workspace.open(PLACE)
    assert sorted(problem.file for problem in workspace.verify()) == damaged
    with pytest.raises(DamagedError, match="Block 1 of 'ones'"):
        workspace.array("ones").compute()
    with Workspace.create(PLACE, owner="test") as workspace:
        assert [problem.file for problem in workspace.repaired] == damaged[1:]
        stage = workspace.stage("s", parameters={}, inputs={})
        assert [problem.block for problem in stage.damaged_blocks()] == [1]


@pytest.mark.usefixtures("endpoint")
def test_the_lock_of_a_store_is_read_once_a_second(monkeypatch):
    with Workspace.create(PLACE, owner="test") as workspace:
        workspace.write_file("note.txt", b"ours")
        Folder.at(PLACE).write("lock.json", b'{"token": "another"}')
        workspace.write_file("note.txt", b"within the second")
        monkeypatch.setattr(lock, "SEEN_SECONDS", 0.0)
        with pytest.raises(LockedError, match="this run stops here"):
            workspace.write_file("note.txt", b"after it")


def test_a_run_with_nothing_to_do_reads_no_finished_block(proxy):
    """A listing names a thousand objects with their versions, and each block would be a request of its own."""
    for most in (180, 60):
        proxy.asked.clear()
        with Workspace.create(PLACE, owner="test") as workspace:
            store_ones(workspace, 40)
        assert len(proxy.asked) < most
    assert not any("arrays.zarr/ones/c/" in each for each in proxy.asked)
