"""The lock of a workspace, which allows a single writer and is taken over when its owner is gone.

There are two tests of whether the owner is gone, and neither compares the clocks of two machines:

- If the owner ran under the same kernel and in the same process namespace as the process that asks, its
  process number and start time decide. Host names are not used: two containers may share one, and a machine
  may change its own.
- Otherwise its heartbeat decides: a small file beside the lock, which a thread of the owner rewrites every
  `BEAT_SECONDS`. A process that wants the lock watches this file, and takes the lock over if the heartbeat
  has not changed during `STALE_SECONDS` of watching.

A run that was only paused may resume after that. The owner, and each of its workers, therefore reads the lock again
before it writes or removes anything (in an object store unless it read the lock within the last second), and stops if
it no longer owns the lock (`Folder.check`). What is left is the one file that a process was about to rename, or the
one folder that it was about to remove, when it was paused.

A lock that cannot be read belongs to nobody, because no run finds its token in it: a power cut has emptied it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import psutil

from distembed.storage.folder import Folder
from distembed.storage.records import LOCK_FILE, RECORD_BYTES, LockedError, OutsideError, canonical_json
from distembed.urls import NoFileError

ATTEMPTS = 5
"""Times the lock is asked for while others take over the same dead one."""
BEAT_SECONDS = 10.0
"""Time from one heartbeat to the next."""
STALE_SECONDS = 120.0
"""Time of watching after which a still heartbeat means that its run is gone. It must be well above the 60
seconds for which a client of NFS may go on showing an old file, and above the longest time for which a busy
interpreter keeps a thread waiting."""
SEEN_SECONDS = 1.0
"""Time for which the lock of an object store is not read again: it takes a request, and is not taken over before
`STALE_SECONDS` without a heartbeat."""
POLL_SECONDS = 1.0
"""Time between two looks at a heartbeat."""
ENDED = -1.0
"""Start of a process that has ended and waits for its parent to notice."""
NOBODY = {"token": ""}
"""The owner of a lock that cannot be read."""
_TOKEN = re.compile(r"[0-9a-f]{32}")


class Lock:
    """The lock of a workspace that a run holds; in the process that took it a thread writes its heartbeat."""

    def __init__(self, folder: Folder, token: str, *, beats: bool = False) -> None:
        self.folder, self.token, self._seen = folder, token, -math.inf
        self._released = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="distembed-heartbeat", daemon=True)
        if beats:
            self._beats.start()

    def __reduce__(self) -> tuple[type[Lock], tuple[Folder, str]]:
        """Return what a worker gets of it."""
        return Lock, (self.folder, self.token)

    def __call__(self) -> None:
        """Check that this process has not released the lock, and that the run still owns it.

        Raises
        ------
        PermissionError
            If this process has released it.
        LockedError
            If another run has taken it over, or it was removed.
        """
        if self._released.is_set():
            refuse_to_write(self.folder.url)
        if not self.folder.is_local and time.monotonic() - self._seen < SEEN_SECONDS:
            return
        if not self.is_ours():
            owner = owner_of(self.folder)
            by = f"was taken over by {owner}" if owner else "is gone"
            raise LockedError(
                f"The lock of {self.folder.url} {by}: this run stops here and commits nothing more. "
                "Run the same command again when no other run is writing."
            )
        self._seen = time.monotonic()

    def is_ours(self) -> bool:
        """Return whether the run still owns the lock."""
        return _read_owner(self.folder).get("token") == self.token

    def release(self) -> None:
        """Release the lock if this process still owns it."""
        self._released.set()
        self._beats.join()
        self.folder.remove(beat_file(self.token))
        if self.is_ours():
            self.folder.remove(LOCK_FILE)

    def _beat(self) -> None:
        count = 0
        while not self._released.is_set():
            # A store that does not answer is asked again at the next beat.
            with contextlib.suppress(Exception):
                if count and not self.is_ours():
                    return
                self.folder.write(beat_file(self.token), f"{count}\n".encode())
            count += 1
            self._released.wait(BEAT_SECONDS)


def refuse_to_write(url: str) -> NoReturn:
    """Refuse to write in a workspace without its lock.

    Raises
    ------
    PermissionError
        Always.
    """
    raise PermissionError(f"{url} is open for reading only: open it with Workspace.create to write.")


def acquire(folder: Folder, job: str, *, watching: Callable[[str], None] | None = None) -> Lock:
    """Acquire the lock of a workspace.

    Parameters
    ----------
    folder : Folder
        The workspace.
    job : str
        The name of the run, shown to other processes that find the workspace locked.
    watching : callable, optional
        A function called with a sentence before the heartbeat of a remote owner is watched, which takes up to
        `STALE_SECONDS`.

    Raises
    ------
    LockedError
        If a living process holds the lock; the message names it and the remedy.
    """
    token, user = uuid.uuid4().hex, "unknown"
    with contextlib.suppress(KeyError, psutil.Error):
        user = psutil.Process().username()
    mine = {
        "host": socket.gethostname(),
        "kernel": _kernel(),
        "pid": os.getpid(),
        "started": _start_of(os.getpid()),
        "user": user,
        "job": job,
        "since": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "token": token,
    }
    for _ in range(ATTEMPTS):
        try:
            folder.create(LOCK_FILE, canonical_json(mine))
        except FileExistsError:
            _clear_or_refuse(folder, watching)
        else:
            return Lock(folder, token, beats=True)
    raise LockedError(f"Several runs ask for {folder.path(LOCK_FILE)} at once: run again.")


def owner_of(folder: Folder) -> str:
    """Return a description of the run that is writing the workspace; "" if there is none."""
    owner = _read_owner(folder)
    return _who(owner) if owner and _runs(owner) is not False else ""


def beat_file(token: str) -> str:
    """Return the name of the heartbeat file of the run with this token."""
    return f"lock-{token}.beat"


def is_beat_file(name: str) -> bool:
    """Return whether a file of a workspace is a heartbeat file."""
    return name.startswith("lock-") and name.endswith(".beat")


def _kernel() -> str:
    """Return an identifier that processes share if they can see each other: kernel boot and process namespace."""
    if sys.platform != "linux":  # elsewhere a machine is one space of processes
        return f"{socket.gethostname()} {sys.platform}"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # a sandbox that does not tell: equal to no other, so that the heartbeat decides
        return f"unknown {uuid.uuid4().hex}"


def _start_of(pid: int) -> float | None:
    """Return the start time of a process, in ticks since the boot where available; None if it is not known."""
    if not Path("/proc/self/stat").exists():
        with contextlib.suppress(psutil.Error):
            return float(psutil.Process(pid).create_time())
        return None
    if Path("/proc/self").readlink().name != str(os.getpid()) and pid != os.getpid():
        return None  # this /proc is that of another namespace, with other numbers
    with contextlib.suppress(OSError, IndexError, ValueError):
        place = "self" if pid == os.getpid() else str(pid)
        state, *fields = Path(f"/proc/{place}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return ENDED if state == "Z" else float(fields[18])
    return None


def _runs(owner: dict[str, Any]) -> bool | None:
    """Return whether the owner's process is running; None if this process cannot see it."""
    if owner == NOBODY:
        return False
    pid, started = owner.get("pid"), owner.get("started")
    if owner.get("kernel") != _kernel() or not isinstance(pid, int) or pid < 1:
        return None
    with contextlib.suppress(PermissionError):  # it exists, and is another user's
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    now = _start_of(pid)
    if now is None or not isinstance(started, int | float):
        return None
    return abs(now - started) < 1  # a number that was given again belongs to a later start


