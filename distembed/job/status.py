"""What a workspace holds of a job: where each stage stands, and whether every file is what was written."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from distembed.display import format_bytes, format_seconds, measured
from distembed.job import derived
from distembed.job.keys import toml_value
from distembed.job.model import Job
from distembed.job.opening import existing_workspace, recorded_tables
from distembed.job.stage import system_of
from distembed.job.state import Standing, standings
from distembed.job.terminal import shown
from distembed.storage.records import Problem, StageManifest
from distembed.storage.verify import UNCOMMITTED
from distembed.storage.workspace import Workspace

FINISHED, UNFINISHED, EMPTY = "finished", "unfinished", "empty"
"""The states of a job: every stage is done, not all are, or none has begun."""


def job_status(job: Job, *, command: str = "distembed run JOB") -> str:
    """Return one line per stage: finished with its time and memory, its progress, or why it is computed again.

    `command` is what runs the job: where there is no workspace yet, the line says to type it.
    """
    return status_and_state(job, command=command)[0]


def status_and_state(job: Job, *, command: str, verbose: bool = True) -> tuple[str, str]:
    """Return the lines of `job_status`, and the state of the job: finished, unfinished or empty.

    Without `verbose` they leave out memory, arrays and versions.
    """
    workspace = existing_workspace(job.job.workspace)
    if workspace is None:
        return f"{job.job.workspace}: nothing there yet; type: {command}", EMPTY
    owner, found = workspace.writer(), standings(job, workspace)
    state = state_of_all(found)
    n_done = sum(standing.is_done for standing in found)
    words = (
        FINISHED if state == FINISHED else f"{state}, {n_done} of {len(found)} stages are done{_took(found)}"
    )
    lines = [
        shown(f"{workspace.url}: {words}; {f'being written by {owner}' if owner else 'no run is writing'}")
    ]
    stated = (state_of(standing, workspace, verbose=verbose) for standing in found)
    lines += [shown(f"  {one.spec.name:<16}{text}") for one, text in zip(found, stated, strict=True)]
    if state == UNFINISHED and (settings := other_settings(job, workspace)):
        lines.append(
            shown(f"the last run here had other keys; to go on with them, type: {command} {settings}")
        )
    if job.is_recorded:
        lines.append("the inputs were not looked at: name the job file to see whether they have changed")
    internals = [shown(line) for line in _provenance_lines(found)] if verbose else []
    return "\n".join([*lines, *internals]), state


def _took(found: Sequence[Standing]) -> str:
    """Return how long the stages took that would be computed again; "" where none was finished.

    Where all that remains was finished before, this is about the time left.
    """
    commits = [one.before for one in found if not one.is_done]
    times = [
        measured(commit.facts, "wall_seconds") for commit in commits if isinstance(commit, StageManifest)
    ]
    seconds = sum(time for time in times if time is not None)
    if seconds and len(times) == len(commits):
        return f", about {format_seconds(seconds)} left, as the last run took"
    return f", and what is outdated took {format_seconds(seconds)}" if seconds else ""


def _differs(section: Any, key: str, value: Any) -> bool:
    """Return whether a section has another value of a key than TOML holds; a section without the key has none."""
    own = getattr(section, key, value)
    return not isinstance(value, dict) and json.loads(json.dumps(own, default=str)) != value


NOT_OF_RESULTS = ("job", "resources", "report", "plan")
"""Sections whose keys change no result."""


def other_settings(job: Job, workspace: Workspace) -> str:
    """Return the options that give a job the keys that the last run in a workspace had otherwise, "" where none.

    Such a run had ``--set`` options, or a job file that was changed since.
    """
    now = job.model_dump(mode="json")
    options = [
        ("--set", f"{section}.{key}={toml_value(value)}")
        for section, keys in recorded_tables(workspace).items()
        if section not in NOT_OF_RESULTS and isinstance(keys, dict) and section in now
        for key, value in keys.items()
        if _differs(getattr(job, section), key, value)
    ]
    return shlex.join(option for pair in options for option in pair)


def state_of_all(found: Sequence[Standing]) -> str:
    """Return the state of a job by where its stages stand: finished, unfinished or empty."""
    if all(standing.before is None for standing in found):
        return EMPTY
    return FINISHED if all(standing.is_done for standing in found) else UNFINISHED


def state_in_a_word(standing: Standing) -> str:
    """Return the state of a stage: done, outdated (to be computed again), begun, or "not begun"."""
    if standing.before is None:
        return "not begun"
    if not isinstance(standing.before, StageManifest):
        return "begun"
    return "done" if standing.is_done else "outdated"


def age_note(job: Job) -> str:
    """Return why finished work of a job is older than its files or its keys; "" where it is not."""
    workspace = existing_workspace(job.job.workspace)
    if workspace is None:
        return ""
    found = standings(job, workspace)
    outdated = [one for one in found if one.changes and isinstance(one.before, StageManifest)]
    if not outdated:
        return ""
    first = outdated[0]
    return (
        f"{workspace.url} is older than the job: {first.spec.name} would be computed again because {first.why}; this "
        "is the result of the last run, and distembed run makes it new"
    )


def state_of(standing: Standing, workspace: Workspace, *, verbose: bool = True) -> str:
    """Return whether a stage is finished, and with what it took; or how far it is, or why it is computed again."""
    if standing.is_done and isinstance(standing.before, StageManifest):
        spent = spent_text(standing.before.facts)
        return spent + _kept(standing.before) if verbose else spent.partition("   peak")[0]
    if standing.changes:
        state = "outdated" if isinstance(standing.before, StageManifest) else "not finished"
        return f"{state}: will be computed again because {standing.why}"
    if standing.before is None:
        return "not finished: not begun"
    progress = workspace.progress(standing.spec.name)
    parts = (f"{name} {done} of {n} blocks" for name, (done, n) in progress.items())
    return f"not finished: {', '.join(parts) or 'begun'}"


def spent_text(facts: Mapping[str, Any]) -> str:
    """Return the time and the memory that a stage took, from the facts of its commit."""
    names = ("wall_seconds", "peak_process_bytes", "peak_total_bytes")
    numbers = (measured(facts, name) for name in names)
    seconds, process, total = (math.nan if number is None else number for number in numbers)
    planned = measured(facts, "planned_process_bytes")
    above = (
        f", above its plan of {format_bytes(planned)}" if planned is not None and process > planned else ""
    )
    peak = f"peak {format_bytes(process)} per process, {format_bytes(total)} together"
    return f"{format_seconds(seconds):>10}   {peak}{above}"


def _kept(manifest: StageManifest) -> str:
    """Return the arrays that a stage keeps, with the bytes of each on disk."""
    sizes = {name: record.n_bytes for name, record in manifest.outputs.items() if record.spec.is_array}
    shown = ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes.items())
    return f"; keeps {shown}" if shown else ""


def _provenance_lines(found: Sequence[Standing]) -> list[str]:
    """Return the versions that made the finished stages, one line per set of versions, and the mixtures of kernels."""
    stages: dict[str, list[str]] = {}
    for standing in found:
        if standing.is_done and standing.before is not None:
            words = ", ".join(f"{key} {value}" for key, value in standing.before.made_with.items())
            stages.setdefault(words or "versions that were not recorded", []).append(standing.spec.name)
    mixed = [
        f"{one.spec.name}: blocks of several kernels, so that equal bytes are not promised: "
        + ", ".join(f"{n} of {kernel}" for kernel, n in sorted(one.before.kernels().items()))
        for one in found
        if one.is_done and isinstance(one.before, StageManifest) and len(one.before.kernels()) > 1
    ]
    return [f"{', '.join(names)}: made with {words}" for words, names in stages.items()] + mixed


def _where(problem: Problem) -> str:
    """Return the stage, the output and the block that a problem concerns, as far as it concerns one."""
    stage, output, block = problem.stage, problem.output, problem.block
    parts = [
        stage and f"stage {stage}",
        output and f"output {output}",
        f"block {block}" if block >= 0 else "",
    ]
    return f" ({', '.join(filter(None, parts))})" if any(parts) else ""


def verify_job(job: Job) -> tuple[list[str], str]:
    """Return a sentence for each stage not committed and each bad file, and the digest of all content if there is none.

    What is on disk is judged, by the settings it was made with: `planned_losses` tells where the job asks for others.
    """
    workspace = Workspace.open(job.job.workspace)
    # a job whose stages differ from run to run leaves others' stages where they are
    specs, done = system_of(job).stages(job), workspace.stages()
    absent = [spec.name for spec in specs if spec.name not in done]
    sentences = [f"{p.file}: {p.what}{_where(p)}" for p in workspace.verify() if p.what != UNCOMMITTED]
    sentences += [f"stage {name} is not committed: it has no manifest" for name in absent]
    if not workspace.writer():
        sentences += [
            f"{name}: not made from what the workspace holds; a run removes it"
            for name in derived.stale(workspace)
        ]
    return sentences, "" if sentences else workspace.digest(spec.name for spec in specs)
