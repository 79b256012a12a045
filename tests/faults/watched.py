"""The command line in a process that writes down the files that it makes, or dies before it makes one of them."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any


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


def main() -> None:
    """Run a command after two words: the file for what it makes, and `FIRST:N` or "".

    Given `FIRST:N` the process kills itself before the N-th file gets its name, counted from the file FIRST on.
    """
    log, point = sys.argv[1:3]
    del sys.argv[1:3]
    first, _, number = point.rpartition(":")
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        how, path = made(event, arguments)
        if not path:
            return
        if first and how == "named" and (count or path == first):
            count += 1
            if count == int(number):
                os.kill(os.getpid(), signal.SIGKILL)
        os.write(notes, f"{how} {path}\n".encode())

    command = importlib.import_module("distembed.cli.main")
    sys.addaudithook(watch)
    command.main()
