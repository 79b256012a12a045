"""The reference of what a workspace holds, written from the outputs that each system declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from distembed.job.outputs import ArrayOutput, FilesOutput, Output, TableOutput
from distembed.job.registry import SYSTEMS
from distembed.job.stage import system_named

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGE = "reference/outputs.md"
HEAD = """# Outputs of the systems

These are the arrays, tables and files that a finished job may have in its workspace, beside its checkpoints. A part
in braces is filled in by the job, such as the name of a recipe. `workspace.array(name)`, `workspace.table(name)` and
`workspace.files(name)` open them; {doc}`file_formats` says how they lie on the disk.
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the writer with Sphinx."""
    app.connect("builder-inited", _write_page)
    return {"version": "1", "parallel_read_safe": True}


def page() -> str:
    """Return the page as Markdown."""
    return HEAD + "".join(
        f"\n## `{name}`\n\n| output | contents | meaning |\n|---|---|---|\n"
        + "".join(_row(output) for output in system_named(name).outputs)
        for name in SYSTEMS
    )


def _row(output: Output) -> str:
    return f"| `{output.name}` | {_contents(output)} | {output.meaning} |\n"


def _contents(output: Output) -> str:
    if isinstance(output, ArrayOutput):
        return f"{output.dtype} ({', '.join(output.dims)}){f', {output.units}' if output.units else ''}"
    if isinstance(output, TableOutput):
        return f"table: {', '.join(f'`{column}`' for column in output.columns)}"
    return "files" if isinstance(output, FilesOutput) else "file"


def _write_page(app: Sphinx) -> None:
    target, text = Path(app.srcdir) / PAGE, page()
    if (
        not target.exists() or target.read_text(encoding="utf-8") != text
    ):  # an untouched page is not read again
        target.write_text(text, encoding="utf-8")
