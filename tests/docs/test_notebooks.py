"""The notebooks among the tutorials: each can be read, uses public names alone, and runs to its end."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import distembed
import distembed.demos

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


def of_library(code: str) -> list[str]:
    """Return what code takes from the library: the names after `de.`, and modules that it imports."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "de":
            names.append(node.attr)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.startswith("distembed.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "distembed":
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def test_there_are_six_and_the_index_lists_each():
    assert len(NOTEBOOKS) == 6
    assert all(re.search(rf"^{page.stem}$", INDEX, re.MULTILINE) for page in NOTEBOOKS)


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_is_code_that_uses_public_names_alone_without_outputs(page):
    public = {*distembed.__all__, "distembed.demos.titles", "distembed.demos.title_counts"}
    used = {name for code in cells(page) for name in of_library(code)}
    assert used  # it is about the library
    assert used <= public
    text = page.read_text(encoding="utf-8")
    assert text.count("```{code-cell} ipython3\n") == len(cells(page)) > 3
    assert "data:image" not in text
    assert not list(page.parent.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs_to_its_end_and_shows_a_picture(page, tmp_path):
    pytest.importorskip("nbclient", reason="needs distembed[docs]")
    outputs = [output for cell in executed(page, tmp_path).cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
