"""Files of evaluation sets: as people and authors write them, in folders, of named columns, and bad ones."""

from __future__ import annotations

import json
import lzma
import re

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from gensim.test.utils import datapath

import distembed as de
from distembed.evaluation import wordsets
from distembed.evaluation.similarity_files import guess_columns
from distembed.evaluation.wordsets import EvaluationSet, WordSetError, find_sets, read_pairs, read_set
from distembed.files import read_small
from distembed.job.model import locate
from tests.commands import run, succeed

CUT_XZ = lzma.compress(b'{"label": 1, "text": "a"}\n' * 50)[:-20]


def packed(text):
    return lzma.compress(text.encode())


def json_lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


# ------------------------------------------------------------------------------------------- files that are read

HUND = "similarity", [("Hund", "Katze"), ("Äpfel", "Birne")], np.array([7.5, 3])
OLD = "similarity", [("old", "new"), ("smart", "dumb")], np.array([1.58, 0.6])
HOT = "antonyms", [("hot", "cold"), ("old", "new")]
KINDS = "categorization", [("b",), ("c",)], np.empty(0), ["a", "a"]
NORMS = "normed priming", [("A", "B"), ("A", "B's \"C")], np.array([0.5, 0.25])
PRIMES = (
    "priming", [("COLD", "hot"), ("FLOWER", "rose")], np.array([[12.5, np.nan], [3, -4]]),
    [("antonym",), ("forward phrasal",)],
)  # fmt: skip

READ = [
    # as people write lists of pairs
    ("comma.csv", "Hund,Katze,7.5\nÄpfel,Birne,3\n", HUND),
    ("header.csv", "word1,word2,score\nHund,Katze,7.5\nÄpfel,Birne,3\n", HUND),
    ("comma.csv", "\ufeffWort1;Wort2;Bewertung\nHund;Katze;7,5\nÄpfel;Birne;3,0\n", HUND),
    ("quoted.csv", '\ufeff"Hund","Katze","7,5"\n"Äpfel","Birne","3"\n', HUND),
    ("tab.csv", "a\tb\twie nah\r\nHund\tKatze\t7.5\r\nÄpfel\tBirne\t3\r\n".encode("utf-16"), HUND),
    ("SimLex.csv", "word1\tword2\tPOS\tSimLex999\tSD\nHund\tKatze\tN\t7.5\t1\nÄpfel\tBirne\tN\t3\t2\n", HUND),
    ("index.csv", ",word 1,word 2,similarity\n0,Hund,Katze,7.5\n1,Äpfel,Birne,3\n", HUND),
    ("commas between spaces.csv", "Hund Katze 7,5 1,5\nÄpfel Birne 3,0 2,5\n", HUND),
    ("bars.csv", "Hund|Katze|7.5\nÄpfel|Birne|3\n", HUND),
    ("carriage returns.csv", b"Hund,Katze,7.5\r\xc3\x84pfel,Birne,3\r", HUND),
    ("R.csv", '"word1" "word2" "score"\n"1" "Hund" "Katze" 7.5\n"2" "Äpfel" "Birne" 3\n', HUND),
    ("tabs of R.csv", '"word1"\t"word2"\t"score"\n"Hund"\t"Katze"\t7.5\n"Äpfel"\t"Birne"\t3\n', HUND),
    ("tabs of pandas.csv", "\tword1\tword2\tscore\n0\tHund\tKatze\t7.5\n1\tÄpfel\tBirne\t3\n", HUND),
    ("spaces.csv", "# my list\nHund Katze 7,5\n\nÄpfel  Birne 3\n", HUND),
    ("header of spaces.txt", "word1 word2 score\nold new 1.58\nsmart dumb 0.6\n", OLD),
    # the first lines as the authors distribute them, with other words
    (
        "SimLex-999.txt",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\tconc(w2)\tconcQ\tAssoc(USF)\tSimAssoc333\tSD(SimLex)\r\n"
        "old\tnew\tA\t1.58\t2.72\t2.81\t2\t7.25\t1\t0.41\r\nsmart\tdumb\tA\t0.6\t1.75\t2.36\t1\t2.1\t1\t1.27\r\n",
        OLD,
    ),
    ("SimVerb-3500.txt", "old\tnew\tV\t1.58\tNONE\nsmart\tdumb\tV\t0.6\tANTONYMS\n", OLD),
    ("combined.csv", "Word 1,Word 2,Human (mean)\r\nold,new,1.58\r\nsmart,dumb,0.6\r\n", OLD),
    ("set1.csv", "Word 1,Word 2,Human (mean),1,2\r\nold,new,1.58,1,2\r\nsmart,dumb,0.6,0,1\r\n", OLD),
    ("rw.txt", "old\tnew\t1.58\t1\t2\t1\nsmart\tdumb\t0.6\t0\t1\t1\n", OLD),
    ("MTURK-771.csv", "old,new,1.58\nsmart,dumb,0.6\n", OLD),
    ("MEN_dataset_natural_form_full", "old new 1.580000\nsmart dumb 0.600000\n", OLD),
    # comments, blank lines, quotes and upper case are no matter
    ("A.CSV", "# note\n\n,category,word\n# more\n0,a,b\n\n1,a,c\n,,\n2,a,b\n", KINDS),
    ("A.CSV.XZ", packed('"","category","word"\r"0","a","b"\r"1","a","c"\r'), KINDS),
    ("A.Tsv", "# note\nword\tantonym\nhot\tcold\n\nold\tnew\n\n", HOT),
    ("a.TXT", '"word"\t"antonym"\n"hot"\t"cold"\n"old"\t"new"\n', HOT),
    # answers that are no words are left out, and relations have their names
    ("n.tsv.xz", packed("CUE\tTARGET\tFSG\tBSG\nA\tB\t.5\t\nA\tB's \"C\t.25\t.1\nA\t\t.1\t\n"), NORMS),
    (
        "spp.csv",
        "TargetWord,Prime,Relation1,Relation2,LDT 200ms RT Priming,LDT 1200ms RT Priming\n"
        "hot,COLD,antonymn,,12.5,\nrose,FLOWER,,fpa,3,-4\n",
        PRIMES,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "expected"), READ, ids=[name for name, *_ in READ])
