"""The report and its figures: self-contained, equal bytes, and safe with any word."""

from __future__ import annotations

import math
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed import display
from distembed.evaluation.scoring import Score
from distembed.stages.words import content_words, words_shown
from distembed.views.report import figures, maps
from distembed.views.report.figures import Figure, Mark
from distembed.views.report.page import Fold, Note, Page, Part, Section, ShownTable
from distembed.views.report.sections import (
    neighbor_table,
    objective_curve,
    score_section,
    score_table,
    zipf_curve,
)
from tests.commands import run, succeed

pytestmark = pytest.mark.usefixtures("drawn_figures")

VOID = {"meta", "wbr", "br", "img", "link", "input", "hr"}


class Outline(HTMLParser):
    """Check that elements nest, and keep their names, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


WORDS = ["the", "<b>bold</b>", "a&b", "שלום", "東京", "x" * 300, "$x^2$", "\x00\x1b", "naïve", '"quoted"']


def word_map(words: Any, vectors: Any, groups: Any = None) -> Part:
    return maps.word_maps("Map", words, vectors, {"": groups}).parts[0]


def points(n: int, groups: Any = None) -> Part:
    return word_map([""] * n, np.random.default_rng(0).normal(size=(n, 2)), groups)


def line_chart(series: Any) -> Part:
    return figures.line_chart("t", series, xlabel="x", ylabel="y")


def html_of(part: Part) -> str:
    return part.html(part.title)


def scores(*rows: tuple[Any, ...]) -> list[Score]:
    return [Score(*row[:4], 15, 19, "lower", row[4]) for row in rows]


def full_report() -> str:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(WORDS), 6))
    sections = [
        zipf_curve(np.floor(1e5 / np.arange(1, 3000))),
        objective_curve([4.0, 3.0, 2.5]),
        ShownTable(
            "Evaluation", [{"set": "men", "value": math.nan, "interval": (0.4, 0.6)}], {"interval": 3}
        ),
        neighbor_table({word: [(other, 0.5) for other in WORDS[:3]] for word in WORDS}),
        maps.word_maps("Map", WORDS, vectors, {"": None, "in groups": [len(w) for w in WORDS]}),
        figures.histogram("Degrees", rng.poisson(8, 500), xlabel="neighbors"),
        points(4000, rng.integers(0, 12, 4000).tolist()),
    ]
    return Page("A <run>", "One & two.", sections, {"words": 30000, "speed": 1.5}).html()


@pytest.fixture(scope="module")
def page():
    return full_report()


def alt_text(part: Part) -> str:
    return next(attrs["aria-label"] or "" for tag, attrs in Outline(html_of(part)).elements if tag == "svg")


def test_page_is_self_contained_and_every_reference_has_its_target(page):
    outline = Outline(page)
    assert "http" not in page.replace("http-equiv", "")
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in outline.elements}
    keys = ("src", "href", "xlink:href")
    targets = [attrs[key] or "" for _, attrs in outline.elements for key in keys if key in attrs]
    assert targets
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in targets)
    ids = [attrs["id"] for _, attrs in outline.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_equal_parts_give_equal_bytes_whatever_a_user_has_set_in_matplotlib(page):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plain = html_of(objective_curve([3.0, 2.0]))
    assert full_report() == page
    assert dict(mpl.rcParams) == before
    with mpl.rc_context({"font.size": 30, "axes.grid": False, "svg.fonttype": "path"}):
        assert html_of(objective_curve([3.0, 2.0])) == plain


def test_figures_have_alternative_text_and_words_are_text_never_markup(page):
    outline = Outline(page)
    drawn = [attrs for tag, attrs in outline.elements if tag == "svg"]
    assert len(drawn) == outline.count("figure") == 6
    assert all(attrs.get("aria-label") and attrs.get("role") == "img" for attrs in drawn)
    assert "logarithmic" not in page  # a caption does not repeat the axes
    figures = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
    assert all("fill: #ffffff" in figure and "var(" not in figure for figure in figures)
    assert "prefers-color-scheme:dark" in page
    outline = Outline(page)
    assert outline.count("b") == 0
    assert outline.texts.count("<b>bold</b>") >= 2  # in the table and on the map
    assert "$x^2$" in outline.texts
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page)
    assert "x" * 33 not in page


def test_sections_have_an_order_and_subtitles():
    """One with nothing to show never comes first; a part has a subtitle where its title is another."""
    empty = [ShownTable("Empty", []), Section("Also", [Note("", "n"), ShownTable("", [])])]
    page = Page("t", "s", [*empty, ShownTable("Full", [{"a": 1}]), neighbor_table({})]).html()
    order = [page.index(f"<h2>{title}</h2>") for title in ("Full", "Empty", "Also", "Nearest words")]
    assert order == sorted(order)
    assert Outline(Page("empty", "", []).html()).count("h1") == 1
    parts = [
        ShownTable("", [{"a": 1}]),
        ShownTable("One", [{"a": 1}]),
        Fold("more", ShownTable("", [{"a": 1}])),
    ]
    html = html_of(Section("All", parts))
    assert [html.count(text) for text in ("<h3>", "<h3>One</h3>", "<summary>more</summary>")] == [1, 1, 1]
    read = html_of(neighbor_table({"king": [["lord", 0.7105]]}))  # as JSON gives it
    assert "lord <small>0.711</small>" in read.replace("</bdi>", "")


@pytest.mark.parametrize(
    ("write", "shown"),
    [
        (
            display.format_number,
            {0: "0", -3: "−3", 1234567: "1,234,567", 0.12345: "0.1235", 1e-07: "1e−7", math.nan: "–", math.inf: "∞",
             25124.985: "25,125", 2.5e20: "2.5e20", np.float32(0.5): "0.5", np.int64(7): "7"},
        ),
        (
            display.format_bytes,
            {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1.5 * 2**30: "1.5 GiB", 2**80: "1048576.0 EiB", math.nan: "–"},
        ),
        (
            display.format_seconds,
            {0.0: "0.00 s", 9.5: "9.50 s", 59.9: "59.9 s", 59.97: "1 min 00 s", 61: "1 min 01 s", 119.9: "2 min 00 s",
             3599.9: "1 h 00 min", 7384: "2 h 03 min", math.nan: "–"},
        ),
        (display.fixed, {0.5: "0.500", -1e-9: "−0.000", math.inf: "–"}),
    ],
)  # fmt: skip
def test_numbers_are_written_for_reading(write, shown):
    assert {value: write(value) for value in shown} == shown


@pytest.mark.parametrize(
    ("rows", "formats", "cells"),
    [
        ([{"n": 1}, {"n": None}, {"n": math.nan}], {}, ["n 1", "n –", "n –"]),
        ([{"a": 1}, {"a": 2, "b": "x"}], {}, ["n 1", " –", "n 2", " x"]),
        ([{"i": (-0.04, 0.6)}, {"i": (math.nan, math.nan)}], {"i": 3}, ["n [−0.040, 0.600]", "n –"]),
        ([{"s": 5.0}, {"s": "5"}], {"s": display.format_seconds}, ["n 5.00 s", "n 5"]),
        ([{"w": [("<a>", 0.5), ("b", 1)], "o": "c"}], {}, ["near w &lt;a&gt; 0.500b 1.000", " c"]),
        ([{"w": ["d", "e"]}, {"w": []}], {}, ["near  de", "near  –"]),
    ],
)
def test_cells_are_written_by_their_kind(rows, formats, cells):
    html = html_of(ShownTable("t", rows, formats))
    found = re.findall(r'<td class="(.*?)".*?>(.*?)</td>', html)
    assert [f"{kind} {re.sub('<.*?>', '', text)}" for kind, text in found] == cells


def test_many_rows_are_folded_and_long_texts_have_a_line_of_their_own_on_narrow_screens():
    """The columns of long texts are marked, and each cell has the label that a narrow layout shows above it."""
    html = html_of(ShownTable("t", [{"a": n} for n in range(12)], n_shown=10))
    first, rest = html.split("<summary>2 rows more</summary>")
    assert (first.count("<td"), rest.count("<td")) == (10, 2)
    rows = [{"topic": 1, "words": "a text that is longer than the numbers beside it", "n": 2}]
    html = html_of(ShownTable("t", rows))
    assert '<table class="folds">' in html
    assert html.count('class="w"') == 2
    assert '<td class="n" data-l="topic">' in html  # a narrow screen shows the label above the number
    assert "folds" not in html_of(ShownTable("t", [{"topic": 1, "word": "short"}]))
    assert "content:attr(data-l)" in Page("t", "s", []).html()


# ---- scores ----

SCORES = scores(
    ("MEN", "similarity", "spearman", 0.7, (0.6, 0.8)),
    ("google", "analogy", "3CosAdd", 0.4, None),
    ("google", "analogy", "3CosMul", 0.5, None),
    ("norms", "normed priming", "S1 spearman", 0.9, None),
    ("norms", "normed priming", "S2 spearman", 0.6, None),
    ("norms", "normed priming", "S3 spearman", math.nan, None),
)
"""A set of one metric, analogies by two, and three parts, one of them not judged."""


def test_scores_are_a_line_for_a_set_with_all_behind_it_and_none_of_few_known_items():
    """One pair of 353 was known, and a report gave 1.000."""
    html = html_of(score_section(SCORES)).replace("<wbr>", "")
    first, folded = html.split("<details>")
    assert all(text in first for text in ("0.700", "0.400", "0.750", "mean of 2"))
    assert "3CosMul" not in first
    assert all(text in folded for text in ("3CosMul", "S1 spearman", "0.900"))
    assert html.index("<svg") < html.index("<table")
    assert "<details>" not in html_of(score_section(SCORES[:1]))
    few = Score("MEN", "similarity", "spearman", 1.0, 6, 353, "lower", (0.9, 1.0), composed=3)
    assert few._replace(composed=4).in_report.value == 1.0
    html = html_of(score_section([few.in_report, SCORES[1]]))
    assert "1.000" not in html
    assert all(text in html for text in (">6+3/353<", "No score is shown of fewer than 10 known items."))


def test_scores_are_a_table_of_one_candidate_or_of_several():
    lines = score_table({"a": SCORES[:2]}, "scores").lines()
    assert lines[0].split() == ["set", "task", "metric", "value", "interval", "known/total"]
    assert lines[1].split() == ["MEN", "similarity", "spearman", "0.700", "[0.600,", "0.800]", "15/19"]
    both = {"a": SCORES[:2], "b": SCORES[:2]}
    assert score_table(both).lines()[1].split()[-3:] == ["0.700", "0.700", "15/19"]
    assert score_table(both, intervals=True).lines()[1].count("0.700 [0.600, 0.800]") == 2


# ---- degenerate data ----

NOTHING: list[Part] = [
    zipf_curve([]),
    zipf_curve([0, 0]),
    objective_curve([]),
    objective_curve([math.nan]),
    figures.histogram("t", [], xlabel="x"),
    figures.histogram("t", [math.nan], xlabel="x"),
    points(0),
    word_map([], np.empty((0, 5))),
    word_map(["a"], [[math.nan, 1.0, 2.0]]),
    line_chart({}),
    ShownTable("t", []),
    score_section([]),
    neighbor_table({}),
    Section("t", []),
]


@pytest.mark.parametrize("part", NOTHING, ids=lambda part: part.title)
def test_nothing_to_show_is_said(part):
    assert part.is_empty
    assert Outline(html_of(part)).count("svg") == 0
    assert 'class="note"' in html_of(part)


LITTLE: dict[str, Any] = {
    "one word": lambda: zipf_curve([5]),
    "equal counts": lambda: zipf_curve([3] * 50),
    "one round": lambda: objective_curve([3.0]),
    "zero objective": lambda: objective_curve([0.0, 0.0]),
    "a round that is not a number": lambda: objective_curve([2.0, math.nan, 1.0]),
    "equal values": lambda: figures.histogram("t", [2.5] * 9, xlabel="x"),
    "equal values, log": lambda: figures.histogram("t", [2.5] * 9, xlabel="x", x_scale="log"),
    "neighboring floats": lambda: figures.histogram("t", [1.0, np.nextafter(1.0, 2.0)], xlabel="x"),
    "huge values": lambda: figures.histogram("t", [1e300, 1e-300], xlabel="x"),
    "one word on a map": lambda: word_map(["a"], [[1.0, 2.0, 3.0]]),
    "one-dimensional vectors": lambda: word_map(["a", "b", "c"], [[1.0], [2.0], [3.0]]),
    "equal vectors": lambda: word_map(["a", "b", "c"], np.ones((3, 4))),
    "few words": lambda: word_map(list("abcd"), np.eye(4)),
    "points on a vertical line": lambda: word_map(["a", "b"], [[0, 0], [0, 9]]),
}


@pytest.mark.parametrize("case", LITTLE, ids=str)
@pytest.mark.filterwarnings("error")
def test_degenerate_data_is_drawn_without_a_warning(case):
    html = html_of(LITTLE[case]())
    assert Outline(html).count("svg") == 1
    numbers = re.findall(r'(?:d|x|y|viewBox)="([^"]*)"', html)
    assert not any("nan" in number or "inf" in number for number in numbers)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.integers(0, 3))
def test_any_word_may_stand_anywhere(words, n_columns):
    vectors = np.random.default_rng(0).normal(size=(len(words), n_columns))
    marks = [figures.Mark(word, 1.0, None, word, panel=words[0]) for word in words]
    sections = [
        word_map(words, vectors),
        neighbor_table({word: [(word, 0.5)] for word in words}),
        figures.small_multiples(words[0], marks, xlabel=words[0]),
        ShownTable(words[0], [dict.fromkeys(words, words[0])]),
        Section(words[0], [Fold(words[-1], Note(words[-1], words[0]))]),
    ]
    page = Page(words[0], words[0], sections, {words[0]: words[0]}, words[0]).html()
    Outline(page).count("p")
    page.encode("utf-8")


BEGINNINGS = {"pdf": b"%PDF-1.", "svg": b"<?xml", "png": b"\x89PNG"}
RARE = "ᴥ"  # which DejaVu Serif has, and DejaVu Sans has not


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


def test_charts_say_what_they_show_and_lines_follow_their_values():
    """The exponent of Zipf's law, the ends of a curve that is thinned, and how many values are not shown."""
    html = html_of(zipf_curve(1e9 / np.arange(20_000, 0, -1) ** 1.3))
    assert "fit, exponent 1.30" in html
    chart = line_chart({"": np.arange(100_000)})
    assert "400 points, from 0 to 99,999" in alt_text(chart)
    assert len(html_of(chart)) < 60_000
    html = html_of(figures.histogram("t", [1.0, 10.0, 0.0, np.nan], xlabel="x", x_scale="log"))
    assert "2 values, median 5.5" in html
    assert "2 values not shown" in html
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
