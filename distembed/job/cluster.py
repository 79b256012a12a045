"""Clients of Dask's distributed scheduler: local worker processes, or a running cluster.

It is separate from `workers`, so that a run on threads does not import it, which takes a third of a second.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver
from queue import Empty, Queue
from typing import Any, TypeGuard

import dask
from dask.utils import key_split
from distributed import Client, Future, LocalCluster, Scheduler, Worker, WorkerPlugin, span
from distributed.comm import CommClosedError
from distributed.comm import connect as open_comm
from distributed.core import _expects_comm
from distributed.scheduler import KilledWorker
from distributed.security import Security
from distributed.utils import has_keyword

from distembed.display import format_bytes, plural
from distembed.execution import one_blas_thread
from distembed.files import DiskFullError
from distembed.job.model import StoppedError
from distembed.job.provenance import of_this_process, other_code
from distembed.storage.tasks import KilledBlockError
from distembed.urls import PROTOCOLS_VARIABLE


@dataclass(frozen=True, kw_only=True)
class TLS:
    """Files that identify this client to a cluster that speaks TLS."""

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None


WORKER_SECONDS = 120

SILENT_SECONDS = 30.0
"""A worker that has sent no heartbeat for so long is named: they come every half second to few seconds."""

WORKER_TTL_SECONDS = 120.0
"""A local worker that has been silent for so long is started again, and its tasks go elsewhere. (Dask: 300 s.)"""

STUCK_SECONDS = 150.0
"""After so long without a task or a transfer, the workers that wait for results are asked whom they cannot reach.

Dask gives up a connection after 30 s, and tries again without end: five tries.
"""

REACH_SECONDS = 5.0

WATCH_SECONDS = 2.0

SHOWN_STEPS = 3
"""Names of lost tasks that one line shows."""

Refusal = Callable[[], str]
"""Called in a process of a cluster; returns why the run refuses it, "" if it does not."""

Events = Queue[dict[str, Any] | None]
"""What the scheduler says while a stage runs; None at its end."""

CONNECTION_LOGGERS = (
    "asyncio",
    "distributed.batched",
    "distributed.client",
    "distributed.core",
    "distributed.scheduler",
    "tornado.application",
)
"""Where the traceback of a connection that was lost, or of a wait that was given up, is logged."""


PLUGINS = "distembed-"
"""What the names of our plugins of workers begin with; they end with the client's."""


class OneBlasThread(WorkerPlugin):
    """Limits every worker, also one that connects later, to one BLAS thread per task."""

    name = f"{PLUGINS}one-blas-thread"

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Limit the BLAS of the worker's process."""
        self._limit = ExitStack()
        self._limit.enter_context(one_blas_thread())

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002
        """Remove the limit."""
        self._limit.close()


class AllowedProtocols(WorkerPlugin):
    """Let each worker, now or later connected, open the protocols that this process may open."""

    name = f"{PLUGINS}allowed-protocols"

    def __init__(self) -> None:
        self._protocols = os.environ[PROTOCOLS_VARIABLE]

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Set the variable in the worker's process."""
        os.environ[PROTOCOLS_VARIABLE] = self._protocols


class LeftToTheRun(WorkerPlugin):
    """Lets a worker process pass over Ctrl-C, which a terminal sends to it too: the run that started it ends it."""

    name = f"{PLUGINS}left-to-the-run"

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Ignore the signal in the worker's process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Admission(WorkerPlugin):
    """Closes a worker that joins during a run, before it computes a block, if the run refuses it."""

    def __init__(self, name: str, refusal: Refusal) -> None:
        self.name, self._refusal = f"{PLUGINS}{name}", refusal

    def setup(self, worker: Worker) -> None:
        """Close the worker, and say in its log why, if the run refuses it."""
        if refusal := self._refusal():
            worker.loop.add_callback(worker.close, reason="distembed-refused")
            raise ConnectionError(f"worker {worker.address} {refusal}")


