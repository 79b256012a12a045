"""The TLS recipe of deploy/ on loopback: certificates, scheduler, worker, client; strangers are refused."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import dask
import dask.__main__
import psutil
import pytest
from distributed import Client
from distributed.security import Security

import distembed as de
from distembed.job.cluster import connect
from distembed.job.workers import Workers
from tests.commands import dask_cluster, succeed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        not (shutil.which("openssl") and shutil.which("bash")), reason="needs openssl and bash"
    ),
]
CERTIFICATES = Path(__file__).resolve().parents[2] / "deploy" / "tls" / "certificates.sh"
WAIT = 60.0  # seconds for a process to come up: never reached in good health
AUTHORITY = """[ca]
default_ca=d
[d]
database=index
rand_serial=yes
new_certs_dir=.
policy=p
[p]
commonName=supplied
"""


def make_certificates(folder: Path, *names: str) -> Path:
    subprocess.run(["bash", str(CERTIFICATES), str(folder), *names], check=True, timeout=WAIT)
    return folder


def openssl(folder: Path, words: str) -> str:
    command = ["openssl", *words.split()]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=WAIT)
    return done.stdout


def expire(folder: Path, name: str) -> None:
    """Issue an expired certificate for a name, signed by the authority of a folder."""
    (folder / "ca.cnf").write_text(AUTHORITY)
    (folder / "index").touch()
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    openssl(folder, f"req -new {curve} -subj /CN={name} -keyout {name}-key.pem -out request")
    signed = f"-in request -cert ca.pem -keyfile ca-key.pem -md sha256 -out {name}.pem"
    days = "-startdate 20200101000000Z -enddate 20200201000000Z"
    openssl(folder, f"ca -batch -notext -config ca.cnf {signed} {days}")


def security(folder: Path, name: str = "client") -> Security:
    key, own = str(folder / f"{name}-key.pem"), str(folder / f"{name}.pem")
    authority = str(folder / "ca.pem")
    return Security(tls_ca_file=authority, tls_client_cert=own, tls_client_key=key, require_encryption=True)


def tls_options(folder: Path, name: str) -> list[str]:
    files = {"--tls-ca-file": "ca.pem", "--tls-cert": f"{name}.pem", "--tls-key": f"{name}-key.pem"}
    return [word for option, file in files.items() for word in (option, str(folder / file))]


def configured(*_: str) -> None:
    """Be a command of Dask that finds the configuration of the certificates' folder."""
    dask.config.refresh(paths=[os.environ["DASK_CONFIG"]])
    dask.__main__.main()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(scope="module")
def address(certificates) -> Iterator[str]:
    """Return the address of a scheduler with a worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DASK_CONFIG", str(certificates))
        options = ("--protocol", "tls", "--dashboard-address", "127.0.0.1:0")
        with dask_cluster(certificates.parent, *options, n_workers=1, program=configured) as found:
            yield found


def test_a_job_runs_over_tls_and_does_not_change_a_bit(address, certificates, tiny):
    assert address.startswith("tls://127.0.0.1:")
    with Client(address, security=security(certificates), timeout=WAIT) as client:
        client.wait_for_workers(1, timeout=WAIT)
        assert client.submit(pow, 7, 3).result(timeout=WAIT) == 343
        assert all(worker.startswith("tls://") for worker in client.has_what())
        pids = {client.run_on_scheduler(os.getpid), *client.run(os.getpid).values()}
        assert {host for host, _ in listening(*pids)} == {"127.0.0.1"}
    options = tls_options(certificates, "client")
    until = ("--until", "vocabulary")
    succeed("run", tiny / "job.toml", "--workspace", tiny / "v", *until, "--scheduler", address, *options)
    one, other = (de.Workspace.open(tiny / name).stages()["vocabulary"].digest for name in "vw")
    assert one == other


# --- who is refused --------------------------------------------------------------------------------------------------


async def connected(address: str, given: Security | None = None, timeout: float = 1) -> None:
    """Connect a client, and close it whether it connects or not.

    One that is left open is closed by the collector, now and then in the thread of the next one, which waits for it.
    """
    client = Client(address, security=given, timeout=timeout, asynchronous=True, set_as_default=False)
    try:
        await client
    finally:
        await client.close()


@pytest.mark.parametrize(
    "wrong", ["no TLS", "expired", "client of another authority", "scheduler of another authority"]
)
def test_a_client_whose_certificate_does_not_fit_is_refused(address, certificates, tmp_path, wrong):
    given = None
    if wrong == "no TLS":
        address = address.replace("tls://", "tcp://")
    elif wrong == "expired":
        expire(Path(shutil.copytree(certificates, tmp_path / "old")), "client")
        given = security(tmp_path / "old")
    else:
        other = make_certificates(tmp_path / "other", "client")
        # The stranger even trusts the right authority: what is missing is its signature. Or the client, the wrong one.
        right = ("ca.pem",) if wrong.startswith("client") else ("client.pem", "client-key.pem")
        for name in right:
            shutil.copy(certificates / name, other / name)
        given = security(other)
    with pytest.raises(OSError, match=r"Timed out|tls|tcp"):
        asyncio.run(connected(address, given))


def test_any_certificate_of_the_authority_is_that_of_the_cluster(address, certificates, tmp_path):
    """SECURITY.md says so: Dask compares no names, so that every certificate is as good as the scheduler's."""
    folder = Path(shutil.copytree(certificates, tmp_path / "same"))
    make_certificates(folder, "elsewhere.example.org")
    asyncio.run(connected(address, security(folder, "elsewhere.example.org"), WAIT))


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        ("tls", "with a certificate, and none is given: name --tls-ca-file, --tls-cert and --tls-key"),
        ("tcp", "a scheduler that takes TLS alone closes this: try tls://"),
    ],
)
def test_a_client_without_a_certificate_is_told_of_tls(address, protocol, sentence):
    with ExitStack() as resources, pytest.raises(ConnectionError, match=sentence):
        connect(resources, address.replace("tls://", f"{protocol}://"), {})
    assert dask.config.get("scheduler", None) is None  # that client is not the one of later computations


