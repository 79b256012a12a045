"""The page to explore: beside a report, and in a real browser, without a network and without WebGL."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from distembed.job.stage import EXPLORER, REPORT
from distembed.vectors import WordVectors
from distembed.views.explorer.items import Items, NeighborList, by_category, by_quantity
from distembed.views.explorer.job import word_items
from distembed.views.explorer.page import _principal_plane, lay_out, render_page
from distembed.views.report.figures import Mark, small_multiples
from distembed.views.report.maps import word_maps
from distembed.views.report.page import Fold, Note, Page, Section, ShownTable
from distembed.views.report.sections import neighbor_table
from tests.commands import refusal, run, succeed
from tests.views.test_report import full_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_WEBGL = ["--disable-gpu", "--disable-webgl", "--disable-webgl2", "--disable-3d-apis"]

HOSTILE = [
    "<script>alert(1)</script>",
    "</script></style></title><img/src=http://127.0.0.1:9/a/onerror=alert(2)>",
    "'\"onmouseover=alert(3)//><svg/onload=alert(3)>",
    "javascript:alert(4)",
    "]]>--><iframe/src=http://127.0.0.1:9/b>",
    "{{alert(5)}}${alert(5)}",
    "__proto__",
    "constructor",
]
"""Words that would run, ask for something, or stand in the way of others if a page took them for more than text."""
ODD = [*HOSTILE, "a&b", '"quoted"', "שלום", "東京", "x" * 200]
"""Words that a page must show as text."""


def items_of(vectors, title, counts=None):
    n = len(vectors)
    return word_items(title, list(vectors.words), vectors.vectors, np.arange(n), n, counts)


def planted(n: int = 400) -> WordVectors:
    """Return words in eight far clusters, each near the next of its cluster."""
    rng = np.random.default_rng(0)
    centers = 10 * rng.normal(size=(8, 12))
    words = [*ODD, *(f"word{i}" for i in range(n - len(ODD)))]
    return WordVectors(words, centers[np.arange(n) % 8] + rng.normal(size=(n, 12)))


class Seen(NamedTuple):
    """A page in a browser, with what it said in the console and what it asked for."""

    page: Any
    said: list[str]
    asked: list[str]


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no Chromium or Chrome is installed")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", *NO_WEBGL])
        yield started
        started.close()


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true; the policy of the page forbids Playwright's own way, which is eval."""
    ends = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < ends, f"{expression} did not come true"
        page.wait_for_timeout(20)


@contextmanager
def opened(browser: Any, path: Path, *, width: int = 1200) -> Iterator[Seen]:
    """Yield a page in the browser, which says nothing wrong and asks for nothing but itself."""
    seen = Seen(browser.new_page(viewport={"width": width, "height": 800}), [], [])
    listen(seen)
    seen.page.goto(path.as_uri())
    until(seen.page, "document.body.dataset.ready === 'yes'")
    yield seen
    check(seen, path)
    seen.page.close()


def check(seen: Seen, path: Path) -> None:
    assert [text for text in seen.said if "WebGL" not in text] == []
    assert seen.asked == [path.as_uri()]


def find(seen: Seen, word: str) -> None:
    """Search for a word."""
    seen.page.fill("#search", word)
    seen.page.press("#search", "Enter")


def listen(seen: Seen) -> None:
    """Note what a page runs wrongly, says in the console, shows in a dialog and asks for."""
    errors = ("error", "warning")
    seen.page.on("console", lambda m: seen.said.append(m.text) if m.type in errors else None)
    seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
    seen.page.on("dialog", lambda dialog: (seen.said.append(dialog.message), dialog.dismiss()))
    seen.page.on("request", lambda request: seen.asked.append(request.url))


