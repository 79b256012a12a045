"""Kill a writer before, after and in the middle of its writes: the rerun gives the same bytes."""

import os

import pytest

from tests.faults import killed_at_every_write
from tests.processes import Process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("step", "least"), [(260, 4), pytest.param(1, 500, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_a_run_killed_at_a_write_ends_with_the_bytes_of_one_that_nobody_disturbed(tmp_path, step, least):
    process = Process(str(tmp_path), str(step), program=killed_at_every_write.__name__)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert int(printed.splitlines()[-1]) >= least
