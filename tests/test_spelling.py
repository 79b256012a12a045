"""Names that are spelled like an unknown one."""

from distembed.spelling import did_you_mean


def test_the_most_similar_name_is_offered_first_and_a_strange_one_has_none() -> None:
    known = ("window", "windows", "weighting")
    assert did_you_mean("windw", known, otherwise="choose c") == "did you mean window?"
    assert did_you_mean("windw", known, otherwise="choose c", n=2) == "did you mean window or windows?"
    assert did_you_mean("xyz", known, otherwise="choose c") == "choose c"
