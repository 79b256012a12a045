"""Tables of a stage that come in pieces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.storage.workspace import Workspace


def test_a_table_in_pieces_is_the_table_of_all(tmp_path: Path) -> None:
    pieces = [pa.table({"word": ["a", "b"], "n": [1, 2]}), pa.table({"word": ["c"], "n": [3]})]
    with Workspace.create(tmp_path / "w", owner="test") as workspace:
        stage = workspace.stage("words", parameters={}, inputs={})
        stage.store_batches("pieces", pieces[0].schema, iter(pieces), n_rows=3)
        stage.store_table("whole", pa.concat_tables(pieces))
        stage.commit()
    assert workspace.table("pieces") == workspace.table("whole")
    assert workspace.describe("pieces").spec.shape == (3, 2)
    assert workspace.verify() == []


def test_a_table_is_one_file_of_the_same_bytes_however_it_is_stored(tmp_path: Path) -> None:
    """A table given whole is written as pyarrow writes it, so that its digest is that of earlier runs."""
    table = pa.table({"word": ["a", "b"], "n": [1, 2]})
    pq.write_table(table, tmp_path / "expected.parquet", compression="zstd", write_page_checksum=True)
    with Workspace.create(tmp_path / "w", owner="test") as workspace:
        stage = workspace.stage("words", parameters={}, inputs={})
        stage.store_table("whole", table)
        stage.commit()
    found = (tmp_path / "w" / "whole.parquet").read_bytes()
    assert found == (tmp_path / "expected.parquet").read_bytes()


def test_pieces_of_another_number_of_rows_are_refused(tmp_path: Path) -> None:
    piece = pa.table({"n": [1, 2, 3]})
    with Workspace.create(tmp_path / "w", owner="test") as workspace:
        stage = workspace.stage("words", parameters={}, inputs={})
        with pytest.raises(ValueError, match="said to have 4 rows, and its pieces have 3"):
            stage.store_batches("wrong", piece.schema, [piece], n_rows=4)
        assert not stage.is_stored("wrong")
