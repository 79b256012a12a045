"""The memory that this process may use, and the heaps from which the C library gives it to threads."""

from __future__ import annotations

import ctypes
import gc
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


GROWTH = 64 << 20
"""Resident bytes more than after the last search for objects that nothing uses, from which on it is worth another."""

_resident = 1 << 30
"""What was resident in this process after its last search for unused objects, or the least since.

It begins with what a process of the libraries and a small job does not reach, which needs no search.
"""


def give_memory_back() -> None:
    """Return the memory that the allocators of this process keep unused, of glibc and of Arrow, to the system.

    After a stage that held 3.3 GiB the following ones had 2.6 GiB resident that nothing used. The search for cycles of
    objects takes a fifth of a second and more, so that a process that has grown by less than `GROWTH` goes without it.
    """
    global _resident  # noqa: PLW0603
    process = psutil.Process()
    _trim_heaps()
    _resident = min(_resident, process.memory_info().rss)
    if process.memory_info().rss - _resident >= GROWTH:
        gc.collect()
        _trim_heaps()
        _resident = process.memory_info().rss


def _trim_heaps() -> None:
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
