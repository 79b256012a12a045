"""Scores of words against a plain oracle, SciPy and gensim: of dense, sparse and composed vectors, and item by item."""

from __future__ import annotations

import json
from functools import partial

import dask.array as da
import numpy as np
import pytest
import scipy.stats
from gensim.models import KeyedVectors
from gensim.test.utils import datapath
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from distembed.evaluation.analogies import answer_analogies
from distembed.evaluation.priming import associative_strengths
from distembed.evaluation.scoring import Measure, ask, bootstrap_interval, spearman
from distembed.evaluation.sparse_space import SparseSpace, nearest_words
from distembed.evaluation.words import (
    Policy,
    evaluate,
    evaluate_sets,
    item_table,
    on_common_words,
    score_records,
)
from distembed.evaluation.wordsets import EvaluationSet
from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable
from tests.references import evaluation as plain
from tests.references import priming

WORDS = [f"w{number}" for number in range(60)]
VECTORS = WordVectors(WORDS, np.vstack([np.random.default_rng(11).normal(size=(59, 5)), np.zeros(5)]))
TABLE = dict(zip(WORDS, VECTORS.vectors, strict=True))
SPARSE = SparseSpace(WORDS, csr_array(VECTORS.vectors), is_whole=True)
ZERO = Policy(unknown="zero")


def one(scores):
    assert len(scores) == 1
    return scores[0]


def drawn(seed, n_items, n_words, *, n_all=60):
    """Return items of different words, none twice."""
    rng = np.random.default_rng(seed)
    items = {tuple(f"w{i}" for i in rng.choice(n_all, n_words, replace=False)) for _ in range(2 * n_items)}
    return sorted(items)[:n_items]


def shares_of(seed, n_items, *, n_all=60):
    """Return the shares of people who gave an answer to a cue, by the pair of words."""
    pairs = drawn(seed, n_items, 2, n_all=n_all)
    return dict(zip(pairs, np.random.default_rng(seed).random(len(pairs)).tolist(), strict=True))


def answers(questions, method="add"):
    return [plain.answer(TABLE, *question[:3], method=method) for question in questions]


def share_right(method):
    return np.mean([found == item[3] for found, item in zip(answers(KNOWN, method), KNOWN, strict=True)])


# ---------------------------------------------------------------------------- the sets, and what the oracle says

PAIRS = drawn(5, 30, 2)
HUMAN = np.random.default_rng(5).integers(5, size=31).astype(float)
COSINES = [plain.cosine(TABLE[a], TABLE[b]) for a, b in PAIRS]
QUESTIONS = drawn(12, 40, 4)
RIGHT = [(*item[:3], word) for item, word in zip(QUESTIONS, answers(QUESTIONS[:10]), strict=False)]
KNOWN = [*RIGHT, *QUESTIONS[10:], ("w1", "w2", "w3", "w4")]
NORMS = {pair: round(share, 1) for pair, share in shares_of(1, 120, n_all=40).items()}  # strengths that tie
NORMS |= {("w1", "nobody"): 0.5, ("nobody", "w1"): 0.1}
PRIMES = [(f"w{i}", f"w{i + 20}") for i in range(20)] + [("w3", "w32"), ("w3", "w22"), ("w4", "nobody")]
RELATIONS = [("synonym",)] * 12 + [("antonym", "synonym")] * 3 + [("antonym",)] * 8
MILLISECONDS = np.random.default_rng(0).normal(20, 30, size=(23, 2))
MILLISECONDS[0, 1] = np.nan
OPPOSITES = drawn(8, 30, 2, n_all=59)
OF_PRIMES = [plain.cosine(TABLE[a], TABLE[b]) for a, b in PRIMES[:-1]]

SETS = {
    each.task: each
    for each in (
        EvaluationSet("s", "similarity", [*PAIRS, ("w1", "nobody")], HUMAN),
        EvaluationSet("l", "linear similarity", [*PAIRS, ("w1", "nobody")], HUMAN),
        EvaluationSet("q", "analogy", [*KNOWN[:-1], ("W1", "w2", "w3", "w4"), ("w1", "w2", "w3", "nobody")]),
        EvaluationSet("n", "normed priming", list(NORMS), np.array(list(NORMS.values()))),
        EvaluationSet("p", "priming", PRIMES, MILLISECONDS, RELATIONS),
        EvaluationSet("a", "antonyms", [*OPPOSITES, ("w1", "nobody")]),
        EvaluationSet("c", "synonym", [*drawn(4, 9, 3), ("w3", "w4", "w6", "w7"), ("w5", "w8", "nobody")]),
        EvaluationSet("k", "categorization", [*zip(WORDS[:9]), ("nobody",)], groups=list("aaabbbccca")),
    )
}