def test_a_file_is_read_as_the_set_that_it_holds(tmp_path, name, data, expected):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    np.testing.assert_equal(read_set(tmp_path / name), EvaluationSet(name.split(".")[0], *expected))


def test_every_set_of_the_collection_and_of_the_package_is_read(shared):
    sets = {one.name: one for one in find_sets(shared / "data/wordeval").sets}
    some = {
        "EN-WS-353-ALL": 353, "EN-MEN-TR-3k": 3000, "google": 19544, "msr": 8000, "semeval2012-task2": 10014,
        "EN-TOEFL-80": 80, "EN-ESL-40": 40, "bless": 217, "spp_assoc-related_181205": 1661,
        "usf_free_association": 72_155 - 2,  # two answers are no words
    }  # fmt: skip
    sizes = {name: len(one.items) for name, one in sets.items()}
    assert sizes | some == sizes
    assert len(sizes) == 23
    assert sets["EN-ESL-40"].items[16][1] == "a hurry"
    assert sets["jair"].items[0] == ("solar system", "atom", "sun", "nucleus")
    assert sum("antonym" in names for names in sets["spp_assoc-related_181205"].groups) == 184
    crosslingual = read_set(shared / "data/wordeval/crosslingual/de-es-rg65.csv")
    assert crosslingual.items[0] == ("polster", "joya")
    questions = read_set(datapath("questions-words.txt"))
    assert (len(questions.items), questions.groups[0]) == (19544, "capital-common-countries")
    assert len(set(questions.groups)) == 14
    deese = read_set(locate("{distembed}/evaluation/sets/deese.tsv", shared))
    assert (deese.task, len(set(deese.items)), deese.items[0]) == ("antonyms", 39, ("active", "passive"))


def test_every_word_of_a_set_is_told():
    assert EvaluationSet("s", "synonym", [("Big Cat", "lion", "dog")]).words == {"Big_Cat", "lion", "dog"}


# ----------------------------------------------------------------------------------------- files that are refused

