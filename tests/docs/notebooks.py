"""Read the notebooks among the tutorials, which are Markdown with cells of code, and execute them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
HEADER = "---\njupytext:\n"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:[\w-]+:.*\n", re.MULTILINE)


def notebooks() -> list[Path]:
    return [
        page for page in sorted(TUTORIALS.glob("*.md")) if page.read_text(encoding="utf-8").startswith(HEADER)
    ]


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