def _read_owner(folder: Folder) -> dict[str, Any]:
    """Return the description of the owner in the lock: an empty one if there is no lock, or one that is not ours.

    A lock that cannot be read belongs to `NOBODY`.
    """
    try:
        owner = json.loads(folder.read(LOCK_FILE, most=RECORD_BYTES))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError, IsADirectoryError, NoFileError, OutsideError):
        return NOBODY
    if not isinstance(owner, dict):
        return NOBODY
    return owner if _TOKEN.fullmatch(str(owner.get("token"))) else {}  # a token names a file


def _clear_or_refuse(folder: Folder, watching: Callable[[str], None] | None) -> None:
    """Remove the lock of a run that is gone; refuse if its owner may be alive."""
    owner = _read_owner(folder)
    if owner == NOBODY:  # where there are no links, a run may have named its lock and not yet written it
        time.sleep(POLL_SECONDS)
        owner = _read_owner(folder)
    runs, token = _runs(owner), owner.get("token")
    if runs is None and token and "kernel" in owner:
        if watching is not None:
            watching(
                f"{folder.url} is locked by {_who(owner)}, which is not visible from here: watching its heartbeat; if "
                f"it does not change for {STALE_SECONDS:.0f} s, that run is gone and this one continues"
            )
        runs = _shows_life(folder, token)
    if runs is not False:
        if not folder.exists(LOCK_FILE):
            return
        remedy = f"or, if that run is gone, remove {folder.path(LOCK_FILE)} and run again"
        if "kernel" in (owner := _read_owner(folder)):
            remedy = f"a run that is gone is taken over after {STALE_SECONDS:.0f} s without a heartbeat"
        raise LockedError(f"Workspace {folder.url} is being written by {_who(owner)}: wait for it; {remedy}.")
    with _guard(folder):
        if token is not None and _read_owner(folder).get("token") == token:
            folder.remove(LOCK_FILE)
            if token:
                folder.remove(beat_file(token))


def _who(owner: dict[str, Any]) -> str:
    known = {key: owner.get(key, "unknown") for key in ("pid", "user", "host", "job", "since")}
    return "{job} (process {pid} of {user} on {host}, since {since})".format(**known)


def _shows_life(folder: Folder, token: str) -> bool:
    """Watch until a heartbeat changes or the lock changes hands; return whether that happened in time."""

    def beat() -> bytes:
        try:
            return folder.read(beat_file(token), most=RECORD_BYTES)
        except FileNotFoundError:
            return b""

    first = beat()
    # Looks are counted, not the time between two readings of a clock: this process may be paused as well.
    for _ in range(round(STALE_SECONDS / POLL_SECONDS)):
        time.sleep(POLL_SECONDS)
        if _read_owner(folder).get("token") != token or beat() != first:
            return True
    return False


@contextlib.contextmanager
def _guard(folder: Folder) -> Iterator[None]:
    """Let one process of this host at a time compare and remove a dead lock."""
    if not folder.is_local:
        yield
        return
    handle = os.open(folder.url, os.O_RDONLY)
    try:
        # A file system without flock leaves the moment's race, no more.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
