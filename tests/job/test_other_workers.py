"""Workers whose code, processor or memory is not that of the run, and workers that come and go."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

import distembed as de
from distembed.job import cluster, provenance
from distembed.job.model import JobError
from distembed.job.opening import open_job
from distembed.job.plan import plan_job
from distembed.job.provenance import Joining
from distembed.job.workers import Workers
from distembed.plan import RESERVED_BYTES
from tests.commands import dask_cluster, digest_here, environment, run
from tests.processes import DASK, Process, kill_group, start

Finished = tuple[Path, str, str]

WAIT = 60.0


def copy_with_another_line(folder: Path) -> Path:
    """Copy the package, with one more line in one file; return the folder that is put before the others."""
    package = folder / "distembed"
    shutil.copytree(Path(de.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    with (package / "files.py").open("a") as file:
        file.write("# another version\n")
    return folder


def worker(
    address: str, log: Path, *words: str, before: tuple[str, ...] = (), **variables: str
) -> subprocess.Popen[bytes]:
    """Start one more `dask worker` of a scheduler on loopback; `before` is what its command begins with."""
    own = ("-m", "dask", "worker", address, "--no-dashboard", "--host", "127.0.0.1", "--nthreads", "1")
    with log.open("wb") as file:
        return subprocess.Popen(
            [*before, sys.executable, *own, *words],
            stdout=file,
            stderr=file,
            cwd=log.parent,
            env={**environment(), **variables},
        )


def has_mount_namespaces() -> bool:
    return bool(shutil.which("unshare")) and subprocess.call(["unshare", "-rm", "true"]) == 0


@contextmanager
def admitted(address: str, folder: Path) -> Iterator[Client]:
    """Let a cluster take part in a run, as a run does."""
    with Workers(scheduler=address) as crew, de.Workspace.create(folder, owner="a run") as workspace:
        crew.start(workspace)
        assert crew.client is not None
        yield crew.client


@pytest.mark.cluster
def test_a_worker_with_other_code_is_refused(tmp_path: Path) -> None:
    other = copy_with_another_line(tmp_path / "other")

    def other_worker(address: str) -> subprocess.Popen[bytes]:
        return worker(address, tmp_path / "other.log", "--no-nanny", PYTHONPATH=str(other))

    with dask_cluster(tmp_path, n_workers=1) as address:
        with admitted(address, tmp_path / "w") as client:
            (own,) = client.scheduler_info()["workers"]
            late = other_worker(address)  # one that joins during a run is closed, with the reason in its log
            late.wait(WAIT)
            assert "install the same versions there" in (tmp_path / "other.log").read_text()
            assert list(client.scheduler_info()["workers"]) == [own]
        early = [
            other_worker(address) for _ in range(2)
        ]  # after the run any may join, and the next run is refused
        with Client(address) as client:
            client.wait_for_workers(3, timeout=WAIT)
        refused = pytest.raises(
            JobError, match=r"(worker tcp://\S+ has distembed .* where this run has .*){2}end them"
        )
        with refused, admitted(address, tmp_path / "w"):
            pass
        for process in early:
            process.terminate()
            process.wait(WAIT)


HIDING = """
import sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "distembed":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Hiding())
"""


@pytest.mark.cluster
def test_a_worker_without_the_package_ends_the_run_and_leaves_no_lock(job: Path, tmp_path: Path) -> None:
    """Also one that stays on the cluster of a run that is over, where nothing of distembed keeps it out."""
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(HIDING)
    with dask_cluster(tmp_path, n_workers=1) as address:
        without = worker(address, tmp_path / "without.log", "--no-nanny", PYTHONPATH=str(hiding))
        with Client(address) as client:
            client.wait_for_workers(2, timeout=WAIT)
        done = run("run", job, "--workspace", tmp_path / "w", "--scheduler", address)
        without.terminate()
        without.wait(WAIT)
    assert done.exit_code == 2, done.output
    assert re.search(
        r"distembed: worker tcp://\S+ cannot import this version of distembed \(.*No module", done.output
    )
    assert "install it there" in done.output
    de.Workspace.create(tmp_path / "w", owner="the next run").close()


@pytest.mark.cluster
@pytest.mark.skipif(not has_mount_namespaces(), reason="needs a mount namespace")
def test_a_worker_that_does_not_see_the_workspace_is_refused(job: Path, tmp_path: Path) -> None:
    """Its tasks ended the run: the lock was gone, they said."""
    shared = tmp_path / "shared"
    shared.mkdir()
    blind = ("unshare", "-rm", "sh", "-c", f'mount -t tmpfs none {shared} && exec "$@"', "sh")
    with dask_cluster(tmp_path, n_workers=1) as address:
        another = worker(address, tmp_path / "blind.log", "--no-nanny", before=blind)
        with Client(address) as client:
            client.wait_for_workers(2, timeout=WAIT)
        done = run("run", job, "--workspace", shared / "w", "--scheduler", address)
        assert done.exit_code == 2, done.output
        assert re.search(rf"worker tcp://\S+ does not see the workspace {shared}/w: mount", done.output)
        another.terminate()
        another.wait(WAIT)
        with admitted(address, shared / "w"):
            late = worker(address, tmp_path / "late.log", "--no-nanny", before=blind)
            late.wait(WAIT)
    assert f"does not see the workspace {shared}/w" in (tmp_path / "late.log").read_text()


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.skipif(not has_mount_namespaces(), reason="needs a mount namespace")
def test_a_run_whose_worker_cannot_spill_goes_on_or_ends_with_a_sentence(tiny: Path, tmp_path: Path) -> None:
    """Dask keeps a new result in memory; to read an old one back it needs room for another, and fails."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=16k none {disk}"
    fill = f"head --bytes 16K /dev/zero > {disk}/filled"
    options = ("--no-nanny", "--memory-limit", "1GiB", "--local-directory", str(disk))
    spills_all = {"DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "1e-7"}
    with dask_cluster(tmp_path, n_workers=0) as address:
        ended = []
        for name, command in (("small", mount), ("full", f"{mount} && {fill}")):
            inside = ("unshare", "-rm", "sh", "-c", f'{command} && exec "$@"', "sh")
            process = worker(address, tmp_path / f"{name}.log", *options, before=inside, **spills_all)
            ended += [run("run", tiny / "job.toml", "--workspace", tmp_path / "w", "--scheduler", address)]
            process.terminate()
            process.wait(WAIT)
            assert "Spill to disk failed; keeping data in memory" in (tmp_path / f"{name}.log").read_text()
    small, full = ended
    assert small.exit_code == 1
    assert "stage core: a worker has no room on the disk of its --local-directory" in small.output
    assert full.exit_code == 0, full.output
    assert de.Workspace.open(tmp_path / "w").digest() == de.Workspace.open(tiny / "w").digest()


@pytest.mark.cluster
def test_what_a_killed_run_left_on_the_scheduler_is_replaced_by_the_next_run(tmp_path: Path) -> None:
    """It refused each worker that joined later: none of them saw the lock of the dead."""
    lock = tmp_path / "lock of the dead"
    lock.touch()
    with dask_cluster(tmp_path, n_workers=1) as address:
        with Client(address) as killed:
            killed.wait_for_workers(1, timeout=WAIT)  # one that joined later would be refused as well
            killed.register_plugin(Joining(provenance.made_with(), "w", lock.read_bytes))
        lock.unlink()
        assert "does not see the workspace w" in forked_worker(address, tmp_path).communicate(WAIT)[0]
        with admitted(address, tmp_path / "w") as client:
            another = forked_worker(address, tmp_path)
            client.wait_for_workers(2, timeout=WAIT)
            kill_group(another)


def forked_worker(address: str, folder: Path) -> Process:
    """Start one more worker of a scheduler, which has imported all."""
    own = ("--no-dashboard", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny")
    return Process("worker", address, *own, program=DASK, folder=folder)


def test_versions_are_compared() -> None:
    own = provenance.made_with()
    assert provenance.differences(own, own) == ""
    other = {**own, "numpy": "1.0"}
    assert provenance.differences(other, own, " where this run has ") == (
        f"numpy 1.0 where this run has {own['numpy']}"
    )


@pytest.mark.cluster
def test_a_scheduler_without_workers_is_named_with_the_command_that_starts_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "WORKER_SECONDS", 0.1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        ExitStack() as resources,
        pytest.raises(
            ConnectionError, match=r"no worker joined \S+ within 0.1 s; start some with: dask worker"
        ),
    ):
        cluster.connect(resources, empty.scheduler_address, {})


@pytest.mark.cluster
def test_a_worker_with_less_memory_than_a_task_is_named() -> None:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, memory_limit=None, dashboard_address=":0"
        ) as small,
        Workers(scheduler=small.scheduler_address, memory_limit=600 << 20) as crew,
    ):
        crew.start()
        crew.check_memory(600 * 2**20)
        message = (
            r"largest task of this job need 601.0 MiB, more than the memory limit of inproc://\S+ \(600.0 MiB\), "
            r"inproc://\S+ \(600.0 MiB\): start workers with dask worker --memory-limit 601MiB"
        )
        with pytest.raises(JobError, match=message):
            crew.check_memory(601 * 2**20)


