"""The display of a running job: bars with an ETA on a terminal, plain lines elsewhere, and JSON events for programs."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from distembed.job.terminal import shown, write
from distembed.urls import public

PLAIN_LINE_SECONDS = 10.0
"""A task has its first plain line of progress after so many seconds, and the next when a tenth more has passed."""

EVENT_SECONDS = 1.0
"""A task has at most one event of its progress in so many seconds, and one of its end."""

WARNING = "warning: "
"""How a note begins that is a warning."""

Fact = str | int | float | bool | None | list[str]
"""A value of an event."""


class Reporter:
    """Receives the events of a run, and displays nothing: a library stays silent, the command line prints."""

    def note(self, message: str) -> None:
        """Show one fact."""

    def tell(self, event: str, line: str = "", **facts: Fact) -> None:  # noqa: ARG002
        """Show an event of the run: its `line` to readers, if it has one, its name and its facts to programs."""
        if line:
            self.note(line)

    def advance(self, task: str, done: int, total: int | None, *, unit: str) -> None:
        """Show that `done` of `total` blocks, rounds or the like of `task` are finished; None is an unknown number."""

    def close(self) -> None:
        """Remove the display."""


@contextmanager
def warnings_noted(reporter: Reporter) -> Iterator[None]:
    """Show the warnings of this package and of the libraries as a line each, without the place in their source."""

    def note(message: Warning | str, *_: object, **__: object) -> None:
        reporter.note(f"{WARNING}{' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = note
        yield


class QuietReporter(Reporter):
    """A reporter that displays warnings, on standard error, and nothing else."""

    def note(self, message: str) -> None:
        """Print a warning."""
        if message.startswith(WARNING):
            write(shown(message), err=True)


class EventReporter(Reporter):
    """A reporter that prints each event as a line of JSON; what is only a sentence is an event as well.

    `reference/json.md` lists the events and their facts.
    """

    def __init__(self) -> None:
        self._stage = ""
        self._last: dict[str, float] = {}

    def note(self, message: str) -> None:
        """Print a sentence as an event, `warning` or `note`."""
        is_warning = message.startswith(WARNING)
        self.tell("warning" if is_warning else "note", message=message.removeprefix(WARNING).strip())

    def tell(self, event: str, line: str = "", **facts: Fact) -> None:  # noqa: ARG002
        """Print an event with its time and its facts."""
        if event == "stage_begun":
            self._stage = str(facts["stage"])
            self._last.clear()
        safe = {name: public(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
        write(json.dumps({"event": event, "time": now_text(milliseconds=True), **safe}))

    def advance(self, task: str, done: int, total: int | None, *, unit: str) -> None:
        """Print how far a task is, unless its last event is younger than `EVENT_SECONDS`."""
        now, name = time.monotonic(), f"{task} {unit}"
        if done == total or now - self._last.get(name, -EVENT_SECONDS) >= EVENT_SECONDS:
            self._last[name] = now
            self.tell("progress", stage=self._stage, task=task, done=done, total=total, unit=unit)


class TerminalReporter(Reporter):
    """Bars with elapsed time and ETA on a terminal; on anything else plain lines, the longer it takes the fewer.

    Such lines begin with the time.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._tasks: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._began: dict[str, float] = {}

    def note(self, message: str) -> None:
        """Print one line."""
        if not self._console.is_terminal:
            message = f"{now_text()} {message}"
        if self._bars is None:
            write(shown(message), file=self._console.file)
        else:
            self._console.print(shown(message), highlight=False, markup=False)

    def advance(self, task: str, done: int, total: int | None, *, unit: str) -> None:
        """Move the bar of `task`, or print a line when the last is old enough."""
        if not self._console.is_terminal:
            now, name = time.monotonic(), f"{task} {unit}"
            began, last = self._began.setdefault(name, now), self._last.setdefault(name, now)
            if done != total and now - last >= max(PLAIN_LINE_SECONDS, (now - began) / 10):
                self._last[name] = now
                self.note(f"  {task}: {done:,}{'' if total is None else f' of {total:,}'} {unit}")
            return
        task = f"{task}, {unit}"
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

    def close(self) -> None:
        """Remove the bars."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._tasks.clear()


def now_text(*, milliseconds: bool = False) -> str:
    """Return the time of now in UTC, as ISO 8601 writes it."""
    text = datetime.now(UTC).isoformat(timespec="milliseconds" if milliseconds else "seconds")
    return text.replace("+00:00", "Z")
