"""Word-level evaluation against a plain oracle, gensim and scipy; readers; bad and degenerate sets."""

from __future__ import annotations

import json
import lzma

import numpy as np
import pytest
import scipy.stats
from gensim.models import KeyedVectors
from gensim.test.utils import datapath
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from distembed.evaluation.analogies import Answers, answer_analogies, better
from distembed.evaluation.scoring import Measure, ask, bootstrap_interval, spearman
from distembed.evaluation.sparse_space import SparseSpace
from distembed.evaluation.words import (
    Policy,
    evaluate,
    evaluate_sets,
    on_common_words,
    score_records,
)
from distembed.evaluation.wordsets import (
    EvaluationSet,
    WordSetError,
    find_sets,
    read_set,
)
from distembed.vectors import WordVectors
from tests.references import evaluation as plain

N_WORDS = 60


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(11)
    return WordVectors([f"w{i}" for i in range(N_WORDS)], rng.normal(size=(N_WORDS, 5)))


@pytest.fixture(scope="module")
def questions():
    """Return questions of which about a third are answered rightly by the vectors, by their oracle's word."""
    rng = np.random.default_rng(12)
    triples = [tuple(f"w{i}" for i in rng.choice(N_WORDS, 3, replace=False)) for _ in range(40)]
    return [(*triple, f"w{rng.integers(N_WORDS)}") for triple in triples]


def categories(words, kinds):
    return EvaluationSet("s", "categorization", [(word,) for word in words], groups=kinds)


def one(scores):
    assert len(scores) == 1
    return scores[0]


# ------------------------------------------------------------------------------------------------- blocks

few_values = st.sampled_from([0.0, 1.0, 2.5, -1.0])


@given(hnp.arrays(np.float64, st.tuples(st.just(2), st.integers(2, 30)), elements=few_values))
def test_spearman_with_ties_equals_scipy(xy):
    ours = spearman(xy[0], xy[1])
    if np.ptp(xy[0]) == 0 or np.ptp(xy[1]) == 0:
        assert np.isnan(ours)
        return
    assert ours == pytest.approx(scipy.stats.spearmanr(xy[0], xy[1]).statistic, abs=1e-12)
    assert ours == pytest.approx(plain.spearman(xy[0], xy[1]), abs=1e-12)


def test_the_interval_has_its_ends_at_the_percentiles_of_95_percent():
    values = iter(np.linspace(0, 100, 1000))
    three = [np.zeros(3)]
    interval = bootstrap_interval(lambda draws: np.array([next(values) for _ in draws]), three, 0)
    assert interval == pytest.approx((2.5, 97.5))
    assert bootstrap_interval(lambda draws: draws[:, 0], [np.zeros(2)], 0) is None
    scores = [Measure("share", (np.ones(n),)).score("s", "t", (n, n), Policy()) for n in (10_000, 10_001)]
    assert [score.interval for score in scores] == [(1, 1), None]


