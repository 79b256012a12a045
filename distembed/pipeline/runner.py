"""Run a job stage by stage, skip what is done and whole, and say what happened."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

import distembed
from distembed.pipeline import stages as systems
from distembed.pipeline.cluster import Meter, Workers
from distembed.pipeline.config import Job
from distembed.pipeline.plan import Plan
from distembed.pipeline.progress import Reporter, Silent
from distembed.pipeline.stages import Context, StageSpec
from distembed.storage.workspace import Stage, Workspace
from distembed.vectors import WordVectors

REPORT = "report/index.html"
RECORDED_PACKAGES = ("numpy", "scipy", "numba", "dask", "zarr", "pyarrow")


class Outcome(NamedTuple):
    """What a run did: the stages it ran and skipped, and what to print at its end."""

    ran: tuple[str, ...]
    skipped: tuple[str, ...]
    text: str


def run_job(job: Job, *, workers: Workers | None = None, reporter: Reporter | None = None) -> Outcome:
    """Run a job, or finish it.

    Every stage that is committed with the same parameters and inputs, and whose blocks all hold their digest, is
    skipped; of a stage that was interrupted or damaged, only the missing blocks are made.

    Raises
    ------
    MemoryError
        The plan does not fit the memory limit.
    OSError
        The workspace is locked by another run, or cannot be written.
    """
    reporter = reporter or Silent()
    plan_job(job).check()
    owner = f"distembed run, {job.job.title}"
    with Workspace.create(job.job.workspace, owner=owner) as workspace, workers or Workers() as crew:
        _record(job, workspace)
        ran, skipped = [], []
        for spec in systems.of(job):
            stage = _open(spec, job, workspace)
            context = Context(job, workspace, stage, reporter)
            (ran if _run_stage(spec, context, crew) else skipped).append(spec.name)
        return _outcome(job, workspace, reporter, ran=tuple(ran), skipped=tuple(skipped))


def plan_job(job: Job) -> Plan:
    """Return what a job would take; sizes that committed stages know are exact."""
    return systems.plan(job, _existing(job))


def job_status(job: Job) -> str:
    """Return a line for each stage: done, interrupted, changed or not begun, with time and memory where known."""
    workspace = _existing(job)
    if workspace is None:
        return f"{job.job.workspace}: nothing there yet"
    done = workspace.stages()
    lines = [f"{job.job.workspace}: {workspace.lock_owner() or 'no run is writing'}"]
    for spec in systems.of(job):
        manifest = done.get(spec.name)
        lines.append(f"  {spec.name:<14}{_spent(manifest.facts) if manifest else 'not finished'}")
    return "\n".join(lines)


def verify_job(job: Job) -> tuple[list[str], str]:
    """Return a sentence for each damaged, missing or unexpected block of a workspace, and the digest of its content."""
    workspace = Workspace.open(job.job.workspace)
    problems = workspace.verify()
    sentences = [f"{p.file}: {p.what} (stage {p.stage}, {p.output}, block {p.block})" for p in problems]
    return sentences, workspace.digest()


def report_job(job: Job) -> str:
    """Write the report of a workspace and return where it is."""
    workspace = Workspace.open(job.job.workspace)
    return systems.write_report(job, workspace, workspace.path(REPORT))


def load_vectors(source: str) -> WordVectors:
    """Read word vectors from a vector file or from a workspace."""
    if Workspace.exists(source):
        return systems.read_vectors(Workspace.open(source))
    return WordVectors.load(source)


def _existing(job: Job) -> Workspace | None:
    return Workspace.open(job.job.workspace) if Workspace.exists(job.job.workspace) else None


def _open(spec: StageSpec, job: Job, workspace: Workspace) -> Stage:
    done = workspace.stages()
    inputs = {name: done[name].fingerprint for name in spec.inputs}
    return workspace.stage(spec.name, parameters=spec.parameters(job), inputs=inputs)