def of_relation(name):
    pairs = [pair for pair, names in zip(PRIMES[:-1], RELATIONS, strict=False) if name in names]
    values = zip(("related", "unrelated", "effect"), priming.priming_effect(TABLE, pairs), strict=True)
    total = sum(name in names for names in RELATIONS)
    return {f"{name} {part}": (value, len(pairs), total) for part, value in values}


ORACLE = {
    "similarity": lambda: {"spearman": (plain.spearman(COSINES, HUMAN[:30]), 30, 31)},
    "linear similarity": lambda: {"pearson": (scipy.stats.pearsonr(COSINES, HUMAN[:30]).statistic, 30, 31)},
    "analogy": lambda: {"3CosAdd": (share_right("add"), 41, 42), "3CosMul": (share_right("mul"), 41, 42)},
    "normed priming": lambda: {
        f"S{i + 1} spearman": (*priming.normed_priming(TABLE, NORMS, i), len({cue for cue, _ in NORMS}))
        for i in range(3)
    },
    "priming": lambda: (
        of_relation("synonym")
        | of_relation("antonym")
        | {
            "200 ms spearman": (plain.spearman(OF_PRIMES, MILLISECONDS[:22, 0]), 22, 23),
            "1200 ms spearman": (plain.spearman(OF_PRIMES[1:], MILLISECONDS[1:22, 1]), 21, 23),
        }
    ),
    "antonyms": lambda: {"2 / (rank + rank)": (priming.antonym_score(TABLE, OPPOSITES), 30, 31)},
}


@pytest.mark.parametrize("task", ORACLE)
def test_scores_equal_the_oracle(task):
    expected, scores = ORACLE[task](), evaluate_sets(VECTORS, [SETS[task]])
    assert [score.metric for score in scores] == list(expected)
    for score in scores:
        value, known, total = expected[score.metric]
        assert score.value == pytest.approx(value, abs=1e-6), score.metric
        assert (score.known, score.total) == (known, total), score.metric
        effect = "priming effect" if score.metric.split()[0] in ("synonym", "antonym") else task
        assert score.task == effect.removeprefix("linear ")
        assert score.policy == "lower case, unknown skip"
        if score.metric.endswith("related"):
            assert score.interval is None
        else:
            assert score.interval[0] < score.value < score.interval[1]


def test_unknown_words_count_as_zero_where_the_policy_says_so():
    zero = {task: evaluate_sets(VECTORS, [SETS[task]], ZERO)[0].value for task in ORACLE}
    assert zero["similarity"] == pytest.approx(plain.spearman([*COSINES, 0.0], HUMAN), abs=1e-12)
    assert zero["analogy"] == pytest.approx(share_right("add") * 41 / 42)
    assert zero["antonyms"] == pytest.approx(priming.antonym_score(TABLE, OPPOSITES) * 30 / 31)


@pytest.mark.parametrize("policy", [Policy(), ZERO])
@pytest.mark.parametrize("task", [task for task in SETS if task != "analogy"])
def test_a_sparse_space_has_the_scores_of_its_rows_held_dense(task, policy):
    sparse, dense = (evaluate_sets(space, [SETS[task]], policy) for space in (SPARSE, VECTORS))
    for mine, expected in zip(sparse, dense, strict=True):
        assert mine._replace(value=0, interval=None) == expected._replace(value=0, interval=None)
        assert mine.value == pytest.approx(expected.value, abs=1e-6, nan_ok=True)


def rows_of(word_set, policy=None, **candidates):
    return item_table(candidates or {"v": VECTORS}, [word_set], policy or Policy()).to_pylist()


