"""How an interrupt ends the program, whatever it breaks: this module imports next to nothing."""

from __future__ import annotations

import os
import sys

STOPPED, STOPPED_TEXT = 3, "stopped; nothing finished is lost, run the same command again to go on"
"""The exit code after an interrupt, and the sentence."""


def end_stopped() -> None:
    """End this process after an interrupt, at once: what would run at its end may wait for what the interrupt broke."""
    import signal  # noqa: PLC0415 - these take some of the time in which nothing answers an interrupt
    import threading  # noqa: PLC0415

    if threading.current_thread() is threading.main_thread():  # another thread may not
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(sys.stderr.fileno(), f"distembed: {STOPPED_TEXT}\n".encode())
    os._exit(STOPPED)
