"""Computes the first stages of a job on a small input before it is planned, so that the plan knows what they count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from tempfile import TemporaryDirectory

from distembed.job.model import Job
from distembed.job.opening import code_of
from distembed.job.plan import Plan, plan_stages, plan_with
from distembed.job.run import run_stages
from distembed.job.stage import stages_of, system_of
from distembed.job.state import StageState
from distembed.storage.workspace import Workspace

SMALL_BYTES, SMALL_TOKENS = 1 << 20, 1 << 18
"""Of an input of so many bytes and tokens at most the first stages take about a second."""


def plan_small(job: Job, states: Sequence[StageState], workspace: Workspace | None) -> Plan:
    """Return the plan of a job, as `plan_stages` does; of a small input by what its first stages count of it.

    These are computed in a temporary folder. What they refuse is refused as a run refuses it.
    """
    plan = plan_stages(job, states, workspace)
    first = list(takewhile(lambda spec: spec.counts, stages_of(job)))
    is_known = all(state.is_complete for state in states[: len(first)])
    if not first or is_known or job.is_recorded or code_of(job) or not _is_small(job):
        return plan
    with TemporaryDirectory(prefix="distembed-") as folder:
        place = job.job.model_copy(update={"workspace": f"{folder}/w"})
        run_stages(job.model_copy(update={"job": place}), until=first[-1].name)
        counted = Workspace.open(place.workspace)
        return plan_with(job, counted, counted.stages())._replace(done=plan.done)


def _is_small(job: Job) -> bool:
    sizes = system_of(job).dimensions(job, None)
    return sizes.size("text") <= SMALL_BYTES and sizes.size("token") <= SMALL_TOKENS
