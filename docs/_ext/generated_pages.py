"""The reference pages that are made when the site is built: the keys of each method's jobs, and the outputs of all.

The keys are those of `distembed keys METHOD`, the outputs what each method declares.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from distembed.job.keys import as_markdown, keys_of
from distembed.job.outputs import ArrayOutput, FilesOutput, Output, TableOutput
from distembed.job.registry import SYSTEMS
from distembed.job.stage import REPORT, system_named

FOLDER = "reference/keys"
OUTPUTS = "reference/outputs.md"
HEAD = """# Outputs of the methods

These are the arrays, tables and files that a job writes into its workspace. The job fills in the parts in braces, such
as the name of a recipe. `workspace.array(name)`, `workspace.table(name)` and `workspace.files(name)` open them;
{doc}`file_formats` describes the files.
"""


def setup(app: Any) -> dict[str, Any]:
    """Register the writer with Sphinx."""
    app.connect("builder-inited", _write_pages)
    return {"version": "1", "parallel_read_safe": True}


def page_of(system: str) -> str:
    """Return the page of a system as Markdown."""
    _, _, sections = as_markdown(system, keys_of(system)).partition("\n")
    page = f'# Keys of `{system}` jobs\n\n`[job] system = "{system}"`\n{sections}\n'.replace(
        "\n### ", "\n## "
    )
    head, *parts = page.split("\n## `[")
    return head + "".join(f"\n## `[{_with_anchors(part)}" for part in parts)


def _with_anchors(section: str) -> str:
    """Return a section of keys with an anchor in each row, such as `#psdvec.n_components`, which the key links to."""
    name = section.partition("]")[0]
    return re.sub(
        r"^\| `([^`]+)` \|",
        rf'| <a id="{name}.\1" href="#{name}.\1"><code>\1</code></a> |',
        section,
        flags=re.MULTILINE,
    )


def outputs_page() -> str:
    """Return the page of the outputs of all systems as Markdown."""
    return HEAD + "".join(
        f"\n## `{name}`\n\n| output | contents | meaning |\n|---|---|---|\n"
        + "".join(_row(output) for output in (*system_named(name).outputs, REPORT))
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


def _write_pages(app: Any) -> None:
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for system in SYSTEMS:
        _write(folder / f"{system}.md", page_of(system))
    _write(Path(app.srcdir) / OUTPUTS, outputs_page())


def _write(target: Path, text: str) -> None:
    """Write a page unless it is there already: Sphinx does not read an untouched page again."""
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")
