"""Clients of Dask's distributed scheduler: local worker processes, or a running cluster.

It is separate from `workers`, so that a run on threads does not import it, which takes a third of a second.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import forkserver
from typing import Any

import dask
from distributed import Client, LocalCluster, Worker, WorkerPlugin, span
from distributed.scheduler import KilledWorker
from distributed.security import Security
from fsspec.config import conf

from distembed.display import format_bytes, plural
from distembed.execution import one_blas_thread
from distembed.job.model import StoppedError
from distembed.job.provenance import of_this_process, other_code
from distembed.storage.tasks import KilledBlockError
from distembed.urls import PROTOCOLS_VARIABLE, use_storage_options


@dataclass(frozen=True, kw_only=True)
class TLS:
    """Files that identify this client to a cluster that speaks TLS."""

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None


PACKAGE = "distembed"
"""What every process of a cluster has to import."""

WORKER_SECONDS = 120

SILENT_SECONDS = 30.0
"""A worker that has sent no heartbeat for so long is named: they come every half second to few seconds."""

WORKER_TTL_SECONDS = 120.0
"""A local worker that has been silent for so long is started again, and its tasks go elsewhere. (Dask: 300 s.)"""

WATCH_SECONDS = 2.0

CONNECTION_LOGGERS = ("asyncio", "distributed.batched", "distributed.client", "distributed.core")
"""Where the traceback of a connection that was lost, or of a wait that was given up, is logged."""


class OneBlasThread(WorkerPlugin):
    """Limits every worker, also one that connects later, to one BLAS thread per task."""

    name = "distembed-one-blas-thread"

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Limit the BLAS of the worker's process."""
        self._limit = ExitStack()
        self._limit.enter_context(one_blas_thread())

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002
        """Remove the limit."""
        self._limit.close()


class StorageOptions(WorkerPlugin):
    """Let each worker, now or later connected, reach object stores as this process does."""

    name = "distembed-storage-options"

    def __init__(self) -> None:
        self._options = {protocol: dict(values) for protocol, values in conf.items()}
        self._protocols = os.environ.get(PROTOCOLS_VARIABLE, "")

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Set the options in the worker's process."""
        use_storage_options(self._options)
        os.environ[PROTOCOLS_VARIABLE] = self._protocols


class LeftToTheRun(WorkerPlugin):
    """Lets a worker process pass over Ctrl-C, which a terminal sends to it too: the run that started it ends it."""

    name = "distembed-left-to-the-run"

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Ignore the signal in the worker's process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class SameCode(WorkerPlugin):
    """Closes a worker that joins during a run with other versions than the run's, before it computes a block."""

    name = "distembed-same-code"

    def __init__(self) -> None:
        self._own = of_this_process()

    def setup(self, worker: Worker) -> None:
        """Close the worker, and say in its log why, if its versions are not those of the run."""
        if other := other_code(of_this_process(), self._own):
            worker.loop.add_callback(worker.close, reason="distembed-other-code")
            raise ConnectionError(_refused(worker.address, other))


def start_processes(resources: ExitStack, n_workers: int, memory_limit: int) -> Client:
    """Start local worker processes of one thread and return their client; `resources` stops both."""
    if sys.platform == "linux":  # elsewhere a fork of a process with the system's libraries may crash
        resources.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}))
        _start_fork_server()
    # A worker that dies has one task, and not a second one waiting that would be blamed for its death as well.
    settings = {"worker-ttl": WORKER_TTL_SECONDS, "worker-saturation": 1.0}
    with dask.config.set({f"distributed.scheduler.{name}": value for name, value in settings.items()}):
        cluster = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory_limit,
            dashboard_address="127.0.0.1:0",
            # The scheduler logs, as critical, what it could not send to a client that Ctrl-C closed.
            silence_logs=logging.CRITICAL + 1,
            env=dict(os.environ),  # a fork has the environment that this process had at its first run
        )
    resources.enter_context(cluster)
    resources.enter_context(_without_tracebacks())
    client = _with_workers(resources.enter_context(Client(cluster)))
    client.register_plugin(LeftToTheRun())
    return client


