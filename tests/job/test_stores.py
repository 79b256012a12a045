"""A job on an object store: a real S3 server, which the configuration of fsspec names."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import dask.array as da
import pytest
from fsspec.config import conf

from distembed.job.provenance import Joining, made_with
from distembed.storage import lock
from distembed.storage.folder import Folder
from distembed.storage.records import DamagedError, LockedError
from distembed.storage.workspace import Workspace
from tests.commands import digest_here, run, succeed
from tests.job.failing_store import FAULTS, failing_store

SENTENCES = ("the sea and the wind of the north", "a ship on the sea and a man on the ship")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="a real S3 server: pip install 'distembed[test]'")
    started = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture
def endpoint(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of the server, which has one empty bucket, `texts`."""
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
    s3fs.S3FileSystem().mkdir("texts")
    return server


def configure(monkeypatch: pytest.MonkeyPatch, url: str, **options: object) -> None:
    """Let fsspec reach S3 at an address, as its variable does that a process reads when it starts."""
    options["endpoint_url"] = url
    monkeypatch.setitem(conf, "s3", options)
    monkeypatch.setenv("FSSPEC_S3", json.dumps(options))


def test_a_job_runs_on_a_store_that_the_configuration_of_fsspec_names(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    store = s3fs.S3FileSystem()
    with store.open("texts/a.txt", "w") as file:
        file.writelines(f"{sentence}\n" for sentence in SENTENCES * 20)
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nworkspace = "s3://texts/w"\n[corpus]\npaths = ["s3://texts/a.txt"]\n[vocabulary]\nmin_count = 1\n'
        "[psdvec]\nn_components = 3\nfirst_passes = 2\n[resources]\nworkers = 1\n"
    )
    # a file of the user's configuration, which local worker processes read, too
    (tmp_path / "fsspec").mkdir()
    (tmp_path / "fsspec" / "stores.json").write_text(json.dumps({"s3": {"endpoint_url": endpoint}}))
    monkeypatch.setenv("FSSPEC_CONFIG_DIR", str(tmp_path / "fsspec"))
    monkeypatch.delenv("FSSPEC_S3")
    command = [sys.executable, "-c", "from distembed.cli.main import main; main()"]
    words = ["run", str(job), "--scheduler", "processes", "--until", "tokens"]
    # A process of its own: forks of the test's have the configuration that was read before.
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    goes_on = succeed("run", job, "--until", "cooccurrence")
    assert store.exists("texts/w/manifest/cooccurrence.json")
    assert "workspace  s3://texts/w" in goes_on.output
    standing = run("status", job)
    assert standing.exit_code == 3, standing.output
    assert re.search(r"cooccurrence +[0-9.]+ s\b", standing.output)


@pytest.mark.usefixtures("endpoint")
def test_a_worker_without_keys_is_told_that_it_needs_its_own(tmp_path: Path) -> None:
    with Workspace.create("s3://texts/w", owner="a") as workspace:
        joining = Joining(made_with(), workspace.url, workspace.check_lock)
        assert not joining.refusal()
        (tmp_path / "joining").write_bytes(pickle.dumps(joining))
        program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).refusal())"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "joining")],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout == (
        "does not reach the workspace s3://texts/w (Unable to locate credentials): give it the keys and FSSPEC_ "
        "variables of this run in its own environment\n"
    )


TINY_JOB = """
[job]
workspace = "w"
[corpus]
paths = ["a.txt"]
[vocabulary]
min_count = 1
"""


def retries(attempts: int) -> dict[str, object]:
    return {"config_kwargs": {"retries": {"max_attempts": attempts}}}


