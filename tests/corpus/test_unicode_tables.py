"""Words are cut by the Unicode tables of Python: what one version of Python does otherwise than another."""

from __future__ import annotations

import hashlib
import unicodedata
from itertools import chain

import numpy as np
import pytest

from distembed.corpus.normalization import combining_classes
from distembed.corpus.tokenizer import class_table

# The characters that the tables of Python 3.12 and 3.13 treat otherwise than those of the Python before, in
# hexadecimal. All are new, but for five modifier letters (10FC, A7F2 to A7F4, AB69), which have become lower case.
CHANGED = {
    "14.0.0": "",
    "15.0.0": (
        "0CF3 0ECE 10FC A7F2-A7F4 AB69 10EFD-10EFF 1123F-11241 11F00-11F10 11F12-11F3A 11F3E-11F42 11F50-11F59 1342F "
        "13439-13455 1B132 1B155 1D2C0-1D2D3 1DF25-1DF2A 1E030-1E06D 1E08F 1E4D0-1E4F9 2B739 31350-323AF"
    ),
    "15.1.0": "2EBF0-2EE5D",
}
VERSION = unicodedata.unidata_version


def code_points(ranges: str) -> list[int]:
    """Return the code points of ranges, both ends included."""
    ends = [[int(end, 16) for end in each.split("-")] for each in ranges.split()]
    return list(chain.from_iterable(range(pair[0], pair[-1] + 1) for pair in ends))


@pytest.mark.skipif(VERSION not in CHANGED, reason=f"the tables of Unicode {VERSION} were not compared yet")
def test_text_without_new_characters_is_cut_alike_by_every_python() -> None:
    changed = code_points(" ".join(CHANGED.values()))
    digest = hashlib.sha256()
    classes = class_table("unicode", lowercase=True, numbers=True, apostrophes=True)
    for table in (classes, combining_classes("NFC"), combining_classes("NFKC")):
        kept = table.copy()
        kept[changed] = 0
        digest.update(kept.astype("<u4").tobytes())
    assert digest.hexdigest()[:16] == "cf04b4158e23c1b3"


@pytest.mark.skipif(VERSION not in CHANGED, reason=f"the tables of Unicode {VERSION} were not compared yet")
@pytest.mark.parametrize("version", ["15.0.0", "15.1.0"])
def test_new_letters_belong_to_words_from_their_version_on(version: str) -> None:
    classes = class_table("unicode", lowercase=True, numbers=True, apostrophes=True)
    last = code_points(CHANGED[version])[-100:]  # ideographs of extensions H and I
    known = list(CHANGED).index(version) <= list(CHANGED).index(VERSION)
    assert np.all(classes[last] != 0) == known
