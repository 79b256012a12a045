"""Clients of Dask's distributed scheduler: local worker processes, a running cluster, or a client that is there."""

from __future__ import annotations

import errno
import gc
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import forkserver

import dask
from dask.utils import key_split
from distributed import Client, LocalCluster, span
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker
from distributed.security import Security

from distembed.files import DiskFullError
from distembed.job.model import JobError, StoppedError
from distembed.job.provenance import Joining, made_with

WORKER_SECONDS = 120

ALLOWED_FAILURES = 7
"""Workers may die of a task so many times, whatever they died of, before a run on local processes gives it up."""

CONNECTION_LOGGERS = (
    "asyncio",
    "distributed.batched",
    "distributed.client",
    "distributed.core",
    "distributed.scheduler",
    "tornado.application",
)
"""Where the traceback of a connection that was lost, or of a wait that was given up, is logged."""

FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))

GO_ON = "give the same command again: what is finished is kept"


# --- the client --------------------------------------------------------------------------------------------------


def start_processes(resources: ExitStack, n_workers: int, memory_limit: int) -> Client:
    """Start local worker processes of one thread and return their client; `resources` stops both."""
    if sys.platform == "linux":  # elsewhere a fork of a process with the system's libraries may crash
        resources.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}))
        for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items():
            # A nanny sets them too, when the libraries of a fork have read them already.
            os.environ.setdefault(name, str(value))
        # The workers are forks of a process with what this one has loaded: each that imported it itself would take two
        # seconds of processor time, and hold 280 MB of its own.
        above = r"distembed\.(?!cli|job|stages|systems|tables|views)"
        loaded = sorted(name for name in sys.modules if re.match(above, name))
        forkserver.set_forkserver_preload(["distributed", *loaded])
        forkserver.ensure_running()
    settings = {
        # A worker that dies has one task, and not a second one waiting that would be blamed for its death as well.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.comm.require-encryption": False,  # these listen on this machine only
    }
    with dask.config.set(settings):
        cluster = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory_limit,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            # The scheduler logs, as critical, what it could not send to a client that Ctrl-C closed.
            silence_logs=logging.CRITICAL + 1,
            env=dict(os.environ),  # a fork has the environment that this process had at its first run
        )
    resources.enter_context(cluster)
    resources.enter_context(_without_tracebacks())
    client = resources.enter_context(Client(cluster))
    _wait_for_a_worker(client)
    client.register_plugin(Joining())
    return client


def connect(resources: ExitStack, address: str, tls: Mapping[str, str | None]) -> Client:
    """Return a client of the scheduler at `address`, which `resources` closes.

    `tls` has the files `ca_file`, `cert` and `key`; where it has none, Dask's own configuration holds.

    Raises
    ------
    ConnectionError
        If no scheduler answers there, it asks for a certificate, or no worker joins it.
    """
    resources.enter_context(_without_tracebacks())
    names = {"tls_ca_file": "ca_file", "tls_client_cert": "cert", "tls_client_key": "key"}
    files = {name: tls.get(file) for name, file in names.items()}
    security = Security(require_encryption=True, **files) if any(files.values()) else None
    try:
        client = resources.enter_context(Client(address, security=security, timeout="20s"))
    except TypeError:  # what Dask raises for a tls:// address without a certificate
        failure = (
            f"{address} is reached with a certificate, and none is given: name --tls-ca-file, --tls-cert and "
            "--tls-key, or give tcp:// where the scheduler takes any connection"
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
        elif "closed" in str(error):
            failure += f"; a scheduler that takes TLS alone closes this: try tls{address.removeprefix('tcp')}"
    else:
        _wait_for_a_worker(client)
        return client
    # The client that did not connect is Dask's scheduler until it is collected, which the error that holds it prevents.
    gc.collect()
    raise ConnectionError(failure)


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Keep a client from logging the tracebacks of a connection it lost: the error that is raised says it."""
    loggers = {name: logging.getLogger(name) for name in CONNECTION_LOGGERS}
    levels = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, logger in loggers.items():
            logger.setLevel(levels[name])


def _wait_for_a_worker(client: Client) -> None:
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ConnectionError(
            f"no worker joined {address} within {WORKER_SECONDS} s; "
            f"start some with: dask worker {address} --nthreads 1"
        ) from None


# --- who may take part -------------------------------------------------------------------------------------------


def admit(resources: ExitStack, client: Client, workspace: str, check_lock: Callable[[], object]) -> None:
    """Refuse a cluster of which a process has other versions or does not see a workspace that is open for writing.

    A worker that joins later, before `resources` close, is closed for the same reasons, which its log has.

    Raises
    ------
    JobError
        If there is such a process; the message names them all.
    """
    joining = Joining(made_with(), workspace, check_lock)
    answers = client.run(joining.refusal, on_error="return")
    sentences = [
        f"worker {address} cannot import this version of distembed ({answer}): install it there"
        if isinstance(answer, Exception)  # that worker cannot unpickle the question
        else f"worker {address} {answer}"
        for address, answer in answers.items()
        if answer
    ]
    if sentences:
        raise JobError(f"{'; '.join(sentences)}, or end {'it' if len(sentences) == 1 else 'them'}")
    client.register_plugin(joining)

    @resources.callback
    def let_any_worker_join_again() -> None:
        with suppress(Exception):  # of a scheduler that is gone, which has forgotten it
            if client.status == "running":
                client.unregister_worker_plugin(Joining.name)


# --- what fails --------------------------------------------------------------------------------------------------


@contextmanager
def watched(client: Client, stage: str) -> Iterator[None]:
    """Turn Dask's errors into one sentence; the tasks of the block are a span of Dask with the name of the stage.

    Raises
    ------
    StoppedError
        If the scheduler is gone, or all workers at once.
    DiskFullError
        If Dask has no room for the results that it takes from the memory of a worker to its disk.
    OSError
        If a task killed one worker after the other.
    """
    address = client.scheduler.address
    try:
        with span(stage):
            yield
    except KilledWorker as error:
        raise OSError(
            f"stage {stage}: each of {error.allowed_failures + 1} workers that computed a task {key_split(error.task)} "
            f"died, the last {error.last_worker.address}; most likely a block needs more memory: lower "
            "resources.block_memory, or raise resources.memory_limit (dask worker --memory-limit), and "
            f"{GO_ON}"
        ) from None
    except Exception as error:
        # The comm may be closed before the client notices it.
        if client.status != "running" or isinstance(error, CommClosedError | CancelledError):
            raise StoppedError(
                f"stage {stage}: the Dask scheduler at {address}, or each of its workers that held a result, is gone "
                f"or out of reach ({type(error).__name__}); start them again and {GO_ON}"
            ) from None
        # Dask's own error for a full disk has the words of the system; ours name the file.
        if isinstance(error, OSError) and error.strerror in FULL:
            raise DiskFullError(
                error.errno,
                f"stage {stage}: a worker has no room on the disk of its --local-directory, where Dask puts what its "
                f"memory does not hold ({error.strerror}); make room there, or start it with another, and {GO_ON}",
            ) from None
        raise
