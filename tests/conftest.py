"""What all tests share: where the real data lies, and no example of Hypothesis judged by its time."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import forkserver, get_context
from pathlib import Path

import dask
import pytest
from hypothesis import settings

from tests.commands import cluster, copy, finished, job, tiny, tiny_once
from tests.shortcuts import compile_once, drawn, leave_figures_blank

__all__ = ["cluster", "copy", "finished", "job", "tiny", "tiny_once"]

# Where Python is told to write no bytecode, as containers often are, each process that a test starts would compile the
# whole package again, which takes longer than its imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell lets what it starts in the background ignore Ctrl-C, and what that starts inherits it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What the processes of the tests are forks of: one that has imported the whole package, started when one is asked for.
forkserver.set_forkserver_preload(["tests.processes"])

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

compile_once()
leave_figures_blank()

# What is imported and collected stays to the end: a search for unused objects in it takes a quarter of its time.
gc.disable()


def pytest_collection(session: pytest.Session) -> None:
    """Let each of pytest-xdist's workers import the tests from another place on, where it imports them all.

    Pytest rewrites the assertions of a file that is new, which takes as long as the rest of the collection, and keeps
    the result: a worker finds what the others have rewritten since. An import that fails, fails again when collected.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    folder = Path(__file__).parent
    names = [path.relative_to(folder.parent).with_suffix("").parts for path in folder.rglob("test_*.py")]
    names.sort()
    first = len(names) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for name in names[first:] + names[:first]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(name))


def pytest_collection_finish() -> None:
    """Leave what the collection has made, which stays to the end, out of every later search for unused objects.

    A run collects garbage after a stage by which a process above a gigabyte has grown. A worker of the suite soon is
    above it, and there Python's own searches are enough: those of the runs were 3 % of what the suite takes.
    """
    from distembed import heaps

    gc.enable()
    gc.collect()
    gc.freeze()
    heaps.GROWTH = sys.maxsize


@pytest.fixture(scope="module", autouse=True)
def memory_given_back() -> Iterator[None]:
    """Return what a file of tests no longer uses to the system: what the allocators keep of all files adds up."""
    from distembed import heaps

    yield
    heaps.give_memory_back()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Search for unused objects once, and not five times as pytest does when it ends.

    A worker of pytest-xdist that needs more than five seconds for its end is interrupted, and prints where.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def drawn_figures() -> Iterator[None]:
    """Draw the figures of reports, which the other tests leave blank."""
    with drawn():
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder that holds `data`, which $DISTEMBED_DATA names, and `reference`, or skip without it."""
    data = Path(os.environ.get("DISTEMBED_DATA", "")).resolve()
    if data.name != "data" or not data.is_dir():
        pytest.skip("needs the real data: set DISTEMBED_DATA to a folder of the name data that holds it")
    return data.parent


@pytest.fixture(scope="session")
def process_pool() -> Iterator[ProcessPoolExecutor]:
    """Return two processes, for Dask's scheduler "processes" (`pool=`): they import nothing."""
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        yield pool


@contextmanager
def forked_workers() -> Iterator[None]:
    """Let the worker processes of a Dask cluster that is started inside be forks: each would import for two seconds."""
    from tests.processes import CALM

    forkserver.ensure_running()  # before Dask names what is imported
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver", **CALM}):
        yield