def test_what_tls_refuses_is_told_with_what_certificates_need(monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise OSError("EOF occurred in violation of protocol")

    monkeypatch.setattr("distembed.job.cluster.Client", refused)
    with ExitStack() as resources, pytest.raises(ConnectionError, match="authority that have not expired"):
        connect(resources, "tls://127.0.0.1:8786", {})


# --- local workers, and certificates by themselves --------------------------------------------------------------------


def listening(*pids: int) -> set[tuple[str, int]]:
    """Return the addresses and ports at which processes, and those that they started, take connections."""
    first = [psutil.Process(pid) for pid in pids]
    every = [process for each in first for process in (each, *each.children(recursive=True))]
    sockets = [socket for process in every for socket in process.net_connections("inet")]
    return {tuple(socket.laddr) for socket in sockets if socket.status == psutil.CONN_LISTEN}


def test_local_processes_listen_on_this_machine_only_and_their_scheduler_is_quiet(caplog, monkeypatch):
    """It logs, as critical, that the client which Ctrl-C closes hears no more of the tasks that end."""
    monkeypatch.setattr(logging.getLogger("distributed"), "propagate", True)
    scheduler, before = logging.getLogger("distributed.scheduler"), listening(os.getpid())
    with (
        dask.config.set({"distributed.comm.require-encryption": True}),
        Workers(scheduler="processes", n_workers=1) as workers,
    ):
        workers.start()
        assert {host for host, _ in listening(os.getpid()) - before} == {"127.0.0.1"}
        scheduler.critical("Closed comm")
    scheduler.critical("told again")
    assert {record.message for record in caplog.records if record.name == scheduler.name} == {"told again"}


def test_certificates_are_strictly_valid_private_kept_and_renewed(tmp_path, monkeypatch):
    monkeypatch.setenv("DAYS", "1")
    folder = make_certificates(tmp_path / "a", "worker")
    key, authority = (folder / "ca-key.pem").read_bytes(), (folder / "ca.pem").read_bytes()
    make_certificates(folder, "client")  # a name added later
    assert (folder / "ca.pem").read_bytes() == authority
    check = "verify -x509_strict -CAfile ca.pem"
    for name in ("worker", "client"):
        assert openssl(folder, f"{check} {name}.pem") == f"{name}.pem: OK\n"
        ssl.create_default_context().load_cert_chain(folder / f"{name}.pem", folder / f"{name}-key.pem")
    assert {file.stat().st_mode & 0o077 for file in folder.iterdir()} == {0}
    monkeypatch.setenv("DAYS", "30")
    make_certificates(folder, "worker")
    assert (folder / "ca-key.pem").read_bytes() == key
    assert (folder / "ca.pem").read_bytes() != authority
    openssl(folder, f"{check} -attime {int(time.time()) + 20 * 86400} worker.pem")
    openssl(folder, f"{check} client.pem")  # one that was not renewed still serves
