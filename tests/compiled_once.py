"""Compile each kernel once for all processes of the suite: while one compiles it, the others wait, and then load it.

numba keeps a compiled kernel on disk, but nothing keeps two processes from compiling it at the same time, which all of
pytest-xdist's workers did at the start of a suite on a fresh checkout.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

PACKAGE = str(Path(__file__).resolve().parents[1] / "distembed")

TRIES = 600
"""Tenths of a second that a process waits for the one that compiles, which may have been stopped; then both compile."""


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
