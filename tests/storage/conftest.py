"""What the tests of the store share: a cluster, and a workspace of two stages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import LocalCluster

from tests.conftest import forked_workers
from tests.storage.examples import run_both


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Yield two worker processes of one thread."""
    with (
        forked_workers(),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as started,
    ):
        yield started


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
