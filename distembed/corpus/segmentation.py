"""Words of text without spaces: which scripts a text is in, and the word boundaries of ICU."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from distembed.extras import optional


class Script(NamedTuple):
    """A script that is written without spaces between words.

    Attributes
    ----------
    name : str
        The language that is mostly written in it.
    ranges : tuple of pairs of int
        The first and the last code point of its blocks of letters.
    packages : str
        Packages whose functions cut it into words.
    """

    name: str
    ranges: tuple[tuple[int, int], ...]
    packages: str


KANA = Script(
    "Japanese", ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)), "fugashi, SudachiPy or janome"
)
HAN = Script("Chinese", ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)), "jieba")
OTHERS = (
    Script("Thai", ((0x0E00, 0x0E7F),), "pythainlp"),
    Script("Lao", ((0x0E80, 0x0EFF),), "laonlp"),
    Script("Tibetan", ((0x0F00, 0x0FFF),), "botok"),
    Script("Burmese", ((0x1000, 0x109F),), "pyidaungsu"),
    Script("Khmer", ((0x1780, 0x17FF),), "khmer-nltk"),
)

MUCH = 0.2
"""So large a share of the letters of a text is worth a warning."""
FEW_KANA = 0.05
"""With so large a share of kana, ideographs are Japanese."""

INSTALL = "pip install 'distembed[icu]'"


def scripts_without_spaces(text: str) -> list[tuple[Script, float]]:
    """Return the scripts without spaces that a fifth of the letters of a text or more are in, each with its share.

    Examples
    --------
    >>> from distembed.corpus.segmentation import scripts_without_spaces
    >>> [(script.name, share) for script, share in scripts_without_spaces("ภาษาไทย one")]
    [('Thai', 0.7)]
    """
    points = np.frombuffer(text.encode("utf-32-le", "ignore"), np.uint32)
    counts = {
        script: sum(int(((points >= first) & (points <= last)).sum()) for first, last in script.ranges)
        for script in (KANA, HAN, *OTHERS)
    }
    ideographs = counts[KANA] + counts[HAN]
    is_japanese = ideographs > 0 and counts[KANA] >= FEW_KANA * ideographs
    counts |= {KANA: ideographs, HAN: 0} if is_japanese else {KANA: 0}
    n_letters = sum(map(str.isalpha, text))
    n_letters += sum(1 for character in text if unicodedata.category(character) in ("Mn", "Mc"))
    shares = [(script, n / max(n_letters, 1)) for script, n in counts.items()]
    return [(script, share) for script, share in shares if share >= MUCH]


def icu_function(*, numbers: bool) -> Callable[[str], Iterable[str]]:
    """Return the function that cuts text into words by the boundaries of ICU: pieces with a letter, or a digit.

    It has dictionaries for Chinese, Japanese, Thai, Lao, Burmese and Khmer.

    Raises
    ------
    ImportError
        If the package icu4py is not installed.
    """
    breaker = optional("icu4py.breakers", user='the tokenizer "icu"', extra="icu").WordBreaker
    counts = str.isalnum if numbers else str.isalpha
    return lambda text: [piece for piece in breaker(text, "root") if any(map(counts, piece))]
