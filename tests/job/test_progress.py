"""What a person sees while a stage runs: rounds that finish, at a rate that can be read."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path

import pytest
from rich.console import Console

from distembed.job.load import load_job
from distembed.job.progress import Reporter, TerminalReporter, warnings_noted
from distembed.job.run import run_stages
from tests.job.test_plan import words_of


class Heard(Reporter):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[str, int, int | None, str]] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def advance(self, task: str, done: int, total: int | None, *, unit: str = "blocks") -> None:
        self.steps.append((task, done, total, unit))

    def of(self, task: str, unit: str) -> list[tuple[int, int | None]]:
        """Return the steps of a task, repetitions left out."""
        found = [step[1:3] for step in self.steps if step[0] == task and step[3] == unit]
        return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a text of three hundred short lines."""
    path = tmp_path_factory.mktemp("progress") / "a.txt"
    path.write_text("\n".join(map(words_of, range(300))) + "\n")
    return path


def heard(text: Path, folder: Path, sections: str, *, until: str | None = None) -> Heard:
    (folder / "job.toml").write_text(f'[corpus]\npaths = ["{text}"]\nnumbers = true\n{sections}')
    reporter = Heard()
    run_stages(load_job(folder / "job.toml"), reporter=reporter, until=until)
    return reporter


def test_the_core_reports_its_passes(text: Path, tmp_path: Path) -> None:
    options = "[psdvec]\nn_components = 4\nn_iter = 3\nfirst_passes = 5\nn_passes = 2\n"
    reporter = heard(text, tmp_path, f'[job]\nworkspace = "w"\n{options}', until="core")
    assert reporter.of("core", "passes") == [(done, 9) for done in range(1, 10)]


@pytest.mark.parametrize(
    ("method", "n_starts", "until"),
    [("semantic_nmf", 2, "topics"), ("semantic_nmf", 1, "topics"), ("spherical_kmeans", 2, None)],
)
def test_topics_report_starts_or_rounds_and_their_report(
    text: Path, tmp_path: Path, method: str, n_starts: int, until: str | None
) -> None:
    """Starts of matrices in memory are fitted at once and are reported; of a single start its rounds are."""
    options = f'method = "{method}"\nn_topics = 3\nn_starts = {n_starts}\nmax_iter = 12'
    reporter = heard(
        text,
        tmp_path,
        f'[job]\nsystem = "topics"\nworkspace = "w"\n[vocabulary]\nstop_words = "none"\n[topics]\n{options}\n',
        until=until,
    )
    rounds = [(number, 12) for number in range(1, 13)] if n_starts == 1 else []
    assert reporter.of(method, "rounds") == rounds
    assert reporter.of(method, "starts") == [(2, 2)] * (n_starts == 2)
    if until is None:
        assert reporter.notes[-2] == "report: drawing the figures and tables"
        assert reporter.notes[-1].split()[0] == "report"


def reporter_at(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> tuple[TerminalReporter, io.StringIO]:
    monkeypatch.setattr("distembed.job.progress.time.monotonic", lambda: clock[0])
    stream = io.StringIO()
    return TerminalReporter(Console(file=stream, force_terminal=False)), stream


def lines_of(stream: io.StringIO) -> list[str]:
    """Return the lines of a log without the times that they begin with."""
    found = [
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (.*)", line) for line in stream.getvalue().splitlines()
    ]
    assert all(found)
    return [each[1] for each in found if each]


def test_plain_lines_grow_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    reporter, stream = reporter_at(clock, monkeypatch)
    for second in range(3600):
        clock[0] = float(second)
        reporter.advance("core", second + 100, 3700, unit="passes")
        reporter.advance("fit", second, None, unit="rounds")
    lines = lines_of(stream)
    assert lines[:2] == ["  core: 110 of 3,700 passes", "  fit: 10 rounds"]
    assert 60 < len(lines) < 160


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_each() -> None:
    reporter = Heard()
    with warnings_noted(reporter):
        warnings.warn("Sending large graph of size 1 GiB.\nThis may\n cause", stacklevel=1)
    assert reporter.notes == ["warning: Sending large graph of size 1 GiB. This may cause"]


def test_units_of_one_stage_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    reporter, stream = reporter_at(clock, monkeypatch)
    for clock[0], done, unit in [(0, 1, "sweeps"), (50, 1, "blocks"), (55, 2, "blocks"), (61, 3, "blocks")]:
        reporter.advance("graph", done, 5, unit=unit)
    assert lines_of(stream) == ["  graph: 3 of 5 blocks"]
