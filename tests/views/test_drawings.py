"""Figures as files: of vector files by the command line, the same bytes for the same input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.stages.words import content_words, words_shown
from distembed.vectors.subwords import SubwordTable
from distembed.views.report import maps
from tests.commands import run, succeed

WORDS = ["the", "of", "sun", "moon", "Berlin", "Der", "x", *(f"word{n}" for n in range(20))]
BEGINNINGS = {".pdf": b"%PDF-1.", ".svg": b"<?xml", ".png": b"\x89PNG"}


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drawings") / "v.txt"
    de.WordVectors(WORDS, np.random.default_rng(0).standard_normal((len(WORDS), 6))).save(path)
    return path


def texts(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", list(BEGINNINGS))
def test_equal_input_gives_equal_bytes_without_a_date(vectors: Path, tmp_path: Path, suffix: str) -> None:
    files = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for file in files:
        succeed("plot", "map", vectors, "--to", file, "--method", "pca")
    data = files[0].read_bytes()
    assert data.startswith(BEGINNINGS[suffix])
    assert data == files[1].read_bytes()
    assert not any(mark in data for mark in (b"Date", b"date", b"Matplotlib v", b"Creator"))


def test_content_words_by_default(vectors: Path, tmp_path: Path) -> None:
    done = run("plot", "map", vectors, "--to", tmp_path / "m.svg", "-n", "4", "--method", "pca")
    assert done.output.startswith("4 words, 4 labeled, in ")
    figure = texts(tmp_path / "m.svg")
    assert all(f">{word}<" in figure for word in ("sun", "moon", "Berlin", "Der"))
    assert not any(f">{word}<" in figure for word in ("the", "of", "x", "word0"))
    assert content_words(["The", "of", "und", "Haus", "a"], frozenset({"und"})) == ["Haus"]


def test_chosen_words_from_arguments_and_a_list(vectors: Path, tmp_path: Path) -> None:
    """What is named is drawn, a stop word too; a byte-order mark and empty lines of the list do no harm."""
    (tmp_path / "list.txt").write_text("moon\n\nnowhere\nthe\n", encoding="utf-8-sig")
    target = tmp_path / "m.svg"
    done = run("plot", "map", vectors, "sun", "--words", tmp_path / "list.txt", "--to", target)
    assert done.output.strip().endswith("not found: nowhere")
    assert done.output.startswith("3 words, 3 labeled")
    assert all(f">{word}<" in texts(target) for word in ("sun", "moon", "the"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere", "--to", "m.svg"), "none of the words asked for is in"),
        (
            ("--to", "m.gif"),
            "the format of the figure m.gif cannot be detected from its name: end it in .pdf, .svg",
        ),
        (
            ("--what", "documents", "--to", "m.svg"),
            "is a vector file, which has no documents: draw words, or",
        ),
    ],
)
def test_what_cannot_be_drawn_is_told(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("plot", "map", vectors, *words)
    assert done.exit_code == 1
    assert sentence in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_words_shown_are_those_named_else_content_words():
    words = ["the", "und", "of", "sea", "ship", "captain"]
    assert words_shown(["ship", "kraken", "ship"], words, frozenset()) == ["ship"]
    assert words_shown(["kraken"], words, frozenset({"und"})) == ["sea", "ship", "captain"]
    assert words_shown([], ["the", "of"], frozenset()) == ["the", "of"]


def test_composed_words_are_drawn_and_marked(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = SubwordTable(rng.standard_normal((2, 6)), rng.standard_normal(6), ngrams=("kin", "ing"))
    words = de.WordVectors(["king", "sun"], rng.standard_normal((2, 6)), subwords=table)
    words.save(tmp_path / "v.safetensors")
    target = tmp_path / "m.svg"
    done = run("plot", "map", tmp_path / "v.safetensors", "king", "sun", "kings", "xyzzy", "--to", target)
    assert done.output.startswith("3 words, 1 composed from n-grams, "), done.output
    assert done.output.strip().endswith("not found: xyzzy")
    assert all(f">{text}<" in texts(target) for text in ("has a vector", "composed from n-grams"))


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


def test_words_of_one_letter_are_drawn_where_there_are_no_others(tmp_path: Path) -> None:
    de.WordVectors(list("abcd"), np.eye(4)).save(tmp_path / "v.txt")
    done = succeed("plot", "map", tmp_path / "v.txt", "--to", tmp_path / "map.svg")
    assert done.output.startswith("4 words")


def test_figures_and_reports_name_what_they_were_made_from(tiny: Path, tmp_path: Path) -> None:
    workspace = de.Workspace.open(tiny / "w")
    for suffix in BEGINNINGS:
        succeed("plot", "map", tiny / "w", "--to", tmp_path / f"m{suffix}", "--method", "pca")
        data = (tmp_path / f"m{suffix}").read_bytes()
        assert all(word.encode() in data for word in (de.__version__, workspace.digest()))
    page = texts(tiny / "w" / "report" / "index.html")
    found = page[page.index("<h2>Version and files</h2>") :]
    manifest = workspace.stages()["tokens"]
    assert manifest.made_with["distembed"] in found
    ((name, stamp),) = next(iter(manifest.parameters["files"].values())).items()
    assert name in found
    assert stamp[-1].removeprefix("content ") in found
