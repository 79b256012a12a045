"""A cluster that tests of the store share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import LocalCluster

from tests.conftest import forked_workers


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Yield two worker processes of one thread."""
    with (
        forked_workers(),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as started,
    ):
        yield started