@pytest.mark.parametrize("task", SETS)
def test_an_item_has_its_points_or_its_cosine_beside_the_human_score(task):
    """The mean of the points is the score of the set."""
    word_set, rows = SETS[task], rows_of(SETS[task])
    known = [row for row in rows if row["known"]]
    assert [row["known"] for row in rows] == ["nobody" not in item for item in word_set.items]
    assert {row["score"] for row in rows if not row["known"]} <= {None}
    if task in ("analogy", "synonym", "categorization"):
        score = evaluate_sets(VECTORS, [word_set])[0]
        assert (len(known), len(rows)) == (score.known, score.total)
        assert np.mean([row["score"] for row in known]) == pytest.approx(score.value)
    else:
        cosines = [plain.cosine(TABLE[row["word1"]], TABLE[row["word2"]]) for row in known]
        np.testing.assert_allclose([row["score"] for row in known], cosines, atol=1e-6)
        values = word_set.values.tolist() if word_set.name in "sln" else [None] * len(rows)
        assert [row["value"] for row in rows] == values


def test_every_candidate_has_a_row_of_each_item_and_longer_items_more_words():
    synonyms = EvaluationSet("s", "synonym", [("w0", "w1", "w2"), ("w3", "w4", "w6", "w7")])
    rows = rows_of(synonyms, a=VECTORS, b=VECTORS.head(3))
    assert [(row["vectors"], row["word4"], row["known"]) for row in rows] == [
        ("a", None, True), ("a", "w7", True), ("b", None, True), ("b", "w7", False),
    ]  # fmt: skip
    assert item_table({"v": VECTORS}, [], Policy()).num_rows == 0


# ------------------------------------------------------------------------------------------- the parts of a score

few_values = st.sampled_from([0.0, 1.0, 2.5, -1.0])


@given(hnp.arrays(np.float64, st.tuples(st.just(2), st.integers(2, 30)), elements=few_values))
def test_spearman_with_ties_equals_scipy(xy):
    ours = spearman(xy[0], xy[1])
    if np.ptp(xy[0]) == 0 or np.ptp(xy[1]) == 0:
        assert np.isnan(ours)
    else:
        assert ours == pytest.approx(scipy.stats.spearmanr(xy[0], xy[1]).statistic, abs=1e-12)


def test_the_interval_has_its_ends_at_the_percentiles_of_95_percent():
    values = iter(np.linspace(0, 100, 1000))
    three = [np.zeros(3)]
    interval = bootstrap_interval(lambda draws: np.array([next(values) for _ in draws]), three, 0)
    assert interval == pytest.approx((2.5, 97.5))
    assert bootstrap_interval(lambda draws: draws[:, 0], [np.zeros(2)], 0) is None
    scores = [Measure("share", (np.ones(n),)).score("s", "t", (n, n), Policy()) for n in (10_000, 10_001)]
    assert [score.interval for score in scores] == [(1, 1), None]


@pytest.mark.parametrize("max_block_words", [60, 17, 1])
def test_answers_equal_the_oracle_for_any_blocks_and_the_first_of_equal_ones(monkeypatch, max_block_words):
    monkeypatch.setattr("distembed.evaluation.analogies.MAX_BLOCK_WORDS", max_block_words)
    monkeypatch.setattr("distembed.evaluation.analogies.MIN_BLOCK_WORDS", 1)
    found = answer_analogies(VECTORS, np.array([VECTORS.index(question[:3]) for question in KNOWN]))
    assert [WORDS[row] for row in found.add_row] == answers(KNOWN)
    assert [WORDS[row] for row in found.mul_row] == answers(KNOWN, "mul")
    twice = WordVectors("abcxy", [[1, 0], [0, 1], [1, 1], [1, 2], [1, 2]])
    assert answer_analogies(twice, np.array([[0, 1, 2]])).add_row.tolist() == [3]


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_strengths_equal_the_oracle(seed, n_pairs):
    shares = shares_of(seed, n_pairs, n_all=9)
    cues, targets = np.array([[int(word[1:]) for word in pair] for pair in shares]).T
    ours = associative_strengths(cues, targets, np.array(list(shares.values())))
    expected = list(priming.strengths(shares).values())
    np.testing.assert_allclose(np.transpose([*ours.values()]), expected, atol=1e-14)


def test_cues_without_a_correlation():
    shares = {("w1", "w2"): 0.5, ("w1", "w3"): 0.5, ("w1", "w4"): 0.5, ("w5", "w6"): 0.3, ("x", "y"): 0.1}
    norms = EvaluationSet("norms", "normed priming", list(shares), np.array(list(shares.values())))
    skipped, counted = (evaluate_sets(VECTORS, [norms], policy)[0] for policy in (Policy(), ZERO))
    assert np.isnan(skipped.value)
    assert (skipped.known, skipped.total, skipped.interval) == (0, 3, None)
    assert (counted.value, counted.known, counted.total) == (0.0, 1, 3)


