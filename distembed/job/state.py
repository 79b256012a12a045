"""The state of each stage of a job in its workspace: done, to be done, or to be computed again, and why.

A stage is done when its commit was made from the parameters, the files and the input stages that the job asks for
now. All of that is known before anything runs, so a run can say what it would replace, and what that took to make.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from distembed.display import format_seconds, measured
from distembed.job.inputs import FILES, Stamps, inputs_of, look_for, stamp_inputs, texts_in
from distembed.job.model import Job, JobError
from distembed.job.provenance import differences
from distembed.job.stage import StageSpec, stages_of
from distembed.storage.catalog import read_journal, replaced
from distembed.storage.folder import Folder
from distembed.storage.records import Begun, OutputRecord, Problem, StageManifest, fingerprint
from distembed.storage.workspace import Workspace

ASKED_SECONDS = 60.0
"""More recorded work than this is replaced only when asked for."""

SHOWN_CHANGES = 3
SHOWN_CHARACTERS = 60

DONE, OUTDATED, BEGUN, NOT_BEGUN = "done", "outdated", "begun", "not begun"
"""The states of a stage; an outdated one is to be computed again."""
FINISHED, UNFINISHED, EMPTY = "finished", "unfinished", "empty"
"""The states of a job: every stage is done, not all are, or none has begun."""


class ReplaceError(JobError):
    """A run would replace more than a minute of finished work."""


class StageState(NamedTuple):
    """One stage of a job and what its workspace holds of it.

    `before` is what was committed, or interrupted, under the stage's name, from whatever parameters; `absent` are
    the paths it reads where nothing lies; `damaged` the blocks that a look at every file found bad.
    """

    spec: StageSpec
    parameters: dict[str, Any]
    inputs: dict[str, str]
    fingerprint: str
    before: StageManifest | Begun | None
    changes: tuple[str, ...]
    absent: tuple[str, ...]
    damaged: tuple[Problem, ...] = ()

    @property
    def word(self) -> str:
        """Return the state in a word."""
        if self.before is None:
            return NOT_BEGUN
        if not isinstance(self.before, StageManifest):
            return BEGUN
        return OUTDATED if self.changes else DONE

    @property
    def manifest(self) -> StageManifest | None:
        """Return the commit of the stage, if it is committed as the job asks for it."""
        return self.before if isinstance(self.before, StageManifest) and not self.changes else None

    @property
    def is_complete(self) -> bool:
        """Return whether nothing of the stage is to be computed."""
        return self.manifest is not None and not self.damaged

    @property
    def why(self) -> str:
        """Return the first changes in words, "" where nothing changed."""
        more = len(self.changes) - SHOWN_CHANGES
        return "; ".join([*self.changes[:SHOWN_CHANGES], *([f"and {more} more"] if more > 0 else [])])


def stage_states(
    job: Job,
    workspace: Workspace | None,
    *,
    specs: Sequence[StageSpec] | None = None,
    look: Callable[[str], Stamps] | None = None,
) -> list[StageState]:
    """Return the state of each stage of a job, or of each of the first ones, `specs`; stages follow those they read.

    `look` returns the stamps of what lies at a path; by default they are those that the workspace calls for. A job that
    was found in a workspace says nothing of its inputs: the stages have read what they recorded.
    """
    done = {} if workspace is None else workspace.stages()
    specs = stages_of(job) if specs is None else specs
    # Where every stage is done, the commits need not be read again, of which those of many items take a second.
    begun = {} if workspace is None or all(spec.name in done for spec in specs) else workspace.begun()
    look = cache(unread if job.is_recorded else look or look_for(workspace))
    named = inputs_of(job)
    found: dict[str, StageState] = {}
    for spec in specs:
        before = done.get(spec.name) or begun.get(spec.name)
        recorded = {} if before is None else before.parameters.get(FILES, {})
        wanted = spec.parameters(job)
        paths = (path for text in texts_in(wanted) for path in named.get(text, ()))
        stamps, names, absent = stamp_inputs(paths, recorded if isinstance(recorded, Mapping) else {}, look)
        parameters = {**_renamed(wanted, names), **({FILES: stamps} if stamps else {})}
        inputs = {name: found[name].fingerprint for name in spec.inputs}
        now = fingerprint(spec.name, parameters, inputs)
        changes = () if before is None else _changes(before, parameters, inputs, done, now)
        found[spec.name] = StageState(spec, parameters, inputs, now, before, changes, absent)
    return list(found.values())


def with_damage(state: StageState, workspace: Workspace) -> StageState:
    """Read every file of a finished stage, and record the files that do not match their digest."""
    if state.manifest is None:
        return state
    stage = workspace.stage(state.spec.name, parameters=state.parameters, inputs=state.inputs)
    return state._replace(damaged=tuple(stage.damaged_blocks()))


def unread(_path: str) -> Stamps:
    """Return no stamps: what was recorded of a path stands for it, and nothing is opened."""
    return {}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return parameters with the name of each path in place of the path itself."""
    if isinstance(value, Mapping):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