def start_processes(resources: ExitStack, n_workers: int, memory_limit: int) -> Client:
    """Start local worker processes of one thread and return their client; `resources` stops both."""
    if sys.platform == "linux":  # elsewhere a fork of a process with the system's libraries may crash
        resources.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}))
        _start_fork_server()
    settings = {
        "scheduler.worker-ttl": WORKER_TTL_SECONDS,
        # A worker that dies has one task, and not a second one waiting that would be blamed for its death as well.
        "scheduler.worker-saturation": 1.0,
        "comm.require-encryption": False,  # of a configuration for clusters: these listen on this machine only
    }
    with dask.config.set({f"distributed.{name}": value for name, value in settings.items()}):
        cluster = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory_limit,
            dashboard_address="127.0.0.1:0",
            # Its pages, of which nobody is told, would keep the scheduler for good.
            scheduler_kwargs={"dashboard": False},
            # The scheduler logs, as critical, what it could not send to a client that Ctrl-C closed.
            silence_logs=logging.CRITICAL + 1,
            env=dict(os.environ),  # a fork has the environment that this process had at its first run
        )
    for cached in (has_keyword, _expects_comm):  # caches of Dask that keep the scheduler, by its methods
        resources.callback(cached.cache_clear)
    resources.enter_context(cluster)
    resources.enter_context(_without_tracebacks())
    client = resources.enter_context(Client(cluster))
    _wait_for_a_worker(client)
    _register_all(resources, client)
    _register(resources, client, LeftToTheRun())
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
        If no scheduler answers there, it asks for a certificate, no worker joins it, or the scheduler or a worker
        cannot import distembed or has other code than this process.
    """
    resources.enter_context(_without_tracebacks())
    client = resources.enter_context(_connected(address, tls))
    same_code = partial(_of_other_code, of_this_process())
    _require_same_code(client, same_code)
    for plugin in client.run_on_scheduler(_plugins_of_the_dead):
        client.unregister_worker_plugin(plugin)
    _wait_for_a_worker(client)
    _admit(resources, client, "same-code", same_code)
    _register_all(resources, client)
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
        if address.startswith("tls://"):
            failure += (
                "; all need certificates of one authority that have not expired (deploy/tls/certificates.sh)"
            )
    # The client that did not connect is Dask's scheduler until it is collected, which the error that holds it prevents.
    gc.collect()
    raise ConnectionError(failure)


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Keep a client from logging the tracebacks of a connection it lost: the error that is raised says it.

    A local scheduler logs them as critical, and Dask keeps what is logged, with the scheduler in its tracebacks.
    """
    loggers = {name: logging.getLogger(name) for name in CONNECTION_LOGGERS}
    levels = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.setLevel(logging.CRITICAL + 1)
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


def _wait_for_a_worker(client: Client) -> None:
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ConnectionError(
            f"no worker joined {address} within {WORKER_SECONDS} s; "
            f"start some with: dask worker {address} --nthreads 1"
        ) from None


def _of_other_code(own: Mapping[str, str]) -> str:
    """Return why a process cannot take part in a run of the code `own`, "" if it can."""
    other = other_code(of_this_process(), own)
    return other and (
        f"has {other}: equal bytes need the same code in every process, so install the same versions there, or end "
        "that process"
    )


def _blind_to(url: str, check_lock: Callable[[], None]) -> str:
    """Return why a process cannot work on a workspace with a lock, "" if it sees that."""
    try:
        check_lock()
    except OSError as error:
        return (
            f"does not see the workspace {url} ({type(error).__name__}): mount the same folder there under the same "
            "name, or end that worker"
        )
    return ""


def admit_by_view(resources: ExitStack, client: Client, url: str, check_lock: Callable[[], None]) -> None:
    """Refuse a cluster one of whose workers does not see a workspace, and such workers until `resources` close.

    Raises
    ------
    ConnectionError
        If there is one; the message names it.
    """
    _admit(resources, client, "same-view", partial(_blind_to, url, check_lock))


def _admit(resources: ExitStack, client: Client, name: str, refusal: Refusal) -> None:
    for address, found in client.run(refusal, on_error="return").items():
        _raise_refused(f"worker {address}", found)
    _register(resources, client, Admission(name, refusal))


def _require_same_code(client: Client, refusal: Refusal) -> None:
    """Refuse a scheduler that lacks this package or has other code than this process."""
    try:
        found = client.run_on_scheduler(refusal)
    except (AttributeError, ImportError) as error:  # also of a distembed from before this question
        found = error
    _raise_refused(f"the Dask scheduler at {client.scheduler.address}", found)


def _raise_refused(place: str, found: str | Exception) -> None:
    if isinstance(found, Exception):
        found = (
            f"cannot import this version of distembed ({found}): install it there, or start the process with the "
            "Python that has it, and give the same command again"
        )
    if found:
        raise ConnectionError(f"{place} {found}")


def _register_all(resources: ExitStack, client: Client) -> None:
    _register(resources, client, OneBlasThread())
    if PROTOCOLS_VARIABLE in os.environ:
        _register(resources, client, AllowedProtocols())


def _register(resources: ExitStack, client: Client, plugin: WorkerPlugin) -> None:
    """Register a plugin until the run ends, under a name of its own, so that two runs do not end each other's.

    A plugin that stayed would keep workers of another version, or without distembed, from joining for other purposes.
    """
    name = f"{plugin.name}-{client.id}"
    client.register_plugin(plugin, name=name)
    resources.callback(_forget, client, name)


def _forget(client: Client, name: str) -> None:
    with suppress(Exception):  # of a scheduler that is gone, which has forgotten it
        if client.status == "running":
            client.unregister_worker_plugin(name)