def test_a_relation_of_one_pair_has_no_unrelated():
    known, unknown = (
        evaluate_sets(VECTORS, [EvaluationSet("p", "priming", [pair], np.ones((1, 2)), [("action",)])])
        for pair in (("w1", "w2"), ("x", "y"))
    )
    assert [np.isnan(score.value) for score in known] == [False, True, True, True, True]
    assert {(score.known, score.total, score.interval) for score in unknown} == {(0, 1, None)}


def test_words_nearer_by_no_more_than_rounding_share_a_rank(monkeypatch):
    """The last digit of single precision in a twin of a word must not put the twin before the word."""
    monkeypatch.setattr("distembed.evaluation.priming.WORDS_AT_ONCE", 2)
    cosine, sine = np.float32([0.8775826, 0.47942555])
    twin, nearer = np.nextafter(sine, np.float32(0)), np.float32(0.47)
    for other, rank in ((twin, 1), (nearer, 2)):
        vectors = WordVectors("abc", np.array([[1, 0], [cosine, sine], [cosine, other]], np.float32))
        score = one(evaluate_sets(vectors, [EvaluationSet("a", "antonyms", [("a", "b")])]))
        assert score.value == 2 / (rank + 2), "b is nearer to c than to a"


def test_synonym_policy():
    words = ["q", "right", "wrong", "twin", "a_hurry"]
    vectors = WordVectors(words, [[1, 0], [1, 0.1], [0, 1], [1, 0.1], [1, 0]])
    options = [("right", "wrong"), ("wrong", "right"), ("right", "twin", "wrong"), ("right", "nobody")]
    options += [("nobody", "wrong"), ("a hurry", "wrong"), ("wrong", "right", "twin", "nobody")]
    questions = EvaluationSet("s", "synonym", [("q", *each) for each in options])
    score = one(evaluate_sets(vectors, [questions]))
    assert (score.known, score.total) == (4, 7)
    assert score.value == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    assert one(evaluate_sets(vectors, [questions], ZERO)).value == pytest.approx(2.5 / 7)


def test_categories_of_separate_clusters_are_pure():
    rng, kinds = np.random.default_rng(1), np.repeat(["x", "y", "z"], 10).tolist()
    rows = np.repeat(np.eye(3, 4), 10, axis=0) * rng.uniform(1, 9, (30, 1)) + 0.05 * rng.normal(size=(30, 4))
    vectors, words = WordVectors(WORDS[:30], rows), [(word,) for word in WORDS[:30]]
    for own, purity in ((kinds, 1), ([*kinds[1:], "x"], 27 / 30)):
        score = one(evaluate_sets(vectors, [EvaluationSet("s", "categorization", words, groups=own)]))
        assert score.value == pytest.approx(purity)
        assert (score.interval == (1.0, 1.0)) == (purity == 1)


def test_nothing_known_is_nan_and_none_in_json():
    words = [("x", "y", "z", "v")[: len(each.items[0])] for each in SETS.values()]
    sets = [
        each._replace(items=[item], values=each.values[:1], groups=each.groups[:1])
        for each, item in zip(SETS.values(), words, strict=True)
    ]
    scores = evaluate_sets(VECTORS, sets)
    assert all(np.isnan(score.value) and score.known == 0 and score.interval is None for score in scores)
    records = json.loads(json.dumps(score_records(scores), allow_nan=False))
    assert {record["value"] for record in records} == {None}


@pytest.mark.parametrize("chunks", [(60,), (23, 37)])
@pytest.mark.parametrize("kind", [csr_array, np.asarray])
def test_nearest_words_equal_those_of_dense_vectors(chunks, kind):
    space = da.from_array(VECTORS.vectors, chunks=(chunks, -1))
    if kind is csr_array:
        space = space.map_blocks(csr_array, meta=csr_array((0, 0), dtype=np.float32))
    found = nearest_words(space, WORDS, ["w3", "w0", "w59"], n=4)
    for word in ("w3", "w0"):
        expected = VECTORS.most_similar(word, n=4)
        assert [near for near, _ in found[word]] == [near.word for near in expected]
        cosines = [near.similarity for near in expected]
        np.testing.assert_allclose([cosine for _, cosine in found[word]], cosines, atol=1e-6)
    assert found["w59"] == []  # its row is zeros


