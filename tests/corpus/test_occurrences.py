"""A concordance shows words as they are written, with the line where an editor finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus.occurrences import Occurrence, occurrences, place_of
from distembed.job.model import JobError
from distembed.job.opening import open_job
from distembed.views.concordance import write_concordance
from tests.commands import run, succeed

TEXT = "Title one\nThe Tables, a table; TABLE!\ntablet\n\nTitle two\nno\nThe table\nturns.\n"


def found(path: Path, word: str = "table", **options: Any) -> list[Occurrence]:
    return list(occurrences(de.read_corpus(path, **options), word))


@pytest.mark.parametrize("layout", ["line", "blocks", "file"])
@pytest.mark.parametrize("partition_bytes", [15, 1000])
def test_the_line_is_that_of_an_editor(tmp_path: Path, layout: str, partition_bytes: int) -> None:
    """Whatever the layout and the partitions; the word has the letters of the text, and tablet is another word."""
    (tmp_path / "a.txt").write_text("\ufeff" + TEXT, encoding="utf-8")
    hits = found(tmp_path / "a.txt", layout=layout, partition_bytes=partition_bytes)
    assert [(hit.word, hit.place) for hit in hits] == [
        ("table", "line 2"),
        ("TABLE", "line 2"),
        ("table", "line 7"),
    ]
    assert hits[0].left.endswith("The Tables, a ")
    assert hits[0].right.startswith("; TABLE!")
    assert {hit.file for hit in hits} == {str(tmp_path / "a.txt")}


def test_case_and_several_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("New York, new\tyork and newyork. NEW  YORK\n")
    assert [hit.word for hit in found(tmp_path / "a.txt", "new york")] == [
        "New York",
        "new york",
        "NEW  YORK",
    ]
    exact = de.Tokenizer(lowercase=False)
    assert [hit.word for hit in found(tmp_path / "a.txt", "New York", tokenizer=exact)] == ["New York"]
    with pytest.raises(ValueError, match="no word is given: give one"):
        found(tmp_path / "a.txt", " _")
    (tmp_path / "zh.txt").write_text("今天天气很好\n", encoding="utf-8")
    assert [hit.left for hit in found(tmp_path / "zh.txt", "天气")] == ["今天"]


def test_records_have_lines_and_rows(tmp_path: Path) -> None:
    """Also where documents have ids of their own, and titles."""
    records = [
        {"id": f"d{n}", "t": f"T{n}", "text": text} for n, text in enumerate(["x", "a Table", "y table"])
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "a.csv").write_text("id,t,text\nd0,T0,x\nd1,T1,a Table\nd2,T2,y table\n")
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    places = {
        "a.jsonl": ["line 2", "line 3"],
        "a.csv": ["row 2", "row 3"],
        "a.parquet": ["row group 0, row 1", "row group 0, row 2"],
    }
    for name, expected in places.items():
        for fields in ({"id_field": "id", "title_field": "t"}, {}):
            hits = found(tmp_path / name, **fields)
            assert [hit.place for hit in hits] == expected, name
            if fields:
                assert [(hit.document, hit.title) for hit in hits] == [("d1", "T1"), ("d2", "T2")]


def test_the_place_of_a_document_follows_from_its_id(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    corpus = de.read_corpus(tmp_path / "a.txt", partition_bytes=20)
    ids = [document.id for document in corpus.documents()]
    assert place_of(corpus, ids[2]) == f"{tmp_path / 'a.txt'}, line 3"
    assert place_of(corpus, ids[-1]) == f"{tmp_path / 'a.txt'}, line 8"
    assert place_of(corpus, "own id") == ""
    assert place_of(de.read_corpus(tmp_path, layout="file"), "a.txt") == str(tmp_path / "a.txt")


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nsystem = "topics"\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\nlayout = "file"\n'
    )
    done = succeed("concordance", job, "table")
    assert len(done.output.splitlines()) == 3
    assert done.output.splitlines()[1].endswith("a.txt, line 2")
    done = succeed("concordance", job, "table", "--to", tmp_path / "t.csv")
    assert done.output.startswith("3 lines of 1 document in ")
    rows = pacsv.read_csv(tmp_path / "t.csv", parse_options=pacsv.ParseOptions(newlines_in_values=True))
    assert rows["word"].to_pylist() == ["table", "TABLE", "table"]
    for words in ("chair",), ("chair", "--to", tmp_path / "u.csv"):
        done = run("concordance", job, *words)
        assert done.exit_code == 1
        assert "'chair' stands nowhere in the files of the job" in done.stderr
    assert not (tmp_path / "u.csv").exists()
    opened = open_job(str(job))
    with pytest.raises(
        ValueError, match=r"the format of t\.odt cannot be detected from its name: end it in \.csv"
    ):
        write_concordance(opened, "table", "t.odt")
    with pytest.raises(
        JobError, match="may be a stranger's: name the job's own file in place of the workspace"
    ):
        write_concordance(opened.as_recorded(), "table", "t.csv")
    job.write_text('[job]\nsystem = "neighbors"\nworkspace = "w"\n[input]\npath = "x.npy"\n')
    with pytest.raises(
        JobError, match="a job of the method neighbors reads no running text: name a job that does"
    ):
        write_concordance(open_job(str(job)), "table", "t.csv")


def test_neighbors_take_a_word_that_is_known_in_other_letters(tmp_path: Path) -> None:
    de.WordVectors(["tabelle", "spalte"], [[1.0, 0.0], [0.8, 0.6]]).save(tmp_path / "v.txt")
    done = succeed("neighbors", tmp_path / "v.txt", "Tabelle")
    assert done.stdout.startswith("tabelle: spalte 0.800")
    assert "Tabelle has no vector, and tabelle is taken for it" in done.stderr
    assert run("neighbors", tmp_path / "v.txt", "Zelle").exit_code == 1
