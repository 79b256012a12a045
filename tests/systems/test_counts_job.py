"""Counts out and in: what other programs read, and a job from counts that has the bits of the job from text."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import distembed as de
from distembed.job.stage import whole_sparse
from tests.commands import run, succeed

JOB = """
[job]
workspace = "again"
[counts]
path = "{path}"
[vocabulary]
min_count = 1
[psdvec]
n_components = 4
n_iter = 1
first_passes = 4
[resources]
workers = 1
"""


def counts_of(workspace: Path) -> sp.csr_array:
    return whole_sparse(de.Workspace.open(str(workspace)).array("cooccurrence"))


def rerun(folder: Path, path: str, *settings: str) -> de.Workspace:
    """Run a job from a table of counts, up to its vectors."""
    (folder / "counts.toml").write_text(JOB.format(path=path))
    succeed("run", folder / "counts.toml", "--until", "vectors", *settings)
    return de.Workspace.open(str(folder / "again"))


@pytest.mark.parametrize("name", ["counts.parquet", "counts.npz", "cooccurrence.bin"])
def test_vectors_of_exported_counts_are_those_of_the_text(tiny: Path, name: str) -> None:
    succeed("export", tiny / "w", "--what", "counts", "--to", tiny / name)
    again, first = rerun(tiny, name), de.Workspace.open(str(tiny / "w"))
    for output in ("cooccurrence", "core_vectors", "vectors"):
        assert again.describe(output).digest == first.describe(output).digest, output
    succeed("run", tiny / "counts.toml")
    assert "nothing to do" in succeed("run", tiny / "counts.toml").output
    done = run("infer", tiny / "again", tiny / "text" / "a.txt", "--to", tiny / "more.txt")
    assert "does not say how texts become tokens" in done.output


def test_pandas_scipy_and_glove_read_what_is_written(tiny: Path) -> None:
    expected, words = counts_of(tiny / "w"), de.Workspace.open(str(tiny / "w")).table("vocabulary")
    for name in ("c.parquet", "c.npz", "c.csv", "cooccurrence.bin"):
        succeed("export", tiny / "w", "--what", "counts", "--to", tiny / name)
    listed = words["word"].to_pylist()
    for frame in (pd.read_parquet(tiny / "c.parquet"), pd.read_csv(tiny / "c.csv", encoding="utf-8-sig")):
        wide = frame.pivot(index="word", columns="context", values="count").fillna(0)
        np.testing.assert_array_equal(wide.loc[listed, listed], expected.toarray())
    loaded = sp.load_npz(tiny / "c.npz")
    assert (loaded != expected).nnz == 0
    assert loaded.dtype == np.int32
    records = list(struct.iter_unpack("<iid", (tiny / "cooccurrence.bin").read_bytes()))
    found = {(row - 1, column - 1): count for row, column, count in records}
    coo = expected.tocoo()
    assert found == dict(zip(zip(*coo.coords, strict=True), coo.data.tolist(), strict=True))
    assert (tiny / "vocab.txt").read_text().split() == [
        part for row in words.to_pylist() for part in (row["word"], str(row["count"]))
    ]
    assert pd.read_parquet(tiny / "c.words.parquet")["word"].tolist() == listed


def test_a_smallest_count_suppresses_cells_and_says_how_many(tiny: Path) -> None:
    whole = counts_of(tiny / "w")
    done = succeed(
        "export", tiny / "w", "--what", "counts", "--to", tiny / "c.parquet", "--smallest-count", 9
    )
    kept = pd.read_parquet(tiny / "c.parquet")["count"]
    left, share = (whole.data < 9).sum(), whole.data[whole.data < 9].sum() / whole.data.sum()
    assert kept.min() == 9
    assert len(kept) == (whole.data >= 9).sum()
    assert f"{left:,} cells suppressed, {share:.2%} of the total" in done.output
    manifest = json.loads((tiny / "c.manifest.json").read_text())
    assert (manifest["n_suppressed"], manifest["smallest_count"]) == (left, 9)
    assert manifest["suppressed_share"] == pytest.approx(share)
    failed = run("export", tiny / "w", "--what", "counts", "--to", tiny / "d.npz", "--smallest-count", 10**6)
    assert failed.exit_code == 1
    assert "lower --smallest-count" in failed.output


def test_an_export_of_counts_that_cannot_be_made_is_one_sentence(tiny: Path) -> None:
    for what, target, *words, message in (
        ("words", "c.txt", "--smallest-count", 2, "a smallest count is an option of counts"),
        ("counts", "c.odt", "c.odt cannot be detected from its name: end it in"),
        ("pmi", "c.npz", 'w has no table of pmi: matrices.keep = ["pmi"] in the job file keeps it'),
        (
            "distances",
            "d.npy",
            'w keeps no distances: give matrices.keep = ["distances"] in the job file, and run it',
        ),
    ):
        done = run("export", tiny / "w", "--what", what, "--to", tiny / target, *words)
        assert done.exit_code == 1
        assert message in done.output


def test_words_that_are_rarer_than_the_smallest_count_are_left_out(tiny: Path) -> None:
    cells = [("a", "a", 50), ("a", "b", 3), ("b", "a", 3), ("a", "c", 20), ("c", "a", 12)]
    pd.DataFrame(cells, columns=["word", "context", "count"]).to_parquet(tiny / "few.parquet")
    pd.DataFrame({"word": ["a", "b", "c"], "count": [60, 4, 25]}).to_parquet(tiny / "words.parquet")
    settings = ("--set", "counts.words=words.parquet", "--set", "psdvec.n_components=1")
    rerun(tiny, "few.parquet", *settings)
    export = ("export", tiny / "again", "--what", "counts", "--to", tiny / "kept.parquet")
    done = succeed(*export, "--smallest-count", 10)
    words = pd.read_parquet(tiny / "kept.words.parquet")
    assert words["word"].tolist() == ["a", "c"]
    assert "document_count" not in words
    frame = pd.read_parquet(tiny / "kept.parquet")
    assert list(frame.itertuples(index=False, name=None)) == [("a", "a", 50), ("a", "c", 20), ("c", "a", 12)]
    assert "3 cells of 2 x 2" in done.output
    assert "2 cells suppressed, 6.82% of the total" in done.output
    settings = ("--set", "psdvec.n_components=1")
    assert counts_of(Path(rerun(tiny, "kept.parquet", *settings).url)).toarray().tolist() == [
        [50, 20],
        [12, 0],
    ]


def test_pmi_and_distances_are_written(tiny: Path) -> None:
    succeed("run", tiny / "job.toml", "--set", "matrices.keep=['pmi','distances']", "--until", "distances")
    workspace = de.Workspace.open(str(tiny / "w"))
    succeed("export", tiny / "w", "--what", "pmi", "--to", tiny / "p.parquet")
    frame, pmi = pd.read_parquet(tiny / "p.parquet"), whole_sparse(workspace.array("pmi"))
    assert list(frame) == ["word", "context", "pmi"]
    np.testing.assert_array_equal(frame["pmi"], pmi.data)
    constant = json.loads((tiny / "p.manifest.json").read_text())["constant"]
    assert constant == pytest.approx(np.log(0.02))
    succeed("export", tiny / "w", "--what", "pmi", "--to", tiny / "q.parquet", "--smallest-count", 9)
    counts = whole_sparse(workspace.array("cooccurrence"))
    np.testing.assert_array_equal(pd.read_parquet(tiny / "q.parquet")["pmi"], pmi.data[counts.data >= 9])
    succeed("export", tiny / "w", "--what", "distances", "--to", tiny / "d.npy")
    np.testing.assert_array_equal(np.load(tiny / "d.npy"), workspace.array("distances").compute())


def test_a_table_of_pandas_without_words_is_enough(tiny: Path) -> None:
    """Any order of the cells, and any writer; the words are counted by their cells."""
    frame = pd.DataFrame(
        [(f"w{i}", f"w{j}", 1 + (i * j) % 5) for i in range(9) for j in range(9)],
        columns=["word", "context", "count"],
    )
    frame.sample(frac=1, random_state=0).to_parquet(tiny / "any.parquet", row_group_size=20)
    workspace = rerun(tiny, "any.parquet")
    vocabulary = workspace.table("vocabulary").to_pandas()
    sums = frame.groupby("word")["count"].sum() + frame.groupby("context")["count"].sum()
    assert dict(zip(vocabulary["word"], vocabulary["count"], strict=True)) == sums.to_dict()
    order = vocabulary["word"].tolist()
    wide = frame.pivot(index="word", columns="context", values="count").loc[order, order]
    np.testing.assert_array_equal(counts_of(tiny / "again").toarray(), wide)


@pytest.mark.parametrize("row_group_size", [1, 3])
def test_a_pair_twice_is_one_sentence(tiny: Path, row_group_size: int) -> None:
    frame = pd.DataFrame([("a", "b", 3), ("b", "a", 2), ("a", "b", 1)], columns=["word", "context", "count"])
    frame.to_parquet(tiny / "twice.parquet", row_group_size=row_group_size)
    (tiny / "counts.toml").write_text(JOB.format(path="twice.parquet"))
    done = run("run", tiny / "counts.toml", "--set", "psdvec.n_components=1")
    assert done.exit_code == 1
    assert "holds the count of 'a' with 'b' twice: add the two, or remove one" in done.output


def test_a_table_that_is_changed_is_not_that_of_its_manifest(tiny: Path) -> None:
    succeed("export", tiny / "w", "--what", "counts", "--to", tiny / "cooccurrence.bin")
    data = bytearray((tiny / "cooccurrence.bin").read_bytes())
    data[8:16] = struct.pack("<d", 99.0)
    (tiny / "cooccurrence.bin").write_bytes(data)
    (tiny / "counts.toml").write_text(JOB.format(path="cooccurrence.bin"))
    done = run("run", tiny / "counts.toml")
    assert done.exit_code == 1
    assert "is damaged: its counts add up to" in done.output


def test_glove_takes_no_blanks_in_words(tiny: Path) -> None:
    frame = pd.DataFrame(
        [("new york", "city", 3), ("city", "new york", 2)], columns=["word", "context", "count"]
    )
    frame.to_parquet(tiny / "blank.parquet")
    rerun(tiny, "blank.parquet", "--set", "psdvec.n_components=1")
    export = ("export", tiny / "again", "--what", "counts", "--to", tiny / "cooccurrence.bin")
    done = run(*export)
    assert done.exit_code == 1
    assert "'new york' has one: give --space _" in done.output
    succeed(*export, "--space", "_")
    assert "new_york 5" in (tiny / "vocab.txt").read_text()


SPACES = """
[job]
system = "wordspaces"
workspace = "{workspace}"
{source}
[vocabulary]
min_count = 1
[contexts]
window = 2
[recipes.lsa]
of = "ppmi"
method = "lsa"
n_components = 3
[recipes.ppmi]
of = "contexts"
method = "ppmi"
[wordspaces]
vectors = "lsa"
[resources]
workers = 1
"""


def test_word_spaces_of_exported_contexts_are_those_of_the_text(tiny: Path) -> None:
    text = '[corpus]\npaths = ["text/*.txt"]\nnumbers = true'
    (tiny / "text.toml").write_text(SPACES.format(workspace="spaces", source=text))
    succeed("run", tiny / "text.toml", "--until", "vectors")
    succeed("export", tiny / "spaces", "--what", "counts", "--to", tiny / "contexts.parquet")
    table = '[counts]\npath = "contexts.parquet"'
    (tiny / "counts.toml").write_text(SPACES.format(workspace="again", source=table))
    assert "plan" not in succeed("plan", tiny / "counts.toml").stderr
    succeed("run", tiny / "counts.toml")
    first, again = (de.Workspace.open(str(tiny / name)) for name in ("spaces", "again"))
    for output in ("contexts", "spaces/ppmi", "vectors"):
        assert again.describe(output).digest == first.describe(output).digest, output
    wrong = run("run", tiny / "counts.toml", "--set", "recipes.next={of='hal',method='counts'}")
    assert wrong.exit_code == 2
    assert "has contexts only" in wrong.output
