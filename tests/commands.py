"""A small real job, the command line that runs it, and a real Dask cluster on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from distembed.cli.main import cli
from distembed.job.load import load_job
from distembed.job.run import run_stages
from distembed.storage.records import digest_of_json
from distembed.storage.workspace import Workspace
from tests.tiny_job import make_tiny_job

DUMP = "{gensim}/test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
SMALL_JOB = f"""
[job]
title = "a small real job"
workspace = "w"
[corpus]
paths = ["{DUMP}"]
partition_bytes = "256KiB"
[vocabulary]
min_count = 40
[counting]
window = 3
direction = "left"
[psdvec]
n_components = 20
n_core = 300
n_iter = 2
ridge = [2.0, 4.0]
bands = [200, 100000]
[evaluation]
sets = ["{{gensim}}/test/test_data/wordsim353.tsv"]
[report]
words = ["city", "music"]
n_map_words = 50
[resources]
block_memory = "4MiB"
workers = 2
"""


def environment() -> dict[str, str]:
    """Return the environment of a command: the package of this checkout first."""
    root = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def run(*words: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(cli, [str(word) for word in words])


def succeed(*words: object) -> Result:
    """Run the command line in this process to a good end."""
    done = run(*words)
    assert done.exit_code == 0, done.output
    return done


def refusal(*words: object) -> str:
    """Run the command line in this process to its refusal; return what it says, in one line."""
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return " ".join(done.stderr.split())


def changes(settings: Mapping[str, object]) -> list[str]:
    """Return the words of a command that set keys to values."""
    found = ((key, json.dumps(value, default=str)) for key, value in settings.items())
    return [word for key, value in found for word in ("--set", f"{key}={value}")]


def made(job: Path, workspace: Path, *settings: str, until: str | None = None) -> Workspace:
    """Run a job with settings to a stage, or to its end, and return its workspace."""
    run_stages(load_job(job, workspace=str(workspace), settings=settings), until=until, replace=True)
    return Workspace.open(str(workspace))


def untimed(output: str) -> str:
    """Return the lines of a run without their times."""
    return re.sub(r"^\d{4}-\d\d-\d\dT\S+Z ", "", output, flags=re.MULTILINE)


def digest_here(job: Path, workspace: Path, *words: str) -> str:
    """Return the line that `verify`, run in this process, prints last."""
    return succeed("verify", job, "--workspace", workspace, *words).output.splitlines()[-1]


def digest(job: Path, workspace: Path) -> str:
    """Return the digest of a workspace in which `verify` finds no fault."""
    return digest_here(job, workspace).removeprefix("digest ")


def forget_stage(workspace: Path, stage: str) -> None:
    """Remove the commit of a stage and its copy: a run computes it again."""
    for folder in ("manifest", "manifest/copies"):
        (workspace / folder / f"{stage}.json").unlink()


def reopen_stage(workspace: Path, stage: str, *without: str) -> None:
    """Withdraw the commit of a stage, as a run that was killed leaves it: without the first blocks of some outputs."""
    from distembed.storage.records import Problem

    with Workspace.create(workspace, owner="test") as opened:
        made = opened.stages()[stage]
        said = {"parameters": made.parameters, "inputs": made.inputs, "made_with": made.made_with}
        opened.stage(stage, **said).reopen([Problem(stage, output, 0, "", "missing") for output in without])


def has_begun(workspace: Path, stage: str) -> bool:
    """Return whether a run has begun a stage, which may be done."""
    return (workspace / "journal" / stage).exists() or (workspace / "manifest" / f"{stage}.json").exists()


@contextmanager
def folder_of_all_workers(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Yield one folder to all of pytest-xdist's workers, to one at a time."""
    import fcntl

    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "turn").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield folder


