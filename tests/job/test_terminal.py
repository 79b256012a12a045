"""What reaches a terminal: nothing that steers it, and rounds at a rate that can be read."""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import distembed as de
from distembed.job import terminal
from distembed.job.load import load_job
from distembed.job.progress import Reporter, TerminalReporter, warnings_noted
from distembed.job.run import run_stages
from distembed.views.report import page
from tests.commands import run
from tests.job.test_plan import words_of
from tests.processes import Process

PACKAGE = Path(de.__file__).parent
UNSAFE = {
    "\x1b[2J\x1b]0;owned\x07": r"\x1b[2J\x1b]0;owned\x07",
    "two\nlines: x 1.000": r"two\nlines: x 1.000",
    "\u202egnp.exe": r"\u202egnp.exe",
    "\x9b31m": r"\x9b31m",
    "tab\tbed": r"tab\tbed",
    "\u2066\u2028": r"\u2066\u2028",
}
"""Texts that steer a terminal, and as they are shown."""
OVERRIDES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_nothing_unsafe_is_left_and_nothing_else_is_changed():
    unsafe = {
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(c) in OVERRIDES
        or c in "\u061c\u200e\u200f\ufffe\uffff"  # the last two make a figure no XML
    }
    assert all(terminal.shown(c) != c for c in unsafe)
    safe = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if c not in unsafe)
    assert terminal.shown(safe) == safe
    assert {text: terminal.shown(text) for text in UNSAFE} == UNSAFE


@given(st.text())
def test_what_is_written_keeps_its_lines_and_fits_the_encoding(text):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n")
    terminal.write(text, file=stream)
    stream.seek(0)
    lines = stream.read().split("\n")
    assert len(lines) == text.count("\n") + 2
    assert not any(terminal.UNSAFE.search(line) for line in lines)


def test_everything_printed_passes_one_module():
    """No module but `terminal` prints; the bars of the reporter are rich's."""
    printing = {"echo", "secho", "print", "confirm", "prompt", "style"}
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if any(f"{name}(" in text for name in printing) else ():
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                found |= {(path.relative_to(PACKAGE).as_posix(), name)} if name in printing else set()
    assert found == {
        ("job/terminal.py", "echo"),
        ("job/terminal.py", "confirm"),
        ("job/progress.py", "print"),
    }


def test_words_files_and_errors_come_out_in_one_line_each(tmp_path):
    source = tmp_path / "bad\x1b[2J\n\u202e.parquet"
    de.WordVectors(["king", *UNSAFE], np.ones((7, 3)) + np.eye(7, 3)).save(source)
    near = run("neighbors", source, "king")
    assert near.exit_code == 0
    assert all(f"{word} 0.9" in near.stdout or f"{word} 0.8" in near.stdout for word in UNSAFE.values())
    absent = run("neighbors", tmp_path / "absent\x1b[2J\n.parquet", "king")
    unknown = run("neighbors", source, "\x1b[2J\nqueen")
    for output in (near.output, absent.output, unknown.output):
        assert not {"\x1b", "\u202e"} & {*output}
        assert output.count("\n") == 1


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_reporter_prints_no_raw_fact(is_terminal):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, color_system=None, soft_wrap=True)
    reporter = TerminalReporter(console)
    reporter.advance("stage [red]", 1, 2, unit="blocks")
    for text in UNSAFE:
        reporter.note(text)
    reporter.close()
    for text, shown in UNSAFE.items():
        assert shown in stream.getvalue()
        assert text not in stream.getvalue()


def test_a_question_is_one_clean_line_and_asked_only_on_a_terminal(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text) or True)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert not terminal.confirmed("Run x?")
    sys.stdin.isatty = lambda: True
    assert terminal.confirmed(f"Run {''.join(UNSAFE)}?")
    assert asked == [f"Run {''.join(UNSAFE.values())}?"]


def test_html_holds_neither_controls_nor_overrides():
    for text in UNSAFE:
        for html in (page.escaped(text), page.marked(text), page.Note("", text).html()):
            assert not page.UNSAFE.search(html)
    assert page.printable("\u05d0\u200f") == "\u05d0\u200f"  # a mark of direction is part of a Hebrew word


def write_to_nobody() -> None:
    """Write lines to a pipe that its reader has closed."""
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(reading)
    TerminalReporter(Console(soft_wrap=True)).note("a")
    terminal.write("b")
    terminal.write("done", err=True)


def test_a_reader_that_goes_away_stops_nothing():
    """As in `distembed … | head -1`: the lines nobody reads are dropped, and the work is done to its end."""
    process = Process(program=write_to_nobody, apart=True)
    _, errors = process.communicate(60)
    assert (process.returncode, errors) == (0, "done\n")


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


TOPICS = (
    '[topics]\nmethod = "{}"\nn_topics = 3\nn_starts = {}\nmax_iter = 12\n[vocabulary]\nstop_words = "none"\n'
)
PASSES = "[psdvec]\nn_components = 4\nn_iter = 3\nfirst_passes = 5\nn_passes = 2\n"


# Starts of matrices in memory are fitted at once and are reported; of a single start its rounds are.
STEPS = [
    ("psdvec", PASSES, "core", "core", {"passes": [(done, 9) for done in range(1, 10)]}),
    ("topics", TOPICS.format("nmf", 2), "topics", "nmf", {"starts": [(2, 2)], "rounds": []}),
    ("topics", TOPICS.format("nmf", 1), "topics", "nmf", {"starts": [], "rounds": [(n, 12) for n in range(1, 13)]}),
]  # fmt: skip


@pytest.mark.parametrize(("system", "options", "stage", "task", "steps"), STEPS)
def test_a_stage_reports_its_passes_starts_or_rounds(tmp_path, system, options, stage, task, steps):
    reporter = heard(tmp_path, system, options, stage)
    assert {unit: reporter.of(task, unit) for unit in steps} == steps


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