def _plugins_of_the_dead(dask_scheduler: Scheduler) -> list[str]:
    """Return the plugins of runs that were killed, or lost the scheduler: they would refuse the workers of this one."""
    return [
        name
        for name in dask_scheduler.worker_plugins
        if name.startswith(PLUGINS) and not name.endswith(tuple(dask_scheduler.clients))
    ]


@contextmanager
def watched(client: Client, stage: str, note: Callable[[str], None]) -> Iterator[None]:
    """Report the workers that are gone or stop responding, and turn Dask's errors into one sentence.

    The tasks of the block are a span of Dask with the name of the stage.

    Raises
    ------
    StoppedError
        If the scheduler is gone, or all workers at once, or nothing goes on because a worker cannot reach another.
    DiskFullError
        If Dask has no room for the results that it takes from the memory of a worker to its disk.
    KilledBlockError
        If a block, or another task of the stage, killed one worker after the other.
    """
    events: Events = Queue()
    stuck = _Stuck(client)
    threading.Thread(target=_name_lost_workers, args=(client, note, events, stuck), daemon=True).start()
    address = client.scheduler.address
    try:
        client.subscribe_topic("all", lambda event: events.put(event[1]))
        with span(stage):
            yield
    except KilledBlockError as error:
        raise KilledBlockError(_killed(stage, error.block, error.killed), error.killed) from None
    except KilledWorker as error:
        raise KilledBlockError(_killed(stage, f"the task {error.task}", error), error) from None
    except Exception as error:
        told = _told(error, f"stage {stage}:", client, address, stuck.reason)
        if told is None:
            raise
        raise told from None
    finally:
        events.put(None)


def _told(error: Exception, where: str, client: Client, address: str, stuck: str) -> Exception | None:
    """Return the error whose sentence tells what an error of Dask means; None for an error that is none of Dask's."""
    if stuck:
        return StoppedError(
            f"{where} nothing has gone on for {STUCK_SECONDS:.0f} s: {stuck}; then give the same command again: what "
            "is finished is kept"
        )
    # Dask has many errors for a scheduler that is gone, and one that is none of its own meets the same end.
    # The comm may be closed before the client notices it.
    if client.status != "running" or isinstance(error, CommClosedError):
        return StoppedError(
            f"{where} the Dask scheduler at {address} is gone ({type(error).__name__}) or out of reach; start it and "
            "its workers again and give the same command: what is finished is kept"
        )
    if isinstance(error, CancelledError):
        return StoppedError(
            f"{where} all workers that held an array of this process are gone; give the same command again: what is "
            "finished is kept"
        )
    if _is_of_a_full_disk(error):
        return DiskFullError(
            error.errno,
            f"{where} a worker has no room on the disk of its --local-directory, where Dask puts results that its "
            f"memory does not hold ({error.strerror}); make room there, or start the worker with another "
            "--local-directory or a larger --memory-limit, and give the same command again: what is finished is kept",
        )
    return None


def _is_of_a_full_disk(error: Exception) -> TypeGuard[OSError]:
    """Return whether an error is Dask's for a full disk; our own have words of their own, with the name of the file."""
    return (
        isinstance(error, OSError)
        and error.errno in {errno.ENOSPC, errno.EDQUOT}
        and error.strerror == os.strerror(error.errno)
    )


def _killed(stage: str, block: str, error: KilledWorker) -> str:
    worker = error.last_worker
    limit = f" with a memory limit of {format_bytes(worker.memory_limit)}" if worker.memory_limit else ""
    return (
        f"stage {stage}: {block} was on each of {error.allowed_failures + 1} or more workers that died, the last "
        f"{worker.address}{limit}; most likely a block needs more memory: lower resources.block_memory, or raise "
        "resources.memory_limit (dask worker --memory-limit), and give the same command again: what is finished is kept"
    )


def _name_lost_workers(client: Client, note: Callable[[str], None], events: Events, stuck: _Stuck) -> None:
    """Note each worker that is gone or silent, and end what is stuck, until the stage ends."""
    silent = _Silent()
    is_alone = False
    while True:
        try:
            event = events.get(timeout=WATCH_SECONDS)
        except Empty:
            event = {}
        if event is None:
            return

        with suppress(Exception):  # a scheduler that does not answer is told by the stage's own tasks
            workers = _workers_now(client)
            if event.get("action") == "remove-worker":
                is_alone = not workers
                note(_gone(event, len(workers), client.scheduler.address))
            elif is_alone and workers:
                is_alone = False
                note(f"{plural(len(workers), 'worker')} joined: the run goes on")
            for address, seconds in silent.found(workers):
                note(_silent(address, workers[address], seconds))
            stuck.look(workers)


