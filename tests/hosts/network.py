"""Four hosts, a scheduler and a client on a network of their own, with real `dask` processes.

Each host is a network namespace whose cable leads to a bridge. They lie in a user namespace, so that no root is needed,
nothing outside is touched, and all is gone when its first process ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.commands import environment

WORKERS = ("h1", "h2", "h3", "h4")
ADDRESSES = {"scheduler": "10.77.0.1", "client": "10.77.0.2"} | {
    host: f"10.77.0.{number}" for number, host in enumerate(WORKERS, 11)
}
SCHEDULER = f"tcp://{ADDRESSES['scheduler']}:8786"
TOOLS = ("unshare", "nsenter", "ip", "taskset", "mount")
WIRED = """set -e
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip link add switch up type bridge
for pair in "$@"; do
    host=${pair%=*}
    ip netns add $host
    ip link add $host up master switch type veth peer name eth0 netns $host
    ip -n $host address add ${pair#*=}/24 dev eth0
    ip -n $host link set eth0 up
    ip -n $host link set lo up
done
echo ready
exec cat
"""
ORDERS = {
    "cut": "ip link set {host} down",
    "join": "ip link set {host} up",
    # what a firewall of one direction drops goes to a device that nobody has
    "drop": "ip -n {host} neighbor replace {to} lladdr 02:00:00:00:00:00 dev eth0 nud permanent",
    "pass": "ip -n {host} neighbor del {to} dev eth0",
}
"""What is done for an order, which is one of these words, a host, and for the last two the host that it sends to."""
AGAIN_AND_AGAIN = ("bash", "-c", 'while sleep 0.1; do "$@"; done', "manager")
WAIT = 200.0  # seconds for a process to end or to come up: never reached in good health


class NoNamespacesError(OSError):
    """An error for a machine on which hosts of their own cannot be made; its text says what is missing."""


class Network:
    """The hosts below the namespaces of a process; see `cluster`."""

    def __init__(self, wired: subprocess.Popen[str], folder: Path) -> None:
        self.folder, self._wired = folder, wired
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def _inside(self, *command: str) -> list[str]:
        own = ("--user", "--preserve-credentials", "--net", "--mount")
        return ["nsenter", "--target", str(self._wired.pid), *own, f"--wdns={self.folder}", *command]

    def start(self, host: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a command on a host; what it prints goes to `log(host)`."""
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        core: tuple[str, ...] = ()
        if host in WORKERS:
            core = ("taskset", "--cpu-list", str(WORKERS.index(host) % (os.cpu_count() or 1)))
        with self.log(host).open("ab") as log:
            self.started[host] = subprocess.Popen(
                self._inside("ip", "netns", "exec", host, *core, *command),
                stdout=log,
                stderr=log,
                env=environment() | one,
                cwd=self.folder,
                start_new_session=True,
            )
        return self.started[host]

    def log(self, host: str) -> Path:
        return self.folder / f"{host}.log"

    def start_scheduler(self) -> None:
        words = ("--host", ADDRESSES["scheduler"], "--port", "8786", "--no-dashboard")
        self.start("scheduler", sys.executable, "-m", "dask", "scheduler", *words)

    def start_worker(self, host: str) -> None:
        """Start the worker of a host under a manager that starts it again: without its scheduler it ends itself."""
        words = ("--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard", "--name", host)
        local = ("--local-directory", str(self.folder / "local" / host))
        program = (sys.executable, "-m", "dask", "worker", SCHEDULER)
        self.start(host, *AGAIN_AND_AGAIN, *program, *words, *local)

    def run_job(self, job: Path, workspace: Path, *words: str) -> subprocess.Popen[bytes]:
        """Start `distembed run` on the client's host."""
        self.log("client").unlink(missing_ok=True)
        where = ("--workspace", str(workspace), "--scheduler", SCHEDULER)
        return self.start(
            "client", sys.executable, "-m", "distembed.cli.main", "run", str(job), *where, *words
        )

    def kill(self, host: str) -> None:
        """Kill every process of a host at once, as a power cut does."""
        process = self.started.pop(host)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT)

    def obey(self, order: str) -> None:
        """Kill a host, start the scheduler, or change what reaches a host."""
        word, host, *to = order.split()
        if word == "kill":
            self.kill(host)
        elif word == "start":
            self.start_scheduler()
        else:
            command = ORDERS[word].format(host=host, to=ADDRESSES[to[0]] if to else "")
            subprocess.run(self._inside(*command.split()), check=True)

    def sent(self) -> dict[str, int]:
        """Return the bytes that each host has sent."""
        command = self._inside("ip", "-json", "-statistics", "link", "show", "master", "switch")
        links = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return {link["ifname"]: link["stats64"]["rx"]["bytes"] for link in links}

    def registrations(self, host: str) -> int:
        """Return how often the worker of a host has joined the scheduler."""
        return self.log(host).read_text().count("Registered to:") if self.log(host).exists() else 0


@contextmanager
def cluster(folder: Path) -> Iterator[Network]:
    """Yield a network whose scheduler runs, with one worker on each of the four hosts.

    Raises
    ------
    NoNamespacesError
        If this machine lets no process make user and network namespaces, or lacks a program for it.
    """
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise NoNamespacesError(f"needs {', '.join(missing)}")
    apart = ("unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", WIRED, "wired")
    pairs = [f"{host}={address}" for host, address in ADDRESSES.items()]
    pipe = subprocess.PIPE
    wired = subprocess.Popen([*apart, *pairs], text=True, stdin=pipe, stdout=pipe, stderr=pipe)
    assert wired.stdout is not None
    if not wired.stdout.readline():
        _, errors = wired.communicate(timeout=WAIT)
        raise NoNamespacesError(f"no network namespaces here: {errors.strip().splitlines()[-1]}")
    hosts = Network(wired, folder)
    try:
        hosts.start_scheduler()
        for host in WORKERS:
            hosts.start_worker(host)
        wait_until(lambda: all(map(hosts.registrations, WORKERS)), "the start of the workers")
        yield hosts
    finally:
        for host in list(hosts.started):
            hosts.kill(host)
        wired.kill()
        wired.wait(WAIT)


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} took over {seconds:.0f} s"
        time.sleep(0.02)