def _start_fork_server() -> None:
    """Start the process of which worker processes are forks, with the modules of distembed that this one has loaded.

    A worker that imported them itself would take two seconds of processor time, and hold 280 MB of its own.
    """
    for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items():
        # A nanny sets them too, when the libraries of a fork have read them already.
        os.environ.setdefault(name, str(value))
    loaded = sorted(
        name for name in sys.modules if re.match(r"distembed\.(?!cli|job|stages|systems|tables|views)", name)
    )
    forkserver.set_forkserver_preload(["distributed", *loaded])
    forkserver.ensure_running()


def connect(resources: ExitStack, address: str, tls: TLS) -> Client:
    """Return a client of the scheduler at `address`, which `resources` closes.

    Raises
    ------
    ConnectionError
        If no scheduler answers there, it asks for a certificate, no worker joins it, or its workers lack distembed.
    """
    resources.enter_context(_without_tracebacks())
    client = resources.enter_context(_connected(address, tls))
    _with_workers(client)
    _require_same_code(resources, client)
    return client


def _connected(address: str, tls: TLS) -> Client:
    try:
        return Client(address, security=_security(tls), timeout="20s")
    except TypeError:  # what Dask raises for a tls:// address without a certificate
        failure = (
            f"the Dask scheduler at {address} takes connections by TLS only, and no certificate is given: "
            "name --tls-ca-file, --tls-cert and --tls-key"
        )
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        failure = (
            f"no Dask scheduler answers at {address} ({error or type(error).__name__}); "
            "start one with: dask scheduler, and workers with: dask worker ADDRESS"
        )
    # The client that did not connect is Dask's scheduler until it is collected, which the error that holds it prevents.
    gc.collect()
    raise ConnectionError(failure)


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Keep a client from logging the tracebacks of a connection it lost: the error that is raised says it."""
    loggers = {name: logging.getLogger(name) for name in CONNECTION_LOGGERS}
    levels = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, logger in loggers.items():
            logger.setLevel(levels[name])


def _security(tls: TLS) -> Security | None:
    """Return Dask's security object, or None (Dask's own configuration) where no file is given."""
    if not (tls.ca_file or tls.cert or tls.key):
        return None
    return Security(
        require_encryption=True,
        tls_ca_file=tls.ca_file,
        tls_client_cert=tls.cert,
        tls_client_key=tls.key,
    )


def _with_workers(client: Client) -> Client:
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
        _require_package(client)
        client.register_plugin(OneBlasThread())
        if conf:
            client.register_plugin(StorageOptions())
    except TimeoutError:
        raise ConnectionError(
            f"no worker joined {address} within {WORKER_SECONDS} s; "
            f"start some with: dask worker {address} --nthreads 1"
        ) from None
    return client


def _require_package(client: Client) -> None:
    """Refuse a cluster of which the scheduler or a worker cannot import distembed, which no task could say."""
    found = {
        f"the Dask scheduler at {client.scheduler.address}": client.run_on_scheduler(find_spec, PACKAGE),
        **{f"worker {address}": spec for address, spec in client.run(find_spec, PACKAGE).items()},
    }
    for place, spec in found.items():
        if spec is None:
            raise ConnectionError(
                f"{place} cannot import {PACKAGE}: install the version of this process there, or start the process "
                "with the Python that has it, and give the same command again"
            )


def _require_same_code(resources: ExitStack, client: Client) -> None:
    """Refuse a cluster one of whose workers has other code than this process, and such workers until the run ends."""
    try:
        answers = client.run(of_this_process)
    except AttributeError as error:  # a distembed from before this question
        raise ConnectionError(
            f"a worker has another version of distembed ({error}): install this one"
        ) from None
    for address, versions in answers.items():
        if other := other_code(versions, of_this_process()):
            raise ConnectionError(_refused(address, other))
    client.register_plugin(SameCode())
    resources.callback(_forget, client)


def _forget(client: Client) -> None:
    """Let workers of other versions join again, for the runs to come."""
    with suppress(Exception):  # of a scheduler that is gone, which has forgotten it
        if client.status == "running":
            client.unregister_worker_plugin(SameCode.name)


def _refused(address: str, other: str) -> str:
    return (
        f"worker {address} has {other}: equal bytes need the same code in every process, so install the same "
        "versions there, or end that worker (and the scheduler, if the run that asks for them is over)"
    )


@contextmanager
def watched(client: Client, stage: str, note: Callable[[str], None]) -> Iterator[None]:
    """Report the workers that are gone or stop responding, and turn Dask's errors into one sentence.

    The tasks of the block are a span of Dask with the name of the stage.

    Raises
    ------
    StoppedError
        If the scheduler is gone, or all workers at once.
    KilledBlockError
        If a block, or another task of the stage, killed one worker after the other.
    """
    stop = threading.Event()
    threading.Thread(target=_name_lost_workers, args=(client, note, stop), daemon=True).start()
    address = client.scheduler.address
    try:
        with span(stage):
            yield
    except KilledBlockError as error:
        raise KilledBlockError(_killed(stage, error.block, error.killed), error.killed) from None
    except KilledWorker as error:
        raise KilledBlockError(_killed(stage, f"the task {error.task}", error), error) from None
    except Exception as error:
        # Dask has many errors for a scheduler that is gone, and one that is none of its own meets the same end.
        if client.status != "running":
            raise StoppedError(
                f"stage {stage}: the Dask scheduler at {address} is gone ({type(error).__name__}); start it and its "
                "workers again and give the same command: what is finished is kept"
            ) from None
        if isinstance(error, CancelledError):
            raise StoppedError(
                f"stage {stage}: all workers that held an array of this process are gone; give the same command "
                "again: what is finished is kept"
            ) from None
        raise
    finally:
        stop.set()


def _killed(stage: str, block: str, error: KilledWorker) -> str:
    worker = error.last_worker
    limit = f" with a memory limit of {format_bytes(worker.memory_limit)}" if worker.memory_limit else ""
    return (
        f"stage {stage}: {block} was on each of {error.allowed_failures + 1} or more workers that died, the last "
        f"{worker.address}{limit}; most likely a block needs more memory: lower resources.block_memory, or raise "
        "resources.memory_limit (dask worker --memory-limit), and give the same command again: what is finished is kept"
    )


def _name_lost_workers(client: Client, note: Callable[[str], None], stop: threading.Event) -> None:
    """Note once each worker that is gone, or whose last heartbeat stays the same for `SILENT_SECONDS` of our clock."""
    seen: dict[str, tuple[float, float]] = {}
    named: set[str] = set()
    while True:
        with suppress(Exception):  # a scheduler that does not answer is told by the stage's own tasks
            workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            now = time.monotonic()
            for address in seen.keys() - workers.keys():
                del seen[address]
                note(_gone(address, len(workers), client.scheduler.address))
            for address, worker in workers.items():
                if address not in seen or seen[address][0] != worker["last_seen"]:
                    seen[address] = (worker["last_seen"], now)
                    named.discard(address)
                elif address not in named and now - seen[address][1] >= SILENT_SECONDS:
                    named.add(address)
                    note(_silent(address, worker, now - seen[address][1]))
        if stop.wait(WATCH_SECONDS):
            return


def _gone(address: str, n_left: int, scheduler: str) -> str:
    if n_left:
        return (
            f"worker {address} is gone: the scheduler gives its tasks to the {plural(n_left, 'worker')} left"
        )
    return (
        f"worker {address} is gone, and no worker is left: the run waits for one; start it with: "
        f"dask worker {scheduler} --nthreads 1"
    )


def _silent(address: str, worker: dict[str, Any], seconds: float) -> str:
    return (
        f"worker {address} ({worker.get('name')} on {worker.get('host')}) has been silent for {seconds:.0f} s: it is "
        "stopped, swapping or cut off; the scheduler gives its tasks to others once its connection or its worker-ttl "
        "has timed out"
    )