def write_page(items: Items, path: Path) -> Path:
    path.write_text(render_page(items, lay_out(items)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    vectors = planted()
    items = items_of(vectors, "A <b>title</b>", np.arange(len(vectors), 0, -1) ** 2)
    return write_page(items, tmp_path_factory.mktemp("explorer") / "page.html")


@pytest.fixture(scope="module")
def opened_once(browser, written):
    with opened(browser, written) as seen:
        yield seen


@pytest.fixture
def seen(opened_once, written):
    opened_once.page.evaluate("letGo(); show(whole); document.activeElement.blur()")
    yield opened_once
    check(opened_once, written)


def neighbors_shown(seen: Seen) -> list[str]:
    return list(seen.page.locator("#panel ol").first.locator("bdi").all_inner_texts())


def test_a_search_shows_the_exact_neighbors_or_says_which_words_are_spelled_alike(seen):
    vectors = planted()
    seen.page.fill("#search", "word1")
    assert seen.page.locator("#found li").count() > 1
    seen.page.press("#search", "Enter")
    assert seen.page.inner_text("#panel h2") == "word1"
    assert neighbors_shown(seen) == [near.word for near in vectors.most_similar("word1", n=10)]
    cosines = [float(text) for text in seen.page.locator("#panel ol small").all_inner_texts()]
    assert cosines == pytest.approx([near[1] for near in vectors.most_similar("word1", n=10)], abs=1e-3)
    find(seen, "word7x")
    said = seen.page.inner_text("#message")
    assert "no word “word7x” among the 400 shown" in said
    assert "Spelled like it: word7" in said


def test_a_suggestion_is_taken_by_keys_and_keys_zoom_with_labels(seen):
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("word38")
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("ArrowDown")
    second = seen.page.locator("#found li[aria-selected=true]").inner_text()
    seen.page.keyboard.press("Enter")
    assert seen.page.inner_text("#panel h2") == second != "word38"
    width = seen.page.evaluate("view().width")
    seen.page.click("#nearer")
    seen.page.mouse.move(500, 400)
    seen.page.mouse.wheel(0, -300)
    until(seen.page, f"view().width < {0.6 * width}")
    seen.page.keyboard.press("0")
    until(seen.page, f"Math.abs(view().width / {width} - 1) < 0.01")
    until(seen.page, "document.body.dataset.labels >= 8")


def test_a_click_on_the_map_and_on_a_neighbor_and_colors_that_single_out_a_category(seen):
    place = seen.page.evaluate(
        """() => { const box = document.querySelector("#map").getBoundingClientRect();
        const now = view(), row = names.indexOf("word50");
        return [box.x + box.width * (0.5 + (x[row] - now.x) / now.width),
                box.y + box.height * (0.5 - (y[row] - now.y) / now.height)]; }"""
    )
    seen.page.mouse.click(*place)
    seen.page.wait_for_selector("#panel h2", timeout=5000)
    clicked = seen.page.inner_text("#panel h2")
    own = planted()
    assert own.index(clicked) % 8 == own.index("word50") % 8  # of its cluster, if another point covers it
    nearest = neighbors_shown(seen)[0]
    seen.page.locator("#panel ol button").first.click()
    assert seen.page.inner_text("#panel h2") == nearest
    assert seen.page.evaluate("decodeURIComponent(location.hash)") == f"#{nearest}"
    seen.page.select_option("#coloring", label="group of near words")
    before = seen.page.evaluate("new Set(points.data.color).size")
    seen.page.locator("#key button").first.click()
    assert seen.page.evaluate("new Set(points.data.color).size") == 2 < before
    seen.page.select_option("#coloring", label="frequency")
    assert seen.page.locator("#key .scale").count() == 1
    assert seen.page.evaluate("new Set(points.data.color).size") > 8


def test_words_of_any_characters_stay_text(seen):
    for word in ODD:
        find(seen, word)
        assert seen.page.inner_text("#panel h2") == word
    assert seen.page.inner_text("h1") == "A <b>title</b>"
    assert seen.page.locator("#panel script").count() == 0


def test_hostile_titles_labels_and_facts_stay_text(browser, tmp_path):
    n, text = len(HOSTILE), "".join(HOSTILE)
    colorings = [by_category(text, HOSTILE), by_quantity(text, [float(row) for row in range(n)])]
    lists = [
        NeighborList(text, np.roll(np.arange(n), 1)[:, None].astype(np.int32), np.ones((n, 1), np.float32))
    ]
    items = Items(text, text, HOSTILE, np.eye(n), colorings, {text: HOSTILE}, lists)
    with opened(browser, write_page(items, tmp_path / "page.html")) as seen:
        assert seen.page.inner_text("h1") == text
        for word in HOSTILE:
            find(seen, word)
            assert seen.page.inner_text("#panel h2") == word


def test_a_report_of_hostile_words_runs_and_asks_for_nothing(browser, tmp_path):
    """Its policy forbids both; it is taken out here, so that the text itself must be harmless."""
    text = "".join(HOSTILE)
    table = ShownTable(text, [dict.fromkeys(HOSTILE, text)], caption=text)
    sections = [
        word_maps(text, HOSTILE, np.random.default_rng(0).normal(size=(len(HOSTILE), 3)), {text: None}),
        neighbor_table({word: [(word, 0.5)] for word in HOSTILE}),
        small_multiples(text, [Mark(word, 1.0) for word in HOSTILE], xlabel=text),
        Section(text, [Fold(text, table), Note("", text)]),
    ]
    page = Page(text, text, sections, {text: text}, text).html()
    path = tmp_path / "report.html"
    path.write_text(re.sub(r"<meta http-equiv[^>]*>", "", page), encoding="utf-8")
    seen = Seen(browser.new_page(), [], [])
    listen(seen)
    seen.page.goto(path.as_uri())
    assert seen.page.title() == " ".join(text.split())
    assert seen.page.locator("h1").first.inner_text() == text
    check(seen, path)
    seen.page.close()


@pytest.mark.usefixtures("drawn_figures")
def test_every_figure_of_a_report_has_a_size(browser, tmp_path):
    """Wide figures scroll in their frames, and the page does not; a wide screen has room for two beside each other."""
    (tmp_path / "report.html").write_text(full_report(), encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    for width, n_beside in ((1200, 1), (420, 0)):
        page.set_viewport_size({"width": width, "height": 900})
        boxes = [one.bounding_box() for one in page.locator("figure, svg, table").all()]
        assert len(boxes) == 6 + 6 + 2
        assert all(box["width"] > 100 and box["height"] > 40 for box in boxes), boxes
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        across = [one.bounding_box()["x"] for one in page.locator(".parts>div:has(>figure)").all()]
        assert sum(x > 500 for x in across) == n_beside
    page.close()


def test_a_narrow_screen_needs_no_scrolling_aside(browser, written):
    with opened(browser, written, width=400) as seen:
        find(seen, "x" * 200)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_frame_that_is_shown_later_has_a_map_of_one_scale(browser, written, tmp_path):
    frame = f'<iframe src="{written.as_uri()}" style="border:0; width:0; height:600px"></iframe>'
    (tmp_path / "around.html").write_text(f"<!doctype html>{frame}")
    page = browser.new_page(viewport={"width": 1000, "height": 700})
    page.goto((tmp_path / "around.html").as_uri())
    inside = page.frames[1]
    until(inside, "document.body.dataset.ready === 'yes'")
    page.evaluate("document.querySelector('iframe').style.width = '900px'")
    until(inside, "plot.inner_width > 300")
    scales = (
        "[view().width / plot.inner_width, view().height / plot.inner_height, view().width / whole.width]"
    )
    across, up, share = inside.evaluate(scales)
    assert across == pytest.approx(up, rel=0.01)
    assert share < 5
    page.close()


def test_further_lists_and_facts_are_shown(browser, tmp_path):
    rows = np.array([[1, -1], [0, 2], [1, 0]], np.int32)
    more = NeighborList("in the table", rows, np.array([[0.5, 0], [0.25, 0.125], [1, 0]], np.float32))
    colorings = [
        by_category("origin", ["known", "imputed", "known"]),
        by_quantity("size", [1.0, np.nan, 3.0]),
    ]
    facts = {"note": ["first", "", "third"]}
    items = Items("Three", "name", ["a", "b", "c"], np.eye(3), colorings, facts, [more])
    with opened(browser, write_page(items, tmp_path / "page.html")) as seen:
        find(seen, "a")
        text = seen.page.inner_text("#panel")
        assert [part in text for part in ("first", "known", "in the table", "0.500")] == [True] * 4
        assert seen.page.locator("#panel ol").nth(1).locator("li").count() == 1


def test_equal_input_gives_equal_bytes_and_equal_vectors_have_a_layout():
    first, second = (items_of(planted(60), "t") for _ in range(2))
    page = render_page(first, lay_out(first))
    assert page == render_page(second, lay_out(second))
    for html in (page, Page("", "", [], {}, "").html()):  # as the browser that shows it would be told
        assert """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; """ in html
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(_principal_plane(np.ones((6, 4), np.float32)), np.zeros((6, 2)))


# --- the command, and the page of a job ---------------------------------------------------------------------------


def test_the_page_lies_beside_the_report_and_is_damaged_and_replaced_like_other_outputs(copy):
    report, page = copy / REPORT.name, copy / EXPLORER.name
    assert "<code>distembed explore " in report.read_text(encoding="utf-8")
    for n_words in (200, 100):
        assert f"{n_words} words in {page}" in succeed("explore", copy, "-n", n_words).stdout
        assert 'href="index.html"' in page.read_text(encoding="utf-8")
        succeed("verify", copy)
    page.write_text("cut", encoding="utf-8")
    assert "explore.html: truncated (stage explorer" in run("verify", copy).stdout
    assert "100 words" in succeed("explore", copy, "-n", 100).stdout
    succeed("verify", copy)


def test_a_vector_file_has_its_page_and_missing_libraries_are_named(tmp_path, monkeypatch):
    vectors = tmp_path / "vectors.txt"
    WordVectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]]).save(vectors)
    target = tmp_path / "page.html"
    done = succeed("explore", vectors, "--to", target)
    assert "3 words in" in done.stdout
    assert target.stat().st_size > 1_000_000
    (tmp_path / "v.bin").write_bytes(b"")
    for name in ("openTSNE", "bokeh"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "needs openTSNE and bokeh: pip install" in refusal("explore", tmp_path / "v.bin")
