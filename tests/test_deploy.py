"""The files beside the package: manifests that fit each other, a Slurm script that runs, and what a release says."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from dask.utils import parse_bytes
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CONDA_NAMES = {"dask": {"dask-core", "distributed"}, "matplotlib": {"matplotlib-base"}}


def load(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def container_of(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["containers"]
    return container


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_compose_job_finds_the_scheduler_and_shares_its_volume():
    services = load("compose.yaml")["services"]
    makes_certificates = services.pop("certificates")
    assert set(services) == {"scheduler", "worker", "job"}
    address = option(services["job"]["command"], "--scheduler")
    assert address == f"tls://scheduler:{option(services['scheduler']['entrypoint'], '--port')}"
    assert address in services["worker"]["entrypoint"]
    assert all({"data:/data", "tls:/tls:ro"} <= set(service["volumes"]) for service in services.values())
    assert {"tls:/tls", "authority:/authority"} <= set(makes_certificates["volumes"])


def test_compose_makes_the_certificates_that_its_dask_is_told_of(tmp_path):
    if shutil.which("openssl") is None or shutil.which("bash") is None:
        pytest.skip("needs openssl and bash to make certificates")
    service = load("compose.yaml")["services"]["certificates"]
    (script,) = service["command"]
    for place in ("authority", "tls"):
        (tmp_path / place).mkdir()
        script = script.replace(f"/{place}", str(tmp_path / place))
    script = script.replace("/certificates.sh", str(DEPLOY / "tls" / "certificates.sh"))
    subprocess.run([*service["entrypoint"], script], check=True, timeout=60)
    told = yaml.safe_load((tmp_path / "tls" / "dask.yaml").read_text())["distributed"]["comm"]
    assert told["require-encryption"] is True
    named = {"dask.yaml", Path(told["tls"].pop("ca-file")).name}
    named |= {Path(file).name for files in told["tls"].values() for file in files.values()}
    assert set(told["tls"]) == {"scheduler", "worker", "client"}
    assert {file.name for file in (tmp_path / "tls").iterdir()} == named  # and not the key of the authority
    assert "DASK_CONFIG=/tls" in (DEPLOY / "Dockerfile").read_text()


def commands_of_dask() -> dict[str, str]:
    """Return every command of deploy/ that starts a process of Dask, by where it stands."""
    services, cluster = load("compose.yaml")["services"], load("kubernetes/cluster.yaml")["spec"]
    commands = {f"compose {name}": services[name]["entrypoint"] for name in ("scheduler", "worker")}
    commands |= {
        f"kubernetes {name}": ["dask", *container_of(cluster[name]["spec"])["args"]]
        for name in ("scheduler", "worker")
    }
    found = {place: " ".join(command) for place, command in commands.items()}
    for file in ("slurm/distembed.sbatch", "README.md"):
        text = (DEPLOY / file).read_text(encoding="utf-8").replace("\\\n", " ")
        lines = re.findall(r"^ *(dask (?:scheduler|worker) .*)$", text, re.MULTILINE)
        found |= {f"{file} {number}": line for number, line in enumerate(lines)}
    return found


def test_every_dask_process_speaks_tls_and_shows_its_dashboard_to_its_own_machine():
    for place, command in commands_of_dask().items():
        assert "--protocol tls" in command, place
        assert "--dashboard-address 127.0.0.1:" in command or "--no-dashboard" in command, place


def test_a_worker_has_one_thread_and_a_limit_below_that_of_its_container():
    compose = load("compose.yaml")["services"]["worker"]
    kubernetes = container_of(load("kubernetes/cluster.yaml")["spec"]["worker"]["spec"])
    for words, limits in (
        (compose["entrypoint"], compose["deploy"]["resources"]["limits"]),
        (kubernetes["args"], kubernetes["resources"]["limits"]),
    ):
        assert option(words, "--nthreads") == "1"
        container = re.sub("(g|Gi)$", "GiB", limits["memory"])
        assert parse_bytes(option(words, "--memory-limit")) < parse_bytes(container)


def test_kubernetes_job_finds_the_service_and_the_claim():
    cluster, job, claim = (load(f"kubernetes/{name}.yaml") for name in ("cluster", "job", "storage"))
    service = cluster["spec"]["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == cluster["metadata"]["name"]
    # the operator names the service after the cluster
    expected = f"tls://{cluster['metadata']['name']}-scheduler:{service['ports'][0]['port']}"
    pods = [cluster["spec"]["worker"]["spec"], job["spec"]["template"]["spec"]]
    assert option(container_of(pods[1])["args"], "--scheduler") == expected
    assert expected in container_of(pods[0])["args"]
    for pod in (*pods, cluster["spec"]["scheduler"]["spec"]):
        mounts = {mount["name"]: mount["mountPath"] for mount in container_of(pod)["volumeMounts"]}
        assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
        assert mounts["tls"] == "/tls"
        assert {"name": "tls", "secret": {"secretName": "distembed-tls"}} in pod["volumes"]
    for pod in pods:
        claims = [
            v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v
        ]
        assert claims == [claim["metadata"]["name"]]


def test_every_file_named_in_the_readme_exists():
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
import json, os, sys
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
sys.exit(3)
"""

