"""Files of runs that somebody has forged, whose checksums are right: no kernel reads or writes outside its arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distembed.counting import blocks
from distembed.counting.blocks import Run
from distembed.counting.runs import DamagedRunsError, read_runs, writing_runs


@pytest.mark.parametrize("columns", [[1, 7], [-1, 2]])
def test_a_forged_run_is_refused_before_a_kernel_writes_beside_its_sums(columns: list[int]) -> None:
    run = Run(np.array([0, 2]), np.array(columns, np.int32), np.ones(2, np.int32))
    with pytest.raises(ValueError, match=r"a run has columns .* of 7"):
        blocks.merge_runs([run, run], 7)


def test_rows_that_do_not_add_up_to_the_entries_of_a_run_are_refused(tmp_path: Path) -> None:
    forged = Run(np.array([0, 5]), np.arange(2, dtype=np.int32), np.ones(2, np.int32))
    with writing_runs(str(tmp_path / "r.counts"), 1) as append:
        append(0, forged)
    for block, message in (0, "do not add up"), (1, "it has 1 row blocks, and block 1 is asked for"):
        with pytest.raises(DamagedRunsError, match=message):
            list(read_runs(str(tmp_path / "r.counts"), block))
