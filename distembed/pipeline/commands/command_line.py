"""What the commands share on the command line: examples in their help, and arguments that a shell completes."""

from __future__ import annotations

from typing import Any

import click

PLACE = click.Path(readable=False)
"""A file, a folder or a URL: a shell completes it, and the command itself says what is wrong with it."""


class Outside(click.Path):
    """A file or a folder that a command writes, outside every workspace."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the place as it is given; refuse one in a workspace."""
        from distembed.pipeline.derived import check_outside

        try:
            check_outside(str(value).removeprefix("static:"))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


OUTSIDE = Outside(readable=False)
"""The place of what a command writes."""


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines that can be typed, kept as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
