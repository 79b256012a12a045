"""The page of other programs: what it opens in a workspace by Dask, xarray and AnnData is what distembed reads."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

import distembed as de
from distembed.execution import compute

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "other_programs.md"
TITLE = "## Open the arrays of a workspace in other programs\n"


@pytest.fixture
def opened(finished, tmp_path, monkeypatch):
    """Return the names that the code of the page leaves, run on the workspace of a small job."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "english").symlink_to(finished[0])
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text(encoding="utf-8").partition(TITLE)[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    assert "distembed" not in "".join(blocks)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", zarr.errors.ZarrUserWarning)  # of what is no array and no group
        for block in blocks:
            exec(block, names)
    return names


def test_other_programs_read_what_distembed_reads(finished, opened):
    workspace = de.Workspace.open(finished[0])
    vectors = np.asarray(compute(workspace.array("vectors")))
    np.testing.assert_array_equal(opened["vectors"].compute(), vectors)
    np.testing.assert_array_equal(opened["arrays"]["vectors"].to_numpy(), vectors)
    np.testing.assert_allclose(opened["lengths"], np.linalg.norm(vectors, axis=1), rtol=1e-5)
    said = workspace.describe("vectors").spec.meaning
    assert opened["arrays"]["vectors"].attrs["long_name"] == said
    counts = compute(workspace.array("cooccurrence"))
    assert (opened["counts"] != counts).nnz == 0
    assert opened["counts"].dtype == counts.dtype


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_chunks_of_which_the_last_has_fewer_rows_are_read_by_others(tmp_path, dtype):
    """Zarr stores the last chunk as large as the others."""
    expected = np.arange(14, dtype=dtype).reshape(7, 2)
    with de.Workspace.create(tmp_path / "w", owner="test") as workspace:
        stage = workspace.stage("numbers", parameters={}, inputs={})
        said = {"dims": ["row", "column"], "units": "1", "meaning": "Numbers."}
        stored = stage.store("numbers", da.from_array(expected, chunks=(3, -1)), **said)
        stage.commit()
    np.testing.assert_array_equal(compute(stored), expected)
    found = da.from_zarr(str(tmp_path / "w" / "arrays.zarr" / "numbers"))
    np.testing.assert_array_equal(found.compute(scheduler="synchronous"), expected)
    assert found.chunks[0] == (3, 3, 1)
