"""What each process of a run must have: the same versions of the code, a view of the workspace, one BLAS thread."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from distributed import Worker, WorkerPlugin

import distembed
from distembed.execution import one_blas_thread
from distembed.storage.records import new_digest
from distembed.urls import PROTOCOLS_VARIABLE

PACKAGES = ("numpy", "scipy", "numba", "numcodecs", "dask", "pyarrow", "scikit-learn")
OPTIONAL = ("icu4py",)
"""Packages that decide what is computed, where they are installed."""


@cache
def made_with() -> dict[str, str]:
    """Return the versions of the package, of Python and of the libraries of this process.

    That of the package has a digest of its source: a checkout changes without a new version number.
    """
    root, digest = Path(distembed.__file__).parent, new_digest()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return {
        "distembed": f"{distembed.__version__} (source {digest.hexdigest()[:12]})",
        "python": platform.python_version(),
        **{name: version(name) for name in (*PACKAGES, *filter(find_spec, OPTIONAL))},
    }


def differences(found: Mapping[str, str], own: Mapping[str, str], between: str = ", now ") -> str:
    """Return in words what differs between two records of versions, "" where nothing does."""
    changed = [key for key in {**found, **own} if found.get(key) != own.get(key)]
    words = (f"{key} {found.get(key, 'unknown')}{between}{own.get(key, 'unknown')}" for key in changed)
    return "; ".join(words)


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
        check_lock: Callable[[], object] | None = None,
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
        except Exception as error:  # noqa: BLE001 - libraries of stores raise errors of any class
            if "://" in self._workspace:
                why = f"does not reach the workspace {self._workspace} ({' '.join(str(error).split())})"
                return f"{why}: give it the keys and FSSPEC_ variables of this run in its own environment"
            return f"does not see the workspace {self._workspace}: mount the same folder there under the same name"
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
