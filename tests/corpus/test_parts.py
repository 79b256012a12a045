"""Parts of a corpus by labels and dates, and groups of their documents that are dealt at random."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.corpus.parts import (
    NO_PART,
    chosen_parts,
    day_of,
    deal_groups,
    even_edges,
    parts_by_date,
    parts_by_value,
)

WHERE = list("abcdef")


@pytest.mark.parametrize(
    ("value", "day"),
    [("1843", (1843, 1, 1)), ("-44", (-44, 1, 1)), ("2020-02-29T10:00:00", (2020, 2, 29))],
)
def test_a_date_is_a_year_or_as_iso_writes_it(value, day):
    assert day_of(value, "x") == day


def test_bins_take_their_first_day_and_not_their_last():
    values = ["1799-12-31", "1800", "1849-12-31", "1850-01-01", "1900", None]
    parts = parts_by_date(values, ["1800", "1850", "1900"], WHERE)
    assert parts.names == ("1800-1849", "1850-1899")
    assert parts.of.tolist() == [NO_PART, 0, 0, 1, NO_PART, NO_PART]
    days = parts_by_date(["1914-09-01"], ["1914-08-01", "1918-11-12"], WHERE[:1])
    assert days.names == ("1914-08-01 to before 1918-11-12",)
    once = parts_by_date(["1913", "1914-08-01", None], ["1914-08-01"], WHERE[:3])
    assert once.names == ("before 1914-08-01", "from 1914-08-01 on")
    assert once.of.tolist() == [0, 1, NO_PART]
    assert even_edges(["1843", "1869"], 10, WHERE[:2]) == ["1840", "1850", "1860", "1870"]


def test_parts_are_chosen_by_name_in_any_order():
    chosen = chosen_parts(parts_by_value(["x", "y", "z", "x", ""]), ["z", "x"])
    assert chosen.names == ("x", "z")
    assert chosen.of.tolist() == [0, NO_PART, 1, 0, NO_PART]


def test_groups_depend_on_names_and_not_on_their_order():
    rng = np.random.default_rng(0)
    names = [f"d{number}" for number in range(50)]
    labels = ["x" if number % 3 else "y" for number in range(49)] + [None]
    order = rng.permutation(50)
    groups, sizes = deal_groups(parts_by_value(labels), names, 8, 0)
    mixed = parts_by_value([labels[row] for row in order])
    np.testing.assert_array_equal(deal_groups(mixed, [names[row] for row in order], 8, 0)[0], groups[order])
    assert (sizes, groups[49]) == ([8, 8], 16)
    assert np.ptp(np.bincount(groups[:49])[:8]) <= 1
    assert (deal_groups(parts_by_value(labels), names, 8, 1)[0] != groups).any()


def test_documents_of_one_file_are_in_one_group():
    parts = parts_by_value(["x"] * 6 + ["y"] * 4)
    groups, sizes = deal_groups(parts, list("aabbcc") + list("ddee"), 20, 0)
    assert sizes == [3, 2]
    assert (groups[::2] == groups[1::2]).all()


NO_DATE = r"the document 'carol' has .*, which is no date: write a year"
XYZ = parts_by_value(["x", "y", "z"])
REFUSED = [
    *((lambda value=value: day_of(value, "the document 'carol'"), NO_DATE)
      for value in ("old", "1843-13", "1843-02-30", "19.12.1843", "", "18430")),
    (lambda: parts_by_date(["1843"], ["1800", "1850", "1850"], ["a"]),
     r"parts\.bins has 1850 before 1850: give dates that rise"),
    (lambda: chosen_parts(XYZ, ["x", "x"]), r"parts\.names has 'x' twice: name each part once"),
    (lambda: chosen_parts(XYZ, ["q"]), r"parts\.names has 'q'; the parts of the corpus are x, y, z"),
    (lambda: deal_groups(parts_by_date(["1801", "1802"], ["1800", "1850", "1900"], WHERE[:2]), ["a", "b"], 8, 0),
     r"the part '1850-1899' has no documents: give other bins"),
    (lambda: deal_groups(parts_by_value(["x", "x", "y"]), list("abc"), 8, 0),
     r"the part 'y' has one document or file alone, 'c'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_makes_no_parts_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
