"""What a stage is and what it works with.

A stage is a function of a `Context`. It opens its inputs from the workspace, hands them to the estimators, and lets
the `Stage` of the workspace write every block; everything it does is redone by the block when it is run again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from distembed.execution import compute
from distembed.pipeline.progress import Reporter
from distembed.pipeline.workers import Workers
from distembed.storage.schema import StageManifest
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors


class Context(NamedTuple):
    """What a stage works with; `job` is the `Job` of its own system."""

    job: Any
    workspace: Workspace
    stage: Stage
    reporter: Reporter
    workers: Workers

    def progress(self, task: str) -> Callable[[int, int], None]:
        """Return a callable that tells how many of all blocks are done."""
        return partial(self.reporter.advance, task)


def nothing(job: Any) -> tuple[str, ...]:  # noqa: ARG001
    """Return the paths that a stage reads which reads none."""
    return ()


class StageSpec(NamedTuple):
    """A stage: its name, the stages it reads, the parameters that decide its content, and what runs it.

    `reads` returns the paths outside the workspace that it reads: files, globs, folders or other workspaces. The
    runner stamps them and puts the stamps among the parameters.
    """

    name: str
    inputs: tuple[str, ...]
    parameters: Callable[[Any], dict[str, Any]]
    run: Callable[[Context], dict[str, Any]]
    reads: Callable[[Any], tuple[str, ...]] = nothing


def makes_only_temporaries(manifest: StageManifest) -> bool:
    """Tell whether nothing of a stage outlives the stages that read it."""
    return all(output.spec.temporary for output in manifest.outputs.values())


def sections(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that takes the named sections of a job as parameters of a stage."""

    def parameters(job: Any) -> dict[str, Any]:
        return {name: getattr(job, name).model_dump(mode="json") for name in names}

    return parameters


def read_vectors(workspace: Workspace) -> WordVectors:
    """Return the word vectors of a finished workspace."""
    return WordVectors(workspace.table("vocabulary")["word"].to_pylist(), compute(workspace.array("vectors")))
