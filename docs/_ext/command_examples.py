"""Shows the examples of a command's help as they are typed: an asterisk of a glob begins no emphasis."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rewriting with sphinx-click."""
    app.connect("sphinx-click-process-epilog", _epilog_made)
    return {"version": "1", "parallel_read_safe": True}


def _epilog_made(_app: Sphinx, _context: Any, lines: list[str]) -> None:
    lines[:] = [line.replace("*", r"\*") for line in lines]
