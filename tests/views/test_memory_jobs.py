"""Jobs on data in memory: topics of a column of texts, vectors for the names of a frame, and a report in a notebook."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.demos import titles
from distembed.storage.records import DamagedError
from distembed.systems.topics.views import shares_table

pd = pytest.importorskip("pandas", reason="pip install pandas")


def test_topics_of_a_frame_are_those_of_a_job_in_a_workspace_that_lasts_as_long_as_what_reads_it():
    nine = Path(titles()).read_text(encoding="utf-8").splitlines()
    frame = pd.DataFrame({"text": nine, "label": "title", "year": 1990}, index=list("abcdefghi"))
    quick = {"n_starts": 1, "max_iter": 50}
    run = de.topics(frame, n_topics=2, vocabulary={"stop_words": "english"}, topics=quick)
    documents = run.tables["documents"].to_pydict()
    assert (documents["id"], documents["label"]) == ([*"abcdefghi"], ["title"] * 9)
    assert documents["year"] == ["1990"] * 9
    assert run.arrays["document_factors"].shape == (9, 2)
    listed, topics = run.documents.to_pydict(), run.topics.to_pylist()
    assert listed["id"] == documents["id"]
    for topic, words in zip(listed["topic"], listed["topic_words"], strict=True):
        assert words == ", ".join([row["word"] for row in topics if row["topic"] == topic][:5])
    assert "<td><bdi>document_factors</bdi></td>" in run._repr_html_()
    shown = run.show(height=300)
    assert len(repr(shown)) < 300
    assert shown._repr_html_().startswith("<iframe srcdoc=")
    assert "height: 300px" in shown._repr_html_()
    with pytest.raises(ValueError, match=r"have no column of 2 to \d+ values: give corpus\.label_field"):
        shares_table(run.job, run.workspace)
    assert all(len(repr(value)) < 300 for value in run.workspace.stages().values())
    Path(run.report).unlink()
    with pytest.raises(DamagedError, match=r"report/index\.html is not the file that stage 'report' wrote"):
        run.show()
    place, tables, factors = Path(run.workspace.url), run.tables, run.arrays["document_factors"]
    del run
    gc.collect()
    assert tables["documents"].num_rows == len(factors.compute()) == 9
    del tables, factors
    gc.collect()
    assert not place.exists()


def test_a_frame_is_imputed_by_its_index(tmp_path, capsys):
    with pytest.raises(TypeError, match="must be a data frame with the names as its index"):
        de.impute(np.ones((3, 2)), "vectors.txt")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.standard_normal((40, 3)), index=[f"name {i}" for i in range(40)], columns=["a", "b", "name"]
    )
    table["kind"] = ["x", "y"] * 20
    truth = pd.DataFrame(
        table[["a", "b", "name"]].to_numpy() @ rng.standard_normal((3, 4)), index=table.index
    )
    known = truth.sample(25, random_state=0)
    few = {"evaluation": {"n_folds": 2}}
    run = de.impute(table, known, workspace=tmp_path / "w", progress=True, **few)
    assert "imputed" in capsys.readouterr().out
    with pytest.raises(
        ValueError, match="a job of the method imputation has no documents: it has names, words"
    ):
        assert run.documents
    hidden = table.index.difference(known.index)
    found = pd.DataFrame(run.vectors.vectors, index=run.vectors.words)
    np.testing.assert_array_equal(found.loc[known.index], known.astype(np.float32))
    assert np.corrcoef(found.loc[hidden].to_numpy().ravel(), truth.loc[hidden].to_numpy().ravel())[0, 1] > 0.9
    assert run.job.imputation.method == "auto"
    again = de.impute(table, known, workspace=tmp_path / "w", **few)
    assert again.ran == ()
    vectors = de.WordVectors(known.index, known.to_numpy())
    other = de.impute(table, vectors, imputation={"method": "graph"}, **few)
    assert other.workspace.stages()["vectors"].facts["method"] == "graph"
    assert other.tables["vocabulary"].to_pandas()["origin"].tolist().count("imputed") == 15
