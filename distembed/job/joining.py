"""What a worker of a cluster does as it joins a run: it limits BLAS to one thread, or leaves if it cannot take part."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from distributed import Worker, WorkerPlugin

from distembed.execution import one_blas_thread
from distembed.job.provenance import differences, made_with
from distembed.urls import PROTOCOLS_VARIABLE


class Joining(WorkerPlugin):
    """Prepares each worker of a run, also one that joins later, which leaves if the run refuses it.

    Dask keeps one plugin of a name: that of a run replaces what a killed one has left on the scheduler.

    Parameters
    ----------
    code : mapping, optional
        The versions that a worker must have; by default they are those of the process that started it.
    workspace : str
        The workspace that it must see.
    check_lock : callable, optional
        Raises an error in a process that does not see the lock of that workspace.
    """

    name = "distembed"

    def __init__(
        self,
        code: Mapping[str, str] | None = None,
        workspace: str = "",
        check_lock: Callable[[], None] | None = None,
    ) -> None:
        self._code, self._workspace, self._check_lock = code, workspace, check_lock
        self._protocols = os.environ.get(PROTOCOLS_VARIABLE)

    def refusal(self) -> str:
        """Return why this process cannot take part in the run, "" if it can."""
        if self._code is not None and (other := differences(made_with(), self._code, " where this run has ")):
            return f"has {other}: equal bytes need the same code in every process, so install the same versions there"
        try:
            if self._check_lock is not None:
                self._check_lock()
        except OSError as error:
            return (
                f"does not see the workspace {self._workspace} ({type(error).__name__}): mount the same folder there "
                "under the same name"
            )
        return ""

    def setup(self, worker: Worker) -> None:
        """Prepare the process of a worker, or close it with the reason in its log."""
        if refusal := self.refusal():
            worker.loop.add_callback(worker.close, reason="distembed-refused")
            raise ConnectionError(f"worker {worker.address} {refusal}, or end that worker")
        if self._protocols is not None:
            os.environ[PROTOCOLS_VARIABLE] = self._protocols
        if self._code is None:  # the run that started this process ends it, and not a terminal's Ctrl-C
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._limit = ExitStack()
        self._limit.enter_context(one_blas_thread())

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002
        """Remove the limit of BLAS."""
        if hasattr(self, "_limit"):
            self._limit.close()
