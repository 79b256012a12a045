"""Four hosts, a scheduler and a client on a network of their own, with real `dask` processes that speak TLS."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.commands import environment
from tests.job.test_tls import make_certificates, tls_options

WORKERS = ("h1", "h2", "h3", "h4")
ADDRESSES = {"scheduler": "10.77.0.1", "client": "10.77.0.2"} | {
    host: f"10.77.0.{number}" for number, host in enumerate(WORKERS, 11)
}
SCHEDULER = f"tls://{ADDRESSES['scheduler']}:8786"
SWITCH = Path(__file__).with_name("switch.py")
TOOLS = ("unshare", "nsenter", "ip", "taskset", "mount", "openssl")
AGAIN_AND_AGAIN = ("bash", "-c", 'while sleep 0.1; do "$@"; done', "manager")
WAIT = 200.0  # seconds for a process to end or to come up: never reached in good health


class NoNamespacesError(OSError):
    """An error for a machine on which hosts of their own cannot be made; its text says what is missing."""


class Network:
    """The hosts of a running switch; see `network`."""

    def __init__(self, switch: subprocess.Popen[str], folder: Path) -> None:
        self._switch, self.folder = switch, folder
        self._certificates = make_certificates(folder / "certificates")
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def tell(self, line: str) -> dict[str, int]:
        """Give the switch an order; return the bytes that each host has sent."""
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.write(f"{line}\n")
        self._switch.stdin.flush()
        answer: dict[str, int] = json.loads(self._switch.stdout.readline())
        return answer

    def start(self, host: str, *command: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a command on a host; what it prints goes to `log(host)`."""
        own = ("--user", "--preserve-credentials", "--net", "--mount")
        inside = ("nsenter", "--target", str(self._switch.pid), *own)
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        variables = environment() | one | {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True", **more}
        core: tuple[str, ...] = ()
        if host in WORKERS:
            core = ("taskset", "--cpu-list", str(WORKERS.index(host) % (os.cpu_count() or 1)))
        with self.log(host).open("ab") as log:
            self.started[host] = subprocess.Popen(
                [*inside, f"--wdns={self.folder}", "ip", "netns", "exec", host, *core, *command],
                stdout=log,
                stderr=log,
                env=variables,
                cwd=self.folder,
                start_new_session=True,
            )
        return self.started[host]

    def log(self, host: str) -> Path:
        return self.folder / f"{host}.log"

    def tls(self, name: str) -> list[str]:
        """Return the options that name the certificate of a party."""
        return tls_options(self._certificates, name)

    def start_scheduler(self) -> None:
        words = ("--protocol", "tls", "--host", ADDRESSES["scheduler"], "--port", "8786", "--no-dashboard")
        self.start("scheduler", sys.executable, "-m", "dask", "scheduler", *words, *self.tls("scheduler"))

    def start_worker(self, host: str, **more: str) -> None:
        """Start the worker of a host under a manager that starts it again: without its scheduler it ends itself."""
        words = ("--protocol", "tls", "--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard")
        own = ("--name", host, "--local-directory", str(self.folder / "local" / host))
        program = (sys.executable, "-m", "dask", "worker", SCHEDULER)
        self.start(host, *AGAIN_AND_AGAIN, *program, *words, *own, *self.tls("worker"), **more)

    def run_job(self, job: Path, workspace: Path, *words: str) -> subprocess.Popen[bytes]:
        """Start `distembed run` on the client's host."""
        self.log("client").unlink(missing_ok=True)
        where = ("--workspace", str(workspace), "--scheduler", SCHEDULER)
        program = (sys.executable, "-m", "distembed.cli.main", "run", str(job))
        return self.start("client", *program, *where, *self.tls("client"), *words)

    def kill(self, host: str) -> None:
        """Kill every process of a host at once, as a power cut does."""
        process = self.started.pop(host)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT)

    def obey(self, order: str, *, wait: float = 0.0) -> None:
        """Kill a host, start the scheduler or wait, or have the switch obey."""
        word, _, host = order.partition(" ")
        if word == "kill":
            self.kill(host)
        elif word == "start":
            self.start_scheduler()
        elif word == "wait":
            time.sleep(wait)
        else:
            self.tell(order)

    def close(self) -> None:
        for host in list(self.started):
            self.kill(host)
        self._switch.kill()
        self._switch.wait(WAIT)


@contextmanager
def network(folder: Path, *, delay: float = 0.001, loss: float = 0.001) -> Iterator[Network]:
    """Yield a network of hosts in which nothing runs yet, and end all that runs on it.

    Raises
    ------
    NoNamespacesError
        If this machine lets no process make user and network namespaces, or lacks a program for it.
    """
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise NoNamespacesError(f"needs {', '.join(missing)}")
    pairs = [f"{host}={address}" for host, address in ADDRESSES.items()]
    apart = ("unshare", "--user", "--map-root-user", "--net", "--mount")
    command = [*apart, sys.executable, str(SWITCH), *pairs, "--delay", str(delay), "--loss", str(loss)]
    pipe = subprocess.PIPE
    switch = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
    assert switch.stdout is not None
    if not switch.stdout.readline():
        _, errors = switch.communicate(timeout=WAIT)
        raise NoNamespacesError(f"no network namespaces here: {errors.strip().splitlines()[-1]}")
    hosts = Network(switch, folder)
    try:
        yield hosts
    finally:
        hosts.close()


@contextmanager
def cluster(folder: Path, **wire: float) -> Iterator[Network]:
    """Yield a network whose scheduler runs, with one worker on each of the four hosts."""
    with network(folder, **wire) as hosts:
        hosts.start_scheduler()
        for host in WORKERS:
            hosts.start_worker(host)
        yield hosts


def wait_until(condition: Any, what: str, *, seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} took over {seconds:.0f} s"
        time.sleep(0.02)


class Wire(NamedTuple):
    """What went over the network during a stage: its seconds, and the bytes that each host has sent."""

    stage: str
    seconds: float
    sent: dict[str, int]


def follow(hosts: Network, client: subprocess.Popen[bytes], workspace: Path, *, seconds: float) -> list[Wire]:
    """Wait for the end of a run; return what went over the network until each of its stages was committed."""
    begin, before = time.monotonic(), hosts.tell("count")
    deadline, wires, committed = begin + seconds, [], _committed(workspace)
    while (ended := client.poll() is not None) or time.monotonic() < deadline:
        now, count = time.monotonic(), hosts.tell("count")
        for stage in sorted(_committed(workspace) - committed):
            wires.append(Wire(stage, now - begin, {host: count[host] - before[host] for host in count}))
            committed.add(stage)
            begin, before = now, count
        if ended:
            return wires
        time.sleep(0.05)
    raise AssertionError(f"the run took over {seconds:.0f} s:\n{hosts.log('client').read_text()}")


def _committed(workspace: Path) -> set[str]:
    return {file.stem for file in (workspace / "manifest").glob("*.json")}


def registrations(hosts: Network, host: str) -> int:
    """Return how often the worker of a host has joined the scheduler."""
    log = hosts.log(host)
    return log.read_text().count("Registered to:") if log.exists() else 0
