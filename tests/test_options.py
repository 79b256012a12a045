"""Options: types with ranges, in words and in checks, and names that are misspelled."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Annotated, Literal

import numpy as np
import pytest

import distembed as de
from distembed.counting.cooccurrence import CooccurrenceOptions
from distembed.options import (
    Fraction,
    NonNegativeFloat,
    PositiveInt,
    RandomState,
    check_options,
    described,
    fits,
    options_of,
)
from distembed.spelling import did_you_mean, is_form_of

Kind = Literal["a", "b"]


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (PositiveInt, [1, np.int32(7)], [0, -1, 1.0, True, None, "1", np.nan]),
        (PositiveInt | None, [1, None], [0, "none"]),
        (Fraction, [0.5, np.float32(0.1)], [0, 0.0, 1, np.nan, np.inf, "0.5"]),
        (Kind | NonNegativeFloat, ["a", 0.0], ["c", -1.0, ["a"], np.inf]),
        (Sequence[PositiveInt], [[1, 2], (), np.array([1])], [[0], "ab", 1]),
        (bool, [True, np.bool_(False)], [0, 1, None]),
        (RandomState, [0, None, np.random.default_rng(0)], ["0", 0.5]),
    ],
)
def test_a_value_is_held_to_its_type_and_range(annotation, good, bad):
    assert all(fits(value, annotation) for value in good)
    assert not any(fits(value, annotation) for value in bad)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (PositiveInt | None, "an integer of 1 or more, or none"),
        (Fraction, "a number above 0 and below 1"),
        (Kind, '"a" or "b"'),
        (tuple[Kind, ...], 'a list, each "a" or "b"'),
        (dict[str, PositiveInt], "a table, each an integer of 1 or more"),
        (Annotated[str, "a path"], "a path"),
        (bool, "true or false"),
    ],
)
def test_a_type_is_told_in_words(annotation, words):
    assert described(annotation) == words


def test_an_estimator_names_the_option_its_value_and_its_range():
    check_options(de.PSDVec())
    with pytest.raises(ValueError, match="n_iter is 0: give an integer of 1 or more"):
        check_options(de.PSDVec(n_iter=0))
    with pytest.raises(ValueError, match='solver is \'x\': give "krylov" or "power"'):
        check_options(de.LatentSemanticImputation(solver="x"))


def test_counting_has_one_set_of_options():
    by_function, own = (signature(one).parameters for one in (de.count_cooccurrences, CooccurrenceOptions))
    for name, option in options_of(CooccurrenceOptions).items():
        found = (by_function[name].default, by_function[name].annotation)
        assert found == (option.default, own[name].annotation)


def test_the_most_similar_name_is_offered_first_and_a_strange_one_has_none():
    known = ("window", "windows", "weighting")
    assert did_you_mean("windw", known, otherwise="choose c") == "did you mean window?"
    assert did_you_mean("windw", known, otherwise="choose c", n=2) == "did you mean window or windows?"
    assert did_you_mean("xyz", known, otherwise="choose c") == "choose c"


def test_forms_and_compounds_are_told_from_other_words():
    others = ["tabellen", "Texttabelle", "tabs", "spalte", "tab"]
    assert [word for word in others if not is_form_of("tabelle", word)] == ["tabs", "spalte", "tab"]