BAD = [
    ("pair.txt", "a b 1\na b\n", r"pair\.txt, line 2: 'a b', expected two words and a score; correct"),
    ("nan.txt", "a b 1\na b nan\n", r"line 2: 'a b nan', expected two words and a score"),
    ("analogy.txt", ": s\na b c d\na b c\n", r"line 3: 'a b c', expected four words"),
    ("choice.txt", "a | b | c\na | b\n", r"line 2: 'a \| b', expected question"),
    ("columns.csv", ",category,word\n0,x\n", r"line 2: '0,x', expected a category and a word"),
    ("score.csv", ",word1,word2,similarity\n0,a,b,high\n", r"line 2: '0,a,b,high', expected two words and a"),
    ("other.txt", "hello world\n", r"other\.txt is no evaluation set .* its first line is 'hello world'"),
    ("two.csv", "word1;word2;a;b\nx;y;1;2\n", r"line 1: .* one column of scores; rename one of a, b to"),
    ("comma.csv", "a;b;7,5\na;b;c;1\n", r"line 2: 'a;b;c;1', expected two words and a score"),
    ("utf-8.txt", b"a b 1\n\xff b 2\n", r"8\.txt is not utf-8: line 2 holds the byte 0xff.*correct it, or"),
    ("commas.csv", "a,b,7,5\nc,d,6,25\n", r"line 1: 'a,b,7,5', .* write scores with points, or semicolons"),
    ("names.csv", "word1,word2,score\na,b,7,5\n", r"line 2: .* 3 fields as in the header; where scores have"),
    ("some.csv", "a,b,7\nc,d,6,25\n", r"line 2: 'c,d,6,25', .*; where scores have commas, write scores with"),
    ("quote.csv", 'a,"b,3\nc,d,2\n', r"line 1: 'a,\"b,3', expected quotes on both sides of a field, or none"),
    ("quote2.csv", 'c,d,2\na,"b,3\ne,f,1\n', r"line 2: 'a,\"b,3', expected .* quotes on both sides"),
    ("quote3.csv", ',category,word\n0,a,"b\n1,c,d\n', "line 2: .* a category and a word, quotes on both"),
    ("parts.txt", "New York Los Angeles 3.5\nSan Jose cat dog 2\n", r"line 1: .*, with tabs between them"),
    ("rows.txt", '"1" "cat" "dog" 3.5\n', "line 1: .* expected a header that names the columns"),
    ("bar.txt", "a|b|1\nc|d|e\n", r"line 2: 'c\|d\|e', expected two words and a score"),
    ("empty.txt", "", r"empty\.txt is no evaluation set"),
    ("share.tsv", "CUE\tTARGET\tFSG\nA\tB\t1.5\n", r"share\.tsv, line 2: .*a share between 0 and 1; correct"),
    ("share.tsv", "CUE\tTARGET\tFSG\nA\tB\t-.1\n", r"share\.tsv, line 2: .*a share between 0 and 1; correct"),
    ("columns.tsv", "CUE\tTARGET\tFSG\nA\tB\n", r"line 2: .*expected cue, target and a share"),
    ("antonym.tsv", "word\tantonym\nhot\t \n", r"line 2: .*expected a word and its antonym"),
    (
        "ms.csv",
        "TargetWord,Prime,Relation1,Relation2,LDT 200ms RT Priming,LDT 1200ms RT Priming\nhot,COLD,x,,slow,\n",
        r"line 2: .*expected prime, target and priming in milliseconds",
    ),
    ("format.tsv", "cue\ttarget\n", r"is no evaluation set of a known format"),
    ("p.tsv", "a\t1\tb\tc\na\tx\tb\tc\n", r"line 2: 'a\\tx\\tb\\tc', expected subset, score and two"),
    ("c.tsv", "1\tb\n" * 9 + "1\n", "line 10: '1', expected a label and a text"),
    ("k-train.tsv", "1\tb\n" * 9, "the set k has the parts train: give its files k-train and k-test"),
    ("cut.jsonl", '{"label": 1, "text": "a"}\n{"label"\n', r"line 2: '\{\"label\"', expected JSON"),
    ("text.jsonl", '{"label": 1, "text": "a"}\n\n{"label": 1}\n', "line 3: .* 'text' that is a string"),
    ("part.jsonl", '{"label": 1, "text": "a", "split": "train"}\n', "part has the parts train: give its"),
    ("none.jsonl", '{"label": null, "text": "ak"}\n', "is no evaluation set of a known format"),
    ("norms.tsv.xz", CUT_XZ, r"norms\.tsv\.xz cannot be unpacked to its end .*; copy it again"),
    ("labels.jsonl.gz", b"no gz", r"labels\.jsonl\.gz cannot be unpacked to its end .*; copy it again"),
]


@pytest.mark.parametrize(("name", "data", "message"), BAD, ids=[name for name, *_ in BAD])
def test_a_bad_line_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(WordSetError, match=message):
        find_sets(tmp_path / name, sentences=True)


# ------------------------------------------------------------------------------------------------------- folders


