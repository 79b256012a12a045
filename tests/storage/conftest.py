"""What the tests of the store share: a workspace of two stages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from distembed.storage.folder import Folder
from tests.storage.examples import run_both


@pytest.fixture(scope="session")
def two_stages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a workspace of two stages, which no test changes, and its digest."""
    root = tmp_path_factory.mktemp("two-stages") / "ws"
    digest, problems = run_both(root)
    assert problems == []
    return root, digest


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of every file of a workspace that is read."""
    names: list[str] = []
    whole = Folder.read
    monkeypatch.setattr(
        Folder, "read", lambda self, name, **most: (names.append(name), whole(self, name, **most))[1]
    )
    return names


@pytest.fixture
def root(two_stages: tuple[Path, str], tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(two_stages[0], tmp_path / "copy"))
