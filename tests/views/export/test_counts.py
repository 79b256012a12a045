"""Counts, PMI and distances out, and counts in again: what pandas reads, and what `read_counts` gives the estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.execution import compute
from distembed.job.opening import open_job
from distembed.linalg.operators import whole_csr
from tests.commands import succeed


def test_counts_that_were_written_are_read_and_give_the_vectors_of_the_job(tiny):
    done = succeed("export", tiny / "w", "--what", "counts", "--to", tiny / "c.parquet")
    assert "their words in" in done.output
    workspace = de.Workspace.open(str(tiny / "w"))
    expected = whole_csr(workspace.array("cooccurrence"))
    counts, vocabulary = de.read_counts(tiny / "c.parquet")
    assert vocabulary.words == workspace.table("vocabulary")["word"].to_pylist()
    np.testing.assert_array_equal(vocabulary.counts, workspace.table("vocabulary")["count"])
    assert counts.dtype == expected.dtype
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(counts, part), getattr(expected, part))
    model = de.PSDVec(**open_job(str(tiny / "w")).psdvec.options)
    found = model.fit(counts, vocabulary.counts).vectors_
    np.testing.assert_allclose(found, compute(workspace.array("vectors")), rtol=1e-4, atol=1e-5)


def test_pandas_reads_what_is_written(tiny):
    workspace = de.Workspace.open(str(tiny / "w"))
    expected, words = whole_csr(workspace.array("cooccurrence")), workspace.table("vocabulary")["word"]
    for name in ("c.parquet", "c.csv", "c.tsv.gz"):
        succeed("export", tiny / "w", "--what", "counts", "--to", tiny / name)
    frames = [
        pd.read_parquet(tiny / "c.parquet"),
        pd.read_csv(tiny / "c.csv", encoding="utf-8-sig"),
        pd.read_csv(tiny / "c.tsv.gz", sep="\t"),
    ]
    listed = words.to_pylist()
    for frame in frames:
        wide = frame.pivot(index="word", columns="context", values="count").fillna(0)
        np.testing.assert_array_equal(wide.loc[listed, listed], expected.toarray())
    assert pd.read_parquet(tiny / "c.words.parquet")["word"].tolist() == listed


PAIRS = [("a", "b", 3), ("b", "a", 2)]


TITLES = ["word", "context", "count"]


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["word", "context", "n"], PAIRS, "has no column 'count'"),
        (TITLES, [*PAIRS, ("a", "c", 1)], "'context': 'c'.* is no count of two of its 2 words"),
        (TITLES, [*PAIRS, ("a", "a", -1)], "'count': -1"),
        (TITLES, [*PAIRS, ("a", "a", np.nan)], "'count': None"),
        (TITLES, [*PAIRS, PAIRS[0]], "holds a pair of words twice"),
        (TITLES, [], "holds no row: export the counts again"),
    ],
)
def test_a_table_that_is_no_table_of_counts_is_one_sentence(tmp_path, columns, rows, message):
    pd.DataFrame(rows, columns=columns).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=message):
        de.read_counts(tmp_path / "c.parquet", words=de.Vocabulary(["a", "b"], [9, 4], [2, 2]))


def test_a_table_without_its_words_or_of_other_bytes_is_one_sentence(tmp_path):
    pd.DataFrame(PAIRS, columns=["word", "context", "count"]).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(FileNotFoundError, match=r"c\.words\.parquet"):
        de.read_counts(tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_bytes(b"word context count\n")
    with pytest.raises(ValueError, match="cannot be read as a Parquet file"):
        de.read_counts(tmp_path / "d.parquet", words=de.Vocabulary(["a"], [9], [2]))


def test_pmi_and_distances_are_written(tiny):
    succeed("run", tiny / "job.toml", "--set", "matrices.keep=['pmi','distances']", "--until", "distances")
    workspace = de.Workspace.open(str(tiny / "w"))
    done = succeed("export", tiny / "w", "--what", "pmi", "--to", tiny / "p.parquet")
    assert "every cell of the matrix, listed or not, is -3.91202301 more" in done.output
    frame = pd.read_parquet(tiny / "p.parquet")
    assert list(frame) == ["word", "context", "pmi"]
    np.testing.assert_array_equal(frame["pmi"], whole_csr(workspace.array("pmi")).data)
    assert float(pq.read_schema(tiny / "p.parquet").metadata[b"constant"]) == pytest.approx(np.log(0.02))
    succeed("export", tiny / "w", "--what", "distances", "--to", tiny / "d.npy")
    np.testing.assert_array_equal(np.load(tiny / "d.npy"), workspace.array("distances").compute())
