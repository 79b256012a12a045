"""Workers of a real Dask cluster die in each stage of each system, and the run ends with the same digest."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.campaigns.workers import SYSTEMS, run_whole, try_each


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_death_of_workers_in_any_stage_changes_nothing(system: str, tmp_path: Path) -> None:
    folder = run_whole(tmp_path, system, all_sent=True)
    same = list(try_each(folder, ("process", "all"), random.Random(0), all_sent=True))
    assert len(same) > 2
    assert all(same)
