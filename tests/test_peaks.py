"""The peak memory of each stage of each system at two sizes, each run a process of its own, against its plan."""

from __future__ import annotations

import sys

import pytest

from tests.campaigns.memory import LARGER, ran

SIZES = (2, 8)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
@pytest.mark.parametrize("system", LARGER)
def test_no_stage_takes_more_than_its_plan_and_the_largest_half_of_it(system: str) -> None:
    settings = ["resources.memory_limit=64GiB", *LARGER[system]]
    assert isinstance(ran(system, 0.25, settings, is_held=False), dict)  # which compiles what is compiled
    found = {size: ran(system, size, settings, is_held=False) for size in SIZES}
    wrong = {
        (size, name): (took.planned >> 20, took.peak >> 20)
        for size, stages in found.items()
        for name, took in dict(stages).items()
        if "ABOVE" in took.verdict or (took.verdict and size == SIZES[-1])
    }
    assert not wrong, f"planned and measured MiB of stages: {wrong}"
