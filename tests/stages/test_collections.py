"""The documents of a collection, which no process holds all at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import distembed as de
from tests.commands import succeed
from tests.small_jobs.transfer import JOB, write


def test_the_documents_of_a_collection_are_stored_a_partition_at_a_time(tmp_path: Path) -> None:
    write(tmp_path)
    job = JOB.replace("[collections.second]", 'partition_bytes = "16KiB"\n[collections.second]')
    (tmp_path / "job.toml").write_text(job)
    succeed("run", tmp_path / "job.toml", "--until", "first_documents")
    workspace = de.Workspace.open(tmp_path / "w")
    n_partitions = len(workspace.files("first_tokens"))
    stored = pq.ParquetFile(tmp_path / "w/first_documents.parquet")
    assert stored.num_row_groups == n_partitions > 1
    assert stored.metadata.num_rows == workspace.stages()["first_tokens"].facts["n_documents"]
