"""Lists of word pairs as people have them: columns told by name and content, and a table of their cosines."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.evaluation.similarity_files import guess_columns
from distembed.evaluation.wordsets import read_pairs
from tests.commands import run, succeed

GERMAN = (
    "Nr;Wort A;Wort B;Mittelwert;SD;N\n1;Hund;katze;7,2;1,1;20\n2;hund;Baum;1,5;0,9;21\n3;baum;katze;2;1;20\n"
    "4;hund;Xylophon;1,0;0,2;20\n"
)
VECTORS = {"hund": [1.0, 0.0], "katze": [0.8, 0.6], "baum": [0.0, 1.0], "new_york": [1.0, 1.0]}


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    de.WordVectors(list(VECTORS), np.array(list(VECTORS.values()))).save(tmp_path / "v.txt")
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
def test_columns_are_told(names: list[str], row: str, roles: str) -> None:
    """By their names or, where these say nothing, by words and numbers; two columns of numbers are no one score."""
    assert "|".join(guess_columns(names, [row.split()]).values()) == roles


def test_columns_that_cannot_be_told_are_asked_for() -> None:
    with pytest.raises(ValueError, match="in no two of the columns a, b, c: give --columns word1=NAME"):
        guess_columns(["a", "b", "c"], [["one", "two", "three"]])


def test_a_list_of_other_columns_is_scored(vectors: Path, tmp_path: Path) -> None:
    rows = "Prime,TargetWord,relation,RT,priming\nhund,katze,same,500,30\nhund,baum,none,600,\nbaum,katze,x,700,10\n"
    (tmp_path / "p.csv").write_text(rows + "hund,Hund,y,500,40\n")
    words = ("evaluate", vectors, "--sets", tmp_path / "p.csv", "--columns", "score=priming")
    assert "No score is shown of fewer than 10 known items" in succeed(*words).output
    assert re.search(
        r"p +similarity +spearman +– +– +3/3", succeed(*words, "--to", tmp_path / "s.json").output
    )
    assert json.loads((tmp_path / "s.json").read_text())["tables"]["scores"][0]["value"] == 1
    assert "no word3 among" in run(*words[:-1], "word3=relation").output


def test_a_list_gets_its_cosines(vectors: Path, tmp_path: Path) -> None:
    """Capitals and spaces are looked up in other spellings, and pairs with an unknown word are told."""
    (tmp_path / "liste.csv").write_text(GERMAN + "5;New York;katze;3;1;2\n", encoding="utf-8")
    words = ("evaluate", vectors, "--sets", tmp_path / "liste.csv", "--items", tmp_path / "out.csv")
    assert "5 items in " in succeed(*words).output
    rows = pacsv.read_csv(tmp_path / "out.csv").to_pylist()
    assert list(rows[0]) == ["vectors", "set", "task", "word1", "word2", "value", "score", "known"]
    assert (rows[0]["set"], rows[0]["task"], rows[0]["word1"], rows[0]["value"]) == (
        "liste", "similarity", "Hund", 7.2,
    )  # fmt: skip
    np.testing.assert_allclose([row["score"] for row in rows[:3]], [0.8, 0, 0.6], atol=1e-6)
    assert rows[3]["score"] is None
    assert [row["known"] for row in rows] == [True, True, True, False, True]
    assert rows[4]["score"] == pytest.approx(1.4 / 2**0.5)


def test_a_list_without_scores_gets_its_cosines_and_columns_may_be_named(
    vectors: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("first,second,third\nbaum,hund,katze\nx,katze,Xylophon\n")
    words = ("evaluate", vectors, "--sets", tmp_path / "a.csv", "--columns")
    to = ("--items", tmp_path / "o.parquet")
    done = succeed(*words, "word1=second,word2=third", *to)
    assert re.search(r"a +similarity +spearman +– +– +1/2", done.output)
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [(row["word1"], row["known"]) for row in rows] == [("hund", True), ("katze", False)]
    assert rows[0]["score"] == pytest.approx(0.8)
    assert rows[0]["value"] is None
    for columns, message in (
        ("word1=z", "--columns word1=z: there is no z among first, second"),
        ("word9=first", "there is no word9 among word1, word2, score"),
        ("first", "--columns takes ROLE=NAME, as word1=stimulus, and not 'first'"),
        ("word1=first,word2=first", "both words are taken from the column 'first': give --columns word1="),
        ("word1=second,word2=third", "a.csv has no column that is surely the score: give --columns score="),
    ):
        assert message in run(*words, columns, *(() if "third" in columns else to)).stderr
    odt = run(*words, "word1=second,word2=third", "--items", tmp_path / "o.odt")
    assert "o.odt cannot be detected from its name: end it in .csv, .tsv or .parquet" in odt.stderr


def test_a_list_without_a_header_is_read(tmp_path: Path) -> None:
    (tmp_path / "b.tsv").write_text("hund\tkatze\t3\nbaum\tkatze\t4\n")
    found = read_pairs(str(tmp_path / "b.tsv"), {"word1": "word1"})
    assert found.items == [("hund", "katze"), ("baum", "katze")]
    assert found.values.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("rows", "score", "message"),
    [
        (
            "a b x y\nhund katze 1 2\n",
            {},
            "p.csv has no column that is surely the score: give --columns score=NAME",
        ),
        (
            "a b x\nhund katze -\n",
            {"word1": "a", "word2": "b", "score": "x"},
            "p.csv has no pair with a number in the column 'x': name another",
        ),
    ],
)
def test_a_list_without_scores_is_no_set(
    tmp_path: Path, rows: str, score: dict[str, str], message: str
) -> None:
    (tmp_path / "p.csv").write_text(rows.replace(" ", ","))
    with pytest.raises(ValueError, match=message):
        read_pairs(str(tmp_path / "p.csv"), score)
