"""A job on an object store: a real S3 server, which the options of the job reach."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from distembed.pipeline.config import load_job
from distembed.pipeline.sections import JobError
from tests.pipeline.conftest import run
from tests.pipeline.processes import distembed

SENTENCES = ("the sea and the wind of the north", "a ship on the sea and a man on the ship")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of an S3 server on loopback that has one bucket."""
    pytest.importorskip("s3fs", reason="pip install 'distembed[cloud]'")
    server = pytest.importorskip("moto.server", reason="a real S3 server: pip install 'distembed[test]'")
    from fsspec.config import conf

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("FSSPEC_S3", "")  # put back afterwards
    monkeypatch.delenv("FSSPEC_S3")
    monkeypatch.setitem(conf, "s3", {})
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


def test_a_job_runs_on_a_store_that_its_options_reach(endpoint: str, tmp_path: Path) -> None:
    import s3fs

    store = s3fs.S3FileSystem(endpoint_url=endpoint)
    store.mkdir("texts")
    with store.open("texts/a.txt", "w") as file:
        file.writelines(f"{sentence}\n" for sentence in SENTENCES * 20)
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nworkspace = "s3://texts/w"\n[corpus]\npaths = ["s3://texts/a.txt"]\n[vocabulary]\nmin_count = 1\n'
        "[psdvec]\nn_components = 3\nfirst_passes = 2\n[resources]\nworkers = 1\n"
        f'[resources.storage_options.s3]\nendpoint_url = "{endpoint}"\n'
    )
    # worker processes are told the options too
    done = distembed("run", str(job), "--scheduler", "processes", "--until", "cooccurrence")
    assert done.returncode == 0, done.stdout + done.stderr
    assert store.exists("texts/w/manifest/cooccurrence.json")
    standing = run("status", job)
    assert standing.exit_code == 0, standing.output
    assert re.search(r"cooccurrence +[0-9.]+ s ", standing.output)


def test_a_secret_in_a_job_is_refused(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n[resources.storage_options.s3]\nsecret = "x"\n'
    )
    with pytest.raises(JobError, match=r"s3\.secret is a secret"):
        load_job(job)


def test_options_are_those_of_every_file_system_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec
    from fsspec.config import conf

    from distembed.pipeline.stores import use_storage_options

    monkeypatch.setitem(conf, "memory", {})
    monkeypatch.setenv("FSSPEC_MEMORY", "")
    use_storage_options({"memory": {"asked_for": 1}})
    assert fsspec.filesystem("memory").storage_options == {"asked_for": 1}
    assert json.loads(os.environ["FSSPEC_MEMORY"]) == {"asked_for": 1}