@pytest.mark.cluster
def test_a_worker_without_room_for_the_largest_task_is_refused_before_the_first_stage(
    job: Path, tmp_path: Path
) -> None:
    """Two stages ran, and the number named was that of the third."""
    with dask_cluster(tmp_path, n_workers=1) as address:
        small = worker(address, tmp_path / "small.log", "--no-nanny", "--memory-limit", "501MiB")
        with Client(address) as client:
            client.wait_for_workers(2, timeout=WAIT)
        done = run("run", job, "--workspace", tmp_path / "w", "--scheduler", address)
        small.terminate()
        small.wait(WAIT)
    assert done.exit_code == 2, done.output
    assert "more than the memory limit of tcp://" in done.output
    assert not (tmp_path / "w" / "manifest" / "tokens.json").exists()
    fits = open_job(str(job))
    largest = RESERVED_BYTES + max(stage.task_bytes for stage in plan_job(fits).stages.values())
    assert f"--memory-limit {-(-largest // 2**20)}MiB" in done.output


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_that_come_and_go_change_nothing(job: Path, finished: Finished, tmp_path: Path) -> None:
    with LocalCluster(
        n_workers=1, threads_per_worker=1, memory_limit="2GiB", dashboard_address=":0"
    ) as cluster_of_one:
        cluster_of_one.adapt(minimum=1, maximum=3, interval="200 ms", wait_count=2, target_duration="1 s")
        done = run("run", job, "--workspace", tmp_path / "w", "--scheduler", cluster_of_one.scheduler_address)
        events = [event.get("action") for _, event in cluster_of_one.scheduler.get_events("all")]
    assert done.exit_code == 0, done.output
    assert events.count("add-worker") > 1, "no worker came while the job ran"
    assert events.count("remove-worker") > 0, "no worker left while the job ran"
    assert digest_here(job, tmp_path / "w") == f"digest {finished[1]}"


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_of_different_memory_give_the_same_bytes(
    job: Path, finished: Finished, tmp_path: Path
) -> None:
    with dask_cluster(tmp_path, n_workers=1) as address:
        others = [worker(address, tmp_path / f"{n}.log", "--memory-limit", f"{n}GiB") for n in (1, 3)]
        with Client(address) as client:
            client.wait_for_workers(3, timeout=WAIT)
        done = run("run", job, "--workspace", tmp_path / "w", "--scheduler", address)
        for other in others:
            other.terminate()
            other.wait(WAIT)
    assert done.exit_code == 0, done.output
    assert digest_here(job, tmp_path / "w") == f"digest {finished[1]}"


@pytest.mark.slow
@pytest.mark.cluster
def test_two_runs_on_one_cluster_do_not_disturb_each_other(
    job: Path, finished: Finished, tmp_path: Path
) -> None:
    with dask_cluster(tmp_path) as address:
        runs = [
            start("run", str(job), "--workspace", str(tmp_path / n), "--scheduler", address) for n in "ab"
        ]
        outputs = [one.communicate(timeout=300)[0] for one in runs]
    for one, output, name in zip(runs, outputs, "ab", strict=True):
        assert one.returncode == 0, output
        assert digest_here(job, tmp_path / name) == f"digest {finished[1]}"
