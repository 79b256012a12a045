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
    from distembed.pipeline.psdvec import plan, stages

    return System(stages.STAGES, plan.psdvec_plan, "distembed.pipeline.psdvec.pages")


def _imputation(job: Any) -> System:  # noqa: ARG001
    from distembed.pipeline.imputation import plan, stages

    return System(stages.STAGES, plan.imputation_plan, "distembed.pipeline.imputation.pages")


def _topics(job: Any) -> System:  # noqa: ARG001
    from distembed.pipeline.topics import plan, stages

    return System(stages.STAGES, plan.topics_plan, "distembed.pipeline.topics.pages")


def _transfer(job: Any) -> System:  # noqa: ARG001
    from distembed.pipeline.transfer import plan, stages

    return System(stages.STAGES, plan.transfer_plan, "distembed.pipeline.transfer.pages")


def _wordspaces(job: Any) -> System:
    from distembed.pipeline.wordspaces import plan, stages

    return System(stages.stages_of(job), plan.wordspaces_plan, "distembed.pipeline.wordspaces.pages")


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
