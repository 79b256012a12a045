"""What a workspace knows of a job, and what a plan says, as JSON for programs: `status --json` and `plan --json`.

`reference/json.md` lists the fields and their units.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from distembed.display import measured
from distembed.job.model import Job
from distembed.job.opening import existing_workspace
from distembed.job.plan import Plan
from distembed.job.planning import nothing_left
from distembed.job.stage import system_of
from distembed.job.state import Standing, standings
from distembed.job.status import state_in_a_word, state_of_all
from distembed.storage.records import StageManifest
from distembed.storage.workspace import Workspace

FORMAT = 1
"""The version of the fields: a field may be added to it, and none changes its meaning."""

SPENT = ("wall_seconds", "earlier_seconds", "peak_process_bytes", "peak_total_bytes", "planned_process_bytes")


def status_record(job: Job) -> dict[str, object]:
    """Return what `job_status` says, with the figures and the scores of the stages that are done."""
    workspace = existing_workspace(job.job.workspace)
    found = [] if workspace is None else standings(job, workspace)
    return {
        "format": FORMAT,
        "title": job.job.title,
        "system": job.job.system,
        "workspace": job.job.workspace if workspace is None else workspace.url,
        "state": state_of_all(found),
        "writer": (workspace.writer() or None) if workspace else None,
        "inputs_checked": not job.is_recorded,
        "stages": [_stage(standing, workspace) for standing in found if workspace is not None],
        "scores": {} if workspace is None else _scores(job, found, workspace),
    }


def plan_record(
    plan: Plan,
    found: Sequence[Standing],
    notes: Sequence[str],
) -> dict[str, object]:
    """Return what the table of a plan says, and the sentences below it."""
    stages = [
        {
            "stage": name,
            "done": name in plan.done,
            "tasks": stage.tasks,
            "stored_bytes": stage.stored_bytes,
            "task_bytes": stage.task_bytes,
            "whole_bytes": stage.whole_bytes,
            "process_bytes": plan.planned_bytes(name),
            "workers": plan.n_workers(name),
            "exact": stage.exact,
        }
        for name, stage in plan.stages.items()
    ]
    return {
        "format": FORMAT,
        "title": plan.job.job.title,
        "system": plan.job.job.system,
        "workspace": plan.job.job.workspace,
        "nothing_left": bool(nothing_left(found)),
        "input": plan.sizes,
        "stages": stages,
        "workers": plan.job.resources.n_workers,
        "memory_limit": plan.limit,
        "notes": list(notes),
        "warnings": list(plan.warnings()),
    }


def _stage(standing: Standing, workspace: Workspace) -> dict[str, object]:
    before, name = standing.before, standing.spec.name
    manifest = before if isinstance(before, StageManifest) else None
    under_way = workspace.progress(name) if before is not None and manifest is None else {}
    facts = {} if manifest is None else manifest.facts
    outputs = {} if manifest is None else manifest.outputs
    return {
        "stage": name,
        "state": state_in_a_word(standing),
        "why": list(standing.changes),
        "progress": [
            {"output": output, "done": done, "total": total} for output, (done, total) in under_way.items()
        ],
        **{fact: measured(facts, fact) for fact in SPENT},
        "outputs": [
            {
                "output": output,
                "blocks": len(record.blocks),
                "disk_bytes": record.n_bytes,
            }
            for output, record in outputs.items()
        ],
        "facts": _plain({fact: value for fact, value in facts.items() if fact not in SPENT}),
        "made_with": {} if before is None else dict(before.made_with),
        "kernels": {} if manifest is None else dict(sorted(manifest.kernels().items())),
    }


def _scores(job: Job, found: Sequence[Standing], workspace: Workspace) -> dict[str, Any]:
    """Return the outputs of the stages that are done which say how good the results are."""
    declared = [output.name for output in system_of(job).outputs if output.scores]
    names = [re.compile(re.sub(r"\\{\w+\\}", ".+", re.escape(name))) for name in declared]
    scores: dict[str, Any] = {}
    for standing in found:
        if standing.is_done and isinstance(standing.before, StageManifest):
            for name, record in standing.before.outputs.items():
                if any(pattern.fullmatch(name) for pattern in names):
                    is_table = record.spec.kind == "table"
                    rows = (
                        workspace.table(name).to_pylist()
                        if is_table
                        else json.loads(workspace.read_file(name) or b"null")
                    )
                    scores[name] = _plain(rows)
    return scores


def _plain(value: Any) -> Any:
    """Return a value with null for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
