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
        self.steps: dict[tuple[str, str, int, int | None], None] = {}

    def note(self, message: str) -> None:
        self.notes.append(message)

    def advance(self, task: str, done: int, total: int | None, *, unit: str = "blocks") -> None:
        self.steps[task, unit, done, total] = None

    def of(self, task: str, unit: str) -> list[tuple[int, int | None]]:
        """Return the steps of a task in order, repetitions left out."""
        return [step[2:] for step in self.steps if step[:2] == (task, unit)]


def heard(folder: Path, system: str, options: str, until: str) -> Heard:
    """Run a job on three hundred short lines until a stage is done."""
    (folder / "a.txt").write_text("\n".join(map(words_of, range(300))) + "\n")
    (folder / "job.toml").write_text(
        f'[job]\nsystem = "{system}"\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\nnumbers = true\n{options}'
    )
    reporter = Heard()
    run_stages(load_job(folder / "job.toml"), reporter=reporter, until=until)
    return reporter


def test_the_core_reports_its_passes(tmp_path):
    options = "[psdvec]\nn_components = 4\nn_iter = 3\nfirst_passes = 5\nn_passes = 2\n"
    reporter = heard(tmp_path, "psdvec", options, "core")
    assert reporter.of("core", "passes") == [(done, 9) for done in range(1, 10)]


@pytest.mark.parametrize(
    ("method", "n_starts"), [("semantic_nmf", 2), ("semantic_nmf", 1), ("spherical_kmeans", 2)]
)
def test_topics_report_starts_or_rounds(tmp_path, method, n_starts):
    """Starts of matrices in memory are fitted at once and are reported; of a single start its rounds are."""
    options = f'[topics]\nmethod = "{method}"\nn_topics = 3\nn_starts = {n_starts}\nmax_iter = 12\n'
    reporter = heard(tmp_path, "topics", f'{options}[vocabulary]\nstop_words = "none"\n', "topics")
    rounds = [(number, 12) for number in range(1, 13)] if n_starts == 1 else []
    assert reporter.of(method, "rounds") == rounds
    assert reporter.of(method, "starts") == [(2, 2)] * (n_starts == 2)


def test_the_report_is_a_stage_that_is_heard_of(tiny):
    (tiny / "w" / "report" / "index.html").unlink()
    reporter = Heard()
    run_stages(load_job(tiny / "job.toml"), reporter=reporter)
    assert reporter.notes[-2] == "report: drawing the figures and tables"
    assert reporter.notes[-1].split()[0] == "report"


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """Return the time of the reporters, which passes as it is set."""
    now = [0.0]
    monkeypatch.setattr("distembed.job.progress.time.monotonic", lambda: now[0])
    return now


def lines_of(stream: io.StringIO) -> list[str]:
    """Return the lines of a log without the times that they begin with."""
    lines = stream.getvalue().splitlines()
    found = [re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (.*)", line) for line in lines]
    assert all(found)
    return [each[1] for each in found if each]


def test_plain_lines_grow_rarer(clock):
    stream = io.StringIO()
    reporter = TerminalReporter(Console(file=stream, force_terminal=False))
    for second in range(3600):
        clock[0] = float(second)
        reporter.advance("core", second + 100, 3700, unit="passes")
        reporter.advance("fit", second, None, unit="rounds")
    lines = lines_of(stream)
    assert lines[:2] == ["  core: 110 of 3,700 passes", "  fit: 10 rounds"]
    assert 60 < len(lines) < 160


def test_units_of_one_stage_are_counted_apart(clock):
    stream = io.StringIO()
    reporter = TerminalReporter(Console(file=stream, force_terminal=False))
    for clock[0], done, unit in [(0, 1, "sweeps"), (50, 1, "blocks"), (55, 2, "blocks"), (61, 3, "blocks")]:
        reporter.advance("graph", done, 5, unit=unit)
    assert lines_of(stream) == ["  graph: 3 of 5 blocks"]


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_each():
    reporter = Heard()
    with warnings_noted(reporter):
        warnings.warn("Sending large graph of size 1 GiB.\nThis may\n cause", stacklevel=1)
    assert reporter.notes == ["warning: Sending large graph of size 1 GiB. This may cause"]
