"""Figures as files: those of a report, the same bytes for the same input."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.stages.words import content_words, words_shown
from distembed.views import report
from distembed.views.report import figures, maps
from distembed.views.report.figures import save_figure
from tests.commands import run, succeed

pytestmark = pytest.mark.usefixtures("drawn_figures")

BEGINNINGS = {"pdf": b"%PDF-1.", "svg": b"<?xml", "png": b"\x89PNG"}
RARE = "ᴥ"  # which DejaVu Serif has, and DejaVu Sans has not


def test_a_report_writes_each_of_its_figures(tiny: Path, tmp_path: Path) -> None:
    """They name the version and the digest of what they were made from."""
    done = succeed("report", tiny / "w", "--figures", tmp_path / "f", "--format", "pdf")
    assert done.output.endswith(f" figures in {tmp_path / 'f'}\n")
    files = sorted((tmp_path / "f").iterdir())
    page = (tiny / "w/report/index.html").read_text(encoding="utf-8")
    assert len(files) == page.count("<figure>") > 2
    assert files[0].name == "01-map-of-frequent-content-words.pdf"
    for data in (file.read_bytes() for file in files):
        assert all(word.encode() in data for word in (de.__version__, de.Workspace.open(tiny / "w").digest()))


@pytest.mark.parametrize("form", list(BEGINNINGS))
def test_equal_drawings_give_equal_bytes_without_a_date(tmp_path: Path, form: str) -> None:
    written = []
    for number in range(2):
        save_figure(f"{tmp_path}/{number}.{form}", lambda axes: axes.plot([1, 2]), origin="a job")
        written.append((tmp_path / f"{number}.{form}").read_bytes())
    assert written[0] == written[1]
    assert written[0].startswith(BEGINNINGS[form])
    assert b"a job" in written[0]
    assert not any(mark in written[0] for mark in (b"Date", b"date", b"Matplotlib v", b"Creator"))


def test_figures_stay_out_of_workspaces(tiny: Path) -> None:
    for folder in (tiny / "w", tiny / "w/figures"):
        done = run("report", tiny / "w", "--figures", folder)
        assert (done.exit_code, "which holds only what its job makes" in done.output) == (2, True)
    assert not (tiny / "w/figures").exists()
    done = run("report", tiny / "w", "--figures", tiny / "f", "--format", "pfd")
    assert (done.exit_code, (tiny / "f").exists()) == (2, False)


def test_the_report_names_what_it_was_made_from(tiny: Path) -> None:
    page = (tiny / "w/report/index.html").read_text(encoding="utf-8")
    found = page[page.index("<h2>Version and files</h2>") :]
    manifest = de.Workspace.open(tiny / "w").stages()["tokens"]
    assert manifest.made_with["distembed"] in found
    ((name, stamp),) = next(iter(manifest.parameters["files"].values())).items()
    assert name in found
    assert stamp[-1].removeprefix("content ") in found


def test_a_character_is_drawn_in_a_font_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matplotlib warns where no font has it, but of an SVG, whose reader brings the fonts."""

    def draw(axes: Any) -> None:
        axes.set_title(RARE)

    save_figure(f"{tmp_path}/a.svg", draw)
    assert RARE in (tmp_path / "a.svg").read_text(encoding="utf-8")
    monkeypatch.setattr(figures, "_OTHER_SCRIPTS", ("No Such Font",))
    with pytest.warns(UserWarning, match="Glyph 7461 .* missing"):
        save_figure(f"{tmp_path}/boxes.pdf", draw)
    monkeypatch.setattr(figures, "_OTHER_SCRIPTS", ("DejaVu Serif",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(f"{tmp_path}/a.pdf", draw)
    assert b"DejaVuSerif" in (tmp_path / "a.pdf").read_bytes()


def test_the_words_shown_are_those_named_else_content_words():
    words = ["the", "und", "of", "sea", "ship", "captain"]
    assert words_shown(["ship", "kraken", "ship"], words, frozenset()) == ["ship"]
    assert words_shown(["kraken"], words, frozenset({"und"})) == ["sea", "ship", "captain"]
    assert words_shown([], ["the", "of"], frozenset()) == ["the", "of"]
    assert content_words(["The", "of", "und", "Haus", "a"], frozenset({"und"})) == ["Haus"]


def test_labels_cover_neither_points_nor_one_another() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 300, (80, 2))
    spots = maps._thin_labels(points, ["a label"] * 80, np.array([400.0, 400.0]), np.empty((0, 4)))
    boxes = np.array([maps._box(spot) for spot in spots])
    assert len(spots) > 40
    for x, y in points:
        inside = (boxes[:, :2] < [x, y]).all(axis=1) & (boxes[:, 2:] > [x, y]).all(axis=1)
        assert not inside.any()
    assert not any(maps._covers(np.delete(boxes, i, axis=0), box) for i, box in enumerate(boxes))


def test_the_key_stands_below_the_points_and_a_title_once() -> None:
    points = np.random.default_rng(0).uniform(0, 1, (60, 2))
    (_, height), placed, spots = maps._place(points, ["emma", "persuasion", *[""] * 58], 7)
    below = height - maps._place(points, [""] * 60, 0)[0][1]
    assert below > 40
    assert placed[:, 1].min() > below
    assert all(maps._box(spot)[1] >= below for spot in spots)
    assert sorted(spot.text for spot in spots) == ["emma", "persuasion"]
    (section,) = report.word_maps(["emma", "persuasion"] * 30, points, {"Books": None})
    assert section.html.count(">emma</text>") == 1
