"""Jobs on data in memory: topics of a column of texts, vectors for the names of a frame, and a report in a notebook."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.demos import titles
from distembed.systems.topics.shares import shares_table

pd = pytest.importorskip("pandas", reason="pip install pandas")

TEXTS = [
    "the cat sat on the mat",
    "a dog and a cat",
    "stocks fell on monday",
    "stocks and bonds rose",
    "the dog sat",
]


@pytest.fixture(scope="module")
def nine() -> list[str]:
    return Path(titles()).read_text(encoding="utf-8").splitlines()


def test_a_column_is_a_corpus_whose_ids_are_its_index():
    column = pd.Series([*TEXTS, pd.NA], index=[f"d{i}" for i in range(6)])
    docs = de.read_corpus(column)
    found = [(document.id, document.text) for document in docs.documents()]
    assert found == [*zip(column.index[:5], TEXTS, strict=True), ("d5", "")]
    folder = Path(docs.partitions[0].url).parent
    assert folder.is_dir()
    del docs
    gc.collect()
    assert not folder.exists()


def test_texts_are_counted_as_the_lines_of_a_file_are(tmp_path: Path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    of_file = de.build_vocabulary(de.read_corpus(str(tmp_path / "texts.txt")))
    for texts in (
        TEXTS,
        pd.Series(TEXTS),
        pd.Series(TEXTS, dtype="string"),
        np.array(TEXTS, object).tolist(),
    ):
        vocabulary = de.build_vocabulary(texts)
        assert (list(vocabulary.words), list(vocabulary.counts)) == (
            list(of_file.words),
            list(of_file.counts),
        )
    counts = de.count_document_terms(TEXTS, vocabulary).compute().toarray()
    np.testing.assert_array_equal(counts.sum(axis=0), vocabulary.counts)
    pairs = de.count_cooccurrences(pd.Series(TEXTS), vocabulary, window=2)
    expected = de.count_cooccurrences(de.read_corpus(str(tmp_path / "texts.txt")), vocabulary, window=2)
    assert (pairs.compute() != expected.compute()).nnz == 0


def test_what_is_no_text_is_named():
    with pytest.raises(
        TypeError, match=r"the document with the number 1 is 3\.5, of the type float: give texts"
    ):
        de.read_corpus(pd.Series(["a text", 3.5]))
    with pytest.raises(TypeError, match="one text was given where a list of texts is needed"):
        de.build_vocabulary("the cat sat")


def test_topics_of_a_column_are_those_of_a_job_and_its_report_is_shown(nine: list[str]):
    run = de.topics(
        pd.Series(nine, index=list("abcdefghi")), n_topics=2, vocabulary={"stop_words": "english"}
    )
    assert run.tables["documents"]["id"].to_pylist() == list("abcdefghi")
    assert run.arrays["document_factors"].shape == (9, 2)
    shown = run.show(height=300)
    assert len(repr(shown)) < 300
    assert shown._repr_html_().startswith("<iframe srcdoc=")
    assert "height: 300px" in shown._repr_html_()
    with pytest.raises(ValueError, match=r"have no column of 2 to \d+ values: give corpus\.label_field"):
        shares_table(run.job, run.workspace)
    assert all(len(repr(value)) < 300 for value in run.workspace.stages().values())
    Path(run.report).unlink()
    with pytest.raises(FileNotFoundError, match=r"report/index\.html is not there: run the job to its end"):
        run.show()


def test_a_frame_is_imputed_by_its_index(tmp_path: Path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.standard_normal((40, 3)), index=[f"name {i}" for i in range(40)], columns=["a", "b", "name"]
    )
    table["kind"] = ["x", "y"] * 20
    truth = pd.DataFrame(
        table[["a", "b", "name"]].to_numpy() @ rng.standard_normal((3, 4)), index=table.index
    )
    known = truth.sample(25, random_state=0)
    run = de.impute(table, known, workspace=tmp_path / "w")
    hidden = table.index.difference(known.index)
    found = pd.DataFrame(run.vectors.vectors, index=run.vectors.words)
    np.testing.assert_array_equal(found.loc[known.index], known.astype(np.float32))
    assert np.corrcoef(found.loc[hidden].to_numpy().ravel(), truth.loc[hidden].to_numpy().ravel())[0, 1] > 0.9
    assert run.job.imputation.method == "auto"
    again = de.impute(table, known, workspace=tmp_path / "w")
    assert again.ran == ()
    vectors = de.WordVectors(known.index, known.to_numpy())
    other = de.impute(table, vectors, imputation={"method": "graph"})
    assert other.workspace.stages()["vectors"].facts["method"] == "graph"
    assert other.tables["vocabulary"].to_pandas()["origin"].tolist().count("imputed") == 15


def test_what_is_no_frame_is_refused():
    with pytest.raises(TypeError, match="must be a data frame with the names as its index"):
        de.impute(np.ones((3, 2)), "vectors.txt")
