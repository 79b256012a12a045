"""What a workspace holds of a job: one record, which programs read as JSON and people as lines of text.

`reference/json.md` lists the fields and their units.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from distembed.display import format_bytes, format_seconds, measured
from distembed.job.model import Job
from distembed.job.opening import workspace_of
from distembed.job.stage import stages_of, system_of
from distembed.job.state import (
    BEGUN,
    DONE,
    EMPTY,
    FINISHED,
    NOT_BEGUN,
    OUTDATED,
    UNFINISHED,
    StageState,
    stage_states,
)
from distembed.job.terminal import shown
from distembed.storage.records import STATES, Problem, StageManifest
from distembed.storage.verify import UNCOMMITTED
from distembed.storage.workspace import Workspace

FORMAT = 1
"""The version of the fields: a field may be added to it, and none changes its meaning."""

NOTED_SHARE = 1.05
"""A peak is named as above its plan where it is so many times that: what libraries take varies by some MiB."""

SPENT = (
    "wall_seconds", "earlier_seconds", "peak_process_bytes", "peak_total_bytes", "planned_process_bytes",
)  # fmt: skip


def status_record(job: Job) -> dict[str, Any]:
    """Return the state of each stage of a job, with the figures and the scores of those that are done."""
    workspace = workspace_of(job)
    states = [] if workspace is None else stage_states(job, workspace)
    state = FINISHED if all(one.manifest for one in states) else UNFINISHED
    if all(one.before is None for one in states):
        state = EMPTY
    return {
        "format": FORMAT,
        "title": job.job.title,
        "system": job.job.system,
        "workspace": job.job.workspace if workspace is None else workspace.url,
        "state": state,
        "writer": (workspace.writer() or None) if workspace else None,
        "inputs_checked": not job.is_recorded,
        "stages": [_stage_record(state, workspace) for state in states if workspace is not None],
        "scores": {} if workspace is None else _scores(job, states, workspace),
    }


def _stage_record(state: StageState, workspace: Workspace) -> dict[str, Any]:
    before, name = state.before, state.spec.name
    committed = before if isinstance(before, StageManifest) else None
    facts = {} if committed is None else committed.facts
    outputs = {} if committed is None else committed.outputs
    begun = workspace.progress(name) if state.word == BEGUN else {}
    worked = {} if before is None or not begun else before.worked.model_dump()
    return {
        "stage": name,
        "state": state.word,
        "why": list(state.changes),
        "progress": [
            {"output": output, "done": done, "total": total}
            for output, (done, total) in begun.items()
            if not output.startswith(f"{STATES}/")
        ],
        "rounds": worked or None,
        **{fact: measured(facts, fact) for fact in SPENT},
        "outputs": [
            {
                "output": output,
                "kind": record.spec.kind,
                "blocks": len(record.blocks),
                "disk_bytes": record.n_bytes,
            }
            for output, record in outputs.items()
        ],
        "facts": _plain({fact: value for fact, value in facts.items() if fact not in SPENT}),
        "made_with": {} if before is None else dict(before.made_with),
        "kernels": {} if committed is None else dict(sorted(committed.kernels().items())),
    }


def _scores(job: Job, states: Sequence[StageState], workspace: Workspace) -> dict[str, Any]:
    """Return the outputs of the stages that are done which say how good the results are."""
    declared = [output.name for output in system_of(job).outputs if output.scores]
    names = [re.compile(re.sub(r"\\{\w+\\}", ".+", re.escape(name))) for name in declared]
    found = {
        name: record.spec.kind
        for state in states
        if state.manifest is not None
        for name, record in state.manifest.outputs.items()
        if any(pattern.fullmatch(name) for pattern in names)
    }
    return {
        name: _plain(
            workspace.table(name).to_pylist() if kind == "table" else json.loads(workspace.read_bytes(name))
        )
        for name, kind in found.items()
    }


def _plain(value: Any) -> Any:
    """Return a value with null for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- as text -----------------------------------------------------------------------------------------------------


def status_text(record: Mapping[str, Any], *, command: str, verbose: bool = False) -> str:
    """Return the record of a status as lines of text.

    Parameters
    ----------
    record : mapping
        As `status_record` returns it.
    command : str
        What runs the job: where there is no workspace yet, the line says to type it.
    verbose : bool
        Add memory, arrays and versions.
    """
    stages, state = record["stages"], record["state"]
    if not stages:
        return shown(f"{record['workspace']}: nothing there yet; type: {command}")
    n_done = sum(stage["state"] == DONE for stage in stages)
    words = f"{state}, {n_done} of {len(stages)} stages are done{_remaining(stages)}"
    writer = f"being written by {record['writer']}" if record["writer"] else "no run is writing"
    lines = [f"{record['workspace']}: {FINISHED if state == FINISHED else words}; {writer}"]
    lines += [f"  {stage['stage']:<16}{_stage_text(stage, verbose=verbose)}" for stage in stages]
    if not record["inputs_checked"]:
        lines.append("the inputs were not looked at: name the job file to see whether they have changed")
    return "\n".join(map(shown, [*lines, *(_versions(stages) if verbose else ())]))