@pytest.fixture
def folder(tmp_path):
    """Return a folder of sets of words, of sentences and of classified texts among other files."""
    (tmp_path / "sts").mkdir()
    (tmp_path / "crosslingual").mkdir()
    texts = {
        "words.txt": "ak bl 3\nak al 2\n",
        "crosslingual/de-en.txt": "Haus house 9\n",
        "notes.tsv": "one\tfile\nof\tno format\n",
        "README.txt": "This folder has 3 sets\nand a note.\n",
        "long.txt": "a" * 140_000,
        "sets.zip": "PK",
        "log.jsonl": json_lines(*[{"text": "no label"}] * 3),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    pairs = "news\t4.5\tak bl\tbk, äl!\r\nnews\t0\tak\tzz\r\n"
    (tmp_path / "sts" / "year.TSV").write_bytes(pairs.encode("utf-16"))
    for part in ("train", "test"):
        lines = "".join(f"{number % 2}\tak bl is no {number}\n" for number in range(10))
        (tmp_path / f"kind-{part}.tsv.xz").write_bytes(packed(lines))
    return tmp_path


def test_sets_are_found_among_other_files_each_read_once(folder, monkeypatch):
    read = []
    monkeypatch.setattr(wordsets, "read_small", lambda path: read.append(path.name) or read_small(path))
    classes, pairs, words = find_sets(folder, sentences=True).sets
    texts = ["README.txt", "kind-test.tsv.xz", "kind-train.tsv.xz", "long.txt", "notes.tsv"]
    assert sorted(read) == [*texts, "words.txt", "year.TSV"]  # of log.jsonl the head alone
    assert (pairs.name, pairs.task, pairs.values.tolist()) == ("year", "sentences", [4.5, 0])
    assert pairs.items == [("ak bl", "bk, äl!"), ("ak", "zz")]
    assert (classes.name, classes.task, len(classes.items)) == ("kind", "classification", 20)
    assert [part for _, part in classes.groups] == ["test"] * 10 + ["train"] * 10
    assert (words.name, words.task) == ("words", "similarity")
    found = find_sets(folder)
    assert [one.name for one in found.sets] == ["words"]
    assert found.passed_over == [
        "README.txt (of no known format)",
        "crosslingual/de-en.txt (its pairs need one space for two languages)",
        "kind-test.tsv.xz (of no known format)",
        "kind-train.tsv.xz (of no known format)",
        "log.jsonl (not .txt, .csv, .tsv)",
        "long.txt (of no known format)",
        "notes.tsv (of no known format)",
        "sets.zip (not .txt, .csv, .tsv)",
        "sts/year.TSV (of no known format)",
    ]
    (folder / "empty").mkdir()
    with pytest.raises(WordSetError, match="holds no evaluation set"):
        find_sets(folder / "empty")
    with pytest.raises(FileNotFoundError):
        find_sets(folder / "absent")


def test_json_lines_have_labels_titles_and_parts(tmp_path):
    records = [
        {"label": "a", "text": "ak bl", "title": "bk", "split": "TRAIN"},
        {"label": None, "text": "ak", "split": "train"},
        {"label": "a", "text": "ak", "split": "not-used"},
        {"label": 7, "text": "bl", "title": None, "split": "test"},
    ]
    (tmp_path / "news.jsonl.xz").write_bytes(packed(json_lines(*records)))
    for name in ("two-train.jsonl", "two-test.jsonl", "en/two-train.jsonl", "en/two-test.jsonl"):
        (tmp_path / "en").mkdir(exist_ok=True)
        (tmp_path / name).write_text(json_lines({"label": "a", "text": name[-11:-6].strip("-")}))
    other, news, two = find_sets([tmp_path, tmp_path / "two-test.jsonl"], sentences=True).sets
    assert other == two  # of one name in two folders
    assert news[:3] == ("news", "classification", [("bk\nak bl",), ("bl",)])
    assert news.groups == [("a", "train"), ("7", "test")]
    assert (two.name, two.items) == ("two", [("test",), ("train",)])
    assert two.groups == [("a", "test"), ("a", "train")]


# ------------------------------------------------------------------------------ lists whose columns may be named


@pytest.fixture
def vectors(tmp_path):
    rows = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [1.0, 1.0]]
    de.WordVectors(["hund", "katze", "baum", "new_york"], np.array(rows)).save(tmp_path / "v.txt")
    return tmp_path / "v.txt"


