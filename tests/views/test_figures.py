"""Figures: what they show, and as files of a report, the same bytes for the same input."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.stages.words import content_words, words_shown
from distembed.views.report import figures, maps
from distembed.views.report.figures import Figure, Mark
from distembed.views.report.sections import zipf_curve
from tests.commands import run, succeed
from tests.views.test_report import alt_text, html_of, line_chart, points, word_map

pytestmark = pytest.mark.usefixtures("drawn_figures")

BEGINNINGS = {"pdf": b"%PDF-1.", "svg": b"<?xml", "png": b"\x89PNG"}
RARE = "ᴥ"  # which DejaVu Serif has, and DejaVu Sans has not


# ---- files ----


def test_a_report_writes_each_of_its_figures_but_not_into_workspaces(tiny, tmp_path):
    """Figures and report name the version and what they were made from."""
    done = succeed("report", tiny / "w", "--figures", tmp_path / "f", "--format", "pdf")
    assert done.output.endswith(f" figures in {tmp_path / 'f'}\n")
    files = sorted((tmp_path / "f").iterdir())
    page = (tiny / "w/report/index.html").read_text(encoding="utf-8")
    assert len(files) == page.count("<figure>") > 2
    assert files[0].name == "01-map-of-frequent-content-words.pdf"
    for data in (file.read_bytes() for file in files):
        assert all(word.encode() in data for word in (de.__version__, de.Workspace.open(tiny / "w").digest()))
    for folder in (tiny / "w", tiny / "w/figures"):
        done = run("report", tiny / "w", "--figures", folder)
        assert (done.exit_code, "which holds only what its job makes" in done.output) == (2, True)
    assert not (tiny / "w/figures").exists()
    done = run("report", tiny / "w", "--figures", tiny / "f", "--format", "pfd")
    assert (done.exit_code, (tiny / "f").exists()) == (2, False)
    found = page[page.index("<h3>Version and files</h3>") :]
    manifest = de.Workspace.open(tiny / "w").stages()["tokens"]
    ((name, stamp),) = next(iter(manifest.parameters["files"].values())).items()
    assert all(
        text in found for text in (manifest.made_with["distembed"], name, stamp[-1].removeprefix("content "))
    )


@pytest.mark.parametrize("form", list(BEGINNINGS))
def test_equal_drawings_give_equal_bytes_without_a_date(tmp_path, form):
    written = []
    for number in range(2):
        path = f"{tmp_path}/{number}.{form}"
        Figure("t", lambda figure: figure.subplots().plot([1, 2]), "").save(path, origin="a job")
        written.append(Path(path).read_bytes())
    assert written[0] == written[1]
    assert written[0].startswith(BEGINNINGS[form])
    assert b"a job" in written[0]
    assert not any(mark in written[0] for mark in (b"Date", b"date", b"Matplotlib v", b"Creator"))


def test_a_character_is_drawn_in_a_font_that_has_it(tmp_path, monkeypatch):
    """Matplotlib warns where no font has it, but of an SVG, whose reader brings the fonts."""
    figure = Figure("t", lambda figure: figure.text(0, 0, RARE), "")
    figure.save(f"{tmp_path}/a.svg")
    assert RARE in (tmp_path / "a.svg").read_text(encoding="utf-8")
    monkeypatch.setattr(figures, "_OTHER_SCRIPTS", ("No Such Font",))
    with pytest.warns(UserWarning, match="Glyph 7461 .* missing"):
        figure.save(f"{tmp_path}/boxes.pdf")
    monkeypatch.setattr(figures, "_OTHER_SCRIPTS", ("DejaVu Serif",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.save(f"{tmp_path}/a.pdf")
    assert b"DejaVuSerif" in (tmp_path / "a.pdf").read_bytes()


# ---- charts ----


def test_charts_say_what_they_show():
    """The exponent of Zipf's law, the ends of a curve that is thinned, and how many values are not shown."""
    html = html_of(zipf_curve(1e9 / np.arange(20_000, 0, -1) ** 1.3))
    assert "fit, exponent 1.30" in html
    chart = line_chart({"": np.arange(100_000)})
    assert "400 points, from 0 to 99,999" in alt_text(chart)
    assert len(html_of(chart)) < 60_000
    html = html_of(figures.histogram("t", [1.0, 10.0, 0.0, np.nan], xlabel="x", x_scale="log"))
    assert "2 values, median 5.5" in html
    assert "2 values not shown" in html


def test_lines_follow_their_values():
    values = np.array([1.0, 5.0, 2.0, 4.0] + [3.0] * 60)
    colors = "|".join(figures.COLORS)
    pattern = rf'<path d="([^"]+)"[^>]*style="fill: none; stroke[^"]*: (?:{colors})'
    (path,) = re.findall(pattern, html_of(line_chart({"": values})))
    line = np.array(re.findall(r"[ML] (\S+) (\S+)", path), dtype=float)  # in units of the SVG: y grows down
    assert np.corrcoef(-line[:4, 1], values[:4])[0, 1] == pytest.approx(1)
    assert np.allclose(np.diff(line[:4, 0]), line[1, 0] - line[0, 0], rtol=1e-4)


