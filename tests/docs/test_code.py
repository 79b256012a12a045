"""The code of the pages: notebooks run, and other programs read what distembed reads."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import distembed as de
from distembed.execution import compute

# --- notebooks among the tutorials, which are Markdown with cells of code -------------------------------------


TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
HEADER = "---\njupytext:\n"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:[\w-]+:.*\n", re.MULTILINE)
NOTEBOOKS = [
    page for page in sorted(TUTORIALS.glob("*.md")) if page.read_text(encoding="utf-8").startswith(HEADER)
]
INDEX = (TUTORIALS / "index.md").read_text(encoding="utf-8")


def cells(page: Path) -> list[str]:
    """Return the code of each cell of a notebook, without its options."""
    return [OPTION.sub("", code).strip("\n") for code in CELL.findall(page.read_text(encoding="utf-8"))]


def executed(page: Path, folder: Path) -> Any:
    """Execute the cells of a notebook in a folder, as the site does; return the notebook with its outputs."""
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells(page)])
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(
        notebook, timeout=300, startup_timeout=120, kernel_name="python3", resources=resources
    ).execute()
    return notebook


def test_there_are_six_and_the_index_lists_each():
    assert len(NOTEBOOKS) == 6
    assert all(re.search(rf"^{page.stem}$", INDEX, re.MULTILINE) for page in NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs_to_its_end_and_shows_pictures(page, tmp_path):
    pytest.importorskip("nbclient", reason="needs distembed[docs]")
    outputs = [output for cell in executed(page, tmp_path).cells for output in cell.outputs]
    has_picture = any("image/png" in output.get("data", {}) for output in outputs)
    assert outputs
    assert has_picture == (page.stem != "cluster_on_your_desk")  # whose outputs are digests


# --- the page of other programs -------------------------------------------------------------------------------


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
