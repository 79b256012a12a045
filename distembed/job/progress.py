"""The display of a running job: bars with an ETA on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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

from distembed.display import format_seconds
from distembed.job.terminal import shown, write

PLAIN_LINE_SECONDS, MOST_LINE_SECONDS = 10.0, 60.0


class Reporter(Protocol):
    """Receives the events of a run; a library stays silent, the command line prints."""

    def note(self, message: str) -> None:
        """Show one fact."""

    def advance(self, task: str, done: int, total: int | None, *, unit: str = "blocks") -> None:
        """Show that `done` of `total` blocks, rounds or the like of `task` are finished; None is an unknown number."""

    def close(self) -> None:
        """Remove the display."""


class Silent:
    """A reporter that displays nothing."""

    def note(self, message: str) -> None:
        """Ignore a fact."""

    def advance(self, task: str, done: int, total: int | None, *, unit: str = "blocks") -> None:
        """Ignore progress."""

    def close(self) -> None:
        """Do nothing, since nothing is displayed."""


@contextmanager
def warnings_noted(reporter: Reporter) -> Iterator[None]:
    """Show the warnings of this package and of the libraries as a line each, without the place in their source."""

    def note(message: Warning | str, *_: object, **__: object) -> None:
        reporter.note(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = note
        yield


class TerminalReporter:
    """Bars with elapsed time and ETA on a terminal; on anything else plain lines, the longer it takes the fewer."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._tasks: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._began: dict[
            str, tuple[float, int]
        ] = {}  # when each task was first heard of, and how far it was

    def note(self, message: str) -> None:
        """Print one line."""
        if self._bars is None:
            write(shown(message), file=self._console.file)
        else:
            self._console.print(shown(message), highlight=False, markup=False)

    def advance(self, task: str, done: int, total: int | None, *, unit: str = "blocks") -> None:
        """Move the bar of `task`, or print a line when the last is old enough."""
        if self._console.is_terminal:
            self._move_bar(task if unit == "blocks" else f"{task}, {unit}", done, total)
        else:
            self._print_line(task, done, total, unit)

    def close(self) -> None:
        """Remove the bars."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._tasks.clear()

    def _move_bar(self, task: str, done: int, total: int | None) -> None:
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

    def _print_line(self, task: str, done: int, total: int | None, unit: str) -> None:
        now, name = time.monotonic(), f"{task} {unit}"
        began, first = self._began.setdefault(name, (now, done))
        if done < first:  # it begins again
            began, first = self._began[name] = (now, done)
        if done == total or now - self._last.setdefault(name, now) < line_seconds(now - began):
            return
        self._last[name] = now
        if total is None:
            self.note(f"  {task}: {done:,} {unit}")
            return
        seconds = (now - began) / (done - first) * (total - done) if done > first else None
        left = "" if seconds is None else f", about {_rounded(seconds)} left"
        self.note(f"  {task}: {done:,} of {total:,} {unit}{left}")


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else format_seconds(seconds)


def line_seconds(elapsed: float) -> float:
    """Return how long after one plain line of a task the next may come: a tenth of what has passed, 10 to 60 s."""
    return min(max(PLAIN_LINE_SECONDS, elapsed / 10), MOST_LINE_SECONDS)