def test_unsorted_rows_are_sorted_and_the_argument_is_not():
    rows = csr_array((np.array([1.0, 2.0], np.float32), np.array([3, 1]), np.array([0, 2])), shape=(1, 5))
    space = SparseSpace(["a"], rows)
    assert space.rows.indices.tolist() == [1, 3]
    assert rows.indices.tolist() == [3, 1]


# ------------------------------------------------------------------------------------------ which words are known

CAPITALS = WordVectors(["Haus", "haus", "Hund", "HUND", "katze", "New_York"], np.eye(6) + 0.1)
GERMAN = EvaluationSet(
    "german", "similarity", [("Haus", "Hund"), ("Katze", "hund"), ("new york", "haus")], np.arange(3.0)
)


@pytest.mark.parametrize(
    ("case", "rows"),
    [
        ("auto", [[0, 2], [4, -1], [-1, 1]]),
        ("lower", [[1, -1], [4, -1], [-1, 1]]),
        ("keep", [[0, 2], [-1, -1], [-1, 1]]),
        ("ignore", [[0, 2], [4, 2], [5, 1]]),
    ],
)
def test_words_are_looked_up_as_the_case_policy_says(case, rows):
    assert ask(CAPITALS, GERMAN, Policy(case)).rows.tolist() == rows
    sparse = SparseSpace(CAPITALS.words, csr_array(CAPITALS.vectors))
    assert ask(sparse, GERMAN, Policy(case)).rows.tolist() == rows


def test_a_vocabulary_in_lower_case_needs_no_other_spelling():
    lower = WordVectors(["haus", "hund"], np.eye(2))
    scores = [one(evaluate_sets(lower, [GERMAN], Policy(case))) for case in ("auto", "lower")]
    assert repr(scores[0]) == repr(scores[1])
    assert one(evaluate_sets(CAPITALS, [GERMAN])).policy == "as written, then lower case, unknown skip"


