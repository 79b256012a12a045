"""Links of Markdown pages as they are in the repository, made links of the site.

A page links to files beside it by relative paths, so that it can be read on a forge too. Some files have their home
outside of `docs/` and are shown by a page that includes them. A link to such a file becomes a link to that page, and
the links inside an included file are made relative to the page that includes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^ *(?:```|~~~|:::)")
TARGET = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)")
INCLUDE = re.compile(r"^```\{include\} +(\S+)", re.MULTILINE)


def setup(app: Any) -> dict[str, Any]:
    """Register the two rewritings with Sphinx."""
    app.connect("source-read", _page_read)
    app.connect("include-read", _include_read)
    return {"version": "1", "parallel_read_safe": True}


def shown_files(docs: Path) -> dict[Path, Path]:
    """Return the page that includes a file, for every file that has one."""
    return {
        (page.parent / path).resolve(): page
        for page in sorted(docs.rglob("*.md"))
        if "_build" not in page.parts
        for path in INCLUDE.findall(page.read_text(encoding="utf-8"))
    }


def relinked(text: str, *, folder: Path, page: Path, shown: dict[Path, Path]) -> str:
    """Return Markdown of a folder with its relative links as a page of the site needs them; code is left alone."""
    lines, inside = text.split("\n"), False
    for i, line in enumerate(lines):
        inside ^= bool(FENCE.match(line))
        if not inside:
            lines[i] = TARGET.sub(_relative_to(folder, page, shown), line)
    return "\n".join(lines)


def _relative_to(folder: Path, page: Path, shown: dict[Path, Path]) -> Callable[[re.Match[str]], str]:
    def target(match: re.Match[str]) -> str:
        place = (folder / match[1]).resolve()
        return os.path.relpath(shown.get(place, place), page.parent).replace(os.sep, "/")

    return target


def _page_read(app: Any, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name)).resolve()
    if page.suffix == ".md":
        source[0] = relinked(source[0], folder=page.parent, page=page, shown=shown_files(Path(app.srcdir)))


def _include_read(app: Any, path: Path, _parent: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(app.env.docname)).resolve()
    file = (Path(app.srcdir) / path).resolve()
    source[0] = relinked(source[0], folder=file.parent, page=page, shown=shown_files(Path(app.srcdir)))
