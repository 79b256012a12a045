"""WEAT against a plain oracle and the package wefe; planted and shuffled associations; its files and command."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.evaluation import blocks
from distembed.evaluation.bias import AssociationTest, WordList, association_rows, read_association_tests
from distembed.evaluation.wordsets import WordSetError
from distembed.systems.psdvec.job import EvaluationSection, PSDVecJob
from distembed.systems.psdvec.views import bias_audit
from tests.commands import run
from tests.references import bias as plain

BY_WEFE = {
    "WEAT 1": 0.114586, "WEAT 2": -0.166505, "WEAT 3": 0.031787, "WEAT 4": 0.222064, "WEAT 5": 0.621143,
    "WEAT 6": -0.940501, "WEAT 7": 0.345602, "WEAT 8": -0.277161, "WEAT 9": 1.217094, "WEAT 10": 0.784043,
}  # fmt: skip
"""What `python -m tests.benchmarks.weat_by_wefe` printed with wefe 1.0.1."""


def drawn_vectors():
    words = sorted({word for test in read_association_tests() for each in test.lists for word in each.words})
    return de.WordVectors(words, np.random.default_rng(7).normal(size=(len(words), 12)))


def a_test(*lists):
    x, y, a, b = (WordList(f"list {i}", tuple(words)) for i, words in enumerate(lists))
    return AssociationTest("t", (x, y), (a, b))


def test_effect_sizes_equal_those_of_wefe():
    found = de.weat(drawn_vectors(), case="keep", n_permutations=100)
    assert {each.test: each.effect_size for each in found} == pytest.approx(BY_WEFE, abs=1e-6)
    assert [each.known for each in found] == [each.total for each in found]


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_weat_equals_the_oracle(seed, n_x, n_y):
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(n_x + n_y + 5)]
    vectors = de.WordVectors(words, rng.normal(size=(len(words), 3)))
    lists = words[:n_x], words[n_x : n_x + n_y], words[-5:-2], words[-2:]
    [found] = de.weat(vectors, [a_test(*lists)])
    effect, p_value = plain.weat(dict(zip(words, vectors.vectors, strict=True)), *lists)
    assert (found.effect_size, found.p_value) == (pytest.approx(effect, abs=1e-5), pytest.approx(p_value))
    assert (found.n_partitions, found.exact) == (math.comb(n_x + n_y, n_x), True)


def test_sampled_partitions_agree_with_all_of_them():
    rng = np.random.default_rng(5)
    x, y = rng.normal(0.5, 1, 9), rng.normal(0, 1, 9)
    exact = blocks.permutation_test(x, y, max_exact=10**6, n_samples=1, generator=rng)
    sampled = blocks.permutation_test(x, y, max_exact=10, n_samples=20_000, generator=rng)
    assert exact[1:] == (48_620, True)
    assert sampled[1:] == (20_001, False)
    assert sampled[0] == pytest.approx(exact[0], abs=5 * math.sqrt(0.25 / 20_000))


def test_a_planted_bias_is_found_and_a_shuffled_one_is_not():
    rng = np.random.default_rng(6)
    sides = np.repeat([1.0, -1.0, 1.0, -1.0], 8)
    rows = np.column_stack([sides, rng.normal(size=(32, 4))])
    words = [f"w{i}" for i in range(32)]
    vectors = de.WordVectors(words, rows)
    [planted] = de.weat(vectors, [a_test(words[:8], words[8:16], words[16:24], words[24:])])
    assert planted.effect_size > 1.5
    assert planted.p_value < 0.001
    targets = rng.permutation(words[:16]).tolist()
    [shuffled] = de.weat(vectors, [a_test(targets[:8], targets[8:], words[16:24], words[24:])])
    assert abs(shuffled.effect_size) < 1
    assert shuffled.p_value > 0.05


def test_a_p_value_is_never_zero_and_is_the_same_for_a_seed():
    words = [f"w{i}" for i in range(44)]
    sides = np.r_[np.ones(20), -np.ones(20), 1, 1, -1, -1]
    vectors = de.WordVectors(words, np.column_stack([sides, np.ones(44)]))
    test = a_test(words[:20], words[20:40], words[40:42], words[42:])
    [found] = de.weat(vectors, [test], n_permutations=50)
    assert (found.p_value, found.n_partitions, found.exact) == (pytest.approx(1 / 51), 51, False)
    assert de.weat(vectors, [test], n_permutations=50) == [found]


def test_too_few_known_words_give_no_answer():
    vectors = de.WordVectors("abcde", np.random.default_rng(1).normal(size=(5, 3)))
    lists = ["a", "b"], ["c", "nobody"], ["d"], ["e"]
    [found] = de.weat(vectors, [a_test(*lists)])
    assert math.isnan(found.effect_size)
    assert math.isnan(found.p_value)
    assert (found.known, found.total, found.n_partitions) == (5, 6, 0)
    assert association_rows([found])[0]["effect size"] == "-"
    assert de.weat(vectors, [a_test(*lists)], min_known=0.5)[0].n_partitions == 3


def test_words_without_a_difference_have_no_effect():
    vectors = de.WordVectors("abcd", np.ones((4, 2)))
    [found] = de.weat(vectors, [a_test("a", "b", "c", "d")])
    assert math.isnan(found.effect_size)
    assert found.p_value == 1.0


def test_names_are_looked_up_in_lower_case():
    words = list(dict.fromkeys(word.lower() for word in drawn_vectors().words))
    lower = de.WordVectors(words, np.random.default_rng(7).normal(size=(len(words), 12)))
    assert all(not math.isnan(each.effect_size) for each in de.weat(lower, n_permutations=10))
    assert math.isnan(de.weat(lower, case="keep", n_permutations=10)[2].effect_size)


BAD_FILES = {
    "not TOML": ("tests = [", r"bad\.toml is not TOML"),
    "no tests": ('[words]\na = ["b"]\n', r"bad\.toml holds no tests"),
    "one target": (
        '[[tests]]\ntargets = ["a"]\n[words]\na = ["b"]\n',
        r"bad\.toml, test 1: targets is \['a'\]; give",
    ),
    "no table": ("tests = [1]\n[words]\n", r"bad\.toml holds no tests: it needs \[\[tests\]\] and \[words\]"),
    "too deep": (
        f"a = {'[' * 9999}",
        r"bad\.toml holds lists or tables inside each other too deeply; correct it",
    ),
    "no list": (
        '[[tests]]\nname = "n"\ntargets = ["a", "z"]\n[words]\na = ["b"]\n',
        r"bad\.toml, n: there is no list of words 'z' in \[words\]; add it",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(tmp_path, text, message):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(WordSetError, match=message):
        de.weat(drawn_vectors(), tmp_path / "bad.toml")


@pytest.mark.parametrize(("option", "value"), [("min_known", 0), ("min_known", 1.5), ("n_permutations", 0)])
def test_bad_options(option, value):
    with pytest.raises(ValueError, match=f"{option} is {value}: choose"):
        de.weat(drawn_vectors(), **{option: value})


# ---------------------------------------------------------------------------------- the command and the report


def test_the_command_prints_a_table(tmp_path):
    drawn_vectors().save(tmp_path / "drawn.bin")
    done = run("weat", tmp_path / "drawn.bin", "--tests", "{distembed}/evaluation/sets/weat.toml")
    assert done.exit_code == 0
    first = done.output.splitlines()[2].split()
    assert first[:5] == ["WEAT", "1", "flowers", "/", "insects"]
    assert first[-3:] == ["10,001", "drawn", "100/100"]
    absent = run("weat", tmp_path / "drawn.bin", "--tests", tmp_path / "absent.toml")
    assert absent.exit_code == 1
    assert "absent.toml" in absent.output


def test_vectors_of_another_language_are_told_so(tmp_path):
    de.WordVectors(["der", "die"], np.eye(2)).save(tmp_path / "german.txt")
    done = run("weat", tmp_path / "german.txt")
    assert done.exit_code == 1
    assert "no test is answered: each needs 80% of the words" in done.output


def test_the_report_shows_the_tests_that_are_answered():
    [section] = bias_audit(PSDVecJob.model_construct(evaluation=EvaluationSection()), drawn_vectors())
    assert section.title == "Bias audit"
    assert section.html.count("WEAT") == 10
    few = de.WordVectors(["der", "die"], np.eye(2))
    assert bias_audit(PSDVecJob.model_construct(evaluation=EvaluationSection()), few) == []
