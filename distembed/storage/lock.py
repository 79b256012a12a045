"""The single writer of a workspace: a lock file with an owner, taken over when its process is gone."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psutil

from distembed.storage.files import Folder
from distembed.storage.schema import LOCK_FILE, LockedError, canonical_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ATTEMPTS = 5
"""Times the lock is asked for while others take over the same dead one."""


def acquire(folder: Folder, job: str) -> str:
    """Take the lock of a workspace and return its token.

    Raises
    ------
    LockedError
        If a living process, or one on another host, holds it. The sentence names it and the remedy.
    """
    token = uuid.uuid4().hex
    mine = canonical_json({**_me(job), "token": token})
    for _ in range(ATTEMPTS):
        try:
            folder.create(LOCK_FILE, mine)
        except FileExistsError:
            _clear_if_stale(folder)
        else:
            return token
    raise LockedError(f"Several runs ask for {folder.path(LOCK_FILE)} at once: run again.")


def release(folder: Folder, token: str) -> None:
    """Give the lock back if it is still ours."""
    with contextlib.suppress(FileNotFoundError):
        if _owner(folder).get("token") == token:
            folder.remove(LOCK_FILE)


def owner_of(folder: Folder) -> str:
    """Return who writes the workspace now, in words; "" if nobody does."""
    try:
        owner = _owner(folder)
    except FileNotFoundError:
        return ""
    if _is_dead(owner):
        return ""
    return f"{owner.get('job')} (process {owner.get('pid')} of {owner.get('user')} on {owner.get('host')})"


def _me(job: str) -> dict[str, Any]:
    process = psutil.Process()
    return {
        "host": socket.gethostname(),
        "pid": process.pid,
        "started": process.create_time(),
        "user": _user(process),
        "job": job,
        "since": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _user(process: psutil.Process) -> str:
    try:
        return str(process.username())
    except (KeyError, psutil.Error):
        return "unknown"


def _owner(folder: Folder) -> dict[str, Any]:
    try:
        owner = json.loads(folder.read(LOCK_FILE))
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _clear_if_stale(folder: Folder) -> None:
    """Remove the lock of a dead process; refuse if its owner may be alive."""
    with _guard(folder):
        try:
            owner = _owner(folder)
        except FileNotFoundError:
            return
        if not _is_dead(owner):
            raise LockedError(_refusal(folder, owner))
        folder.remove(LOCK_FILE)


@contextlib.contextmanager
def _guard(folder: Folder) -> Iterator[None]:
    """Let one process of this host at a time judge and remove a dead lock."""
    if fcntl is None or not folder.is_local:
        yield
        return
    handle = os.open(folder.root, os.O_RDONLY)
    try:
        # A file system without flock leaves the moment's race, no more.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_dead(owner: dict[str, Any]) -> bool:
    """Tell whether the owner was a process of this host that runs no more (a reused pid started later)."""
    if owner.get("host") != socket.gethostname() or not isinstance(owner.get("pid"), int):
        return False
    try:
        process = psutil.Process(owner["pid"])
        # One second: the clock that start times are derived from is coarse and may be adjusted.
        started_then = abs(process.create_time() - float(owner.get("started", 0))) < 1
        return not started_then or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def _refusal(folder: Folder, owner: dict[str, Any]) -> str:
    who = "process {pid} of {user} on {host} (job {job}, since {since})"
    known = {key: owner.get(key, "unknown") for key in ("pid", "user", "host", "job", "since")}
    return (
        f"Workspace {folder.url} is being written by {who.format(**known)}: wait for it, or, if that "
        f"run is gone, remove {folder.path(LOCK_FILE)} and run again."
    )