def test_dots_of_one_name_stand_on_one_line_and_panels_share_their_axes():
    marks = [
        Mark(name, value, (0.4, 0.9), kind)
        for name in "ab"
        for kind, value in (("first", 0.5), ("second", 0.8))
    ]
    html = html_of(figures.small_multiples("t", marks, xlabel="score"))
    assert [html.count(f">{text}<") for text in ("a", "b", "first", "second", "score")] == [1, 1, 1, 1, 1]
    heights = [float(place) for place in re.findall(r'<use [^>]*\by="([\d.]+)"', html)]
    assert len(heights) == 4 + 2  # two of them in the key
    assert len(set(heights)) == 2 + 1
    marks = [
        Mark(name, value, panel=panel) for panel in ("P", "Q") for name, value in (("a", 0.5), ("b", 1.0))
    ]
    drawn = figures.small_multiples("t", marks, xlabel="share")
    assert [html_of(drawn).count(f">{text}<") for text in ("a", "b", "P", "Q", "share")] == [1, 1, 1, 1, 0]
    assert alt_text(drawn) == "t. Dots of share: P: a 0.5, b 1; Q: a 0.5, b 1"


# ---- maps ----


def test_the_words_shown_are_those_named_else_content_words():
    words = ["the", "und", "of", "sea", "ship", "captain"]
    assert words_shown(["ship", "kraken", "ship"], words, frozenset()) == ["ship"]
    assert words_shown(["kraken"], words, frozenset({"und"})) == ["sea", "ship", "captain"]
    assert words_shown([], ["the", "of"], frozenset()) == ["the", "of"]
    assert content_words(["The", "of", "und", "Haus", "a"], frozenset({"und"})) == ["Haus"]


def boxes_of(html: str) -> tuple[list[str], np.ndarray]:
    """Return the labels of a map and their boxes: left, top, right, bottom, in units of the SVG."""
    style = r'style="font-size: 9px; [^"]*text-anchor: (\w+)[^"]*"'
    found = re.findall(rf'<text {style} x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', html)
    left = {"start": 0.0, "middle": 0.5, "end": 1.0}
    widths = (
        (float(x), float(y), left[a] * 4.5 * len(t), (1 - left[a]) * 4.5 * len(t)) for a, x, y, t in found
    )
    return [one[-1] for one in found], np.array(
        [(x - before, y - 6, x + after, y) for x, y, before, after in widths]
    )


def test_labels_cover_neither_points_nor_one_another_and_the_first_words_keep_theirs():
    rng = np.random.default_rng(1)
    for n, fewest in ((500, 35), (80, 40)):
        html = html_of(word_map([f"word{i}" for i in range(n)], rng.uniform(0, 1, size=(n, 2))))
        names, boxes = boxes_of(html)
        assert names[0] == "word0"
        assert fewest < len(names) < n
        apart = boxes[:, None, :2] < boxes[None, :, 2:]
        overlap = apart.all(2) & (boxes[:, None, 2:] > boxes[None, :, :2]).all(2)
        assert np.array_equal(overlap, np.eye(len(names), dtype=bool))
    points = np.array(re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', html), float)[:, None]
    assert len(points) == 80
    assert not ((boxes[:, :2] < points) & (points < boxes[:, 2:])).all(axis=2).any()


def test_the_key_stands_below_the_points_and_a_title_once():
    points, names = np.random.default_rng(0).uniform(0, 1, (60, 2)), ["emma", "persuasion"] * 30
    html = html_of(word_map(names, points, [f"group {i % 7}" for i in range(60)]))
    texts = re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>([^<]*)</text>', html)
    key = [float(y) for y, text in texts if text.startswith("group")]
    labels = {text: float(y) for y, text in texts if not text.startswith("group")}
    assert len(key) == 7
    assert sorted(labels) == ["emma", "persuasion"]
    assert len(texts) == 7 + 2
    assert max(labels.values()) < min(key)
    assert html.count(">emma</text>") == 1
    heights = [float(y) for y in re.findall(r'<use [^>]*y="([\d.]+)"', html)]
    assert sorted(heights)[59] < min(key) - 5  # the seven lowest are those of the key


def test_small_groups_share_gray_and_many_points_are_one_picture():
    groups = [g for g in range(10) for _ in range(20 - g)]
    html = html_of(points(len(groups), groups))
    assert "3 others" in html
    assert html.count(figures.MUTED) >= sum(20 - g for g in (7, 8, 9))
    html = html_of(points(30_000))
    assert html.count("data:image/png;base64,") == 1
    assert len(html) < 600_000


def test_one_layout_is_computed_once_for_all_its_colorings(monkeypatch):
    plane, laid_out = maps.plane, list[Any]()
    monkeypatch.setattr(maps, "plane", lambda *given: laid_out.append(plane(*given)) or laid_out[-1])
    vectors = np.random.default_rng(0).normal(size=(6, 3))
    drawings = {"by sound": list("aabbcc"), "plain": None}
    by_sound, plain = maps.word_maps("Map", list("uvwxyz"), vectors, drawings).parts
    assert (by_sound.title, plain.title, len(laid_out)) == ("by sound", "plain", 1)
    (alone,) = maps.word_maps("Map", list("uvwxyz"), vectors, {"by sound": list("aabbcc")}).parts
    assert html_of(by_sound) == html_of(alone)
    assert "Across" not in html_of(plain)
    two_columns = np.random.default_rng(0).normal(size=(8, 2))
    assert "first coordinate, no unit" in html_of(word_map(list("abcdefgh"), two_columns))
