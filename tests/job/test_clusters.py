"""Who takes part in a run on a cluster: workers of other code, memory or view of the disk are refused."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dask
import dask.__main__
import pytest
from distributed import Client, LocalCluster, get_task_stream

import distembed as de
from distembed.job import cluster as clients
from distembed.job import provenance
from distembed.job.opening import open_job
from distembed.job.plan import plan_job
from distembed.job.provenance import Joining, made_with
from distembed.job.workers import Workers
from distembed.plan import RESERVED_BYTES
from tests.commands import dask_cluster, digest_here, run
from tests.processes import DASK, Process, Program, kill_group, start

WAIT = 60.0


def of_another_version(*_: str) -> None:
    """Be a worker with another NumPy."""
    provenance.made_with = lambda: {**made_with(), "numpy": "1.0"}  # type: ignore[assignment]
    dask.__main__.main()


class Hiding:
    """Finds no package of ours."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] == "distembed":
            raise ModuleNotFoundError(f"No module named {name!r}")


def without_the_package(*_: str) -> None:
    """Be a worker on a machine where distembed is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "distembed"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Hiding())  # type: ignore[arg-type]
    dask.__main__.main()


def mount(folder: str, options: str = "") -> None:
    """Let this process alone see an empty file system in a folder, in which it may write."""
    own = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    system, of_its_own = ctypes.CDLL(None, use_errno=True), 0x10020000  # mounts and users
    if system.unshare(of_its_own) or system.mount(b"none", folder.encode(), b"tmpfs", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "no mount namespace")
    Path("/proc/self/setgroups").write_text("deny")
    for name, number in own.items():
        Path("/proc/self", name).write_text(f"{number} {number} 1")


def blind(*_: str) -> None:
    """Be a worker that does not see the folder `shared` where it was started."""
    mount(str(Path.cwd() / "shared"))
    dask.__main__.main()


def without_disk(*words: str) -> None:
    """Be a worker that spills all to a disk, its `--local-directory`, of 16 KiB, which may be filled before."""
    folder = words[words.index("--local-directory") + 1]
    mount(folder, "size=16k")
    if "full" in folder:
        (Path(folder) / "filled").write_bytes(bytes(1 << 14))
    dask.config.set({"distributed.worker.memory.target": 1e-7})
    dask.__main__.main()


NEEDS_MOUNTS = pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.call(["unshare", "-rm", "true"]) != 0,
    reason="needs a mount namespace",
)


def worker(address: str, folder: Path, *words: str, program: Program = DASK) -> Process:
    """Start one more worker of a scheduler."""
    own = ("--no-dashboard", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny")
    return Process("worker", address, *own, *words, program=program, folder=folder)


def wait_for_workers(address: str, n: int) -> None:
    """Wait until a scheduler has no more and no fewer workers."""
    deadline = time.monotonic() + WAIT
    with Client(address, set_as_default=False) as client:
        while len(client.scheduler_info(n_workers=-1)["workers"]) != n:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def beside(address: str, folder: Path, *words: str, program: Program = DASK) -> Iterator[None]:
    """Let the cluster of two workers have another one."""
    process = worker(address, folder, *words, program=program)
    try:
        wait_for_workers(address, 3)
        yield
    finally:
        kill_group(process)
        wait_for_workers(address, 2)


@contextmanager
def admitted(address: str, folder: Path) -> Iterator[Client]:
    """Let a cluster take part in a run, as a run does."""
    with Workers(scheduler=address) as crew, de.Workspace.create(folder, owner="a run") as workspace:
        crew.start(workspace)
        assert crew.client is not None
        yield crew.client


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("program", "words", "sentence"),
    [
        (of_another_version, (), r"worker tcp://\S+ has numpy 1\.0 where this run has .* the same versions there"),
        (without_the_package, (), r"worker tcp://\S+ cannot import this version of distembed \(.*: install it there"),
        pytest.param(blind, (), r"worker tcp://\S+ does not see the workspace \S+/shared/w: mount", marks=NEEDS_MOUNTS),
        (DASK, ("--memory-limit", "501MiB"), r"memory limit of tcp://\S+ \(501.0 MiB\): .*--memory-limit {largest}MiB"),
    ],
)  # fmt: skip
def test_a_cluster_with_a_worker_that_does_not_fit_is_refused_before_the_first_stage(
    cluster, job, tmp_path, program: Program, words, sentence
):
    (tmp_path / "shared").mkdir()
    place = tmp_path / "shared" / "w"
    with beside(cluster, tmp_path, *words, program=program):
        done = run("run", job, "--workspace", place, "--scheduler", cluster)
    assert done.exit_code == 2, done.output
    stages = plan_job(open_job(str(job))).stages.values()
    largest = -(-(RESERVED_BYTES + max(stage.task_bytes for stage in stages)) // 2**20)
    assert re.search(sentence.replace("{largest}", str(largest)), done.output), done.output
    assert not (place / "manifest" / "tokens.json").exists()
    de.Workspace.create(place, owner="the next run").close()  # no lock is left


@pytest.mark.cluster
def test_a_worker_that_joins_during_a_run_is_held_to_the_same(cluster, tmp_path):
    """What a killed run left on the scheduler refused each one: none of them saw the lock of the dead."""
    lock = tmp_path / "lock of the dead"
    lock.touch()
    with Client(cluster) as killed:
        killed.wait_for_workers(2, timeout=WAIT)
        killed.register_plugin(Joining(made_with(), "w", lock.read_bytes))
    lock.unlink()
    assert "does not see the workspace w" in worker(cluster, tmp_path).communicate(WAIT)[0]
    with admitted(cluster, tmp_path / "w"), beside(cluster, tmp_path):
        late = worker(cluster, tmp_path, program=of_another_version)
        assert "install the same versions there" in late.communicate(WAIT)[0]
        wait_for_workers(cluster, 3)
    with beside(cluster, tmp_path, program=of_another_version):  # after the run any may join
        pass


def test_another_line_of_the_package_is_another_version(tmp_path, monkeypatch):
    own = made_with()
    assert provenance.differences(own, own) == ""
    shutil.copytree(Path(de.__file__).parent, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(de, "__file__", str(tmp_path / "copy" / "__init__.py"))
    assert made_with.__wrapped__() == own
    with (tmp_path / "copy" / "files.py").open("a") as file:
        file.write("# another version\n")
    found = provenance.differences(made_with.__wrapped__(), own, " where this run has ")
    assert re.fullmatch(
        r"distembed (\S+ \(source \w{12}\)) where this run has (?!\1)\S+ \(source \w{12}\)", found
    )


@pytest.mark.cluster
def test_a_scheduler_without_workers_is_named_with_the_command_that_starts_one(monkeypatch):
    monkeypatch.setattr(clients, "WORKER_SECONDS", 0.1)
    sentence = r"no worker joined \S+ within 0.1 s; start some with: dask worker"
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        ExitStack() as resources,
        pytest.raises(ConnectionError, match=sentence),
    ):
        clients.connect(resources, empty.scheduler_address, {})


def has_plugin(dask_worker: object) -> bool:
    return Joining.name in dask_worker.plugins  # type: ignore[attr-defined]


@pytest.mark.cluster
def test_a_run_uses_the_client_in_force_unless_threads_are_named_and_leaves_it_as_it_was(tiny, cluster):
    with Client(cluster) as client:
        client.wait_for_workers(1, timeout=WAIT)
        assert Workers().client is client
        with Workers(scheduler="threads") as threads:
            threads.start()
            assert (threads.client, threads.is_remote) == (None, False)
            assert dask.delayed(sum)([1, 2]).compute() == 3
        with get_task_stream(client) as stream:
            run = de.run_job(tiny / "job.toml", workspace=tiny / "again")
        assert any("tokens-write" in str(task["key"]) for task in stream.data), "no task ran on the workers"
        assert client.submit(sum, [1, 2]).result(timeout=WAIT) == 3
        assert not any(client.run(has_plugin).values())
    assert run.ran
    assert de.Workspace.open(tiny / "again").digest() == de.Workspace.open(tiny / "w").digest()


# --- clusters of many kinds ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cluster_whose_workers_come_and_go_gives_the_same_bytes(job, finished, tmp_path):
    with LocalCluster(
        n_workers=1, threads_per_worker=1, memory_limit="2GiB", dashboard_address=":0"
    ) as grown:
        grown.adapt(minimum=1, maximum=3, interval="200 ms", wait_count=2, target_duration="1 s")
        process = start(
            "run", str(job), "--workspace", str(tmp_path / "w"), "--scheduler", grown.scheduler_address
        )
        output, _ = process.communicate(timeout=300)
        events = [event.get("action") for _, event in grown.scheduler.get_events("all")]
    assert process.returncode == 0, output
    assert digest_here(job, tmp_path / "w") == f"digest {finished[1]}"
    assert events.count("add-worker") > 1, "no worker came while the job ran"
    assert events.count("remove-worker") > 0, "no worker left while the job ran"


@pytest.mark.slow
@pytest.mark.cluster
@NEEDS_MOUNTS
def test_a_run_whose_worker_cannot_spill_goes_on_or_ends_with_a_sentence(tiny, tmp_path):
    """Dask keeps a new result in memory; to read an old one back it needs room for another, and fails."""
    ended = []
    with dask_cluster(tmp_path, n_workers=0) as address:
        for name in ("small", "full"):
            (tmp_path / name).mkdir()
            words = ("--memory-limit", "1GiB", "--local-directory", str(tmp_path / name))
            process = worker(address, tmp_path, *words, program=without_disk)
            ended += [run("run", tiny / "job.toml", "--workspace", tmp_path / "w", "--scheduler", address)]
            assert "Spill to disk failed; keeping data in memory" in kill_group(process, signal.SIGTERM)
    small, full = ended
    assert small.exit_code == 1
    assert "stage core: a worker has no room on the disk of its --local-directory" in small.output
    assert full.exit_code == 0, full.output
    assert de.Workspace.open(tmp_path / "w").digest() == de.Workspace.open(tiny / "w").digest()