@pytest.mark.parametrize(
    ("names", "row", "roles"),
    [
        (["Nr", "Wort A", "Wort B", "Mittelwert", "SD", "N"], "1 a b 7,2 1 20", "Wort A|Wort B|Mittelwert"),
        (["word1", "word2", "pos", "rating"], "a b n 3", "word1|word2|rating"),
        (["prime", "target", "RT"], "a b 512", "prime|target|RT"),
        (["id", "cue", "answer"], "7 a b", "cue|answer"),
        (["x1", "x2", "f", "g"], "a b 1 2", "x1|x2"),
    ],
)
def test_columns_are_told(names, row, roles):
    """By their names or, where these say nothing, by words and numbers; two columns of numbers are no one score."""
    assert "|".join(guess_columns(names, [row.split()]).values()) == roles


def test_a_list_of_other_columns_is_scored(vectors, tmp_path):
    rows = "Prime,TargetWord,relation,RT,priming\nhund,katze,same,500,30\nhund,baum,none,600,\nbaum,katze,x,700,10\n"
    (tmp_path / "p.csv").write_text(rows + "hund,Hund,y,500,40\n")
    words = ("evaluate", vectors, "--sets", tmp_path / "p.csv", "--columns", "score=priming")
    done = succeed(*words, "--to", tmp_path / "s.json")
    assert "No score is shown of fewer than 10 known items" in done.output
    assert re.search(r"p +similarity +spearman +– +– +3/3", done.output)
    assert json.loads((tmp_path / "s.json").read_text())["tables"]["scores"][0]["value"] == 1


def test_a_list_gets_its_cosines(vectors, tmp_path):
    """Capitals and spaces are looked up in other spellings, and pairs with an unknown word are told."""
    rows = "1;Hund;katze;7,2;1\n2;hund;Baum;1,5;0\n3;baum;katze;2;1\n4;hund;Xylophon;1,0;0\n5;New York;katze;3;1\n"
    (tmp_path / "liste.csv").write_text(f"Nr;Wort A;Wort B;Mittelwert;SD\n{rows}", encoding="utf-8")
    words = ("evaluate", vectors, "--sets", tmp_path / "liste.csv", "--items", tmp_path / "out.csv")
    assert "5 items in " in succeed(*words).output
    rows = pacsv.read_csv(tmp_path / "out.csv").to_pylist()
    assert list(rows[0]) == ["vectors", "set", "task", "word1", "word2", "value", "score", "known"]
    first = {"set": "liste", "task": "similarity", "word1": "Hund", "value": 7.2}
    assert rows[0] | first == rows[0]
    assert [row["known"] for row in rows] == [True, True, True, False, True]
    assert rows.pop(3)["score"] is None
    np.testing.assert_allclose([row["score"] for row in rows], [0.8, 0, 0.6, 1.4 / 2**0.5], atol=1e-6)


def test_a_list_without_scores_gets_its_cosines_and_columns_may_be_named(vectors, tmp_path):
    (tmp_path / "a.csv").write_text("first,second,third\nbaum,hund,katze\nx,katze,Xylophon\n")
    words = ("evaluate", vectors, "--sets", tmp_path / "a.csv", "--columns")
    to = ("--items", tmp_path / "o.parquet")
    done = succeed(*words, "word1=second,word2=third", *to)
    assert re.search(r"a +similarity +spearman +– +– +1/2", done.output)
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [(row["word1"], row["value"], row["known"]) for row in rows] == [
        ("hund", None, True), ("katze", None, False),
    ]  # fmt: skip
    assert rows[0]["score"] == pytest.approx(0.8)
    odt = "o.odt cannot be detected from its name: end it in .csv, .tsv or .parquet"
    for columns, more, message in (
        ("word1=z", to, "--columns word1=z: there is no z among first, second"),
        ("word9=first", to, "there is no word9 among word1, word2, score"),
        ("first", to, "--columns takes ROLE=NAME, as word1=stimulus, and not 'first'"),
        ("word1=first,word2=first", to, "both words are taken from the column 'first': give --columns"),
        ("word1=second,word2=third", (), "a.csv has no column that is surely the score: give --columns"),
        ("word1=second,word2=third", ("--items", tmp_path / "o.odt"), odt),
        ("score=third", to, "are in no two of the columns first, second, third: give --columns word1=NAME"),
        ("word1=first,word2=second,score=third", (), "a.csv has no pair with a number in the column 'third'"),
    ):
        assert message in run(*words, columns, *more).stderr


def test_a_list_without_a_header_is_read(tmp_path):
    (tmp_path / "b.tsv").write_text("hund\tkatze\t3\nbaum\tkatze\t4\n")
    found = read_pairs(str(tmp_path / "b.tsv"), {"word1": "word1"})
    assert found.items == [("hund", "katze"), ("baum", "katze")]
    assert found.values.tolist() == [3, 4]
