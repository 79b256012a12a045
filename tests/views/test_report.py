"""The report: self-contained, equal bytes, safe with any word, and visible in a browser."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed import display
from distembed.views import report
from distembed.views.report import Section, figures, maps
from distembed.views.report.run import _flat

pytestmark = pytest.mark.usefixtures("drawn_figures")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
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


class Score(NamedTuple):
    set: str
    task: str
    metric: str
    score: float
    known: int
    total: int
    policy: str
    interval: tuple[float, float] | None


WORDS = ["the", "<b>bold</b>", "a&b", "שלום", "東京", "x" * 300, "$x^2$", "\x00\x1b", "naïve", '"quoted"']


def word_map(words: Any, vectors: Any, groups: Any = None) -> Section:
    return report.word_maps(words, vectors, {"Map": groups})[0]


def points(n: int, groups: Any = None) -> Section:
    return word_map([""] * n, np.random.default_rng(0).normal(size=(n, 2)), groups)


def full_report() -> str:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(WORDS), 6))
    scores = [
        Score("wordsim353", "similarity", "spearman", 0.6123, 348, 353, "known pairs", (0.54, 0.68)),
        Score("toefl", "synonym", "accuracy", math.nan, 0, 80, "known", None),
    ]
    sections = [
        report.zipf_curve(np.floor(1e5 / np.arange(1, 3000))),
        report.objective_curve([4.0, 3.0, 2.5]),
        report.table("Evaluation", scores, formats={"interval": report.three_decimals}),
        report.neighbor_table({word: [(other, 0.5) for other in WORDS[:3]] for word in WORDS}),
        *report.word_maps(WORDS, vectors, {"Map": None, "in groups": [len(w) for w in WORDS]}),
        report.histogram(rng.poisson(8, 500), "Degrees", xlabel="neighbors"),
        points(4000, rng.integers(0, 12, 4000).tolist()),
    ]
    return report.render_report("A <run>", "One & two.", sections, facts={"words": 30000, "speed": 1.5})


@pytest.fixture(scope="module")
def page() -> str:
    return full_report()


def alt_text(section: Section) -> str:
    return next(attrs["aria-label"] or "" for tag, attrs in Outline(section.html).elements if tag == "svg")


def series_of(section: Section) -> list[np.ndarray]:
    """Return the vertices of each line drawn in a series color, in units of the SVG (y grows down)."""
    colors = "|".join(figures.COLORS)
    lines = re.findall(rf'<path d="([^"]+)"[^>]*style="fill: none; stroke[^"]*: (?:{colors})', section.html)
    return [np.array(re.findall(r"[ML] (\S+) (\S+)", line), dtype=float) for line in lines]


# ---- the page ----


def test_page_is_self_contained(page: str) -> None:
    outline = Outline(page)
    assert "http" not in page.replace("http-equiv", "")
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in outline.elements}
    targets = [
        attrs[key] or ""
        for _, attrs in outline.elements
        for key in ("src", "href", "xlink:href")
        if key in attrs
    ]
    assert targets
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in targets)


def test_equal_input_gives_equal_bytes(page: str) -> None:
    assert full_report() == page


def test_ids_are_unique_and_every_reference_has_its_target(page: str) -> None:
    ids = [attrs["id"] for _, attrs in Outline(page).elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_every_figure_has_alternative_text_and_no_caption_repeats_its_axes(page: str) -> None:
    outline = Outline(page)
    labels = [attrs.get("aria-label") for tag, attrs in outline.elements if tag == "svg"]
    assert len(labels) == outline.count("figure") == 6
    assert "logarithmic" not in page
    assert all(labels)
    assert all(attrs.get("role") == "img" for tag, attrs in outline.elements if tag == "svg")


def test_words_are_text_never_markup(page: str) -> None:
    outline = Outline(page)
    assert outline.count("b") == 0
    assert outline.texts.count("<b>bold</b>") >= 2  # in the table and on the map
    assert "$x^2$" in outline.texts
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page)


def test_a_very_long_word_can_break_and_is_short_on_maps(page: str) -> None:
    assert "x" * 33 not in page


def test_figures_stand_on_white_on_light_and_dark_screens(page: str) -> None:
    drawn = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
    assert all("fill: #ffffff" in figure and "var(" not in figure for figure in drawn)
    assert "prefers-color-scheme:dark" in page


def test_report_without_sections_is_a_page() -> None:
    assert Outline(report.render_report("empty", "", [])).count("h1") == 1


def test_a_user_s_settings_of_matplotlib_change_no_bytes_and_are_not_changed() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plain = report.objective_curve([3.0, 2.0])
    assert dict(mpl.rcParams) == before
    with mpl.rc_context({"font.size": 30, "axes.grid": False, "svg.fonttype": "path"}):
        assert report.objective_curve([3.0, 2.0]) == plain


# ---- numbers ----


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
def test_numbers_are_written_for_reading(write: Any, shown: dict[float, str]) -> None:
    assert {value: write(value) for value in shown} == shown


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_number_can_be_written(value: float) -> None:
    for write in (display.format_number, display.format_bytes, display.format_seconds):
        assert write(value)


# ---- tables ----


def test_table_takes_mappings_and_named_tuples_alike() -> None:
    rows = [Score("s", "t", "m", 0.5, 1, 2, "p", (0.4, 0.6))]
    assert report.table("t", rows) == report.table("t", [row._asdict() for row in rows])


def test_numbers_are_right_aligned_and_missing_ones_are_dashes() -> None:
    html = report.table(
        "t", [{"name": "a", "n": 1}, {"name": "b", "n": None}, {"name": "c", "n": math.nan}]
    ).html
    assert re.findall(r'<td class="n">(.*?)</td>', html) == ["1", "–", "–"]
    assert '<th scope="col" class=n>n</th>' in html


def test_a_row_may_lack_a_column_of_another() -> None:
    html = report.table("t", [{"a": 1}, {"a": 2, "b": "x"}]).html
    assert html.count("<td") == 4


def test_intervals_are_written_as_such() -> None:
    rows = [
        Score("s", "t", "m", 0.5, 1, 2, "p", (-0.04, 0.6)),
        Score("s", "t", "m", 0.5, 1, 2, "p", (math.nan, math.nan)),
    ]
    html = report.table("t", rows, formats={"interval": report.three_decimals}).html
    assert "[−0.040, 0.600]" in html
    assert "nan" not in html


def test_parameters_are_named_with_dots() -> None:
    assert dict(_flat({"a": {"b": {"c": True}, "d": []}, "e": "<x>"})) == {
        "a.b.c": "true",
        "a.d": "(empty)",
        "e": "<x>",
    }


def test_bars_of_names_that_shorten_to_the_same_text_are_all_drawn() -> None:
    names = {"a" * 40 + "1": 1.0, "a" * 40 + "2": 2.0}
    assert alt_text(report.bar_chart(names, "t", xlabel="x")).count("aaa…") == 2


# ---- figures ----


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.3])
def test_zipf_exponent_is_recovered(exponent: float) -> None:
    section = report.zipf_curve(1e9 / np.arange(1, 20001) ** exponent)
    assert f"fit, exponent {exponent:.2f}" in section.html


def test_zipf_takes_counts_in_any_order() -> None:
    counts = np.arange(1, 500) ** 2
    assert report.zipf_curve(counts) == report.zipf_curve(counts[::-1])


def test_lines_follow_their_values() -> None:
    values = np.array([1.0, 5.0, 2.0, 4.0] + [3.0] * 60)
    (line,) = series_of(report.line_chart({"": values}, "t", xlabel="x", ylabel="y"))
    assert np.corrcoef(-line[:4, 1], values[:4])[0, 1] == pytest.approx(1)
    assert np.allclose(np.diff(line[:4, 0]), line[1, 0] - line[0, 0], rtol=1e-4)


def test_long_curves_are_thinned_but_keep_their_ends() -> None:
    section = report.line_chart({"": np.arange(100_000)}, "t", xlabel="x", ylabel="y")
    assert "400 points, from 0 to 99,999" in alt_text(section)
    assert len(section.html) < 60_000


def test_histogram_says_how_many_values_it_cannot_show() -> None:
    html = report.histogram([1.0, 10.0, 0.0, math.nan], "t", xlabel="x", x_scale="log").html
    assert "2 values, median 5.5" in html
    assert "2 values not shown" in html


def label_boxes(section: Section) -> tuple[list[str], np.ndarray]:
    style = r'style="font-size: 9px; [^"]*text-anchor: (\w+)[^"]*"'
    pattern = rf'<text {style} x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>'
    found = re.findall(pattern, section.html)
    offset = {"start": 0.0, "middle": 0.5, "end": 1.0}
    boxes = [
        (
            float(x) - offset[a] * 4.5 * len(t),
            float(y) - 6,
            float(x) + (1 - offset[a]) * 4.5 * len(t),
            float(y),
        )
        for a, x, y, t in found
    ]
    return [text for *_, text in found], np.array(boxes)


def test_labels_do_not_overlap_and_the_first_words_keep_theirs() -> None:
    rng = np.random.default_rng(1)
    words = [f"word{i}" for i in range(500)]
    shown, boxes = label_boxes(word_map(words, rng.normal(size=(500, 20))))
    assert shown[0] == "word0"
    assert 35 < len(shown) < 500
    overlap = (boxes[:, None, :2] < boxes[None, :, 2:]).all(2) & (
        boxes[:, None, 2:] > boxes[None, :, :2]
    ).all(2)
    assert np.array_equal(overlap, np.eye(len(shown), dtype=bool))


def test_small_groups_share_gray() -> None:
    groups = [g for g in range(10) for _ in range(20 - g)]
    html = points(len(groups), groups).html
    assert "3 others" in html
    assert html.count(figures.MUTED) >= sum(20 - g for g in (7, 8, 9))


def test_many_points_are_one_picture() -> None:
    html = points(30_000).html
    assert html.count("data:image/png;base64,") == 1
    assert len(html) < 600_000


def test_map_of_two_columns_takes_them_as_they_stand() -> None:
    points = np.random.default_rng(0).normal(size=(8, 2))
    words = list("abcdefgh")
    assert "first coordinate, no unit" in word_map(words, points).html


# ---- degenerate data ----

NOTHING: list[Any] = [
    report.zipf_curve([]),
    report.zipf_curve([0, 0]),
    report.objective_curve([]),
    report.objective_curve([math.nan]),
    report.histogram([], "t", xlabel="x"),
    report.histogram([math.nan], "t", xlabel="x"),
    report.bar_chart({}, "t", xlabel="x"),
    points(0),
    word_map([], np.empty((0, 5))),
    word_map(["a"], [[math.nan, 1.0, 2.0]]),
    report.line_chart({}, "t", xlabel="x", ylabel="y"),
    report.table("t", []),
    report.score_sections([]),
    report.neighbor_table({}),
    report.group("t", []),
]


@pytest.mark.parametrize("section", NOTHING, ids=lambda section: section.title)
def test_nothing_to_show_is_said(section: Section) -> None:
    assert Outline(section.html).count("svg") == 0
    assert 'class="note"' in section.html


LITTLE: dict[str, Any] = {
    "one word": lambda: report.zipf_curve([5]),
    "equal counts": lambda: report.zipf_curve([3] * 50),
    "one round": lambda: report.objective_curve([3.0]),
    "a bar of no length": lambda: report.bar_chart({"s": 0.0}, "t", xlabel="x"),
    "zero objective": lambda: report.objective_curve([0.0, 0.0]),
    "a round that is not a number": lambda: report.objective_curve([2.0, math.nan, 1.0]),
    "equal values": lambda: report.histogram([2.5] * 9, "t", xlabel="x"),
    "equal values, log": lambda: report.histogram([2.5] * 9, "t", xlabel="x", x_scale="log"),
    "neighboring floats": lambda: report.histogram([1.0, np.nextafter(1.0, 2.0)], "t", xlabel="x"),
    "huge values": lambda: report.histogram([1e300, 1e-300], "t", xlabel="x"),
    "one word on a map": lambda: word_map(["a"], [[1.0, 2.0, 3.0]]),
    "one-dimensional vectors": lambda: word_map(["a", "b", "c"], [[1.0], [2.0], [3.0]]),
    "equal vectors": lambda: word_map(["a", "b", "c"], np.ones((3, 4))),
    "few words": lambda: word_map(list("abcd"), np.eye(4)),
    "points on a vertical line": lambda: word_map(["a", "b"], [[0, 0], [0, 9]]),
}


@pytest.mark.parametrize("case", LITTLE, ids=str)
@pytest.mark.filterwarnings("error")
def test_degenerate_data_is_drawn_without_a_warning(case: str) -> None:
    section = LITTLE[case]()
    assert Outline(section.html).count("svg") == 1
    numbers = re.findall(r'(?:d|x|y|viewBox)="([^"]*)"', section.html)
    assert not any("nan" in number or "inf" in number for number in numbers)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.integers(0, 3))
def test_any_word_may_stand_anywhere(words: list[str], n_columns: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(words), n_columns))
    sections = [
        word_map(words, vectors),
        report.neighbor_table({word: [(word, 0.5)] for word in words}),
        report.bar_chart(dict.fromkeys(words, 1.0), words[0], xlabel=words[0]),
        report.table(words[0], [dict.fromkeys(words, words[0])]),
    ]
    page = report.render_report(words[0], words[0], sections, facts={words[0]: words[0]})
    Outline(page).count("p")
    page.encode("utf-8")


# ---- in a browser ----

MEASURE = """<script>
addEventListener("load", () => {
  const sizes = [...document.querySelectorAll("figure, svg, table")].map(e => e.getBoundingClientRect())
    .map(b => Math.round(b.width) + "x" + Math.round(b.height));
  document.title = sizes.join(" ") + "|" + document.documentElement.scrollWidth;
});
</script>"""


@pytest.mark.parametrize("width", [1200, 500])
def test_every_figure_has_a_size_in_a_browser(page: str, width: int, tmp_path: Any) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"needs one of {', '.join(BROWSERS)} to render the page")
    # the page forbids scripts: only its policy is taken out, to let the measuring one in
    (tmp_path / "page.html").write_text(
        re.sub(r"<meta http-equiv[^>]*>", "", page).replace("</body>", MEASURE + "</body>"), encoding="utf-8"
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    options += [
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={tmp_path / 'user'}",
    ]
    command = [
        browser,
        *options,
        f"--window-size={width},900",
        "--dump-dom",
        (tmp_path / "page.html").as_uri(),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    sizes, page_width = re.search(r"<title>([\dx ]+)\|(\d+)</title>", shown).groups()  # type: ignore[union-attr]
    boxes = [tuple(map(int, size.split("x"))) for size in sizes.split()]
    assert len(boxes) == 6 + 6 + 2
    assert all(w > 100 and h > 40 for w, h in boxes), boxes
    assert int(page_width) <= width, (
        "the page itself must not scroll sideways; wide figures scroll in their frame"
    )


def test_a_section_with_nothing_to_show_never_comes_first() -> None:
    page = report.render_report(
        "t", "s", [report.table("Empty", []), report.table("Full", [{"a": 1}]), report.neighbor_table({})]
    )
    order = [page.index(f"<h2>{title}</h2>") for title in ("Full", "Empty", "Nearest words")]
    assert order == sorted(order)


def test_long_texts_have_a_line_of_their_own_on_narrow_screens() -> None:
    """The columns of long texts are marked, and each cell has the label that a narrow layout shows above it."""
    html = report.table(
        "t", [{"topic": 1, "words": "a text that is longer than the numbers beside it", "n": 2}]
    ).html
    assert '<table class="folds">' in html
    assert html.count("class=w") == html.count('class="w"') == 1
    assert '<td class="n" data-l="topic">' in html  # a narrow screen shows the label above the number
    assert "folds" not in report.table("t", [{"topic": 1, "word": "short"}]).html
    assert "content:attr(data-l)" in report.render_report("t", "s", [])


def test_one_layout_is_computed_once_for_all_its_colorings(monkeypatch: pytest.MonkeyPatch) -> None:
    plane, laid_out = maps.plane, []
    monkeypatch.setattr(maps, "plane", lambda *given: laid_out.append(plane(*given)) or laid_out[-1])
    vectors = np.random.default_rng(0).normal(size=(6, 3))
    drawings = {"by sound": list("aabbcc"), "plain": None}
    by_sound, plain = report.word_maps(list("uvwxyz"), vectors, drawings)
    assert (by_sound.title, plain.title, len(laid_out)) == ("by sound", "plain", 1)
    (alone,) = report.word_maps(list("uvwxyz"), vectors, {"by sound": list("aabbcc")})
    assert by_sound == alone
    assert "Across" not in plain.html