def watched(log: Path, *words: object, kill: str = "") -> tuple[int | None, str]:
    """Run a job in a process that writes down what it makes; return its exit code and what it printed."""
    from tests.processes import Process

    process = Process(str(log), kill, "", "run", *map(str, words), program="tests.faults.watched")
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def run_once(factory: pytest.TempPathFactory, job: Path, *words: str) -> tuple[Path, str]:
    """Return the workspace of a job that is run once for all of pytest-xdist's workers, and what the run printed.

    The job lies in a `folder_of_all_workers`. A test that writes, or locks, takes a copy of the workspace. What the run
    made is written down beside it, in a file of the same name that ends in `.made`.
    """
    with folder_of_all_workers(factory, job.parent.name) as folder:
        workspace = folder / f"{job.stem}-{digest_of_json(words)[:8]}"
        printed = workspace.with_suffix(".printed")
        if not printed.exists():
            code, output = watched(workspace.with_suffix(".made"), job, "--workspace", workspace, *words)
            assert code == 0, output
            printed.write_text(output, encoding="utf-8")
    return workspace, printed.read_text(encoding="utf-8")


@pytest.fixture
def copy(finished, tmp_path):
    """Return a copy of the finished workspace."""
    return Path(shutil.copytree(finished[0], tmp_path / "copy"))


def job_fixtures(name: str, write: Callable[[Path], None], *words: str) -> tuple[Any, Any, Any]:
    """Return the fixtures `job`, `finished` and `copy` of a module: a small job, run once, and a copy.

    A run in the copy redoes only what its settings change.
    """

    @pytest.fixture(scope="module")
    def job(tmp_path_factory):
        return written_once(tmp_path_factory, name, write)

    @pytest.fixture(scope="module")
    def finished(job, tmp_path_factory):
        return run_once(tmp_path_factory, job, *words)

    return job, finished, copy


def written_once(factory: pytest.TempPathFactory, name: str, write: Callable[[Path], None]) -> Path:
    """Return the file of a small job that is written once for all of pytest-xdist's workers."""
    with folder_of_all_workers(factory, name) as folder:
        if not (folder / "job.toml").exists():
            write(folder)
    return folder / "job.toml"


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """Return the file of a small job on a real dump."""
    pytest.importorskip(
        "gensim", reason="the embedded input lies in gensim's wheel: pip install 'distembed[demo]'"
    )
    with folder_of_all_workers(tmp_path_factory, "job") as folder:
        path = folder / "small.toml"
        if not path.exists():
            path.write_text(SMALL_JOB, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def finished(job, tmp_path_factory):
    """Return the workspace of the job run once by two threads, its digest, and what the run printed.

    All workers read this workspace: a test that writes, or locks, takes a `copy` of it.
    """
    with folder_of_all_workers(tmp_path_factory, "job") as folder:
        workspace, printed = folder / "finished", folder / "printed.txt"
        if not printed.exists():
            done = succeed("run", job, "--workspace", workspace)
            printed.write_text(done.stdout, encoding="utf-8")
    return workspace, digest(job, workspace), printed.read_text(encoding="utf-8")


@contextmanager
def dask_cluster(
    folder: Path, *options: str, n_workers: int = 2, program: Callable[..., object] | None = None
) -> Iterator[str]:
    """Run the commands `dask scheduler` and `dask worker` in processes on loopback; yield the address.

    The processes are forks, which have imported all (`test_deploy` starts the commands from nothing). No nanny starts a
    worker again: `start_processes` has those.
    """
    from tests.processes import DASK, Process, kill_group

    file = folder / "scheduler.json"
    common = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file), *options)
    with ExitStack() as stack:
        for name in ("scheduler", *["worker"] * n_workers):
            own = ("--port", "0") if name == "scheduler" else ("--nthreads", "1", "--no-nanny")
            process = Process(name, *common, *own, program=program or DASK, folder=folder)
            stack.callback(kill_group, process)
        yield _address(file)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Return the address of a cluster of two worker processes, for tests that neither stop nor kill any of them."""
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def _address(file: Path) -> str:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if file.exists() and file.stat().st_size:
            address: Any = json.loads(file.read_text())["address"]
            return str(address)
        time.sleep(0.1)
    raise TimeoutError(f"no scheduler wrote {file} within 300 s")


@pytest.fixture(scope="session")
def tiny_once(tmp_path_factory):
    """Return a folder with a tiny job, its inputs and its finished workspace, which no test changes."""
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_job(folder)
    return folder


@pytest.fixture
def tiny(tiny_once, tmp_path):
    """Return a copy of the finished tiny job with its inputs in another folder, which makes no difference."""
    return Path(shutil.copytree(tiny_once, tmp_path / "tiny"))
