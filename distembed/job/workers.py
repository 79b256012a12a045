"""Where a job's tasks run: local processes, the threads of this process, or any Dask cluster.

The choice never changes a result: blocks come from the job, every task uses one BLAS thread, and the workers
write straight to the workspace, which they must all see under the same address.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import dask
import psutil
from dask import threaded
from dask.system import CPU_COUNT
from distributed import Client

from distembed.display import format_bytes
from distembed.execution import client_in_force, one_blas_thread
from distembed.heaps import give_memory_back, memory_of_machine, memory_share, share_one_heap
from distembed.job import cluster
from distembed.job.model import Job, JobError
from distembed.spelling import did_you_mean
from distembed.storage.workspace import Workspace

SAMPLE_SECONDS, REMOTE_SECONDS = 0.2, 2.0  # the scheduler of a cluster answers each time for all its workers

LOCAL_SCHEDULERS = ("threads", "processes")
"""What runs a job without a Dask cluster."""

JOIN_SECONDS = 2.0
"""Wait so long for the last sample: a scheduler that is gone answers no earlier than its client gives up."""


@dataclass(kw_only=True)
class Workers(AbstractContextManager["Workers"]):
    """The workers of a run, started when the first stage needs them.

    Parameters
    ----------
    scheduler
        `"threads"`: the threads of this process, which start at once and share what they read (the hot loops release
        Python's lock); `"processes"`: local worker processes of one thread, each held to `memory_limit`; otherwise the
        address of a Dask scheduler, `tcp://host:port` or `tls://host:port`. `None`: the client of Dask that is in
        force, else threads.
    n_workers
        How many local workers; default one per core that this process may use.
    memory_limit
        Bytes for each local worker process, by default a share of the machine's; Dask spills above 60 % and pauses
        above 80 % of it.
    tls
        Files for a `tls://` scheduler: `ca_file`, `cert` and `key`.
    client
        A client of a cluster, of whatever kind, which is left running.
    """

    scheduler: str | None = None
    n_workers: int | None = None
    memory_limit: int | None = None
    tls: Mapping[str, str | None] = field(default_factory=dict)
    client: Client | None = None
    _resources: ExitStack = field(default_factory=ExitStack)
    _started: bool = False
    _is_admitted: bool = False
    is_remote: bool = field(init=False)
    """Whether the workers are those of a cluster that something else has started."""

    def __exit__(self, *_: object) -> None:
        """Stop what was started here; a foreign cluster is left running."""
        self._resources.close()

    def __post_init__(self) -> None:
        """Refuse what is neither local nor an address, before anything starts, and find the client in force."""
        if self.scheduler not in {None, *LOCAL_SCHEDULERS} and "://" not in str(self.scheduler):
            asked, other = str(self.scheduler).lower(), "give threads, processes, tcp://… or tls://…"
            hint = did_you_mean(asked, LOCAL_SCHEDULERS, otherwise=other, alike=0.5)
            raise ValueError(f"there is no scheduler {self.scheduler!r}; {hint}")
        if self.scheduler is None and self.client is None:
            self.client = client_in_force()
        self.is_remote = self.client is not None or self.scheduler not in {None, *LOCAL_SCHEDULERS}

    def start(self, workspace: Workspace | None = None) -> None:
        """Start the workers or connect to the cluster, once.

        With a workspace that is open for writing, a cluster is refused whose workers, now or later, have other versions
        or do not see it.

        Raises
        ------
        ConnectionError
            No scheduler answers at the address.
        JobError
            Some of the workers there are refused; a later one is closed, with the reason in its log.
        """
        if not self._started:
            self._started = True
            self._resources.enter_context(one_blas_thread())
            share_one_heap()
            if self.client is not None:  # of the notebook or script that runs the job
                self._resources.enter_context(self.client.as_current())
            elif self.scheduler in {None, "threads"}:
                # The function and not its name: for a name Dask imports `distributed`, a tenth of a second.
                self._resources.enter_context(
                    dask.config.set(scheduler=threaded.get, num_workers=self.n_local)
                )
            elif self.scheduler == "processes":
                self.client = cluster.start_processes(self._resources, self.n_local, self.process_memory)
            else:
                self.client = cluster.connect(self._resources, str(self.scheduler), self.tls)
        if self.client is not None and self.is_remote and not self._is_admitted and workspace is not None:
            cluster.admit(self._resources, self.client, workspace.url, workspace.check_lock)
            self._is_admitted = True

    @property
    def n_local(self) -> int:
        """Return how many local threads or processes do the work where no cluster does."""
        return self.n_workers or CPU_COUNT

    @property
    def process_memory(self) -> int:
        """Return the bytes of each local worker process."""
        return self.memory_limit or memory_share(self.n_local)

    def is_held_to(self, job: Job) -> bool:
        """Return whether these workers have the memory that a plan is held to: those of a cluster have their own."""
        return not self.is_remote or job.resources.memory_limit is not None

    def warnings(self) -> list[str]:
        """Return a sentence where there are more local workers than cores, or than the machine has memory for."""
        n, taken, has = self.n_local, self.n_local * self.process_memory, memory_of_machine()
        found = []
        if not self.is_remote and n > CPU_COUNT:
            found.append(
                f"{n} workers for {CPU_COUNT} cores only take turns: --workers {CPU_COUNT} is as fast"
            )
        if self.scheduler == "processes" and taken > has:
            found.append(
                f"{n} processes may take {format_bytes(taken)} of the {format_bytes(has)} here: lower --workers"
            )
        return found

    def at_most(self, n_workers: int) -> AbstractContextManager[object]:
        """Return a context in which so many of the local threads run tasks, where there are more."""
        if self.client is not None or not 0 < n_workers < self.n_local:
            return nullcontext()
        return dask.config.set(num_workers=n_workers)

    def watched(self, stage: str) -> AbstractContextManager[None]:
        """Return a context in which the failures of a cluster are one sentence each."""
        return nullcontext() if self.client is None else cluster.watched(self.client, stage)

    def give_memory_back(self) -> None:
        """Let each process of the run return the memory that it no longer uses to its system."""
        give_memory_back()
        if self.client is not None:
            # A worker that cannot answer gives nothing back; what it was asked to compute shows why.
            with suppress(Exception):
                self.client.run(give_memory_back, on_error="ignore")

    def memory_limits(self) -> dict[str, int]:
        """Return the bytes of each worker process of a cluster for this run, by its address; none for threads."""
        if self.client is None:
            return {}
        # A scheduler that is gone names none, and whatever it is asked next tells so.
        workers: dict[str, Any] = self.client.scheduler_info(n_workers=-1).get("workers", {})
        return {
            address: int(worker["memory_limit"] or self.process_memory) for address, worker in workers.items()
        }

    def check_memory(self, needed: int) -> None:
        """Refuse a cluster of which a worker may use less memory than the libraries and the largest task of a run need.

        Dask would give such a worker tasks all the same, and it would die of each.

        Raises
        ------
        JobError
            If so; the message names all such workers.
        """
        limits = sorted(self.memory_limits().items())
        small = [f"{address} ({format_bytes(limit)})" for address, limit in limits if limit < needed]
        remedy = f"start workers with dask worker --memory-limit {-(-needed // 2**20)}MiB"
        if not self.is_remote:
            remedy = "take fewer workers, or the threads of one process, which share more"
        if small:
            raise JobError(
                f"the libraries and the largest task of this job need {format_bytes(needed)}, more than the memory "
                f"limit of {', '.join(small)}: {remedy}, or lower resources.block_memory"
            )

    def memory(self) -> tuple[int, int]:
        """Return the resident bytes of the largest process and of all processes of the run together."""
        # The search for children reads a file of every process of the machine; threads have none.
        own = psutil.Process()
        sizes = []
        for process in (own, *([] if self.client is None else own.children(recursive=True))):
            with suppress(psutil.Error):  # it has ended
                sizes.append(int(process.memory_info().rss))
        if self.client is not None and self.is_remote:
            workers: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
            sizes += [int(worker.get("metrics", {}).get("memory", 0)) for worker in workers.values()]
        return max(sizes), sum(sizes)

    @contextmanager
    def metered(self) -> Iterator[dict[str, float]]:
        """Measure a block of code: yield what at its end holds its seconds and, by sampling, its peak resident bytes.

        These are of wall time, of the largest process, and of all processes together.
        """
        stopped, begin = threading.Event(), time.perf_counter()
        spent: dict[str, float] = {}
        peaks = (0, 0)

        def sample() -> None:
            nonlocal peaks
            is_over = False
            while not is_over:
                # A cluster that does not answer is the stage's failure, not its meter's: a figure less.
                with suppress(Exception):
                    largest, total = self.memory()
                    peaks = max(peaks[0], largest), max(peaks[1], total)
                is_over = stopped.wait(REMOTE_SECONDS if self.is_remote else SAMPLE_SECONDS)

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield spent
        finally:
            stopped.set()
            thread.join(JOIN_SECONDS)
            seconds = round(time.perf_counter() - begin, 3)
            spent |= {"wall_seconds": seconds, "peak_process_bytes": peaks[0], "peak_total_bytes": peaks[1]}
