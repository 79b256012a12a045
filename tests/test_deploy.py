"""The files of deploy/: manifests that fit each other, and the Slurm script run with a stand-in for srun."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from dask.utils import parse_bytes

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"


def load(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def container_of(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["containers"]
    return container


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_compose_job_finds_the_scheduler_and_shares_its_volume() -> None:
    services = load("compose.yaml")["services"]
    assert set(services) == {"scheduler", "worker", "job"}
    address = option(services["job"]["command"], "--scheduler")
    assert address == f"tcp://scheduler:{option(services['scheduler']['entrypoint'], '--port')}"
    assert address in services["worker"]["entrypoint"]
    assert all("data:/data" in service["volumes"] for service in services.values())
    assert services["worker"]["deploy"]["replicas"] == 2


def test_compose_worker_has_one_thread_and_a_limit_below_its_container() -> None:
    worker = load("compose.yaml")["services"]["worker"]
    assert option(worker["entrypoint"], "--nthreads") == "1"
    limit = parse_bytes(option(worker["entrypoint"], "--memory-limit"))
    assert limit < parse_bytes(worker["deploy"]["resources"]["limits"]["memory"].replace("g", "GiB"))


def test_kubernetes_job_finds_the_service_and_the_claim() -> None:
    cluster, job, claim = (load(f"kubernetes/{name}.yaml") for name in ("cluster", "job", "storage"))
    service = cluster["spec"]["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == cluster["metadata"]["name"]
    # the operator names the service after the cluster
    expected = f"tcp://{cluster['metadata']['name']}-scheduler:{service['ports'][0]['port']}"
    pods = [cluster["spec"]["worker"]["spec"], job["spec"]["template"]["spec"]]
    assert option(container_of(pods[1])["args"], "--scheduler") == expected
    for pod in pods:
        claims = [
            v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v
        ]
        assert claims == [claim["metadata"]["name"]]
        assert {m["name"] for m in container_of(pod)["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
        environment = {entry["name"]: entry["value"] for entry in container_of(pod)["env"]}
        assert environment == dict.fromkeys(
            ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], "1"
        )


def test_kubernetes_worker_has_one_thread_and_a_limit_below_its_pod() -> None:
    worker = container_of(load("kubernetes/cluster.yaml")["spec"]["worker"]["spec"])
    assert option(worker["args"], "--nthreads") == "1"
    pod_limit = worker["resources"]["limits"]["memory"].replace("Gi", "GiB")
    assert parse_bytes(option(worker["args"], "--memory-limit")) < parse_bytes(pod_limit)


def test_a_job_that_is_moved_has_time_to_give_its_lock_back() -> None:
    job = load("kubernetes/job.yaml")["spec"]
    pod = job["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 60
    lost, wrong = job["podFailurePolicy"]["rules"]
    assert lost == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert wrong["onExitCodes"]["containerName"] == container_of(pod)["name"]
    script = (DEPLOY / "slurm/distembed.sbatch").read_text(encoding="utf-8")
    assert {"#SBATCH --requeue", "#SBATCH --signal=B:TERM@120"} <= set(script.splitlines())


def test_the_image_takes_no_file_of_the_build_that_installs_its_libraries() -> None:
    # that build has an empty distembed/__init__.py, newer than the checkout's, which setuptools would take
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    libraries = dockerfile[dockerfile.index("RUN mkdir distembed") : dockerfile.index("COPY distembed")]
    assert "rm -rf build distembed ./*.egg-info" in libraries


def test_every_file_named_in_the_readme_exists() -> None:
    named = re.findall(r"\b((?:deploy|tests)/[\w./-]+\w)", (DEPLOY / "README.md").read_text(encoding="utf-8"))
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []


# ---- Slurm ----

SRUN = """#!/usr/bin/env bash
# Stand-in for srun: runs its command --ntasks times here, passes SIGTERM on, and records what it was asked.
echo "$*" >> "$SRUN_LOG"
while [[ "$1" == --* ]]; do
    case "$1" in --ntasks=*) ntasks=${1#--ntasks=} ;; esac
    shift
done
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; exit 143' TERM
for _ in $(seq "$ntasks"); do "$@" & pids+=($!); done
echo "${pids[@]}" >> "$SRUN_LOG.pids"
wait
"""

DISTEMBED = """#!{python}
import json, os, sys, time
from distributed import Client
address = sys.argv[sys.argv.index("--scheduler") + 1]
with Client(address, timeout=60) as client:
    client.wait_for_workers(2, timeout=60)
    threads = client.run(os.getenv, "OMP_NUM_THREADS")
    power = client.submit(pow, 7, 3).result(timeout=60)
    workers = list(client.scheduler_info()["workers"].values())
    report = dict(argv=sys.argv[1:], power=power, threads=list(threads.values()),
                  nthreads=[w["nthreads"] for w in workers], limits=[w["memory_limit"] for w in workers])
open(os.environ["REPORT"], "w").write(json.dumps(report))
if os.environ["JOB_EXIT"] == "sleep":
    time.sleep(60)
sys.exit(int(os.environ["JOB_EXIT"]))
"""


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Submission(NamedTuple):
    """A call of the Slurm script as Slurm would make it, in a folder of its own."""

    folder: Path
    workspace: Path
    command: list[str]
    environment: dict[str, str]

    def stopped(self) -> bool:
        """Return whether three processes were started, and none of them is left."""
        pids = [int(pid) for pid in (self.folder / "srun.log.pids").read_text().split()]
        return len(pids) == 3 and not any(map(alive, pids))


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    if shutil.which("bash") is None or not Path("/proc/self/stat").exists():
        pytest.skip("needs bash and /proc")
    commands = {"srun": SRUN, "distembed": DISTEMBED.format(python=sys.executable)}
    commands["dask"] = f'#!/usr/bin/env bash\nexec "{sys.executable}" -m dask "$@"\n'
    commands["python"] = f'#!/usr/bin/env bash\nexec "{sys.executable}" "$@"\n'
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, text in commands.items():
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "3",
        "SLURM_MEM_PER_CPU": "500",
        "SRUN_LOG": str(tmp_path / "srun.log"),
        "REPORT": str(tmp_path / "report.json"),
        "JOB_EXIT": "0",
    }
    workspace = tmp_path / "shared" / "run"
    command = ["bash", str(DEPLOY / "slurm" / "distembed.sbatch"), "job.toml", str(workspace)]
    return Submission(tmp_path, workspace, command, environment)


@pytest.mark.cluster
def test_slurm_script_runs_the_job_and_stops_the_cluster_and_ends_as_the_job_does(
    submission: Submission,
) -> None:
    environment = submission.environment | {"JOB_EXIT": "3"}
    done = subprocess.run(
        submission.command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 3, done.stderr
    seen = json.loads((submission.folder / "report.json").read_text())
    assert seen["argv"][:4] == ["run", "job.toml", "--workspace", str(submission.workspace)]
    assert seen["power"] == 343
    assert seen["threads"] == ["1", "1"]
    assert seen["nthreads"] == [1, 1]
    assert seen["limits"] == [450 * 2**20] * 2
    assert not list(submission.workspace.parent.glob("*.json")), "the scheduler's file is removed"
    assert submission.stopped()


@pytest.mark.cluster
def test_slurm_script_stops_the_cluster_on_sigterm(submission: Submission) -> None:
    environment = submission.environment | {"JOB_EXIT": "sleep"}
    script = subprocess.Popen(
        submission.command, env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 60
        while not (submission.folder / "report.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        script.terminate()
        _, messages = script.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
    assert script.returncode == 143, messages
    assert submission.stopped()
