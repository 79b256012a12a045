"""Fonts by script: a font that has the characters is taken, another is named, and what none has is a warning."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

import distembed as de
from distembed.views.report import fonts, maps
from tests.commands import run, succeed

RARE = "\U00012000\U00012001"  # cuneiform, which no usual machine has a font for


def write_font(path: Path, family: str, characters: str) -> Path:
    """Write a font whose every character is a filled box."""
    names = [".notdef", *(f"g{number}" for number in range(len(characters)))]
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 800), (900, 800), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    empty = TTGlyphPen(None).glyph()
    font = FontBuilder(1000)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({ord(one): name for one, name in zip(characters, names[1:], strict=True)})
    font.setupGlyf(
        {name: empty if name == ".notdef" else pen.glyph(dropImpliedOnCurves=False) for name in names}
    )
    font.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": family, "styleName": "Regular", "psName": family.replace(" ", "")})
    font.setupOS2(usWeightClass=400)
    font.setupPost()
    font.save(path)
    return path


@pytest.fixture
def own_fonts() -> Iterator[None]:
    """Forget fonts that a test makes known."""
    before = list(font_manager.fontManager.ttflist)
    yield
    font_manager.fontManager.ttflist = before
    fonts._installed.cache_clear()


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    de.WordVectors([4 * RARE, "word"], np.eye(2, 4)).save(tmp_path / "v.txt")
    return tmp_path / "v.txt"


@pytest.mark.parametrize(
    ("missing", "package"),
    [("語", "fonts-noto-cjk"), ("の", "fonts-noto-cjk"), ("한", "fonts-noto-cjk"), ("ก", "fonts-noto-core")],
)
def test_a_warning_names_a_package(missing: str, package: str) -> None:
    assert f"install {package}," in fonts.missing_sentence(missing)
    assert unicodedata.name(missing).split()[0].lower() in fonts.missing_sentence(missing).lower()
    assert fonts.missing_sentence("") == ""


@pytest.mark.usefixtures("own_fonts")
def test_what_no_font_has_is_told_and_a_font_draws_it(vectors: Path, tmp_path: Path) -> None:
    done = succeed("plot", "map", vectors, "--to", tmp_path / "boxes.png", "--method", "pca")
    assert "no installed font has 2 characters (Cuneiform" in done.output
    font = write_font(tmp_path / "rare.ttf", "Rare Test", RARE)
    done = succeed("plot", "map", vectors, "--to", tmp_path / "a.png", "--method", "pca", "--font", font)
    assert "no installed font" not in done.output
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "boxes.png").read_bytes()
    succeed("plot", "map", vectors, "--to", tmp_path / "a.pdf", "--method", "pca", "--font", font)
    assert b"RareTest" in (tmp_path / "a.pdf").read_bytes()  # the font is embedded


@pytest.mark.usefixtures("own_fonts")
def test_an_installed_font_is_found_by_its_characters(tmp_path: Path) -> None:
    font_manager.fontManager.addfont(write_font(tmp_path / "rare.ttf", "Rare Test", RARE))
    fonts._installed.cache_clear()
    assert fonts.fonts_for(["a", RARE]) == (["DejaVu Sans", "Rare Test"], "")
    assert fonts.fonts_for(["a"]) == (["DejaVu Sans"], "")
    assert fonts.fonts_for(["a"], "Rare Test").families == ["Rare Test", "DejaVu Sans"]


def test_a_font_that_is_none_is_refused(vectors: Path, tmp_path: Path) -> None:
    done = run("plot", "map", vectors, "--to", tmp_path / "a.png", "--font", "No Such Font")
    assert done.exit_code == 1
    assert "no font 'No Such Font' is installed" in done.stderr
    done = run("plot", "map", vectors, "--to", tmp_path / "a.png", "--font", vectors)
    assert "is not a font" in done.stderr
    assert not (tmp_path / "a.png").exists()


def test_the_key_stands_below_the_points_and_a_title_once() -> None:
    points = np.random.default_rng(0).uniform(0, 1, (60, 2))
    key = [f"topic {number}" for number in range(7)]
    placed = maps._place(points, maps._each_once(["emma", "persuasion"] * 30), key)
    below = maps._key_height(key)
    assert below > 40
    assert min(placed.y) > below
    assert all(maps._box(spot)[1] >= below for spot in placed.labels)
    assert sorted(spot.text for spot in placed.labels) == ["emma", "persuasion"]
    assert maps._key_height([]) == 0