def _remaining(stages: Sequence[Mapping[str, Any]]) -> str:
    """Return how long the stages took that will be computed again; "" where none was finished.

    Where all that remains was finished before, this is about the time left.
    """
    left = [stage for stage in stages if stage["state"] != DONE]
    seconds = sum(stage["wall_seconds"] or 0.0 for stage in left)
    if seconds and all(stage["state"] == OUTDATED for stage in left):
        return f", about {format_seconds(seconds)} left, as the last run took"
    return f", and what is outdated took {format_seconds(seconds)}" if seconds else ""


def _stage_text(stage: Mapping[str, Any], *, verbose: bool) -> str:
    """Return what a finished stage took; or how far it is, or why it is computed again."""
    if stage["state"] == DONE:
        spent = spent_text(stage)
        arrays = (output for output in stage["outputs"] if output["kind"] in ("dense", "csr"))
        sizes = ", ".join(f"{output['output']} {format_bytes(output['disk_bytes'])}" for output in arrays)
        return spent + (f"; arrays: {sizes}" if sizes else "") if verbose else spent.partition("   peak")[0]
    if stage["why"]:
        state = OUTDATED if stage["state"] == OUTDATED else "not finished"
        return f"{state}: will be computed again because {'; '.join(stage['why'][:3])}"
    if stage["state"] == NOT_BEGUN:
        return "not finished: not begun"
    parts = [f"{one['output']} {one['done']} of {one['total']} blocks" for one in stage["progress"]]
    if (rounds := stage["rounds"]) and rounds["unit"]:
        of = "" if rounds["total"] is None else f" of {rounds['total']:,}"
        left = "" if rounds["left"] is None else f", about {format_seconds(rounds['left'])} of them left"
        parts.insert(0, f"{rounds['done']:,}{of} {rounds['unit']}{left}")
    return f"not finished: {'; '.join(parts) or 'begun'}"


def spent_text(facts: Mapping[str, Any]) -> str:
    """Return the time and the memory that a stage took, from the facts of its commit."""
    names = ("wall_seconds", "peak_process_bytes", "peak_total_bytes")
    numbers = (measured(facts, name) for name in names)
    seconds, process, total = (math.nan if number is None else number for number in numbers)
    planned = measured(facts, "planned_process_bytes")
    is_above = planned is not None and process > NOTED_SHARE * planned
    above = f", above its plan of {format_bytes(planned or 0)}" if is_above else ""
    peak = f"peak {format_bytes(process)} per process, {format_bytes(total)} together"
    return f"{format_seconds(seconds):>10}   {peak}{above}"


def _versions(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the versions that made the finished stages, a line for each set, and the mixtures of kernels."""
    made: dict[str, list[str]] = {}
    done = [stage for stage in stages if stage["state"] == DONE]
    for stage in done:
        words = ", ".join(f"{key} {value}" for key, value in stage["made_with"].items())
        made.setdefault(words or "versions that were not recorded", []).append(stage["stage"])
    mixed = [
        f"{stage['stage']}: blocks of several kernels, so that equal bytes are not promised: "
        + ", ".join(f"{n} of {kernel}" for kernel, n in stage["kernels"].items())
        for stage in done
        if len(stage["kernels"]) > 1
    ]
    return [f"{', '.join(names)}: made with {words}" for words, names in made.items()] + mixed


def age_note(job: Job) -> str:
    """Return why finished work of a job is older than its files or its keys; "" where it is not."""
    workspace = workspace_of(job)
    states = [] if workspace is None else stage_states(job, workspace)
    first = next((state for state in states if state.word == OUTDATED), None)
    if workspace is None or first is None:
        return ""
    return (
        f"{workspace.url} is older than the job: {first.spec.name} would be computed again because {first.why}; this "
        "is the result of the last run, and distembed run makes it new"
    )


# --- verify ------------------------------------------------------------------------------------------------------


def verify_job(job: Job) -> tuple[list[str], str]:
    """Return a sentence for each stage not committed and each bad file, and the digest of all content if there is none.

    What is on disk is judged, by the settings it was made with: `losses` tells where the job asks for others.
    """
    workspace = Workspace.open(job.job.workspace)
    # a job whose stages differ from run to run leaves others' stages where they are
    names, done = [spec.name for spec in stages_of(job)], workspace.stages()
    sentences = [f"{p.file}: {p.what}{_place(p)}" for p in workspace.verify() if p.what != UNCOMMITTED]
    sentences += [f"stage {name} is not committed: it has no manifest" for name in names if name not in done]
    return sentences, "" if sentences else workspace.digest(names)


def _place(problem: Problem) -> str:
    """Return the stage, the output and the block that a problem concerns, as far as it concerns one."""
    block = f"block {problem.block}" if problem.block >= 0 else ""
    parts = [
        problem.stage and f"stage {problem.stage}",
        problem.output and f"output {problem.output}",
        block,
    ]
    return f" ({', '.join(filter(None, parts))})" if any(parts) else ""
