"""Names that are spelled like an unknown one."""

from distembed.spelling import did_you_mean, is_form_of


def test_the_most_similar_name_is_offered_first_and_a_strange_one_has_none() -> None:
    known = ("window", "windows", "weighting")
    assert did_you_mean("windw", known, otherwise="choose c") == "did you mean window?"
    assert did_you_mean("windw", known, otherwise="choose c", n=2) == "did you mean window or windows?"
    assert did_you_mean("xyz", known, otherwise="choose c") == "choose c"


def test_forms_and_compounds_are_told_from_other_words() -> None:
    others = ["tabellen", "Texttabelle", "tabs", "spalte", "tab"]
    assert [word for word in others if not is_form_of("tabelle", word)] == ["tabs", "spalte", "tab"]
