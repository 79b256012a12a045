"""The reference of job files: one page per system, written from the models that check a job file.

The pages are made when the site is built, from what `distembed keys SYSTEM --markdown` prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from distembed.job.keys import as_markdown, keys_of
from distembed.job.registry import SYSTEMS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "reference/keys"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the writer with Sphinx."""
    app.connect("builder-inited", _write_pages)
    return {"version": "1", "parallel_read_safe": True}


def page_of(system: str) -> str:
    """Return the page of a system as Markdown."""
    _, _, sections = as_markdown(system, keys_of(system)).partition("\n")
    return f'# Keys of `{system}` jobs\n\n`[job] system = "{system}"`\n{sections}\n'.replace(
        "\n### ", "\n## "
    )


def _write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for system in SYSTEMS:
        page, text = folder / f"{system}.md", page_of(system)
        if (
            not page.exists() or page.read_text(encoding="utf-8") != text
        ):  # an untouched page is not read again
            page.write_text(text, encoding="utf-8")
