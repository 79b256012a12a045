"""What makes the suite faster in each of its processes: figures that stay blank, and kernels that one process compiles.

Drawing the figures of a small job takes as long as a stage, and each of some 200 tests runs a job to its end for what
its stages make. numba keeps a compiled kernel on disk, but nothing keeps two processes from compiling it at the same
time, which all of pytest-xdist's workers did at the start of a suite on a fresh checkout.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

DRAW = FigureCanvasSVG.print_svg
PACKAGE = str(Path(__file__).resolve().parents[1] / "distembed")
TRIES = 600
"""Tenths of a second that a process waits for the one that compiles, which may have been stopped; then both compile."""


def leave_figures_blank() -> None:
    """Let a process write an empty SVG in place of each figure of a report."""

    def leave_blank(_canvas: FigureCanvasSVG, file: Any, **_options: Any) -> None:
        file.write('<svg viewBox="0 0 1 1"></svg>')

    FigureCanvasSVG.print_svg = leave_blank


@contextmanager
def drawn() -> Iterator[None]:
    """Draw the figures inside the block."""
    FigureCanvasSVG.print_svg = DRAW
    try:
        yield
    finally:
        leave_figures_blank()


@cache  # twice around, a process would wait for the lock that it holds
def compile_once() -> None:
    """Let a process compile the kernels of a module of the package only while no other does."""
    compile_here = Dispatcher.compile
    locked: set[str] = set()  # what this process has locked: a kernel compiles those that it calls

    def compile_or_load(kernel: Any, signature: Any) -> Any:
        module = kernel.py_func.__code__.co_filename
        # Threads wait for the lock of the compiler before that of a file, or two would wait for each other.
        with global_compiler_lock:
            if module in locked or not module.startswith(PACKAGE):
                return compile_here(kernel, signature)
            with Path(module).open() as file:
                for _ in range(TRIES):
                    with suppress(BlockingIOError):
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    time.sleep(0.1)
                locked.add(module)
                try:
                    return compile_here(kernel, signature)
                finally:
                    locked.discard(module)

    Dispatcher.compile = compile_or_load
