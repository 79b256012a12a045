"""Columns that are joined to the documents after they are tokenized: a changed cell makes no text be read again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.job.load import load_job
from distembed.job.run import run_stages
from tests.commands import succeed
from tests.small_jobs import transfer
from tests.small_jobs.topics import CLASSES

JOBS = {
    "psdvec": "[psdvec]\nn_components = 2\nn_iter = 2\n",
    "topics": "[topics]\nn_topics = 2\nn_starts = 1\nmax_iter = 5\n",
}


def write(folder: Path, system: str) -> Path:
    """Write three files of twenty documents in a folder for each class, and a table of what is known of them."""
    for kind, words in CLASSES.items():
        file = folder / "texts" / kind / "part.jsonl"
        file.parent.mkdir(parents=True)
        texts = [" ".join(words[k % 8] for k in range(n, n + 12)) for n in range(20)]
        rows = [{"id": f"{kind}{n}", "text": text} for n, text in enumerate(texts)]
        file.write_text("\n".join(map(json.dumps, rows)))
    write_table(folder)
    corpus = (
        '[corpus]\npaths = ["texts"]\nid_field = "id"\nmetadata = "meta.csv"\n[vocabulary]\nmin_count = 1\n'
    )
    (folder / "job.toml").write_text(f'[job]\nsystem = "{system}"\nworkspace = "w"\n{corpus}{JOBS[system]}')
    return folder / "job.toml"


def write_table(folder: Path, **changed: str) -> None:
    """Write the label and the title of each document; some have another label."""
    ids = [f"{kind}{n}" for kind in CLASSES for n in range(20)]
    rows = [f"{name},{changed.get(name, name.rstrip('0123456789'))},The {name}" for name in ids]
    (folder / "meta.csv").write_text("\n".join(["id,label,title", *rows]))


def documents(folder: Path) -> list[dict[str, str]]:
    return de.Workspace.open(folder / "w").table("documents").to_pylist()


@pytest.mark.parametrize(
    ("system", "reads_them"), [("psdvec", {"documents"}), ("topics", {"documents", "evaluation"})]
)
def test_a_changed_cell_makes_no_text_be_read_again(system, reads_them, tmp_path):
    job = write(tmp_path, system)
    first = run_stages(load_job(job), until="evaluation")
    assert documents(tmp_path)[0]["title"] == "The farm0"
    if system == "psdvec":
        assert "The sea" in succeed("explain", job, "anchor", "--passages", "2").output
    write_table(tmp_path, farm0="sea")
    again = run_stages(load_job(job), until="evaluation")
    assert set(again.ran) == reads_them
    assert set(again.skipped) == set(first.ran) - reads_them
    assert documents(tmp_path)[0]["label"] == "sea"


def test_documents_are_chosen_by_the_labels_of_a_table(tmp_path):
    job = load_job(write(tmp_path, "topics"), settings=("documents.labels=['sea', 'farm']",))
    run_stages(job, until="documents")
    write_table(tmp_path, farm0="music", music3="sea")
    assert "tokens" in run_stages(job, until="documents").skipped
    ids = {row["id"] for row in documents(tmp_path)}
    assert len(ids) == len(documents(tmp_path)) == 40
    assert {name for name in ids if name.startswith("music")} == {"music3"}
    assert "farm0" not in ids


def test_parts_of_paths_are_joined_by_file(tmp_path):
    """Files of one name are told apart by their folders; the text is not read again."""
    job = write(tmp_path, "psdvec")
    run_stages(load_job(job), until="documents")
    done = run_stages(load_job(job, settings=("corpus.path_fields=['kind']",)), until="documents")
    assert done.ran == ("documents",)
    found = {(row["kind"], row["id"].rstrip("0123456789")) for row in documents(tmp_path)}
    assert found == {(kind, kind) for kind in CLASSES}


def test_the_documents_of_a_collection_are_stored_a_partition_at_a_time(tmp_path):
    """No process holds them all at once."""
    transfer.write(tmp_path)
    job = load_job(tmp_path / "job.toml", settings=("collections.first.partition_bytes=16KiB",))
    run_stages(job, until="first_documents")
    workspace = de.Workspace.open(tmp_path / "w")
    stored = pq.ParquetFile(tmp_path / "w/first_documents.parquet")
    assert stored.num_row_groups == len(workspace.files("first_tokens")) > 1
    assert stored.metadata.num_rows == workspace.stages()["first_tokens"].facts["n_documents"]
