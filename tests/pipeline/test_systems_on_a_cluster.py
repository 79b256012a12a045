"""The jobs of the systems on worker processes: each stage has the bytes that the threads of one process gave it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import distembed as de
from tests.small_jobs import imputation, topics, transfer, wordspaces

from .conftest import run, run_once, written_once

SYSTEMS: dict[str, tuple[Callable[[Path], None], tuple[str, ...], set[str]]] = {
    "imputation": (imputation.write, ("--until", "vectors"), {"graph", "weights"}),
    "topics": (topics.write_long, (), {"association", "topics", "evaluation"}),
    "transfer": (transfer.write, ("--until", "embedding"), {"vectors", "topics"}),
    "wordspaces": (
        wordspaces.write,
        ("--set", "wordspaces.spaces=['lpp', 'lsa', 'random']", "--until", "vectors"),
        {"space_lpp", "space_lsa", "space_random"},
    ),
}
"""The job of each system, what is set so that each kind of block is computed once, and stages that have to be there."""


# Each of these takes up to twenty-five seconds of processor time. Their estimators are compared in
# tests/test_execution.py, and a job of topics runs on a cluster in test_walk_topics.py.
SLOW = {"topics", "transfer", "wordspaces"}


@pytest.mark.cluster
@pytest.mark.parametrize(
    "system", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SYSTEMS]
)
def test_worker_processes_do_not_change_a_bit(
    system: str, cluster: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    write, settings, stages = SYSTEMS[system]
    job = written_once(tmp_path_factory, "in-blocks" if system == "topics" else system, write)
    finished, _ = run_once(tmp_path_factory, job)
    done = run("run", job, "--workspace", tmp_path / "w", "--scheduler", cluster, *settings)
    assert done.exit_code == 0, done.output
    whole, part = (
        {name: stage.digest for name, stage in de.Workspace.open(place).stages().items()}
        for place in (finished, tmp_path / "w")
    )
    assert stages < part.keys()
    assert part.items() <= whole.items()
