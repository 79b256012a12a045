"""Pages without the paths of the machine that builds them, which the output of a notebook may contain."""

from __future__ import annotations

import re
import tempfile
from typing import Any

PACKAGES = re.compile(r"(?<![\w.:/])/[\w./+-]*?(?=/site-packages/)")
TEMPORARY = re.compile(rf"{re.escape(tempfile.gettempdir())}/{tempfile.gettempprefix()}\w+")


def setup(app: Any) -> dict[str, Any]:
    """Register the rewriting with Sphinx."""
    app.connect("html-page-context", _page_made)
    return {"version": "1", "parallel_read_safe": True}


def without_paths(html: str) -> str:
    """Return a page with an ellipsis in place of the folders of installed packages, and of temporary folders."""
    return TEMPORARY.sub("...", PACKAGES.sub("...", html))


def _page_made(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    if "body" in context:
        context["body"] = without_paths(context["body"])