TWO = [EvaluationSet("two", "similarity", [("haus", "hund"), ("katze", "haus")], np.array([3.0, 1.0]))]
THREE = WordVectors(["Haus", "Hund", "Katze"], np.eye(3))
OTHER = WordVectors(["chien", "chat"], np.eye(2))
BROKEN = csr_array(np.array([[1.0, np.nan]]))
REFUSED = [
    (partial(SparseSpace, WORDS[:3], SPARSE.rows), "give one row per word"),
    (partial(SparseSpace, [*WORDS[:59], "w0"], SPARSE.rows), "59 of them distinct"),
    (partial(SparseSpace, "a", BROKEN), "NaN or infinity"),
    (
        partial(evaluate, THREE, TWO),
        r"^0 of 2 pairs known \(two\): .* keeps capitals; .* \"ignore\" 3 of their 3",
    ),
    (
        partial(evaluate_sets, OTHER, TWO, Policy("ignore"), name="b", needs_known=True),
        r"^b: 0 of 2 pairs known .*of the same language and spelling",
    ),
    (partial(evaluate, THREE, TWO, unknown="drop"), "unknown is 'drop'; give one of 'skip', 'zero'"),
    (partial(evaluate, THREE, TWO, case="upper"), "case is 'upper'; give one of 'auto', 'lower'"),
    (
        partial(evaluate_sets, THREE, [], Policy(unknown="subwords"), name="b.txt"),
        r'unknown is "subwords", and there is no table of n-grams .* in b\.txt',
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_what_cannot_be_scored_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_sparse_space_of_some_words_is_not_asked_for_all():
    some = SparseSpace(WORDS, SPARSE.rows)
    for task, sentence in (
        ("analogy", "analogies, which need word vectors"),
        ("antonyms", "a asks for ranks among all"),
    ):
        with pytest.raises(TypeError, match=sentence):
            evaluate_sets(some, [SETS[task]])


def test_vectors_are_compared_on_their_common_words_and_the_first_or_some_of_them():
    pairs = [(f"w{i}", f"w{i + 1}") for i in range(59)]
    sets = [EvaluationSet("s", "similarity", pairs, np.arange(59.0) % 7)]
    smaller = WordVectors(WORDS[:20], np.random.default_rng(2).normal(size=(20, 3)))
    common = on_common_words({"all": VECTORS, "few": smaller})
    scores = {name: one(evaluate(vectors, sets)) for name, vectors in common.items()}
    assert [score.answered for score in scores.values()] == ["19/59", "19/59"]
    assert scores["all"] == one(evaluate(VECTORS.head(20), sets))
    assert scores["all"] == one(evaluate(VECTORS, sets, max_words=20))
    assert scores["all"] == one(evaluate(VECTORS, sets, restrict=WORDS[:20]))
    with pytest.raises(ValueError, match="the vectors of all, none share no word: give"):
        on_common_words({"all": VECTORS, "none": WordVectors(["W1"], np.ones((1, 3)))})


# ----------------------------------------------------------------------------- words that are composed of n-grams

NGRAMS = ("kin", "que", "man", "wom", "car", "ly>", "s>")
MADE = np.random.default_rng(11).normal(size=(14, 5))
COMPOSED = WordVectors(
    ["king", "queen", "man", "woman", "car", "cars"],
    MADE[:6],
    subwords=SubwordTable(MADE[6:13], MADE[13], 2, 3, ngrams=NGRAMS),
)
OF_KINGS = [("king", "queen"), ("king", "kingly"), ("manly", "womanly"), ("car", "Kings"), ("cars", "car")]
KINGS = EvaluationSet("pairs", "similarity", OF_KINGS, np.array([8.0, 7, 5, 1, 9]))
PLURALS = EvaluationSet(
    "plurals", "analogy", [("car", "cars", "king", "kings"), ("man", "woman", "king", "queen")]
)
OPPOSITE = EvaluationSet("opposites", "antonyms", [("man", "womanly"), ("king", "queen")])
UNKNOWN = EvaluationSet("far", "similarity", [("kings", "manly"), ("queens", "womanly")], np.arange(2.0))


@pytest.mark.parametrize(
    ("word_set", "words", "known", "composed"),
    [
        (KINGS, ["kings", "kingly", "manly", "womanly"], 2, 3),
        (PLURALS, ["kings"], 1, 1),  # the words of other sets are no candidates
        (OPPOSITE, ["womanly"], 1, 1),
        (UNKNOWN, ["kings", "manly", "queens", "womanly"], 0, 2),
    ],
)
def test_composed_words_score_as_if_the_vocabulary_had_held_them(word_set, words, known, composed):
    rows = np.concatenate([COMPOSED.vectors, COMPOSED.subwords.compose(words)])
    expected = evaluate_sets(WordVectors([*COMPOSED.words, *words], rows), [word_set])
    found = evaluate(COMPOSED, [KINGS, word_set], unknown="subwords")[1:]
    for score, other in zip(found, expected, strict=True):
        assert score.value == pytest.approx(other.value)
        assert (score.known, score.composed, score.total) == (known, composed, other.total)
        assert "unknown subwords" in score.policy
    assert [record["composed"] for record in score_records(found)] == [composed] * len(found)
    rows = rows_of(word_set, Policy(unknown="subwords"), v=COMPOSED)
    assert sum(row["known"] for row in rows) == known


def test_skipping_is_unchanged_and_says_nothing_of_composing():
    scores = evaluate(COMPOSED, [KINGS, PLURALS])
    assert scores == evaluate(WordVectors(COMPOSED.words, COMPOSED.vectors), [KINGS, PLURALS])
    assert all("composed" not in record for record in score_records(scores))
    assert scores[0].answered == "2/5"
    assert one(evaluate(COMPOSED, [KINGS], unknown="subwords")).answered == "2+3/5"


def test_gensim_agrees_on_its_own_sets_and_a_repeated_evaluation_with_itself(shared):
    vectors = WordVectors.load(shared / "data/embeddings/glove50_4k.txt.xz", max_words=4196)
    keyed = KeyedVectors(50)
    keyed.add_vectors(list(vectors.words), vectors.vectors)
    similarity, add, _ = evaluate(vectors, [datapath("wordsim353.tsv"), datapath("questions-words.txt")])
    _, spearman, unknown = keyed.evaluate_word_pairs(datapath("wordsim353.tsv"))
    assert similarity.value == pytest.approx(spearman[0], abs=1e-6)
    assert similarity.known / similarity.total == pytest.approx(1 - unknown / 100)
    accuracy, sections = keyed.evaluate_word_analogies(datapath("questions-words.txt"))
    total = sections[-1]
    assert add.known == len(total["correct"]) + len(total["incorrect"]) > 1000
    assert add.value == pytest.approx(accuracy)
    bless = shared / "data/wordeval/categorization/bless.csv"
    assert evaluate(vectors, bless) == evaluate(vectors, bless)
