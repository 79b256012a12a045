"""A vector file as domain, and names seen too rarely to count as known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import distembed as de
from distembed.formats.tables import TableError
from distembed.tables.domain import join, read_domain, read_new_rows
from distembed.tables.known import holds_vectors, read_known
from distembed.tables.rows import Scales
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection
from tests.commands import run, succeed

WORDS = ["General_Motors", "Ford", "Shell", "BP", "Total", "Fiat"]


@pytest.fixture
def vectors() -> de.WordVectors:
    return de.WordVectors(WORDS, np.random.default_rng(0).standard_normal((6, 4)))


@pytest.mark.parametrize("name", ["v.bin", "v.vec", "v.txt", "v.safetensors", "v.txt.xz", "v.glove"])
def test_a_vector_file_is_a_domain_as_it_stands(tmp_path: Path, vectors: de.WordVectors, name: str) -> None:
    vectors.save(tmp_path / name)
    domain = read_domain(DomainSection(path=str(tmp_path / name)))
    assert domain.names == WORDS
    assert domain.holds_vectors
    np.testing.assert_allclose(domain.matrix, vectors.vectors, rtol=1e-6)
    assert read_domain(DomainSection(path=str(tmp_path / name), max_words=3)).names == WORDS[:3]


@pytest.mark.parametrize(
    ("text", "holds"),
    [("Ford 1 2 3\n", True), ("1 3\nFord 1 2 3\n", True), ("Ford 1\n", False), ("a,b 1 2\n", False)],
)
def test_the_first_line_of_a_text_says_whether_it_holds_vectors(
    tmp_path: Path, text: str, holds: bool
) -> None:
    (tmp_path / "v.txt").write_text(text)
    assert holds_vectors(str(tmp_path / "v.txt"), "auto") == holds


def test_a_parquet_file_holds_vectors_where_it_is_said(tmp_path: Path, vectors: de.WordVectors) -> None:
    vectors.save(tmp_path / "v.parquet")
    domain = read_domain(DomainSection(path=str(tmp_path / "v.parquet"), format="vectors"))
    np.testing.assert_array_equal(domain.matrix, vectors.vectors)


def test_new_rows_of_vectors_stand_on_the_scales_of_the_old(tmp_path: Path, vectors: de.WordVectors) -> None:
    vectors.save(tmp_path / "v.bin")
    section, columns = DomainSection(path=str(tmp_path / "v.bin")), ["1", "2", "3", "4"]
    scales = Scales(np.arange(4.0), np.full(4, 2.0), np.zeros(4))
    found = read_new_rows(section, columns, scales)
    assert found.names == WORDS
    np.testing.assert_allclose(found.matrix, (vectors.vectors - np.arange(4)) / 2, rtol=1e-6)
    with pytest.raises(TableError, match=r"v\.bin holds vectors of 4 components, but the job has 3 columns"):
        read_new_rows(section, columns[:3], scales)


@pytest.mark.parametrize("options", [{"columns": ("a",)}, {"transform": "return_correlation"}])
def test_a_key_of_tables_is_refused_for_vectors(
    tmp_path: Path, vectors: de.WordVectors, options: dict[str, Any]
) -> None:
    vectors.save(tmp_path / "v.bin")
    with pytest.raises(TableError, match=rf"domain\.{next(iter(options))} says nothing"):
        read_domain(DomainSection(path=str(tmp_path / "v.bin"), **options))


COUNTS = "index,Freq,Token\n0,50,general_motors\n1,7,ford\n2,39,shell\n3,40,bp\n"


def known_with_counts(folder: Path, vectors: de.WordVectors, **options: Any) -> Any:
    vectors.save(folder / "known.bin")
    (folder / "counts.csv").write_text(COUNTS)
    given = {
        "counts": str(folder / "counts.csv"),
        "counts_name": "Token",
        "counts_column": "Freq",
        "min_count": 40,
    }
    section = KnownSection(path=str(folder / "known.bin"), **(given | options))
    return read_known(section, MatchingSection(ignore_case=True))


def test_rare_names_are_imputed_again(tmp_path: Path, vectors: de.WordVectors) -> None:
    known = known_with_counts(tmp_path, vectors)
    np.testing.assert_array_equal(known.counts, [50, 7, 39, 40, -1, -1])
    table = tmp_path / "t.csv"
    table.write_text("name,a\nGeneral Motors,1\nFord,2\nShell,3\nTotal,4\nLada,5\nBP,6\n")
    both = join(read_domain(DomainSection(path=str(table))), known, MatchingSection(), min_count=40)
    vocabulary = both.vocabulary(with_others=True).to_pydict()
    assert vocabulary["word"] == ["General_Motors", "Ford", "Shell", "Total", "Lada", "BP", "Fiat"]
    assert vocabulary["origin"] == ["known", "imputed", "imputed", "known", "imputed", "known", "other"]
    assert np.isnan(both.targets).all(axis=1).tolist() == [False, True, True, False, True, False]
    assert both.replaced().to_pylist() == [
        {"word": "Ford", "name": "Ford", "count": 7},
        {"word": "Shell", "name": "Shell", "count": 39},
    ]
    assert "2 known vectors without a count" in known.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counts": None}, "min_count is 40 and nothing says how often names were seen: set known.counts"),
        ({"counts_column": "count"}, "no column 'count'; it has 'index', 'Freq', 'Token'"),
        ({"counts_column": "Token"}, "no numbers in the column 'Token'"),
        ({"counts_name": None}, r"the counts of .*counts\.csv: no name"),
    ],
)
def test_counts_that_are_not_there_are_named(
    tmp_path: Path, vectors: de.WordVectors, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        known_with_counts(tmp_path, vectors, **options)


def test_a_workspace_says_how_often_its_words_were_seen(tmp_path: Path, vectors: de.WordVectors) -> None:
    for columns in (["word", "count"], ["word"]):
        with de.Workspace.create(tmp_path / columns[-1], owner="test") as workspace:
            stage = workspace.stage("vocabulary", parameters={}, inputs={})
            stage.store_table("vocabulary", pa.table({"word": WORDS[:2], "count": [5, 3]}).select(columns))
            stage.commit()
    known = known_with_counts(tmp_path, vectors, counts=str(tmp_path / "count"))
    np.testing.assert_array_equal(known.counts, [5, 3, -1, -1, -1, -1])
    with pytest.raises(TableError, match=r"the vocabulary of .*word has no counts"):
        known_with_counts(tmp_path, vectors, counts=str(tmp_path / "word"))


def test_counts_are_whole_numbers(tmp_path: Path, vectors: de.WordVectors) -> None:
    vectors.save(tmp_path / "known.bin")
    (tmp_path / "counts.csv").write_text("word\tcount\nFord\t1.234\nShell\t2.000\n")
    section = KnownSection(
        path=str(tmp_path / "known.bin"), counts=str(tmp_path / "counts.csv"), min_count=40
    )
    with pytest.raises(
        TableError, match=r"no whole count for 1 name \('Ford'\).*set known.decimal where 1.234"
    ):
        read_known(section)
    known = read_known(section.model_copy(update={"decimal": ","}))
    assert known.counts is not None
    assert sorted(known.counts.tolist())[-2:] == [1234, 2000]


def test_nothing_known_is_left_by_a_threshold_that_is_too_high(
    tmp_path: Path, vectors: de.WordVectors
) -> None:
    known = known_with_counts(tmp_path, vectors)
    domain = read_domain(DomainSection(path=_table(tmp_path, "name,a\nFord,1\nShell,2\n")))
    with pytest.raises(TableError, match="most frequent of the 2 names with a vector was seen 39 times"):
        join(domain, known, MatchingSection(), min_count=41)


def _table(folder: Path, text: str) -> str:
    (folder / "t.csv").write_text(text)
    return str(folder / "t.csv")


JOB = """
[job]
system = "imputation"
workspace = "w"
[domain]
path = "domain.bin"
[known]
path = "known.csv"
min_count = 10
counts_column = "seen"
[imputation]
min_degree = 4
[evaluation]
n_folds = 2
[resources]
workers = 2
"""


def test_a_job_imputes_the_vocabulary_of_one_embedding_from_another(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    Y = np.tanh(X @ rng.standard_normal((3, 5)))
    names = [f"n{i}" for i in range(40)]
    de.WordVectors(names, X).save(tmp_path / "domain.bin")
    lines = [f"{names[i]}," + ",".join(map(str, Y[i])) + f",{i}" for i in range(30)]
    (tmp_path / "known.csv").write_text("name,a,b,c,d,e,seen\n" + "\n".join(lines) + "\n")
    (tmp_path / "job.toml").write_text(JOB)
    planned = run("plan", tmp_path / "job.toml")
    assert "40 names x 3 numbers, vectors of 5 components" in planned.output
    assert 'imputation.metric = "cosine"' in planned.output
    done = succeed("run", tmp_path / "job.toml")
    assert "40 names: 20 matched a known vector, 20 were imputed" in done.output
    assert "10 have vectors that were replaced" in done.output
    workspace = de.Workspace.open(tmp_path / "w")
    assert workspace.table("replaced")["name"].to_pylist() == names[:10]
    vectors = workspace.array("vectors").compute()
    np.testing.assert_array_equal(vectors[10:30], Y[10:30].astype(np.float32))
    succeed("export", tmp_path / "w", "--to", tmp_path / "names.csv")
    assert "replaced_count" in (tmp_path / "names.csv").read_text().split("\n")[0]
