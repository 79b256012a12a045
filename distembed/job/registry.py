"""The systems that a job can ask for: each is a module that exports one `SYSTEM` and is imported on demand.

A command thus waits for the estimators of one system, and not for those of all.
"""

from __future__ import annotations

SYSTEMS = {
    "psdvec": "distembed.systems.psdvec.stages",
    "imputation": "distembed.systems.imputation.stages",
    "wordspaces": "distembed.systems.wordspaces.stages",
    "topics": "distembed.systems.topics.stages",
    "transfer": "distembed.systems.transfer.stages",
    "comparison": "distembed.systems.comparison.stages",
}
"""The module of each system, by the name that a job gives as `job.system`."""

DEFAULT_SYSTEM = "psdvec"
