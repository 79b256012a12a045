"""Names that are spelled like an unknown one."""

from distembed.spelling import did_you_mean, spelled_like


def test_the_most_similar_name_is_offered_first_and_a_strange_one_has_none() -> None:
    known = ("window", "windows", "weighting")
    assert spelled_like("windw", known, n=2) == ["window", "windows"]
    assert spelled_like("xyz", known) == []
    assert did_you_mean(["a", "b"], otherwise="choose c") == "did you mean a or b?"
    assert did_you_mean([], otherwise="choose c") == "choose c"
