"""The command line in a process that writes down the files that it makes, or dies before it makes one of them."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from distembed.job import provenance
from distembed.storage import lock


def made(event: str, arguments: tuple[Any, ...]) -> tuple[str, str]:
    """Return "named" with the file that gets its name by an event of Python's audit, or "made" with what it makes.

    What is opened for writing is made. Of any other event, and of the lock of a workspace, nothing is returned.
    """
    if event in ("os.rename", "os.link"):
        found = "named", os.fsdecode(arguments[1])
    elif event == "os.mkdir":
        found = "made", os.fsdecode(arguments[0])
    elif event == "open" and isinstance(arguments[0], str) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        found = "made", arguments[0]
    else:
        return "", ""
    return ("", "") if Path(found[1]).name.startswith("lock") else found


def be_another_version() -> None:
    own = provenance.made_with()
    provenance.made_with = lambda: {**own, "distembed": "another version"}  # type: ignore[assignment]


def be_another_machine() -> None:
    lock._kernel, lock.STALE_SECONDS = (lambda: "another machine"), 2.0


BEING = {"": lambda: None, "another version": be_another_version, "another machine": be_another_machine}


def main() -> None:
    """Run a command after three words: the file for what it makes, `FIRST:N` or "", and one of `BEING`.

    Given `FIRST:N` the process kills itself before the N-th file gets its name, counted from the file FIRST on, or from
    the start where FIRST is empty.
    """
    log, point, being = sys.argv[1:4]
    del sys.argv[1:4]
    first, _, number = point.rpartition(":")
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        how, path = made(event, arguments)
        if not path:
            return
        if point and how == "named" and (count or not first or path == first):
            count += 1
            if count == int(number):
                os.kill(os.getpid(), signal.SIGKILL)
        os.write(notes, f"{how} {path}\n".encode())

    command = importlib.import_module("distembed.cli.main")
    BEING[being]()
    sys.addaudithook(watch)
    command.main()