@given(st.integers(0, 10**6))
def test_better_is_a_maximum_whatever_the_order(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(3, size=(3, 2, 4)).astype(np.float32)
    places = np.arange(4) + 10 * np.arange(3)[:, None]
    parts = [Answers(add, at, mul, at) for (add, mul), at in zip(scores, places, strict=True)]
    left = better(better(parts[0], parts[1]), parts[2])
    right = better(parts[2], better(parts[1], parts[0]))
    assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
    assert np.array_equal(left.add_score, np.max([part.add_score for part in parts], axis=0))


# ----------------------------------------------------------------------------------------------- analogies


@pytest.mark.parametrize("max_block_words", [60, 30, 17, 1])
def test_analogies_equal_the_oracle_for_any_blocks(vectors, questions, monkeypatch, max_block_words):
    monkeypatch.setattr("distembed.evaluation.analogies.MAX_BLOCK_WORDS", max_block_words)
    monkeypatch.setattr("distembed.evaluation.analogies.MIN_BLOCK_WORDS", 1)
    rows = np.array([vectors.index(question[:3]) for question in questions])
    answers = answer_analogies(vectors, rows)
    table = dict(zip(vectors.words, vectors.vectors, strict=True))
    for method, found in (("add", answers.add_row), ("mul", answers.mul_row)):
        expected = [plain.answer(table, *question[:3], method=method) for question in questions]
        assert [vectors.words[row] for row in found] == expected


def test_analogy_accuracy_known_and_total(vectors, questions):
    table = dict(zip(vectors.words, vectors.vectors, strict=True))
    right = [(*q[:3], plain.answer(table, *q[:3], method="add")) for q in questions[:10]]
    items = [*right, *questions[10:], ("w1", "w2", "w3", "nobody"), ("W1", "w2", "w3", "w4")]
    known = [*items[:-2], ("w1", "w2", "w3", "w4")]
    expected = np.mean([plain.answer(table, *q[:3], method="add") == q[3] for q in known])
    add, mul = evaluate_sets(vectors, [EvaluationSet("s", "analogy", items)])
    assert (add.metric, mul.metric, add.known, add.total) == ("3CosAdd", "3CosMul", 41, 42)
    assert add.value == pytest.approx(expected)
    assert add.interval[0] <= add.value <= add.interval[1]
    zero = evaluate_sets(vectors, [EvaluationSet("s", "analogy", items)], Policy(unknown="zero"))[0]
    assert zero.value == pytest.approx(expected * 41 / 42)


def test_equal_candidates_give_the_first(vectors):
    twice = WordVectors(["a", "b", "c", "x", "y"], [[1, 0], [0, 1], [1, 1], [1, 2], [1, 2]])
    assert answer_analogies(twice, np.array([[0, 1, 2]])).add_row.tolist() == [3]


# -------------------------------------------------------------------------------------- the other measures


def test_similarity_equals_the_oracle(vectors):
    rng = np.random.default_rng(5)
    pairs = [(f"w{i}", f"w{j}") for i, j in rng.integers(N_WORDS, size=(30, 2))]
    human = rng.integers(5, size=30).astype(float)
    sets = [EvaluationSet("s", "similarity", [*pairs, ("w1", "nobody")], np.append(human, 3.0))]
    score = one(evaluate_sets(vectors, sets))
    expected = plain.spearman([plain.cosine(vectors[a], vectors[b]) for a, b in pairs], human)
    assert score.value == pytest.approx(expected, abs=1e-12)
    linear = one(evaluate_sets(vectors, [sets[0]._replace(task="linear similarity")]))
    assert (linear.task, linear.metric) == ("similarity", "pearson")
    expected = scipy.stats.pearsonr([plain.cosine(vectors[a], vectors[b]) for a, b in pairs], human).statistic
    assert linear.value == pytest.approx(expected, abs=1e-6)
    assert linear.interval[0] < linear.value < linear.interval[1]
    assert (score.known, score.total, score.policy) == (30, 31, "lower case, unknown skip")
    assert score.interval[0] < score.value < score.interval[1]
    zero = one(evaluate_sets(vectors, sets, Policy(unknown="zero")))
    cosines = [*(plain.cosine(vectors[a], vectors[b]) for a, b in pairs), 0.0]
    assert zero.value == pytest.approx(plain.spearman(cosines, [*human, 3.0]), abs=1e-12)


def test_synonym_policy():
    words = ["q", "right", "wrong", "twin", "a_hurry"]
    vectors = WordVectors(words, [[1, 0], [1, 0.1], [0, 1], [1, 0.1], [1, 0]])
    options = [("right", "wrong"), ("wrong", "right"), ("right", "twin", "wrong"), ("right", "nobody")]
    options += [("nobody", "wrong"), ("a hurry", "wrong"), ("wrong", "right", "twin", "nobody")]
    questions = EvaluationSet("s", "synonym", [("q", *each) for each in options])
    score = one(evaluate_sets(vectors, [questions]))
    assert (score.known, score.total, score.policy) == (4, 7, "lower case, unknown skip")
    assert score.value == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    zero = one(evaluate_sets(vectors, [questions], Policy(unknown="zero")))
    assert zero.value == pytest.approx(2.5 / 7)


def test_categories_of_separate_clusters_are_pure():
    rng = np.random.default_rng(1)
    centers = np.eye(4)[:3]
    rows = np.repeat(centers, 10, axis=0) * rng.uniform(1, 9, size=(30, 1)) + 0.05 * rng.normal(size=(30, 4))
    words = [f"w{i}" for i in range(30)]
    kinds = np.repeat(["x", "y", "z"], 10).tolist()
    vectors = WordVectors(words, rows)
    score = one(evaluate_sets(vectors, [categories([*words, "nobody"], [*kinds, "x"])]))
    assert (score.value, score.known, score.total, score.interval) == (1.0, 30, 31, (1.0, 1.0))
    mixed = one(evaluate_sets(vectors, [categories(words, [*kinds[1:], "x"])]))
    assert mixed.value == pytest.approx(27 / 30)
    assert mixed.interval[0] < mixed.value < mixed.interval[1]


def test_nothing_known_is_nan_and_none_in_json(vectors):
    sets = [
        EvaluationSet("s", "similarity", [("x", "y")], np.array([1.0])),
        EvaluationSet("a", "analogy", [("x", "y", "z", "v")]),
        EvaluationSet("c", "synonym", [("x", "y", "z")]),
        categories(["x"], ["y"]),
    ]
    scores = evaluate_sets(vectors, sets)
    assert all(np.isnan(score.value) and score.known == 0 and score.interval is None for score in scores)
    records = json.loads(json.dumps(score_records(scores), allow_nan=False))
    assert {record["value"] for record in records} == {None}


# ------------------------------------------------------------------------------------------------- case

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


def test_nothing_known_is_refused_with_the_reason(tmp_path):
    (tmp_path / "german.txt").write_text("haus\thund\t3\nkatze\thaus\t1\n")
    capitals = WordVectors(["Haus", "Hund", "Katze"], np.eye(3))
    message = r"^0 of 2 pairs known \(german\): .*the vocabulary keeps capitals; with case = \"ignore\" 3 of their 3"
    with pytest.raises(ValueError, match=message):
        evaluate(capitals, tmp_path)
    assert one(evaluate(capitals, tmp_path, case="ignore")).known == 2
    other = WordVectors(["chien", "chat"], np.eye(2))
    sets = find_sets(tmp_path).sets
    with pytest.raises(ValueError, match=r"^b: 0 of 2 pairs known .*of the same language and spelling"):
        evaluate_sets(other, sets, Policy("ignore"), name="b", needs_known=True)
    with pytest.raises(ValueError, match="unknown is 'drop'; give one of 'skip', 'zero'"):
        evaluate_sets(other, [], Policy(unknown="drop"))
    with pytest.raises(ValueError, match="case is 'upper'; give one of 'auto', 'lower'"):
        evaluate(capitals, tmp_path, case="upper")


# ------------------------------------------------------------------------------------------ gensim, readers


def real_vectors(shared):
    return WordVectors.load(shared / "data/embeddings/glove50_4k.txt.xz", max_words=4196)


def test_gensim_agrees_on_its_own_sets(shared):
    vectors = real_vectors(shared)
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


def test_every_set_of_the_collection_is_read(shared):
    folder = shared / "data/wordeval"
    sets = {one.name: one for one in find_sets(folder).sets}
    sizes = {name: len(one.items) for name, one in sets.items()}
    some = {
        "EN-WS-353-ALL": 353, "EN-MEN-TR-3k": 3000, "google": 19544, "msr": 8000, "semeval2012-task2": 10014,
        "EN-TOEFL-80": 80, "EN-ESL-40": 40, "bless": 217, "spp_assoc-related_181205": 1661,
        "usf_free_association": 72_155 - 2,  # two answers are no words
    }  # fmt: skip
    assert sizes | some == sizes
    assert len(sizes) == 23
    assert sets["EN-ESL-40"].items[16][1] == "a hurry"
    assert sets["jair"].items[0] == ("solar system", "atom", "sun", "nucleus")
    assert read_set(folder / "crosslingual/de-es-rg65.csv").items[0] == ("polster", "joya")
    assert sum("antonym" in names for names in sets["spp_assoc-related_181205"].groups) == 184
    _, _, strongest = evaluate(real_vectors(shared), [sets["usf_free_association"]])
    assert (strongest.metric, strongest.known, strongest.total) == ("S3 spearman", 1741, 5017)
    assert strongest.interval[0] > 0.2


def test_sections_of_questions_words():
    analogies = read_set(datapath("questions-words.txt"))
    assert (len(analogies.items), analogies.groups[0]) == (19544, "capital-common-countries")
    assert len(set(analogies.groups)) == 14


BAD_SETS = {
    "pair.txt": ("a b 1\na b\n", r"pair\.txt, line 2: 'a b', expected two words and a score; correct"),
    "nan.txt": ("a b 1\na b nan\n", r"line 2: 'a b nan', expected two words and a score"),
    "analogy.txt": (": s\na b c d\na b c\n", r"line 3: 'a b c', expected four words"),
    "choice.txt": ("a | b | c\na | b\n", r"line 2: 'a \| b', expected question"),
    "columns.csv": (",category,word\n0,x\n", r"line 2: '0,x', expected a category and a word"),
    "score.csv": (
        ",word1,word2,similarity\n0,a,b,high\n",
        r"line 2: '0,a,b,high', expected two words and a score",
    ),
    "other.txt": ("hello world\n", r"other\.txt is no evaluation set .* its first line is 'hello world'"),
    "two.csv": (
        "word1;word2;a;b\nx;y;1;2\n",
        r"line 1: .* expected one column of scores; rename one of a, b to",
    ),
    "comma.csv": ("a;b;7,5\na;b;c;1\n", r"line 2: 'a;b;c;1', expected two words and a score"),
    "utf-8.txt": (
        "äü öß 1\n\udcff b 2\n",
        r"utf-8\.txt is not utf-8: line 2 holds the byte 0xff.*correct it, or save",
    ),
    "commas.csv": (
        "a,b,7,5\nc,d,6,25\n",
        r"line 1: 'a,b,7,5', expected .* write scores with points, or semicolons",
    ),
    "names.csv": (
        "word1,word2,score\na,b,7,5\n",
        r"line 2: .* 3 fields as in the header; where scores have commas",
    ),
    "some.csv": (
        "a,b,7\nc,d,6,25\n",
        r"line 2: 'c,d,6,25', .*; where scores have commas, write scores with points",
    ),
    "quote.csv": ('a,"b,3\nc,d,2\n', r"line 1: 'a,\"b,3', expected quotes on both sides of a field, or none"),
    "quote2.csv": ('c,d,2\na,"b,3\ne,f,1\n', r"line 2: 'a,\"b,3', expected .* quotes on both sides"),
    "quote3.csv": (
        ',category,word\n0,a,"b\n1,c,d\n',
        r"line 2: .* expected a category and a word, quotes on both sides of a field, or none",
    ),
    "parts.txt": ("New York Los Angeles 3.5\nSan Jose cat dog 2\n", r"line 1: .*, with tabs between them"),
    "rows.txt": ('"1" "cat" "dog" 3.5\n', "line 1: .* expected a header that names the columns"),
    "bar.txt": ("a|b|1\nc|d|e\n", r"line 2: 'c\|d\|e', expected two words and a score"),
    "empty.txt": ("", r"empty\.txt is no evaluation set"),
    "share.tsv": ("CUE\tTARGET\tFSG\nA\tB\t1.5\n", r"share\.tsv, line 2: .*a share between 0 and 1; correct"),
    "columns.tsv": ("CUE\tTARGET\tFSG\nA\tB\n", r"line 2: .*expected cue, target and a share"),
    "antonym.tsv": ("word\tantonym\nhot\t \n", r"line 2: .*expected a word and its antonym"),
    "ms.csv": (
        "TargetWord,Prime,Relation1,Relation2,LDT 200ms RT Priming,LDT 1200ms RT Priming\nhot,COLD,x,,slow,\n",
        r"line 2: .*expected prime, target and priming in milliseconds",
    ),
    "format.tsv": ("cue\ttarget\n", r"is no evaluation set of a known format"),
    "p.tsv": ("a\t1\tb\tc\na\tx\tb\tc\n", r"line 2: 'a\\tx\\tb\\tc', expected subset, score and two"),
    "c.tsv": ("1\tb\n" * 9 + "1\n", "line 10: '1', expected a label and a text"),
    "k-train.tsv": ("1\tb\n" * 9, "the set k has the parts train: give its files k-train and k-test"),
    "cut.jsonl": ('{"label": 1, "text": "a"}\n{"label"\n', r"line 2: '\{\"label\"', expected JSON"),
    "text.jsonl": (
        '{"label": 1, "text": "a"}\n\n{"label": 1}\n',
        "line 3: .*, expected a field 'text' that is a string",
    ),
    "part.jsonl": (
        '{"label": 1, "text": "a", "split": "train"}\n',
        "the set part has the parts train: give its files",
    ),
    "none.jsonl": ('{"label": null, "text": "ak"}\n', "is no evaluation set of a known format"),
}


SENTENCES = ("p.tsv", "c.tsv", "k-train.tsv", "cut.jsonl", "text.jsonl", "part.jsonl", "none.jsonl")


PAIR_FILES = {
    "comma": ("Hund,Katze,7.5\nÄpfel,Birne,3\n", "utf-8"),
    "header": ("word1,word2,score\nHund,Katze,7.5\nÄpfel,Birne,3\n", "utf-8"),
    "decimal comma": ("Wort1;Wort2;Bewertung\nHund;Katze;7,5\nÄpfel;Birne;3,0\n", "utf-8-sig"),
    "quoted": ('"Hund","Katze","7,5"\n"Äpfel","Birne","3"\n', "utf-8-sig"),
    "tab": ("erstes\tzweites\twie nah\r\nHund\tKatze\t7.5\r\nÄpfel\tBirne\t3\r\n", "utf-16"),
    "SimLex": ("word1\tword2\tPOS\tSimLex999\tSD\nHund\tKatze\tN\t7.5\t1\nÄpfel\tBirne\tN\t3\t2\n", "utf-8"),
    "index": (",word 1,word 2,similarity\n0,Hund,Katze,7.5\n1,Äpfel,Birne,3\n", "utf-8"),
    "decimal commas between spaces": ("Hund Katze 7,5 1,5\nÄpfel Birne 3,0 2,5\n", "utf-8"),
    "bars": ("Hund|Katze|7.5\nÄpfel|Birne|3\n", "utf-8"),
    "carriage returns": ("Hund,Katze,7.5\rÄpfel,Birne,3\r", "utf-8"),
    "R": ('"word1" "word2" "score"\n"1" "Hund" "Katze" 7.5\n"2" "Äpfel" "Birne" 3\n', "utf-8"),
    "R's tabs": ('"word1"\t"word2"\t"score"\n"Hund"\t"Katze"\t7.5\n"Äpfel"\t"Birne"\t3\n', "utf-8"),
    "pandas' tabs": ("\tword1\tword2\tscore\n0\tHund\tKatze\t7.5\n1\tÄpfel\tBirne\t3\n", "utf-8"),
    "spaces": ("# my list\nHund Katze 7,5\n\nÄpfel  Birne 3\n", "utf-8"),
}


ORIGINAL_FILES = {
    "SimLex-999.txt": (
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\tconc(w2)\tconcQ\tAssoc(USF)\tSimAssoc333\tSD(SimLex)\r\n"
        "old\tnew\tA\t1.58\t2.72\t2.81\t2\t7.25\t1\t0.41\r\nsmart\tdumb\tA\t0.6\t1.75\t2.36\t1\t2.1\t1\t1.27\r\n"
    ),
    "SimVerb-3500.txt": "old\tnew\tV\t1.58\tNONE\nsmart\tdumb\tV\t0.6\tANTONYMS\n",
    "combined.csv": "Word 1,Word 2,Human (mean)\r\nold,new,1.58\r\nsmart,dumb,0.6\r\n",
    "set1.csv": "Word 1,Word 2,Human (mean),1,2,3\r\nold,new,1.58,1,2,1\r\nsmart,dumb,0.6,0,1,0.5\r\n",
    "rw.txt": "old\tnew\t1.58\t1\t2\t1\nsmart\tdumb\t0.6\t0\t1\t1\n",
    "MTURK-771.csv": "old,new,1.58\nsmart,dumb,0.6\n",
    "MEN_dataset_natural_form_full": "old new 1.580000\nsmart dumb 0.600000\n",
    "spaces with a header": "word1 word2 score\nold new 1.58\nsmart dumb 0.6\n",
}
"""The first lines of the files as their authors distribute them, with other words."""


@pytest.mark.parametrize("name", ORIGINAL_FILES)
def test_files_of_pairs_as_their_authors_distribute_them(tmp_path, name):
    (tmp_path / name).write_bytes(ORIGINAL_FILES[name].encode())
    read = read_set(tmp_path / name)
    assert read.items == [("old", "new"), ("smart", "dumb")]
    assert read.values.tolist() == [1.58, 0.6]


@pytest.mark.parametrize("kind", PAIR_FILES)
def test_lists_of_pairs_as_people_write_them(tmp_path, kind):
    text, encoding = PAIR_FILES[kind]
    (tmp_path / "list.csv").write_bytes(text.encode(encoding))
    read = read_set(tmp_path / "list.csv")
    assert read.items == [("Hund", "Katze"), ("Äpfel", "Birne")]
    assert read.values.tolist() == [7.5, 3.0]


@pytest.mark.parametrize("name", BAD_SETS)
def test_bad_sets(tmp_path, name):
    text, message = BAD_SETS[name]
    (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(WordSetError, match=message):
        find_sets(tmp_path / name, sentences=name in SENTENCES)


@pytest.mark.parametrize("name", ["norms.tsv.xz", "labels.jsonl.xz"])
@pytest.mark.parametrize("data", [lzma.compress(b'{"label": 1, "text": "a"}\n' * 50)[:-20], b"no xz"])
def test_broken_xz(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(WordSetError, match=rf"{name} is not a whole xz file .*; copy it again"):
        find_sets(tmp_path / name, sentences=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("A.CSV", "# note\n\n,category,word\n# more\n0,a,b\n\n1,a,c\n,,\n2,a,b\n"),
        ("A.Tsv", "# note\nword\tantonym\nhot\tcold\n\nold\tnew\n\n"),
        ("a.TXT", '"word"\t"antonym"\n"hot"\t"cold"\n"old"\t"new"\n'),
        ("A.CSV.XZ", '"","category","word"\r"0","a","b"\r"1","a","c"\r'),
    ],
)
def test_comments_blank_lines_quotes_and_upper_case_are_no_matter(tmp_path, name, text):
    data = text.encode()
    (tmp_path / name).write_bytes(lzma.compress(data) if name.endswith(".XZ") else data)
    (found,) = find_sets(tmp_path).sets
    assert found.name == name.split(".")[0]
    if found.task == "categorization":
        assert (found.items, found.groups) == ([("b",), ("c",)], ["a", "a"])
    else:
        assert found.items == [("hot", "cold"), ("old", "new")]


def test_prose_and_long_lines_in_a_folder_are_passed_over(tmp_path):
    (tmp_path / "pairs.txt").write_text("w1 w2 1\nw3 w4 2\n")
    (tmp_path / "README.txt").write_text("This folder has 3 sets\nand a note.\n")
    (tmp_path / "long.txt").write_text("a" * 140_000)
    assert len(find_sets(tmp_path).passed_over) == 2


def test_folders(tmp_path, vectors):
    with pytest.raises(WordSetError, match="holds no evaluation set"):
        find_sets(tmp_path)
    (tmp_path / "README.txt").write_text("What these files are\nabout, in words.\n")
    (tmp_path / "pairs.txt").write_text("w1 w2 1\nw3 w4 2\nw1 w5 3\n")
    (tmp_path / "crosslingual").mkdir()
    (tmp_path / "crosslingual/de-en.txt").write_text("Haus house 9\n")
    (tmp_path / "sets.zip").write_bytes(b"PK")
    assert one(evaluate(vectors, tmp_path)).known == 3
    assert find_sets(tmp_path).passed_over == [
        "README.txt (of no known format)",
        "crosslingual/de-en.txt (its pairs need one space for two languages)",
        "sets.zip (not .txt, .csv, .tsv)",
    ]
    with pytest.raises(FileNotFoundError):
        evaluate(vectors, tmp_path / "absent")


# ------------------------------------------------------------------------------------ the whole evaluation


def test_evaluate_is_repeatable_and_knows_its_limits(shared):
    vectors, folder = real_vectors(shared), shared / "data/wordeval"
    sets = [folder / "similarity/EN-WS-353-SIM.txt", folder / "categorization/bless.csv"]
    first, again = evaluate(vectors, sets), evaluate(vectors, sets)
    assert first == again
    limited = evaluate(vectors, sets, max_words=1000)
    assert limited == evaluate(vectors, sets, restrict=vectors.words[:1000])
    assert limited[0].known < first[0].known
    kept = evaluate(vectors, folder / "similarity/EN-WS-353-REL.txt", case="keep")[0]
    assert kept.known < evaluate(vectors, folder / "similarity/EN-WS-353-REL.txt")[0].known


def test_vectors_are_compared_on_their_common_words(vectors, tmp_path):
    lines = [f"w{i} w{i + 1} {i % 7}" for i in range(N_WORDS - 1)]
    (tmp_path / "pairs.txt").write_text("\n".join(lines))
    smaller = WordVectors(vectors.words[:20], np.random.default_rng(2).normal(size=(20, 3)))
    common = on_common_words({"all": vectors, "few": smaller})
    scores = {name: evaluate(each, tmp_path) for name, each in common.items()}
    assert {column[0].known for column in scores.values()} == {19}
    assert scores["all"][0].value == evaluate(vectors.head(20), tmp_path)[0].value
    assert scores["few"][0].answered == "19/59"
