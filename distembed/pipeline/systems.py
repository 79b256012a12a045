"""The systems a job can ask for, in one place: what each runs, plans and shows.

A system is imported when a job asks for it, and its pages when a run ends: drawing and the estimators take
seconds to import, which `distembed plan` should not cost.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from distembed.pipeline.context import StageSpec
from distembed.pipeline.sections import Job
from distembed.storage.workspace import Workspace


class System(NamedTuple):
    """A system: its stages in order, its plan, and the module that shows a finished workspace.

    `plan` takes a job and its workspace, if there is one, and returns a `Plan`.
    """

    stages: tuple[StageSpec, ...]
    plan: Callable[[Any, Workspace | None], Any]
    pages: str

    def page(self, job: Job, workspace: Workspace) -> str:
        """Return the report of a finished workspace."""
        return str(import_module(self.pages).page(job, workspace))

    def closing_text(self, job: Job, workspace: Workspace, where: str) -> str:
        """Return the last lines of a run, with the place of its report."""
        return str(import_module(self.pages).closing_text(job, workspace, where))


def _psdvec(job: Any) -> System:  # noqa: ARG001
    from distembed.pipeline import plan, stages

    return System(stages.STAGES, plan.psdvec_plan, "distembed.pipeline.pages")


def _imputation(job: Any) -> System:  # noqa: ARG001
    from distembed.pipeline import imputation_plan, imputation_stages

    return System(
        imputation_stages.STAGES, imputation_plan.imputation_plan, "distembed.pipeline.imputation_pages"
    )


def _wordspaces(job: Any) -> System:
    from distembed.pipeline import wordspaces_plan, wordspaces_stages

    stages = wordspaces_stages.stages_of(job)
    return System(stages, wordspaces_plan.wordspaces_plan, "distembed.pipeline.wordspaces_pages")


def _topics(job: Any) -> System:  # noqa: ARG001
    from distembed.pipeline import topics_plan, topics_stages

    return System(topics_stages.STAGES, topics_plan.topics_plan, "distembed.pipeline.topics_pages")


def _transfer(job: Any) -> System:  # noqa: ARG001
    from distembed.pipeline import transfer_plan, transfer_stages

    return System(transfer_stages.STAGES, transfer_plan.transfer_plan, "distembed.pipeline.transfer_pages")


SYSTEMS: dict[str, Callable[[Any], System]] = {
    "psdvec": _psdvec,
    "imputation": _imputation,
    "wordspaces": _wordspaces,
    "topics": _topics,
    "transfer": _transfer,
}


def of(job: Job) -> System:
    """Return the system a job asks for; the stages of word spaces depend on the job's recipes."""
    return SYSTEMS[job.job.system](job)
