"""The systems a job can ask for, in one place: what each runs, plans and shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from distembed.pipeline import (
    imputation_pages,
    imputation_plan,
    imputation_stages,
    pages,
    plan,
    stages,
    wordspaces_pages,
    wordspaces_plan,
    wordspaces_stages,
)
from distembed.pipeline.config import Job
from distembed.pipeline.context import StageSpec
from distembed.pipeline.plan import Plan
from distembed.storage.workspace import Workspace


class System(NamedTuple):
    """A system: its stages in order, its plan, its report, and the last lines of a run.

    `plan` takes a job and its workspace, if there is one; `page` a job and its finished workspace; `closing` also
    where the report is. A system whose jobs differ in their stages has `stages_of` in place of `stages`.
    """

    stages: tuple[StageSpec, ...]
    plan: Callable[[Any, Workspace | None], Plan]
    page: Callable[[Any, Workspace], str]
    closing: Callable[[Any, Workspace, str], str]
    stages_of: Callable[[Any], tuple[StageSpec, ...]] | None = None


SYSTEMS: dict[str, System] = {
    "psdvec": System(stages.STAGES, plan.psdvec_plan, pages.page, pages.closing_text),
    "imputation": System(
        imputation_stages.STAGES,
        imputation_plan.imputation_plan,
        imputation_pages.page,
        imputation_pages.closing_text,
    ),
    "wordspaces": System(
        (),
        wordspaces_plan.wordspaces_plan,
        wordspaces_pages.page,
        wordspaces_pages.closing_text,
        wordspaces_stages.stages_of,
    ),
}


def of(job: Job) -> System:
    """Return the system a job asks for."""
    system = SYSTEMS[job.job.system]
    return system if system.stages_of is None else system._replace(stages=system.stages_of(job))
