"""The memory that a command takes from the C library: one heap for all threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import environment

HEAPS = """
import ctypes, sys, threading
import distembed.cli.main
import numpy as np
threads = [threading.Thread(target=np.ones, args=(50_000 + i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps(tmp_path: Path, **variables: str) -> int:
    """Return how many heaps of glibc a process has that has loaded all commands and run four threads."""
    env = {name: value for name, value in environment().items() if name != "MALLOC_ARENA_MAX"} | variables
    subprocess.run([sys.executable, "-c", HEAPS, str(tmp_path / "heaps")], env=env, timeout=300, check=True)
    return (tmp_path / "heaps").read_text().count("<heap nr")


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", {}), reason="needs glibc")
def test_the_threads_of_a_command_share_one_heap_unless_the_environment_says_otherwise(
    tmp_path: Path,
) -> None:
    assert heaps(tmp_path) == 1
    assert heaps(tmp_path, MALLOC_ARENA_MAX="8") > 1
