"""The TLS recipe of deploy/ on loopback: certificates, scheduler, worker, client; strangers are refused."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import dask
import psutil
import pytest
from distributed import Client
from distributed.security import Security

from distembed.job.cluster import connect
from distembed.job.workers import Workers
from distembed.storage.workspace import Workspace
from tests.commands import environment
from tests.processes import distembed

pytestmark = pytest.mark.cluster

CERTIFICATES = Path(__file__).resolve().parents[2] / "deploy" / "tls" / "certificates.sh"
WAIT = 60.0  # seconds for a process to come up: never reached in good health


class Cluster(NamedTuple):
    address: str
    folder: Path
    pids: tuple[int, ...]


def make_certificates(folder: Path, *names: str) -> Path:
    subprocess.run(["bash", str(CERTIFICATES), str(folder), *names], check=True, timeout=WAIT)
    return folder


def expired(folder: Path, name: str) -> Path:
    """Issue an expired certificate for a name, signed by the authority of a folder."""
    configuration = (
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nrand_serial=yes\nnew_certs_dir=.\npolicy=p\n[p]\n"
    )
    (folder / "ca.cnf").write_text(configuration + "commonName=supplied\n")
    (folder / "index").touch()
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    request = ["req", "-new", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}-key.pem", "-out", "request"]
    signed = f"-in request -cert ca.pem -keyfile ca-key.pem -md sha256 -out {name}.pem".split()
    time_of = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]
    for words in (request, ["ca", "-batch", "-notext", "-config", "ca.cnf", *signed, *time_of]):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=WAIT)
    return folder


def tls_options(folder: Path, name: str) -> list[str]:
    files = {"--tls-ca-file": "ca.pem", "--tls-cert": f"{name}.pem", "--tls-key": f"{name}-key.pem"}
    return [word for option, file in files.items() for word in (option, str(folder / file))]


def security(folder: Path, name: str = "client") -> Security:
    return Security(
        tls_ca_file=str(folder / "ca.pem"),
        tls_client_cert=str(folder / f"{name}.pem"),
        tls_client_key=str(folder / f"{name}-key.pem"),
        require_encryption=True,
    )


@contextmanager
def dask_process(log: Path, certificates: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a dask command in a session of its own, and stop all of that session in the end."""
    variables = {**environment(), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    variables["DASK_CONFIG"] = str(certificates)
    command = [sys.executable, "-m", "dask", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=variables, start_new_session=True, cwd=log.parent
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(15)


def scheduler_address(file: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return json.loads(file.read_text())["address"]
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.05)
    raise AssertionError(f"the scheduler did not start:\n{log.read_text()}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if shutil.which("openssl") is None or shutil.which("bash") is None:
        pytest.skip("needs openssl and bash to make certificates")
    here = tmp_path_factory.mktemp("tls")
    folder = make_certificates(here / "certificates")
    file, log = here / "scheduler.json", here / "scheduler.log"
    # Port 0: the system chooses a free one, and the scheduler's file says which.
    here_only = ("--protocol", "tls", "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
    with ExitStack() as stack:
        scheduler = stack.enter_context(
            dask_process(log, folder, "scheduler", *here_only, "--port", "0", "--scheduler-file", str(file))
        )
        address = scheduler_address(file, scheduler, log)
        limits = ("--nthreads", "1", "--memory-limit", "1GiB", "--death-timeout", "60")
        work = (*here_only, *limits, "--local-directory", str(here))
        worker = stack.enter_context(dask_process(here / "worker.log", folder, "worker", address, *work))
        yield Cluster(address, folder, (scheduler.pid, worker.pid))


def test_a_task_runs_over_tls(cluster: Cluster) -> None:
    assert cluster.address.startswith("tls://127.0.0.1:")
    with Client(cluster.address, security=security(cluster.folder), timeout=WAIT) as client:
        client.wait_for_workers(1, timeout=WAIT)
        assert client.submit(pow, 7, 3).result(timeout=WAIT) == 343
        assert client.submit(os.getenv, "OPENBLAS_NUM_THREADS").result(timeout=WAIT) == "1"
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["nthreads"] == 1
        assert all(address.startswith("tls://") for address in (worker["nanny"], *client.has_what()))
        assert {host for host, _ in listening(cluster.pids)} == {"127.0.0.1"}


def test_counts_of_words_over_tls_do_not_change_a_bit(
    cluster: Cluster, job: Path, finished: tuple[Path, str, str], tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    options = ["--scheduler", cluster.address, *tls_options(cluster.folder, "client")]
    done = distembed("run", str(job), "--workspace", str(workspace), "--until", "vocabulary", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    counted, whole = (Workspace.open(place).stages()["vocabulary"] for place in (workspace, finished[0]))
    assert counted.digest == whole.digest


async def connected(address: str, security: Security | None = None) -> None:
    """Connect a client, and close it whether it connects or not.

    One that is left open is closed by the collector, now and then in the thread of the next one, which waits for it.
    """
    client = Client(address, security=security, timeout=3, asynchronous=True, set_as_default=False)
    try:
        await client
    finally:
        await client.close()


def test_a_client_without_tls_is_refused(cluster: Cluster) -> None:
    with pytest.raises(OSError, match=r"Timed out|tcp"):
        asyncio.run(connected(cluster.address.replace("tls://", "tcp://")))


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        ("tls", "with a certificate, and none is given: name --tls-ca-file, --tls-cert and --tls-key"),
        ("tcp", "a scheduler that takes TLS alone closes this: try tls://"),
    ],
)
def test_a_client_without_a_certificate_is_told_of_tls(
    cluster: Cluster, protocol: str, sentence: str
) -> None:
    with ExitStack() as resources, pytest.raises(ConnectionError, match=sentence):
        connect(resources, cluster.address.replace("tls://", f"{protocol}://"), {})
    assert dask.config.get("scheduler", None) is None  # that client is not the one of later computations


@pytest.mark.parametrize("wrong", ["of another authority", "expired", "scheduler of another authority"])
def test_a_certificate_that_does_not_fit_is_refused(cluster: Cluster, tmp_path: Path, wrong: str) -> None:
    if wrong == "expired":
        given = security(expired(Path(shutil.copytree(cluster.folder, tmp_path / "old")), "client"))
    else:
        other = make_certificates(tmp_path / "other", "client")
        # The stranger even trusts the right authority: what is missing is its signature. Or the client, the wrong one.
        shutil.copy(cluster.folder / "ca.pem", other / "ca.pem") if wrong == "of another authority" else [
            shutil.copy(cluster.folder / name, other / name) for name in ("client.pem", "client-key.pem")
        ]
        given = security(other)
    with pytest.raises(OSError, match=r"Timed out|tls"):
        asyncio.run(connected(cluster.address, security=given))


def test_what_tls_refuses_is_told_with_what_certificates_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("EOF occurred in violation of protocol")

    monkeypatch.setattr("distembed.job.cluster.Client", refused)
    with ExitStack() as resources, pytest.raises(ConnectionError, match="authority that have not expired"):
        connect(resources, "tls://127.0.0.1:8786", {})


def test_any_certificate_of_the_authority_is_that_of_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """SECURITY.md says so: Dask compares no names, so that every certificate is as good as the scheduler's."""
    folder = Path(shutil.copytree(cluster.folder, tmp_path / "same"))
    make_certificates(folder, "elsewhere.example.org")
    asyncio.run(connected(cluster.address, security=security(folder, "elsewhere.example.org")))


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Return the addresses and ports at which processes, and those that they started, take connections."""
    first = [psutil.Process(pid) for pid in pids]
    every = [process for each in first for process in (each, *each.children(recursive=True))]
    sockets = [socket for process in every for socket in process.net_connections("inet")]
    return {tuple(socket.laddr) for socket in sockets if socket.status == psutil.CONN_LISTEN}


def test_local_processes_listen_on_this_machine_only_whatever_is_configured() -> None:
    required, before = {"distributed.comm.require-encryption": True}, listening([os.getpid()])
    with dask.config.set(required), Workers(scheduler="processes", n_workers=1) as workers:
        workers.start()
        assert {host for host, _ in listening([os.getpid()]) - before} == {"127.0.0.1"}


def test_renewed_certificates_outlast_the_first_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYS", "1")
    folder = make_certificates(tmp_path / "a", "worker", "client")
    key, old = (folder / "ca-key.pem").read_bytes(), (folder / "ca.pem").read_bytes()
    monkeypatch.setenv("DAYS", "30")
    make_certificates(folder, "worker")
    assert (folder / "ca-key.pem").read_bytes() == key
    assert (folder / "ca.pem").read_bytes() != old
    in_20_days = str(int(time.time()) + 20 * 86400)
    check = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem"]
    subprocess.run([*check, "-attime", in_20_days, "worker.pem"], cwd=folder, check=True)
    subprocess.run([*check, "client.pem"], cwd=folder, check=True)  # one that was not renewed still serves


def test_certificates_are_strictly_valid_private_and_kept(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make certificates")
    folder = make_certificates(tmp_path / "a", "worker")
    authority = (folder / "ca.pem").read_bytes()
    make_certificates(folder, "client")  # a name added later
    assert (folder / "ca.pem").read_bytes() == authority
    for name in ("worker", "client"):
        check = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", f"{name}.pem"]
        assert (
            subprocess.run(check, cwd=folder, check=True, capture_output=True, text=True).stdout
            == f"{name}.pem: OK\n"
        )
        ssl.create_default_context().load_cert_chain(folder / f"{name}.pem", folder / f"{name}-key.pem")
    assert {file.stat().st_mode & 0o077 for file in folder.iterdir()} == {0}
