"""Tables of a stage that come in pieces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from distembed.storage.workspace import Workspace


def test_a_table_in_pieces_is_the_table_of_all(tmp_path: Path) -> None:
    pieces = [pa.table({"word": ["a", "b"], "n": [1, 2]}), pa.table({"word": ["c"], "n": [3]})]
    with Workspace.create(tmp_path / "w", owner="test") as workspace:
        stage = workspace.stage("words", parameters={}, inputs={})
        stage.store_table("pieces", iter(pieces))
        stage.store_table("whole", pa.concat_tables(pieces))
        stage.commit()
    assert workspace.table("pieces") == workspace.table("whole")
    assert workspace.describe("pieces").spec.shape == (3, 2)
