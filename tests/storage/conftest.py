"""What the tests of the store share: a workspace of two stages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.storage.examples import run_both


@pytest.fixture(scope="session")
def two_stages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a workspace of two stages, which no test changes, and its digest."""
    root = tmp_path_factory.mktemp("two-stages") / "ws"
    digest, problems = run_both(root)
    assert problems == []
    return root, digest


@pytest.fixture
def root(two_stages: tuple[Path, str], tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(two_stages[0], tmp_path / "copy"))
