"""What the commands share on the command line: exit codes, examples in their help, arguments that a shell completes."""

from __future__ import annotations

from typing import Any, get_args

import click

FAILED, USAGE, STOPPED, EMPTY_CODE = 1, 2, 3, 4
"""The exit codes after what is no success: something is to be mended, or typed otherwise; the same command goes on
later; there is nothing yet (of `status` only)."""

STOPPED_TEXT = "stopped; nothing finished is lost, run the same command again to go on"

PLACE = click.Path(readable=False)
"""A file, a folder or a URL: a shell completes it, and the command itself says what is wrong with it."""


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines that can be typed, kept as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def choice(values: Any) -> click.Choice[Any]:
    """Return the type of an option that takes one of the values of a `Literal`, in their order."""
    return click.Choice(get_args(values))
