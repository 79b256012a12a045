"""Normed priming, priming effects and antonyms against a plain oracle; their files; bad sets."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from distembed.evaluation.priming import associative_strengths
from distembed.evaluation.scoring import Policy
from distembed.evaluation.sparse_space import SparseSpace
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import (
    EvaluationSet,
    find_sets,
    read_set,
)
from distembed.job.model import locate
from distembed.vectors import WordVectors
from tests.references import priming as plain

N_WORDS = 40
KEPT, ALL = Policy(), Policy(unknown="zero")


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(3)
    return WordVectors([f"w{i}" for i in range(N_WORDS)], rng.normal(size=(N_WORDS, 5)))


@pytest.fixture(scope="module")
def table(vectors):
    return dict(zip(vectors.words, vectors.vectors, strict=True))


def some_norms(seed, n_pairs=120, n_words=N_WORDS):
    rng = np.random.default_rng(seed)
    pairs = {(f"w{a}", f"w{b}") for a, b in rng.integers(n_words, size=(n_pairs, 2)) if a != b}
    return {pair: float(share) for pair, share in zip(sorted(pairs), rng.random(len(pairs)), strict=True)}


def association_set(shares):
    return EvaluationSet("norms", "normed priming", list(shares), np.array(list(shares.values())))


# ------------------------------------------------------------------------------------------ normed priming


@given(st.integers(0, 10**6), st.integers(2, 60))
def test_strengths_equal_the_oracle(seed, n_pairs):
    shares = some_norms(seed, n_pairs, 9)
    if not shares:
        return
    pairs = np.array([[int(word[1:]) for word in pair] for pair in shares])
    ours = associative_strengths(pairs[:, 0], pairs[:, 1], np.array(list(shares.values())))
    np.testing.assert_allclose(
        np.transpose([*ours.values()]), list(plain.strengths(shares).values()), atol=1e-14
    )


def test_normed_priming_equals_the_oracle(vectors, table):
    shares = some_norms(1) | {("w1", "nobody"): 0.5, ("nobody", "w1"): 0.1}
    shares = {pair: round(share, 1) for pair, share in shares.items()}  # strengths that tie
    scores = evaluate_sets(vectors, [association_set(shares)])
    for i, score in enumerate(scores):
        value, n_cues = plain.normed_priming(table, shares, i)
        assert score.value == pytest.approx(value, abs=1e-12)
        assert (score.known, score.total) == (n_cues, len({a for a, _ in shares}))
        assert score.interval[0] < score.value < score.interval[1]
    assert [score.metric for score in scores] == ["S1 spearman", "S2 spearman", "S3 spearman"]
    assert {score.task for score in scores} == {"normed priming"}


def test_vectors_made_from_strengths_are_perfect():
    """Plant the norms: the cosine of a cue with its targets falls as its strength does."""
    angles = np.array([0.0, 0.1, 0.5, 0.9, 1.3])
    vectors = WordVectors("abcde", np.column_stack([np.cos(angles), np.sin(angles)]))
    shares = {("a", "b"): 0.4, ("a", "c"): 0.3, ("a", "d"): 0.2, ("a", "e"): 0.1}
    assert [score.value for score in evaluate_sets(vectors, [association_set(shares)])] == [1.0] * 3
    worst = {pair: 1 - share for pair, share in shares.items()}
    assert evaluate_sets(vectors, [association_set(worst)])[0].value == -1.0


def test_cues_without_a_correlation(vectors):
    shares = {("w1", "w2"): 0.5, ("w1", "w3"): 0.5, ("w1", "w4"): 0.5, ("w5", "w6"): 0.3, ("x", "y"): 0.1}
    skipped = evaluate_sets(vectors, [association_set(shares)], KEPT)[0]
    assert np.isnan(skipped.value)
    assert (skipped.known, skipped.total, skipped.interval) == (0, 3, None)
    counted = evaluate_sets(vectors, [association_set(shares)], ALL)[0]
    assert (counted.value, counted.known, counted.total) == (0.0, 1, 3)


# ---------------------------------------------------------------------------------------- semantic priming


def priming_set(pairs, relations, seed=0):
    milliseconds = np.random.default_rng(seed).normal(20, 30, size=(len(pairs), 2))
    return EvaluationSet("spp", "priming", pairs, milliseconds, relations)


def test_priming_effect_equals_the_oracle(vectors, table):
    pairs = [(f"w{i}", f"w{i + 20}") for i in range(20)] + [("w3", "w21"), ("w3", "w22"), ("w4", "nobody")]
    relations = [("synonym",)] * 12 + [("antonym", "synonym")] * 3 + [("antonym",)] * 8
    scores = {score.metric: score for score in evaluate_sets(vectors, [priming_set(pairs, relations)])}
    for relation, counts in (("synonym", (15, 15)), ("antonym", (10, 11))):
        mine = [
            pair for pair, names in zip(pairs, relations, strict=True)
            if relation in names and "nobody" not in pair
        ]  # fmt: skip
        found = [scores[f"{relation} {part}"] for part in ("related", "unrelated", "effect")]
        assert [score.value for score in found] == pytest.approx(plain.priming_effect(table, mine), abs=1e-6)
        assert {(score.known, score.total) for score in found} == {counts}
        assert found[2].interval[0] < found[2].value < found[2].interval[1]


def test_correlation_with_milliseconds(vectors, table):
    pairs = [(f"w{i}", f"w{i + 20}") for i in range(20)]
    cosines = [plain.cosine(table[a], table[b]) for a, b in pairs]
    milliseconds = np.column_stack([np.array(cosines) * 50, -np.array(cosines)])
    milliseconds[0, 1] = np.nan
    scores = evaluate_sets(
        vectors, [EvaluationSet("spp", "priming", pairs, milliseconds, [("synonym",)] * 20)]
    )
    early, late = (score for score in scores if score.task == "priming")
    assert (early.metric, early.value, early.known) == ("200 ms spearman", pytest.approx(1.0), 20)
    assert (late.metric, late.value, late.known) == ("1200 ms spearman", pytest.approx(-1.0), 19)


def test_a_relation_of_one_pair_has_no_unrelated(vectors):
    scores = evaluate_sets(vectors, [priming_set([("w1", "w2")], [("action",)])])
    assert [np.isnan(score.value) for score in scores] == [False, True, True, True, True]
    unknown = evaluate_sets(vectors, [priming_set([("x", "y")], [("action",)])])
    assert all(np.isnan(score.value) and score.interval is None for score in unknown)
    assert {(score.known, score.total) for score in unknown} == {(0, 1)}


# ------------------------------------------------------------------------------------------------ antonyms


@pytest.mark.parametrize("words_at_once", [4096, 7])
def test_antonyms_equal_the_oracle(vectors, table, monkeypatch, words_at_once):
    monkeypatch.setattr("distembed.evaluation.priming.WORDS_AT_ONCE", words_at_once)
    rng = np.random.default_rng(8)
    pairs = [tuple(f"w{i}" for i in rng.choice(N_WORDS, 2, replace=False)) for _ in range(30)]
    nearest = vectors.most_similar("w0", 1)[0].word
    for some in (pairs, [("w0", nearest)]):
        (score,) = evaluate_sets(vectors, [EvaluationSet("a", "antonyms", [*some, ("w1", "nobody")])])
        assert score.value == pytest.approx(plain.antonym_score(table, some), abs=1e-12)
        sparse = SparseSpace(vectors.words, csr_array(vectors.vectors), is_whole=True)
        assert evaluate_sets(sparse, [EvaluationSet("a", "antonyms", [*some, ("w1", "nobody")])]) == [score]
        assert (score.metric, score.known, score.total) == ("2 / (rank + rank)", len(some), len(some) + 1)
    counted = evaluate_sets(vectors, [EvaluationSet("a", "antonyms", [*pairs, ("w1", "nobody")])], ALL)[
        0
    ].value
    assert counted == pytest.approx(plain.antonym_score(table, pairs) * 30 / 31)


def test_antonyms_of_one_direction_are_nearest():
    vectors = WordVectors("abcd", [[1, 0], [2, 0], [0, 1], [3, 0]])
    (score,) = evaluate_sets(vectors, [EvaluationSet("a", "antonyms", [("a", "b"), ("b", "d")])])
    assert score.value == 1.0
    with pytest.raises(TypeError, match="a asks for ranks among all words, and the sparse"):
        evaluate_sets(
            SparseSpace("abcd", csr_array(np.eye(4))), [EvaluationSet("a", "antonyms", [("a", "b")])]
        )


def test_words_nearer_by_no_more_than_rounding_share_a_rank():
    """The last digit of single precision in a twin of a word must not put the twin before the word."""
    cosine, sine = np.float32([0.8775826, 0.47942555])
    twin, nearer = np.nextafter(sine, np.float32(0)), np.float32(0.47)
    for other, rank in ((twin, 1), (nearer, 2)):
        vectors = WordVectors("abc", np.array([[1, 0], [cosine, sine], [cosine, other]], np.float32))
        (score,) = evaluate_sets(vectors, [EvaluationSet("a", "antonyms", [("a", "b")])])
        assert score.value == 2 / (rank + 2), "b is nearer to c than to a"


def test_the_pairs_of_deese():
    deese = read_set(locate("{distembed}/evaluation/sets/deese.tsv", Path()))
    assert deese.task == "antonyms"
    assert len(set(deese.items)) == 39
    assert deese.items[0] == ("active", "passive")


# --------------------------------------------------------------------------------------------------- files

NORMS = "CUE\tTARGET\tFSG\tBSG\nA\tB\t.5\t\nA\tB's \"C\t.25\t.1\nA\t\t.1\t\n"
SPP = (
    "TargetWord,Prime,Relation1,Relation2,LDT 200ms RT Priming,LDT 1200ms RT Priming\n"
    "hot,COLD,antonymn,,12.5,\nrose,FLOWER,,fpa,3,-4\n"
)


def test_files(tmp_path):
    (tmp_path / "norms.tsv.xz").write_bytes(lzma.compress(NORMS.encode()))
    (tmp_path / "spp.csv").write_text(SPP)
    norms, spp = find_sets(tmp_path).sets
    assert norms.items == [("A", "B"), ("A", "B's \"C")]
    assert (norms.name, norms.values.tolist()) == ("norms", [0.5, 0.25])
    assert spp.items == [("COLD", "hot"), ("FLOWER", "rose")]
    assert spp.groups == [("antonym",), ("forward phrasal",)]
    np.testing.assert_equal(spp.values, [[12.5, np.nan], [3, -4]])