def tiny_job(folder: Path) -> Path:
    (folder / "a.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES * 20))
    path = folder / "tiny.toml"
    path.write_text(TINY_JOB)
    return path


def vocabulary_at(workspace: str) -> str:
    return Workspace.open(workspace).stages()["vocabulary"].digest


def test_a_file_whose_answer_was_lost_is_our_own(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_store(int(endpoint.rpartition(":")[2])) as store:
        configure(monkeypatch, store.url)
        store.next.append(("PUT", "/lock.json", "reset_after"))
        with Workspace.create("s3://texts/w", owner="a"):
            assert store.counted["reset_after"] == 1
            with pytest.raises(FileExistsError):
                Folder.at("s3://texts/w").create("lock.json", b"of another run")


def test_a_block_of_a_store_that_fails_is_not_called_damaged(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_store(int(endpoint.rpartition(":")[2])) as store:
        configure(monkeypatch, store.url, **retries(0))
        with Workspace.create("s3://texts/w", owner="a") as workspace:
            stage = workspace.stage("made", parameters={}, inputs={})
            stage.store(
                "numbers", da.ones((4, 2), chunks=2), dims=("row", "column"), units="1", meaning="ones"
            )
            stage.commit({})
            store.next += [("GET", "/c/0/0", "broken")] * 20
            with pytest.raises(
                ConnectionError, match=r"store of s3://texts/w/arrays.zarr/numbers/c/\d/0 failed"
            ):
                workspace.array("numbers").compute(scheduler="synchronous")
            store.next.clear()
            assert workspace.array("numbers").compute(scheduler="synchronous").sum() == 8
            refuses = (
                r"store of s3://texts/w/arrays.zarr/numbers/c/\d/0\S* refuses access \(Access Denied\): check"
            )
            for action in (
                lambda: workspace.array("numbers").compute(scheduler="synchronous"),
                workspace.verify,
            ):
                store.next[:] = [("GET", "/c/0/0", "denied")] * 20
                with pytest.raises(PermissionError, match=refuses):
                    action()


def test_a_store_that_refuses_access_is_named_with_what_to_check(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_store(int(endpoint.rpartition(":")[2])) as store:
        configure(monkeypatch, store.url, **retries(9))
        command = ("run", tiny_job(tmp_path), "--workspace", "s3://texts/w", "--until", "tokens")
        for method, name in (("GET", ""), ("PUT", ".parquet")):
            store.next[:] = [(method, name, "denied")] * 20
            failed = run(*command)
            assert failed.exit_code == 2
            assert re.search(
                r"store of s3://texts/w\S* refuses access \(\S.*\): check which keys", failed.output
            )
            assert "damaged" not in failed.output
        store.next.clear()
        succeed(*command)
        store.next[:] = [("HEAD", "", "denied")] * 20
        looked = run("status", command[1], "--workspace", "s3://texts/w")
        assert "the object store of s3://texts/w/workspace.json refuses access (" in looked.output


def test_a_store_that_fails_at_random_changes_nothing(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_store(
        int(endpoint.rpartition(":")[2]), dict.fromkeys(FAULTS, 0.01), seed=1, stall_seconds=0.1
    ) as store:
        configure(monkeypatch, store.url, **retries(9))
        given = tiny_job(tmp_path)
        succeed("run", given, "--workspace", "s3://texts/w", "--until", "vocabulary")
        assert len(store.counted) > 3, store.counted  # the requests, and faults of several kinds
    succeed("run", given, "--until", "vocabulary")
    configure(monkeypatch, endpoint)
    assert vocabulary_at("s3://texts/w") == vocabulary_at(str(tmp_path / "w"))


def test_a_store_that_goes_on_failing_is_named_and_the_run_can_be_given_again(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_store(int(endpoint.rpartition(":")[2])) as store:
        configure(monkeypatch, store.url, **retries(0))
        command = ("run", tiny_job(tmp_path), "--workspace", "s3://texts/w", "--until", "tokens")
        store.next += [("PUT", "/stage.json", "broken")] * 2
        failed = run(*command)
        assert failed.exit_code == 1
        assert (
            "the object store of s3://texts/w failed, also when it was asked again (We failed)"
            in failed.output
        )
        assert "Traceback" not in failed.output
        store.next.clear()
        succeed(*command)
        # a finished block that cannot be read for the moment is neither damaged nor computed again
        store.next += [("GET", ".parquet", "broken")] * 20
        failed = run("verify", *command[1:4])
        assert failed.exit_code == 1
        assert re.search(r"the object store of s3://texts/w/tokens/\S+\.parquet failed", failed.output)
        assert "damaged" not in failed.output
        store.next.clear()
        assert "nothing to do" in run(*command).output


def test_a_store_of_inputs_that_fails_is_named(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    s3fs.S3FileSystem().pipe_file("texts/a.txt", b"a ship on the sea\n" * 20)
    named = "the object store of s3://texts/a.txt failed"
    with failing_store(int(endpoint.rpartition(":")[2])) as store:
        configure(monkeypatch, store.url, **retries(0))
        command = ("plan", tiny_job(tmp_path), "--set", 'corpus.paths=["s3://texts/a.txt"]')
        store.next += [("GET", "/a.txt", "broken")] * 20
        assert f"{named}, also when it was asked again (We failed)" in run(*command).output
    configure(monkeypatch, "http://127.0.0.1:9", **retries(0))
    assert named in run(*command).output


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_whole_job_on_a_store_that_fails_at_random(
    endpoint: str, job: Path, finished: tuple[Path, str, str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = dict.fromkeys(FAULTS, 0.01) | {"stalled": 0.001}
    with failing_store(int(endpoint.rpartition(":")[2]), shares, seed=seed, stall_seconds=20) as store:
        configure(monkeypatch, store.url)
        for _ in range(3):  # a failure that no retry overcame ends a run, which is then given again
            done = run("run", job, "--workspace", "s3://texts/w")
            if done.exit_code == 0:
                break
            assert "the object store of s3://texts/w failed" in done.output
        assert done.exit_code == 0, done.output
        store.share.clear()
        assert digest_here(job, "s3://texts/w") == f"digest {finished[1]}"


@pytest.mark.parametrize("content", [b"", b"abc", b"x" * 100])
def test_an_object_with_other_content_is_damage_and_no_failure_of_its_store(
    endpoint: str, content: bytes
) -> None:
    import s3fs

    about = {"dims": ("row", "column"), "units": "", "meaning": "Ones."}
    with Workspace.create("s3://texts/w", owner="test") as workspace:
        stage = workspace.stage("s", parameters={}, inputs={})
        stage.store("ones", da.ones((4, 2), chunks=(2, 2)), **about)
        stage.commit()
    damaged = ["arrays.zarr/ones/c/1/0", "manifest/s.json"]
    for name in damaged:
        s3fs.S3FileSystem().pipe_file(f"texts/w/{name}", content)
    workspace = Workspace.open("s3://texts/w")
    assert sorted(problem.file for problem in workspace.verify()) == damaged
    with pytest.raises(DamagedError, match="Block 1 of 'ones'"):
        workspace.array("ones").compute()
    with Workspace.create("s3://texts/w", owner="test") as workspace:
        assert [problem.file for problem in workspace.repaired] == damaged[1:]
        stage = workspace.stage("s", parameters={}, inputs={})
        assert [problem.block for problem in stage.damaged_blocks()] == [1]


def test_the_lock_of_a_store_is_read_once_a_second(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Workspace.create("s3://texts/w", owner="test") as workspace:
        workspace.write_file("note.txt", b"ours")
        Folder.at("s3://texts/w").write("lock.json", b'{"token": "another"}')
        workspace.write_file("note.txt", b"within the second")
        monkeypatch.setattr(lock, "SEEN_SECONDS", 0.0)
        with pytest.raises(LockedError, match="this run stops here"):
            workspace.write_file("note.txt", b"after it")


def test_a_run_with_nothing_to_do_reads_no_finished_block(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing names a thousand objects with their versions, and each block would be a request of its own."""
    import s3fs

    asked: list[str] = []
    call = s3fs.S3FileSystem._call_s3

    async def noted(self: Any, method: str, *arguments: Any, **options: Any) -> Any:
        asked.append(f"{method} {options.get('Key', '')}")
        return await call(self, method, *arguments, **options)

    about = {"dims": ("row", "column"), "units": "", "meaning": "Ones."}
    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", noted)
    for most in (340, 60):
        asked.clear()
        with Workspace.create("s3://texts/w", owner="test") as workspace:
            stage = workspace.stage("s", parameters={}, inputs={})
            assert stage.damaged_blocks() == []
            stage.store("ones", da.ones((80, 2), chunks=(1, 2)), **about)
            stage.commit()
        assert len(asked) < most
    assert not any("arrays.zarr/ones/c/" in each for each in asked)
