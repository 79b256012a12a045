"""The systems that a job can ask for: each is a module that exports one `SYSTEM` and is imported on demand.

The estimators and the drawing of a report take seconds to import, which `distembed --help` should not cost.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distembed.pipeline.context import System
    from distembed.pipeline.sections import Job

SYSTEMS = {
    "psdvec": "distembed.pipeline.systems.psdvec.stages",
    "imputation": "distembed.pipeline.systems.imputation.stages",
    "wordspaces": "distembed.pipeline.systems.wordspaces.stages",
    "topics": "distembed.pipeline.systems.topics.stages",
    "transfer": "distembed.pipeline.systems.transfer.stages",
    "neighbors": "distembed.pipeline.systems.neighbors.stages",
}
"""The module of each system, by the name that a job gives as `job.system`."""

DEFAULT_SYSTEM = "psdvec"


def system_named(name: str) -> System:
    """Return the system of a name, importing its module."""
    system: System = import_module(SYSTEMS[name]).SYSTEM
    return system


def system_of(job: Job) -> System:
    """Return the system that a job asks for."""
    return system_named(job.job.system)
