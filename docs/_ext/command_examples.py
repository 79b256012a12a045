"""Shows the examples of a command's help as code: no quote, dash or asterisk of them is changed."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rewriting with sphinx-click."""
    app.connect("sphinx-click-process-epilog", _epilog_made)
    return {"version": "1", "parallel_read_safe": True}


def _epilog_made(_app: Sphinx, _context: Any, lines: list[str]) -> None:
    """Put the lines below "Examples:", which sphinx-click writes as a line block, into a block of code."""
    examples = [line.removeprefix("|").strip() for line in lines]
    if "Examples:" in examples:
        commands = [f"   {line}" for line in examples[examples.index("Examples:") + 1 :] if line]
        lines[:] = ["Examples:", "", ".. code-block:: bash", "", *commands, ""]
