"""What a person sees while a job runs: bars with an ETA on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from distembed.pipeline.terminal import shown, write

PLAIN_LINE_SECONDS = 10.0


class Reporter(Protocol):
    """Receives what happens in a run; a library stays silent, the command line prints."""

    def note(self, message: str) -> None:
        """Show one fact."""

    def advance(self, task: str, done: int, total: int) -> None:
        """Show that `done` of `total` blocks of `task` are finished."""

    def close(self) -> None:
        """Take down what is on the screen."""


class Silent:
    """A reporter that says nothing."""

    def note(self, message: str) -> None:
        """Ignore a fact."""

    def advance(self, task: str, done: int, total: int) -> None:
        """Ignore progress."""

    def close(self) -> None:
        """Have nothing to take down."""


class TerminalReporter:
    """Bars with elapsed time and ETA on a terminal; on anything else a plain line every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._tasks: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._began: dict[str, float] = {}

    def note(self, message: str) -> None:
        """Print one line."""
        if self._bars is None:
            write(shown(message), file=self._console.file)
        else:
            self._console.print(shown(message), highlight=False, markup=False)

    def advance(self, task: str, done: int, total: int) -> None:
        """Move the bar of `task`, or print a line when the last is old enough."""
        if self._console.is_terminal:
            self._move_bar(task, done, total)
        else:
            self._print_line(task, done, total)

    def close(self) -> None:
        """Remove the bars."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._tasks.clear()

    def _move_bar(self, task: str, done: int, total: int) -> None:
        if self._bars is None:
            self._bars = Progress(
                TextColumn("  {task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bars.start()
        if task not in self._tasks:
            self._tasks[task] = self._bars.add_task(shown(task), total=total)
        self._bars.update(self._tasks[task], completed=done, total=total)  # type: ignore[arg-type]

    def _print_line(self, task: str, done: int, total: int) -> None:
        now = time.monotonic()
        began = self._began.setdefault(task, now)
        if done == total or now - self._last.setdefault(task, now) < PLAIN_LINE_SECONDS:
            return
        self._last[task] = now
        left = f", about {(now - began) / done * (total - done):.0f} s left" if done else ""
        self.note(f"  {task}: {done} of {total} blocks{left}")
