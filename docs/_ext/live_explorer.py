"""The page to explore that the home page shows: that of `distembed demo psdvec`, made when the site is built."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import distembed as de
from distembed.job.demos import lay_out
from distembed.views.explorer.job import write_explorer

TARGET = "_static/live/explorer.html"
"""A page that is there is kept: it takes a minute, and only other vectors would change it."""


def setup(app: Any) -> dict[str, Any]:
    """Register the writer with Sphinx."""
    app.connect("builder-inited", _write_page)
    return {"version": "1", "parallel_read_safe": True}


def _write_page(app: Any) -> None:
    target = Path(app.srcdir) / TARGET
    if app.builder.format != "html" or target.exists():
        return
    target.parent.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        job = lay_out("psdvec", Path(folder))
        write_explorer(de.run_job(job, until="vectors").workspace, str(target))
