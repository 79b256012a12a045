"""Clients of Dask's distributed scheduler: local worker processes, or a cluster that runs already.

Apart from `workers`, so that a run on threads need not import it: a third of a second.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack

from distributed import Client, LocalCluster, Worker, WorkerPlugin
from distributed.security import Security

from distembed.execution import one_blas_thread
from distembed.pipeline.workers import TLS

WORKER_SECONDS = 120


class OneBlasThread(WorkerPlugin):
    """Give each worker, now or later connected, one BLAS thread a task."""

    name = "distembed-one-blas-thread"

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Limit the BLAS of the worker's process."""
        self._limit = ExitStack()
        self._limit.enter_context(one_blas_thread())

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002
        """Lift the limit."""
        self._limit.close()


def start_processes(resources: ExitStack, n_workers: int, memory_limit: int) -> Client:
    """Start local worker processes of one thread and return their client; `resources` stops both."""
    cluster = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=memory_limit,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.ERROR,
    )
    resources.enter_context(cluster)
    return _with_workers(resources.enter_context(Client(cluster)))


def connect(resources: ExitStack, address: str, tls: TLS) -> Client:
    """Return a client of the scheduler at `address`, which `resources` closes.

    Raises
    ------
    ConnectionError
        No scheduler answers there, no worker joins it, or its workers lack distembed.
    """
    try:
        client = Client(address, security=_security(tls), timeout="20s")
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address} ({error or type(error).__name__}); "
            "start one with: dask scheduler, and workers with: dask worker ADDRESS"
        ) from None
    return _with_workers(resources.enter_context(client))


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
        client.register_plugin(OneBlasThread())
    except TimeoutError:
        raise ConnectionError(
            f"no worker joined {address} within {WORKER_SECONDS} s; "
            f"start some with: dask worker {address} --nthreads 1"
        ) from None
    except ModuleNotFoundError as error:
        raise ConnectionError(f"a worker cannot import {error.name}; install distembed there too") from None
    return client
