"""The fonts of a figure in a file: for characters that the first font lacks, others that are installed."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

from distembed.display import plural

FIRST = "DejaVu Sans"
"""The font that comes with Matplotlib: Latin, Greek, Cyrillic, and more."""

PREFERRED = ("Noto Sans", "Source Han Sans", "WenQuanYi", "IPA", "Droid Sans Fallback")
"""Fonts that are tried before others: how their names begin."""

SYMBOLS = ("LastResort", "Last Resort")
"""Fonts that draw a sign for every character."""

PACKAGES = {
    "CJK": "fonts-noto-cjk",
    "HIRAGANA": "fonts-noto-cjk",
    "KATAKANA": "fonts-noto-cjk",
    "HANGUL": "fonts-noto-cjk",
    "BOPOMOFO": "fonts-noto-cjk",
}
"""The package of Debian and Ubuntu with a font for a script, by how the names of its characters begin."""

OTHER_PACKAGE = "fonts-noto-core"


class Fonts(NamedTuple):
    """The families that a figure is drawn with, and the characters that none of them has."""

    families: list[str]
    missing: str


def fonts_for(texts: Iterable[str], font: str | None = None) -> Fonts:
    """Return the fonts that draw some texts: the one asked for, Matplotlib's own, and others where these lack some.

    Parameters
    ----------
    texts : iterable of str
        What is drawn.
    font : str, optional
        A file of a font, or the name of one that is installed.

    Raises
    ------
    ValueError
        If there is no such font.
    """
    families = [*([] if font is None else [_family_of(font)]), FIRST]
    missing = {character for text in texts for character in text if character.isprintable()}
    for family in families:
        missing -= _characters(font_manager.findfont(family))
    for family, path in _installed():
        if not missing:
            break
        found = missing & _characters(path)
        if found:
            families.append(family)
            missing -= found
    return Fonts(families, "".join(sorted(missing)))


def _family_of(font: str) -> str:
    """Return the name of a font that is a file, which is made known, or installed."""
    if Path(font).is_file():
        try:
            font_manager.fontManager.addfont(font)
        except (RuntimeError, OSError) as error:
            raise ValueError(f"{font} is not a font ({error}): give a .ttf, .otf or .ttc file") from error
        return str(FT2Font(font).family_name)
    names = {entry.name for entry in font_manager.fontManager.ttflist}
    if font not in names:
        near = [name for name in sorted(names) if font.lower() in name.lower()]
        known = f"there are {', '.join(near[:5])}" if near else "fc-list names those that are installed"
        raise ValueError(f"no font {font!r} is installed: give a file, or a name; {known}")
    return font


@lru_cache(maxsize=1)
def _installed() -> list[tuple[str, str]]:
    """Return the family and the file of each font in its plain style, those that are preferred first."""
    plain = {
        entry.name: entry.fname
        for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: entry.fname)
        if entry.style == "normal" and entry.weight in (400, "normal", "regular", "book")
    }
    names = [name for name in plain if not name.startswith(SYMBOLS)]
    return [
        (name, plain[name]) for name in sorted(names, key=lambda name: (not name.startswith(PREFERRED), name))
    ]


@lru_cache(maxsize=256)
def _characters(path: str) -> frozenset[str]:
    """Return the characters that a font has."""
    return frozenset(map(chr, FT2Font(path).get_charmap()))


def missing_sentence(missing: str) -> str:
    """Return a warning of characters that no font has, with the packages that have one; "" where none is missing."""
    if not missing:
        return ""
    kinds = dict.fromkeys(unicodedata.name(character, "OTHER").split(maxsplit=1)[0] for character in missing)
    scripts = [kind.removesuffix("-COMPATIBILITY").capitalize() if kind != "CJK" else kind for kind in kinds]
    packages = dict.fromkeys(PACKAGES.get(kind, OTHER_PACKAGE) for kind in kinds)
    shown = " ".join(missing[:5])
    return (
        f"no installed font has {plural(len(missing), 'character')} ({', '.join(scripts[:3])}: {shown}), which are "
        f"drawn as boxes: install {' or '.join(packages)}, or give --font FILE"
    )


def fit_fonts(figure: Any, font: str | None = None) -> str:
    """Give all texts of a figure the fonts that have their characters; return a warning, "" where all are drawn."""
    texts = figure.findobj(Text)
    found = fonts_for((text.get_text() for text in texts), font)
    for text in texts:
        text.set_fontfamily(found.families)
    return missing_sentence(found.missing)
