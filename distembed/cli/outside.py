"""The place of what a command writes, which lies outside every workspace."""

from __future__ import annotations

from typing import Any

import click

from distembed.job.derived import check_outside


class Outside(click.Path):
    """A file or a folder that a command writes, outside every workspace."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the place as it is given; refuse one in a workspace."""
        try:
            check_outside(str(value).removeprefix("static:"))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


OUTSIDE = Outside(readable=False)
"""The place of what a command writes."""