# --- what changed ----------------------------------------------------------------------------------------------


def _changes(
    before: StageManifest | Begun,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, str],
    done: Mapping[str, StageManifest],
    now: str,
) -> tuple[str, ...]:
    """Return in words what a stage was made from that is otherwise now; nothing where its commit stands."""
    if before.fingerprint == now:
        other = replaced(before, done)
        return (f"it rests on {', '.join(other)}, whose content is another now",) if other else ()

    old, new = _by_key(before.parameters), _by_key(json.loads(json.dumps(parameters)))
    own = [
        f"{key} was {_words(old.get(key))}, is {_words(new.get(key))}"
        for key in {**old, **new}
        if key not in old or key not in new or old[key] != new[key]
    ]
    changed = [name for name in inputs if before.inputs.get(name) != inputs[name]]
    return tuple(own) or (f"it rests on {', '.join(changed)}" if changed else "its format changed",)


def _by_key(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return every value of nested tables by its dotted key, and the stamp of each file, a tuple, by its name."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if key == FILES and not prefix and isinstance(value, Mapping):  # and no stranger's record
            for path, files in sorted(value.items()):
                names = ((name if name == path else f"{path}: {name}", name) for name in sorted(files))
                found |= {place: tuple(files[name]) for place, name in names}
        elif isinstance(value, dict) and value:
            found |= _by_key(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:,} bytes ({value[1]})"
    text = "not there" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


# --- what a run would replace ----------------------------------------------------------------------------------


class Loss(NamedTuple):
    """Finished work that a run removes: of which stage, why, and the seconds it took.

    A stage whose corpus has only grown keeps what it has, and loses nothing.
    """

    stage: str
    why: str
    seconds: float
    is_kept: bool = False

    @property
    def line(self) -> str:
        """Return the loss as a sentence."""
        if self.is_kept:
            return f"{self.stage} will be computed of the new files alone, because {self.why}"
        return (
            f"{self.stage} will be computed again because {self.why}; it took {format_seconds(self.seconds)}"
        )


def losses(
    states: Sequence[StageState], workspace: Workspace | None, made_with: Mapping[str, str]
) -> list[Loss]:
    """Return what running stages would remove from a workspace: theirs, and what rests on it.

    `made_with` are the versions that would run: a stage that others began, or that is damaged and was made by
    others, is computed again as a whole.
    """
    found: dict[str, Loss] = {}
    for state in states:
        before, why = state.before, state.why
        if before is None or state.is_complete:
            continue
        if not why and dict(before.made_with) != dict(made_with):
            how = "was begun" if state.manifest is None else "is damaged and was made"
            why = f"it {how} with {differences(before.made_with, made_with)}"
        if why:
            is_kept = dict(before.made_with) == dict(made_with) and _only_grows(
                before, workspace, state.parameters
            )
            found[state.spec.name] = Loss(state.spec.name, why, 0 if is_kept else seconds_of(before), is_kept)
    done = {} if workspace is None else workspace.stages()
    while resting := {name for name in done.keys() - found.keys() if found.keys() & done[name].inputs.keys()}:
        for name in sorted(resting):
            why = f"it rests on {', '.join(sorted(found.keys() & done[name].inputs.keys()))}"
            found[name] = Loss(name, why, seconds_of(done[name]))
    return list(found.values())


def _only_grows(
    before: StageManifest | Begun, workspace: Workspace | None, parameters: Mapping[str, Any]
) -> bool:
    """Return whether a stage that has items by their content is to have more of them, and lose none."""
    known: Mapping[str, OutputRecord] = before.outputs if isinstance(before, StageManifest) else {}
    if workspace is not None and not known:
        known = read_journal(Folder.at(workspace.url), before.stage)
    has_keys = any(block.key for record in known.values() for block in record.blocks)
    new = _by_key(json.loads(json.dumps(parameters)))
    return has_keys and _by_key(before.parameters).items() <= new.items()


def seconds_of(before: StageManifest | Begun) -> float:
    """Return the recorded work in a stage: of all runs that a commit took, or until an interruption."""
    if not isinstance(before, StageManifest):
        return before.worked.seconds
    return sum(measured(before.facts, name) or 0 for name in ("wall_seconds", "earlier_seconds"))


def refusal(lost: Sequence[Loss]) -> str:
    """Return why a run does not replace its stages unless it is told to, "" where they took less than a minute."""
    seconds = sum(loss.seconds for loss in lost)
    if seconds <= ASKED_SECONDS:
        return ""
    names = ", ".join(loss.stage for loss in lost if not loss.is_kept)
    return (
        f"{format_seconds(seconds)} of finished work ({names}) would be computed again because {lost[0].why}: "
        "undo that, choose another --workspace, or add --replace"
    )
