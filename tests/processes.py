"""Commands of distembed and of Dask in processes of their own, forked from one that has imported the whole package.

A new interpreter takes seconds to import the libraries and a fork takes milliseconds; what a test asks of a process
(its signals, its exit code, its two streams, its death) is the same of both.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import dask
import numba

import distembed as de
from tests.shortcuts import compile_once, leave_figures_blank

CALM = {
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.profile.enabled": False,
}
"""A scheduler and two workers that wait take a tenth of a core for looking at the clock and at themselves; so, a third
of that."""
dask.config.set(CALM)  # of the forks

compile_once()
leave_figures_blank()
CONTEXT: Any = multiprocessing.get_context("forkserver")

for _module in pkgutil.walk_packages(de.__path__, f"{de.__name__}."):
    importlib.import_module(_module.name)
for _command in entry_points(group="dask_cli"):
    _command.load()  # the command line of Dask loads all of them, that of Kubernetes among them, for any one
importlib.import_module("distributed.dashboard.scheduler")
numba.njit(lambda x: x)(1)  # loads the compiler, which each fork would load for its first kernel
gc.freeze()  # else the first search for unused objects in each fork copies the pages of all that was imported

DISTEMBED, DASK = "distembed.cli.main", "dask.__main__"
"""The modules whose `main` is a command line."""

Program = str | Callable[..., object]
"""What a process runs: the `main` of a module, which reads the words as a command does, or a function of the words."""


def _run(program: Program, words: tuple[str, ...], folder: Path, environment: Any, *streams: Path) -> None:
    """Be a command line in this process, the leader of a group of its own."""
    os.setsid()
    # Under nohup the suite ignores it, and so would what it starts.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.clear()  # that of the process it was forked from is as old as the first test
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    sys.argv = [str(program), *words]
    if isinstance(program, str):
        importlib.import_module(program).main()
    else:
        program(*words)


class Process:
    """A started command: the part of `subprocess.Popen` that the tests use.

    Standard error goes where standard output goes, unless the two are to be kept `apart`.
    """

    def __init__(
        self, *words: str, program: Program = DISTEMBED, folder: Path | None = None, apart: bool = False
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="distembed-process-")
        self._output = Path(self._folder.name) / "output"
        self._errors = Path(self._folder.name) / "errors" if apart else self._output
        about = (program, words, folder or Path.cwd(), dict(os.environ))
        self._process = CONTEXT.Process(target=_run, args=(*about, self._output, self._errors))
        self._process.start()
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        code: int | None = self._process.exitcode
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; return what was written to the two streams."""
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("distembed", timeout or 0)
        return tuple(path.read_text() if path.exists() else "" for path in (self._output, self._errors))


def start(*words: str) -> Process:
    """Start the command line in a process group of its own, so that it can be killed with its workers."""
    return Process(*words)


def kill_group(process: Process, number: int = signal.SIGKILL) -> str:
    """Send a signal to a started command and all its workers; return what it printed."""
    while process.poll() is None and os.getpgid(process.pid) != process.pid:
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, number)
    output, _ = process.communicate(timeout=60)
    return output
