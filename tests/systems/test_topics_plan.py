"""The plan of the stages of a topics job."""

from __future__ import annotations

from pathlib import Path

import pytest

from distembed.costs import Cost
from distembed.job.load import load_job
from distembed.job.planning import plan_job
from distembed.systems.topics.job import TopicsJob
from tests.commands import job_fixtures, written_once
from tests.small_jobs.topics import write, write_long

job, finished, copy = job_fixtures("topics-of-classes", write)


@pytest.fixture(scope="module")
def long_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_once(tmp_path_factory, "topics", write_long)


def planned(job: Path, stage: str = "topics", **settings: object) -> Cost:
    """Return the plan of a stage of a job of which some options of topics, or of its memory, are others."""
    found = load_job(job, workspace=str(job.parent / "none")).model_dump()
    for name, value in settings.items():
        found["topics" if name in found["topics"] else "resources"][name] = value
    return plan_job(TopicsJob.model_validate(found)).stages[stage]


def test_the_plan_of_topics_counts_every_method_and_start(job: Path) -> None:
    alone, both = (planned(job, compare_with=methods) for methods in ((), ("nmf",)))
    assert both.graphs > alone.graphs + 4 * 20  # three starts and what is kept, of twenty rounds each
    assert both.task_bytes == alone.task_bytes
    assert planned(job, n_starts=6).written_bytes > planned(job).written_bytes
    chosen = {"n_topics": "auto", "n_topics_range": (2, 3), "compare_with": ()}
    more = chosen | {"n_topics_range": (2, 3, 4)}
    assert planned(job, "n_topics", **more).graphs > planned(job, "n_topics", **chosen).graphs


def test_the_plan_of_topics_counts_matrices_that_stay_in_memory(long_job: Path) -> None:
    """In blocks they are held by the workers where they fit there, and read again in every round where they do not."""
    whole = planned(long_job, block_memory=2**20)
    held, read = (planned(long_job, memory_limit=limit) for limit in (2**30, 2**17))
    assert whole.tasks < held.tasks == read.tasks
    assert whole.most_together == 1 + load_job(long_job).topics.n_starts  # each fit is a task, in any thread
    assert held.shared_bytes > read.shared_bytes
