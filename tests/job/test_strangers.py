"""A stranger's job or workspace: whatever URLs and options it names, nothing is run, written or sent for them."""

from __future__ import annotations

import pickle
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distembed import urls
from distembed.job import inputs
from distembed.job.load import JOB_BYTES, load_job
from distembed.job.model import JobError
from distembed.job.opening import open_job
from distembed.job.provenance import Joining, made_with
from distembed.storage.records import DamagedError
from distembed.storage.workspace import Workspace
from tests.commands import refusal, run, succeed

JOB = '[job]\nworkspace = "{workspace}"\n[corpus]\npaths = ["{path}"]\n[vocabulary]\nmin_count = 1\n'
TEXT = "the sea and the wind of the north\n" * 20


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Yield a port of this machine at which nobody may call, as a scheduler would be asked what it holds."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.setblocking(False)
        yield found
        with pytest.raises(BlockingIOError):
            found.accept()


def address_of(listener: socket.socket) -> str:
    return "127.0.0.1:{1}".format(*listener.getsockname())


def workspace_of(folder: Path, job: bytes | str) -> Path:
    """Write a workspace with a job of a stranger."""
    with Workspace.create(folder / "w", owner="a stranger") as workspace:
        workspace.write_file("job.toml", job.encode() if isinstance(job, str) else job)
    return folder / "w"


def given(kind: str, folder: Path, text: str) -> Path:
    """Write a job of a stranger, as a file or in a workspace."""
    if kind == "workspace":
        return workspace_of(folder, text)
    (folder / "job.toml").write_text(text)
    return folder / "job.toml"


# --- jobs ------------------------------------------------------------------------------------------------------------


PAYLOADS = {
    "dask": "dask://{address}::file://{folder}/c.txt",
    "dask alone": "dask://{address}/x",
    "filecache": "filecache::file://{folder}/c.txt",
    "simplecache": "simplecache::file://{folder}/c.txt",
    "reference": "reference://::file://{folder}/c.txt",
    "web through a cache": "simplecache::http://{address}/c.txt",
}
"""Paths that run, write or call something where fsspec opens them."""

COMMANDS = {name: f"{name} {{source}}" for name in ("plan", "run", "status", "verify", "report")} | {
    "neighbors": "neighbors {source} city",
    "explain": "explain {source} city state",
    "infer": "infer {source} {folder}/c.txt --to {folder}/out.txt",
    "export": "export {source} --to {folder}/out.txt",
    "explore": "explore {source} --to {folder}/out.html",
    "encode": "encode {source} {folder}/c.txt --to {folder}/out.parquet",
}


