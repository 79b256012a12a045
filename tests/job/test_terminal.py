"""What reaches a terminal: nothing that steers it, whatever words, titles and file names hold."""

from __future__ import annotations

import ast
import io
import os
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
from tests.commands import run, succeed
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
    everything = list(map(chr, range(sys.maxunicode + 1)))
    unsafe = {
        c
        for c in everything
        if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(c) in OVERRIDES
        or c in "\u061c\u200e\u200f\ufffe\uffff"  # the last two make a figure no XML
    }
    assert {c for c in everything if terminal.shown(c) != c} == unsafe
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


def test_a_table_of_scores_has_a_line_for_each_set(tmp_path):
    files, sets = [tmp_path / "v\x1b\n.txt", tmp_path / "w\n.txt"], tmp_path / "set\x1b\n.tsv"
    sets.write_text("".join(f"w{i}\tw{i + 1}\t{i}\n" for i in range(29)))
    for file in files:
        vectors = np.random.default_rng(0).normal(size=(30, 3))
        de.WordVectors([f"w{i}" for i in range(30)], vectors).save(file)
    for chosen in (files[:1], files):
        done = succeed("evaluate", *chosen, "--sets", sets)
        assert r"set\x1b\n" in done.output
        assert done.output.count("\n") == 3


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