def _workers_now(client: Client) -> dict[str, Any]:
    """Return what the scheduler says of its workers; `scheduler_info` repeats, without an error, what it said last."""
    workers: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return workers


class _Silent:
    """The workers whose last heartbeat stays the same for `SILENT_SECONDS` of our clock."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}
        self._named: set[str] = set()

    def found(self, workers: dict[str, Any]) -> Iterator[tuple[str, float]]:
        """Yield each worker that is found silent, once, with the seconds since its last heartbeat."""
        now = time.monotonic()
        for address, worker in workers.items():
            last, since = self._seen.get(address, (None, now))
            if last != worker["last_seen"]:
                self._seen[address] = (worker["last_seen"], now)
                self._named.discard(address)
            elif address not in self._named and now - since >= SILENT_SECONDS:
                self._named.add(address)
                yield address, now - since


class _Stuck:
    """Ends a stage in which nothing goes on because a worker cannot reach another: a firewall drops one direction.

    Dask tries again for ever, in silence, as long as both reach the scheduler.
    """

    def __init__(self, client: Client) -> None:
        self.reason = ""
        self._client = client
        self._held: dict[str, int] = {}
        self._since = time.monotonic()

    def look(self, workers: dict[str, Any]) -> None:
        """Cancel what the stage waits for, with a reason, if no worker computes, receives or can receive a result."""
        now = time.monotonic()
        held = {address: _count(worker, "memory") for address, worker in workers.items()}
        computes = any(_count(worker, "executing") for worker in workers.values())
        if computes or held != self._held:
            self._held, self._since = held, now
        elif now - self._since >= STUCK_SECONDS:
            self._since = now
            self.reason = self._out_of_reach(workers)
            if self.reason:
                # Only what is awaited: the scheduler fails over the tasks that rest on a finished result.
                states = list(self._client.futures.items())
                awaited = [key for key, state in states if state.status == "pending"]
                self._client.cancel([Future(key, self._client) for key in awaited])

    def _out_of_reach(self, workers: dict[str, Any]) -> str:
        """Return which worker waits for results of others that it cannot reach, "" if none does."""
        for address, worker in workers.items():
            if n_awaited := _count(worker, "fetch", "flight", "missing"):
                others = [other for other in workers if other != address]
                unreached = self._client.run(_without_connection, others, workers=[address])[address]
                if unreached:
                    return (
                        f"worker {address} waits for {plural(n_awaited, 'result')} of other workers, and has no "
                        f"connection to {' and '.join(unreached)}: let the firewall pass all ports between the "
                        "workers, in both directions, or end one of them"
                    )
        return ""


async def _without_connection(addresses: list[str], dask_worker: Worker) -> list[str]:
    """Return those of some addresses to which a worker cannot open a connection."""

    async def fails(address: str) -> bool:
        try:
            comm = await open_comm(address, timeout=REACH_SECONDS, **dask_worker.connection_args)
        except OSError:
            return True
        await comm.close()
        return False

    found = await asyncio.gather(*map(fails, addresses))
    return [address for address, failed in zip(addresses, found, strict=True) if failed]


def _count(worker: dict[str, Any], *states: str) -> int:
    """Return how many tasks of a worker are in some states, by its last heartbeat."""
    counts = worker.get("metrics", {}).get("task_counts", {})
    return sum(counts.get(state, 0) for state in states)


def _gone(event: dict[str, Any], n_left: int, scheduler: str) -> str:
    """Return the sentence for the scheduler's event of a worker that is gone: what is lost, and who repeats it."""
    address, running, held = (event[key] for key in ("worker", "processing-tasks", "lost-computed-tasks"))
    lost = [
        f"{plural(len(keys), what)} ({_steps(keys)})"
        for what, keys in (("task", running), ("result", held))
        if keys
    ]
    text = f"worker {address} is gone, and with it {' and '.join(lost) or 'nothing that is needed'}"
    if n_left:
        return f"{text}; {plural(n_left, 'worker')} left{' to repeat that' if lost else ''}"
    return f"{text}; no worker is left: the run waits for one; start it with: dask worker {scheduler} --nthreads 1"


def _steps(keys: Iterable[Any]) -> str:
    """Return the names of the commonest steps of which there are tasks."""
    counted = Counter(map(key_split, keys)).items()
    steps = [step for step, _ in sorted(counted, key=lambda item: (-item[1], item[0]))]
    return ", ".join([*steps[:SHOWN_STEPS], *(["…"] if len(steps) > SHOWN_STEPS else [])])


def _silent(address: str, worker: dict[str, Any], seconds: float) -> str:
    return (
        f"worker {address} ({worker.get('name')} on {worker.get('host')}) has been silent for {seconds:.0f} s: it is "
        "stopped, swapping or cut off; the scheduler gives its tasks to others once its connection or its worker-ttl "
        "has timed out"
    )
