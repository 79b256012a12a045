"""The memory that this process may use, and the heaps from which the C library gives it to threads."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

MEMORY_SHARE = 0.75
"""The share of a machine's memory that a run may use: the rest is the system's, which keeps files in it."""

CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux says which memory a container, a batch job or a unit of systemd may use."""

OWN_CGROUPS = Path("/proc/self/cgroup")
"""Where Linux says to which of them this process belongs."""

M_ARENA_MAX = -8
"""What `mallopt` of glibc calls the number of its heaps (malloc.h)."""


def share_one_heap() -> None:
    """Let all threads of this process that are yet to start take their memory from the heaps that there are.

    By default each thread has a heap of its own, of which less is returned: after the core of 80,000 words at 300
    dimensions on two threads 715 MiB stayed resident, and with one heap 442 MiB. The threads of NumPy and Arrow have
    heaps as soon as these are imported, so that a command calls this before. What `MALLOC_ARENA_MAX` says stands.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def memory_share(n_workers: int) -> int:
    """Return the bytes of memory that each of so many workers may use by default."""
    return int(MEMORY_SHARE * memory_of_machine()) // n_workers


def memory_of_machine() -> int:
    """Return the bytes of memory that this process may use: the machine's, or those of its control group."""
    limits = [int(psutil.virtual_memory().total)]
    with suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            root, name = (
                (CGROUPS / "memory", "memory.limit_in_bytes") if controllers else (CGROUPS, "memory.max")
            )
            group = root / place.lstrip("/")
            for folder in (group, *group.parents):  # a container sees its own group as the root
                with suppress(OSError, ValueError):  # "max" is no number
                    limits.append(int((folder / name).read_text()))
    return min(limits)
