"""What a finished job has made: the fixtures of each module's `finished`."""

from __future__ import annotations

from typing import Any

import pytest

import distembed as de


@pytest.fixture
def workspace(finished: tuple[Any, ...]) -> de.Workspace:
    """Return the workspace of the finished job, open for reading."""
    return de.Workspace.open(finished[0])


@pytest.fixture
def output(finished: tuple[Any, ...]) -> str:
    """Return what the run of the finished job printed."""
    return str(finished[-1])


@pytest.fixture
def page(finished: tuple[Any, ...]) -> str:
    """Return the report of the finished job."""
    return str((finished[0] / "report" / "index.html").read_text(encoding="utf-8"))