@pytest.mark.parametrize("kind", ["job", "workspace"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_command_runs_writes_or_calls_what_a_stranger_names(payload, kind, tmp_path, listener):
    (tmp_path / "c.txt").write_text(TEXT)
    victim = tmp_path / "home" / "c.txt"
    victim.parent.mkdir()
    victim.write_text("mine")
    path = PAYLOADS[payload].format(address=address_of(listener), folder=tmp_path)
    source = given(kind, tmp_path, JOB.format(workspace=tmp_path / "w", path=path))
    for command in COMMANDS.values():
        done = run(*command.format(source=source, folder=tmp_path).split())
        assert done.exit_code in (1, 2), done.output
        assert "Traceback" not in done.output
    assert {file.name: file.read_text() for file in victim.parent.iterdir()} == {"c.txt": "mine"}


def test_a_protocol_is_opened_when_its_user_allows_it(tmp_path, monkeypatch):
    source = given("job", tmp_path, JOB.format(workspace="w", path="sftp://host/a.txt"))
    for options in ((), ("--allow-code",)):
        done = run("run", source, *options)
        assert done.exit_code == 2
        told = "corpus.paths.0 = 'sftp://host/a.txt': sftp://host/a.txt names the protocol 'sftp'"
        assert told in done.output
        assert "if you trust its author, set DISTEMBED_PROTOCOLS=sftp" in done.output
    monkeypatch.setenv(urls.PROTOCOLS_VARIABLE, "asynclocal, sftp")
    assert load_job(source).corpus.paths == ("sftp://host/a.txt",)  # type: ignore[attr-defined]
    sent = pickle.dumps(Joining(made_with()))  # to the workers of a cluster
    monkeypatch.delenv(urls.PROTOCOLS_VARIABLE)
    pickle.loads(sent).setup(None)
    urls.check_url("sftp://host/a.txt")
    with pytest.raises(urls.ProtocolError):
        urls.check_url("dask://host/a.txt")


@pytest.mark.parametrize("kind", ["job", "workspace"])
@pytest.mark.parametrize("section", ["resources.storage_options.s3", "storage_options.s3", "s3"])
def test_a_job_says_nothing_of_how_a_store_is_reached(tmp_path, section, kind):
    options = f'[{section}]\nendpoint_url = "http://127.0.0.1:9"\nanon = true\n'
    source = given(kind, tmp_path, JOB.format(workspace="w", path="a.txt") + options)
    with pytest.raises(JobError, match=rf"unknown key {re.escape(section.rpartition('.')[0] or 's3')}"):
        open_job(str(source))


def test_new_texts_call_the_function_of_a_job_only_when_it_is_allowed(tiny):
    (tiny / "c.txt").write_text(f"touch {tiny}/victim\n")
    job = tiny / "job.toml"
    job.write_text(job.read_text().replace("numbers = true", 'pattern = "os:system"'))
    for command, target in (("infer", "out.txt"), ("encode", "out.npy")):
        told = refusal(command, job, tiny / "c.txt", "--to", tiny / target)
        assert "calls the Python function os:system on every document" in told
    assert not (tiny / "victim").exists()


@pytest.mark.parametrize(
    "url",
    [
        "https://ann:sesame@example.org/a.txt",
        "https://sesame@example.org/a.txt",
        "s3://key:sesame@bucket/a.txt",
        "https://bucket.example.org/a.txt?X-Amz-Credential=me&X-Amz-Signature=sesame",
        "https://account.blob.core.windows.net/c/a.txt?sv=2024&sig=sesame",
        "https://example.org/a.txt?access_token=sesame",
        "https://example.org/a.txt?%61pi_key=sesame",
    ],
)
def test_a_secret_in_a_url_stands_nowhere(url, tmp_path):
    assert urls.has_secret(url)
    assert "sesame" not in urls.public(f"cannot read {url}: no")
    source = given("job", tmp_path, JOB.format(workspace=tmp_path / "w", path=url))
    for command in ("plan", "run", "status"):
        done = run(command, source)
        assert done.exit_code == 2
        assert "the URL holds a password, a signature or a token" in done.output
        assert "sesame" not in done.output
    assert not (tmp_path / "w").exists()
    (tmp_path / "v.txt").write_text("sea 1 2\n")
    near = url.replace("https:", "http:").replace("example.org", "127.0.0.1:9")
    for words in ("neighbors NEAR sea", "evaluate V --sets NEAR", "export V --to NEAR --format glove"):
        told = run(*words.replace("V", f"{tmp_path}/v.txt").replace("NEAR", near).split())
        assert told.exit_code != 0
        assert "sesame" not in told.output


# --- workspaces ------------------------------------------------------------------------------------------------------


READING = {name: COMMANDS[name] for name in COMMANDS.keys() - {"explore", "encode"}}
READING["verify of a job"] = "verify {source}/job.toml"
"""Commands that read a finished workspace, and nothing that its job names."""

OPENED: list[set[str]] = []
"""Where the files that this process opens are written down, one set for each test that asks."""


def _write_down(event: str, given: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and OPENED:
        OPENED[-1].add(str(given[0]))


sys.addaudithook(_write_down)


@pytest.mark.parametrize("command", sorted(READING))
def test_commands_that_read_a_workspace_open_no_inputs_of_its_job(command, finished, tmp_path):
    (tmp_path / "c.txt").write_text("the city and a new gadget of the city\n" * 50)
    recorded: Any = load_job(finished[0] / "job.toml")
    inputs._hints.clear()  # a file that this process has read before is read again
    OPENED.append(set())
    try:
        done = run(*READING[command].format(source=finished[0], folder=tmp_path).split())
    finally:
        opened = OPENED.pop()
    assert done.exit_code == 0, done.output
    assert str(finished[0] / "workspace.json") in opened
    assert not {*recorded.corpus.paths, *recorded.evaluation.sets} & opened


def test_infer_reads_no_table_of_documents_that_a_workspace_names(copy, tmp_path):
    (tmp_path / "c.txt").write_text("the city and a new gadget of the city\n" * 50)
    job = copy / "job.toml"
    job.write_text(job.read_text().replace("[corpus]", f'[corpus]\nmetadata = "{tmp_path}/secret.csv"'))
    assert "1 new word" in succeed("infer", copy, tmp_path / "c.txt", "--to", tmp_path / "v.txt").output


def test_a_workspace_is_run_only_where_its_inputs_need_not_be_read(tmp_path, listener):
    (tmp_path / "c.txt").write_text(TEXT)
    with Workspace.create(tmp_path / "w", owner="a stranger") as workspace:
        stage = workspace.stage("note", parameters={}, inputs={})
        stage.store_bytes("note.txt", b"")
        stage.commit()
    for path in ("s3://bucket/a.txt", f"http://{address_of(listener)}/a.txt", str(tmp_path / "c.txt")):
        (tmp_path / "w" / "job.toml").write_text(JOB.format(workspace="w", path=path))
        for command in ("plan", "run"):
            done = run(command, tmp_path / "w")
            assert done.exit_code == 2
            assert f"stage tokens has to read {path}, which the workspace" in done.output
        assert "not begun" in run("status", tmp_path / "w").output
    for command in ("status", "plan", "run"):
        done = run(command, tmp_path / "w", "--set", f'corpus.paths=["{tmp_path}/d.txt"]')
        assert done.exit_code == 2
        assert f"a workspace is read without its inputs, and {tmp_path}/d.txt would be one" in done.output
    words = ("--workspace", tmp_path / "w", "--set", "psdvec.n_components=2")
    succeed("plan", tmp_path / "w" / "job.toml", *words)


def test_a_table_of_names_that_a_workspace_names_is_not_read(tmp_path):
    text = '[job]\nsystem = "imputation"\nworkspace = "w"\n[domain]\npath = "a.csv"\nnames = "b.csv"\n'
    keys = 'names_from = "a"\nnames_to = "b"\n[known]\npath = "v.txt"\n'
    place = workspace_of(tmp_path, text + keys)
    done = run("infer", place, tmp_path / "new.csv", "--to", tmp_path / "out.csv")
    assert done.exit_code == 2
    assert "b.csv' has to be read, but stands in a workspace, which may be a stranger's" in done.output


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", FileNotFoundError, "records no job: name the job file"),
        (bytes(JOB_BYTES + 1), DamagedError, "has more than 16,777,216 bytes"),
        (b"[job]\xff", JobError, r"job\.toml is damaged, it is not UTF-8: name the job file"),
        (None, FileNotFoundError, r"no workspace at memory://gone: .* ends with its process"),
    ],
)
def test_a_workspace_without_a_job_asks_for_the_job_file(tmp_path, content, error, message):
    place = "memory://gone" if content is None else str(workspace_of(tmp_path, content))
    with pytest.raises(error, match=message):
        open_job(place)