WAITING = """#!/usr/bin/env bash
while [[ $# -gt 0 && "$1" != --scheduler-file ]]; do shift; done
if [ -n "$2" ]; then echo '{"address": "tls://nobody:1"}' > "$2"; else touch "$REPORT"; fi
exec sleep 300
"""
"""What stands in for commands that are only started and stopped."""


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Submission(NamedTuple):
    """A call of the Slurm script as Slurm would make it, in a folder of its own."""

    folder: Path
    started: dict[str, Any]
    """The command and its environment, for `subprocess`."""

    def offer(self, name: str, text: str) -> None:
        """Put a command where the script finds it."""
        command = self.folder / "bin" / name
        command.write_text(text)
        command.chmod(0o755)

    def stopped(self) -> bool:
        """Return whether three processes were started, and none of them is left."""
        pids = [int(pid) for pid in (self.folder / "srun.log.pids").read_text().split()]
        return len(pids) == 3 and not any(map(alive, pids))


@pytest.fixture
def submission(tmp_path):
    if not (shutil.which("bash") and shutil.which("openssl")) or not Path("/proc/self/stat").exists():
        pytest.skip("needs bash, openssl and /proc")
    (tmp_path / "bin").mkdir()
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "3",
        "SLURM_MEM_PER_CPU": "500",
        "SRUN_LOG": str(tmp_path / "srun.log"),
        "REPORT": str(tmp_path / "report.json"),
        "CERTIFICATES": str(DEPLOY / "tls" / "certificates.sh"),
    }
    words = ["bash", str(DEPLOY / "slurm" / "distembed.sbatch"), "job.toml", str(tmp_path / "shared" / "run")]
    made = Submission(tmp_path, {"args": words, "env": environment, "stderr": subprocess.PIPE, "text": True})
    made.offer("srun", SRUN)
    for name, command in (("python", ""), ("dask", "-m dask")):
        made.offer(name, f'#!/usr/bin/env bash\nexec "{sys.executable}" {command} "$@"\n')
    return made


@pytest.mark.cluster
def test_slurm_script_runs_the_job_and_stops_the_cluster_and_ends_as_the_job_does(submission):
    submission.offer("distembed", DISTEMBED.format(python=sys.executable))
    done = subprocess.run(**submission.started, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    seen, workspace = (
        json.loads((submission.folder / "report.json").read_text()),
        submission.started["args"][-1],
    )
    assert seen["argv"][:4] == ["run", "job.toml", "--workspace", workspace]
    assert seen["power"] == 343
    assert seen["argv"][-1].startswith("tls://")
    assert (seen["threads"], seen["nthreads"], seen["limits"]) == (["1", "1"], [1, 1], [450 * 2**20] * 2)
    assert not list(Path(workspace).parent.glob("*.json")), "the scheduler's file is removed"
    assert submission.stopped()


def test_slurm_script_stops_the_cluster_on_sigterm(submission):
    for name in ("dask", "distembed"):
        submission.offer(name, WAITING)
    script = subprocess.Popen(**submission.started, start_new_session=True)
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


# ---- a release ----


def test_the_conda_recipe_asks_for_what_the_package_does():
    """The same libraries, built with the same tools, and no older extras."""
    recipe = load("conda/recipe.yaml")
    python, *listed = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
    needed = map(Requirement, PROJECT["dependencies"])
    assert sorted(listed) == sorted(
        f"{name} {each.specifier}" for each in needed for name in CONDA_NAMES.get(each.name, {each.name})
    )
    build_system = map(Requirement, PYPROJECT["build-system"]["requires"])
    assert recipe["requirements"]["host"][2:] == [f"{each.name} {each.specifier}" for each in build_system]
    commands = [f"{name} = {function}" for name, function in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    extras = map(Requirement, itertools.chain(*PROJECT["optional-dependencies"].values()))
    allowed = {each.name.lower(): str(each.specifier) for each in extras}
    constraints = dict(each.split() for each in recipe["requirements"]["run_constraints"])
    assert {name: allowed.get(name) for name in constraints} == constraints


def test_every_benchmark_uses_names_that_there_are():
    modules = [f"benchmarks.{file.stem}" for file in sorted((ROOT / "benchmarks").glob("*.py"))]
    assert len(modules) > 20
    for module in modules:
        import_module(module)
