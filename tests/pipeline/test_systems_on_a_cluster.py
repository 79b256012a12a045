"""The jobs of the systems on worker processes: each stage has the bytes that the threads of one process gave it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import distembed as de

from . import test_imputation_job, test_topics_job, test_transfer_job, test_wordspaces_job
from .conftest import run, run_once

SYSTEMS: dict[str, tuple[Callable[[pytest.TempPathFactory], Path], tuple[str, ...], set[str]]] = {
    "imputation": (test_imputation_job.job_once, ("--until", "vectors"), {"graph", "weights"}),
    "topics": (test_topics_job.long_job_once, (), {"association", "topics", "evaluation"}),
    "transfer": (test_transfer_job.job_once, ("--until", "embedding"), {"vectors", "topics"}),
    "wordspaces": (
        test_wordspaces_job.job_once,
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
    job_once, settings, stages = SYSTEMS[system]
    job = job_once(tmp_path_factory)
    finished, _ = run_once(tmp_path_factory, job)
    done = run("run", job, "--workspace", tmp_path / "w", "--scheduler", cluster, *settings)
    assert done.exit_code == 0, done.output
    whole, part = (
        {name: stage.digest for name, stage in de.Workspace.open(place).stages().items()}
        for place in (finished, tmp_path / "w")
    )
    assert stages < part.keys()
    assert part.items() <= whole.items()
