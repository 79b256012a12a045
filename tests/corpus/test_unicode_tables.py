"""Words are cut by the Unicode tables of Python: what one version of Python does otherwise than another."""

from __future__ import annotations

import hashlib
import unicodedata
from itertools import chain

import pytest

from distembed.corpus.tokenizer import class_table

# The characters that the tables of Python 3.12, 3.13 and 3.14 treat otherwise than those of the Python before, in
# hexadecimal. All are new, but for five modifier letters (10FC, A7F2 to A7F4, AB69), which have become lower case.
CHANGED = {
    "14.0.0": "",
    "15.0.0": (
        "0CF3 0ECE 10FC A7F2-A7F4 AB69 10EFD-10EFF 1123F-11241 11F00-11F10 11F12-11F3A 11F3E-11F42 11F50-11F59 1342F "
        "13439-13455 1B132 1B155 1D2C0-1D2D3 1DF25-1DF2A 1E030-1E06D 1E08F 1E4D0-1E4F9 2B739 31350-323AF"
    ),
    "15.1.0": "2EBF0-2EE5D",
    "16.0.0": (
        "0897 1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D65 10D69-10D6D 10D6F-10D85 10EC2-10EC4 10EFC "
        "11380-11389 1138B 1138E 11390-113B5 113B7-113C0 113C2 113C5 113C7-113CA 113CC-113D3 113E1-113E2 116D0-116E3 "
        "11BC0-11BE0 11BF0-11BF9 11F5A 13460-143FA 16100-16139 16D40-16D6C 16D70-16D79 18CFF 1CCD6-1CCF9 1E5D0-1E5FA"
    ),
}
VERSION = unicodedata.unidata_version


def code_points(ranges: str) -> list[int]:
    """Return the code points of ranges, both ends included."""
    ends = [[int(end, 16) for end in each.split("-")] for each in ranges.split()]
    return list(chain.from_iterable(range(pair[0], pair[-1] + 1) for pair in ends))


@pytest.mark.skipif(VERSION not in CHANGED, reason=f"the tables of Unicode {VERSION} were not compared yet")
def test_text_without_new_characters_is_cut_alike_by_every_python() -> None:
    changed = code_points(" ".join(CHANGED.values()))
    classes = class_table("unicode", lowercase=True, numbers=True, apostrophes=True).copy()
    classes[changed] = 0
    assert hashlib.sha256(classes.astype("<u4").tobytes()).hexdigest()[:16] == "66fa428882373a04"
