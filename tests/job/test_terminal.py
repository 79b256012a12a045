"""What reaches a terminal: nothing that steers it, whatever words, titles and file names hold."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import distembed as de
from distembed.job import terminal
from distembed.job.progress import TerminalReporter
from distembed.views.report import page
from tests.commands import environment, run, succeed

PACKAGE = Path(de.__file__).parent
BAD = [
    "\x1b[2J\x1b]0;owned\x07",
    "two\nlines: x 1.000",
    "\u202egnp.exe",
    "\x9b31m",
    "tab\tbed",
    "\u2066\u2028",
]
SHOWN = [
    r"\x1b[2J\x1b]0;owned\x07",
    r"two\nlines: x 1.000",
    r"\u202egnp.exe",
    r"\x9b31m",
    r"tab\tbed",
    r"\u2066\u2028",
]


def test_nothing_unsafe_is_left_and_nothing_else_is_changed():
    everything = list(map(chr, range(sys.maxunicode + 1)))
    unsafe = {
        c
        for c in everything
        if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(c) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        or c in "\u061c\u200e\u200f\ufffe\uffff"  # the last two make a figure no XML
    }
    assert {c for c in everything if terminal.shown(c) != c} == unsafe
    assert [terminal.shown(text) for text in BAD] == SHOWN


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
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in printing:
                    found.add((path.relative_to(PACKAGE).as_posix(), name))
    assert found == {
        ("job/terminal.py", "echo"),
        ("job/terminal.py", "confirm"),
        ("job/progress.py", "print"),
    }


def test_words_files_and_errors_come_out_in_one_line_each(tmp_path):
    source = tmp_path / "bad\x1b[2J\n\u202e.parquet"
    de.WordVectors(["king", *BAD], np.ones((7, 3)) + np.eye(7, 3)).save(source)
    near = run("neighbors", source, "king")
    assert near.exit_code == 0
    assert near.stdout.count("\n") == 1
    assert all(f"{word} 0.9" in near.stdout or f"{word} 0.8" in near.stdout for word in SHOWN)
    absent = run("neighbors", tmp_path / "absent\x1b[2J\n.parquet", "king")
    unknown = run("neighbors", source, "\x1b[2J\nqueen")
    for output in (near.output, absent.output, unknown.output):
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert output.count("\n") == 1


def test_a_table_of_scores_has_a_line_for_each_set(tmp_path):
    files, sets = [tmp_path / "v\x1b\n.txt", tmp_path / "w\n.txt"], tmp_path / "set\x1b\n.tsv"
    sets.write_text("".join(f"w{i}\tw{i + 1}\t{i}\n" for i in range(29)))
    for file in files:
        words = [f"w{i}" for i in range(30)]
        de.WordVectors(words, np.random.default_rng(0).normal(size=(30, 3))).save(file)
    for chosen in (files[:1], files):
        done = succeed("evaluate", *chosen, "--sets", sets)
        assert r"set\x1b\n" in done.output
        assert done.output.count("\n") == 3


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_reporter_prints_no_raw_fact(is_terminal):
    stream = io.StringIO()
    reporter = TerminalReporter(
        Console(file=stream, force_terminal=is_terminal, color_system=None, soft_wrap=True)
    )
    reporter.advance("stage [red]", 1, 2, unit="blocks")
    for text in BAD:
        reporter.note(text)
    reporter.close()
    assert all(text in stream.getvalue() for text in SHOWN)
    assert not any(text in stream.getvalue() for text in BAD)


def test_a_question_is_one_clean_line_and_asked_only_on_a_terminal(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text) or True)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert not terminal.confirmed("Run x?")
    sys.stdin.isatty = lambda: True
    assert terminal.confirmed(f"Run {BAD[0]}{BAD[1]}?")
    assert asked == [f"Run {SHOWN[0]}{SHOWN[1]}?"]


def test_html_holds_neither_controls_nor_overrides():
    for text in BAD:
        for html in (page.escaped(text), page.marked(text), page.Note("", text).html()):
            assert not page.UNSAFE.search(html)
    assert page.printable("\u05d0\u200f") == "\u05d0\u200f"  # a mark of direction is part of a Hebrew word


def test_a_reader_that_goes_away_stops_nothing(tmp_path):
    """As in `distembed … | head -1`: the lines nobody reads are dropped, and the work is done to its end."""
    program = (
        "import sys, time\nfrom rich.console import Console\n"
        "from distembed.job.progress import TerminalReporter\n"
        "from distembed.job.terminal import write\n"
        "sys.stdin.read()\n"  # until the other side has closed the pipe
        "TerminalReporter(Console(soft_wrap=True)).note('a')\nwrite('b')\nwrite('done', err=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "done\n")
