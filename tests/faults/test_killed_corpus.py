"""Kill the writer of a corpus that changes at its writes: stages of before or after, which the same command ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.faults import killed_corpus
from tests.processes import Process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("step", [251, pytest.param(5, marks=pytest.mark.slow)])  # a process for each kill
@pytest.mark.parametrize("change", sorted(killed_corpus.CHANGES))
def test_a_kill_leaves_stages_of_before_or_after(tmp_path: Path, change: str, step: int) -> None:
    process = Process(change, str(tmp_path), str(step), program=killed_corpus.__name__)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    found = json.loads(printed.splitlines()[-1])
    assert len(found["killed"]) > 1
    assert all(one == found["after"] for one in found["rerun"])
    assert found["killed"][-1] == found["after"]
    both = found["before"].items() | found["after"].items()
    assert all(one.items() <= both for one in found["killed"])
