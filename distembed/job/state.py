"""Where each stage of a job stands in its workspace: done, to be done, or to be computed again, and why.

A stage is done when its commit was made from the parameters, the files and the input stages that the job asks for
now. All of that is known before anything runs, so a run can say what it would replace, and what that took to make.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from distembed.display import format_seconds
from distembed.job.inputs import FILES, Stamps, inputs_of, look_for, stamp_inputs, texts_in
from distembed.job.model import Job
from distembed.job.provenance import differences
from distembed.job.stage import StageSpec, system_of
from distembed.storage.catalog import replaced
from distembed.storage.records import Begun, Problem, StageManifest, fingerprint
from distembed.storage.workspace import Workspace

ASKED_SECONDS = 60.0
"""More recorded work than this is replaced only when asked for."""

SHOWN_CHANGES = 3
SHOWN_CHARACTERS = 60


class ReplaceError(ValueError):
    """A run would replace more than a minute of finished work."""


class Standing(NamedTuple):
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
    def is_done(self) -> bool:
        """Return whether the stage is committed as the job asks for it."""
        return isinstance(self.before, StageManifest) and not self.changes

    @property
    def is_kept(self) -> bool:
        """Return whether nothing of the stage is to be computed."""
        return self.is_done and not self.damaged

    @property
    def why(self) -> str:
        """Return the first changes in words, "" where nothing changed."""
        more = len(self.changes) - SHOWN_CHANGES
        shown = [*self.changes[:SHOWN_CHANGES], *([f"and {more} more"] if more > 0 else [])]
        return "; ".join(shown)


def standings(
    job: Job,
    workspace: Workspace | None,
    *,
    specs: Sequence[StageSpec] | None = None,
    look: Callable[[str], Stamps] | None = None,
) -> list[Standing]:
    """Return where each stage of a job stands, or each of the first ones, `specs`; stages come after those they read.

    `look` returns the stamps of what lies at a path; by default they are those that the workspace calls for. A job that
    was found in a workspace says nothing of its inputs: the stages have read what they recorded.
    """
    specs = system_of(job).stages(job) if specs is None else specs
    done = {} if workspace is None else workspace.stages()
    # Where every stage is done, the commits need not be read again, of which those of many items take a second.
    begun = {} if workspace is None or all(spec.name in done for spec in specs) else workspace.begun()
    look = unread if job.is_recorded else look or look_for(workspace)
    look, named = cache(look), inputs_of(job)
    found: dict[str, Standing] = {}
    for spec in specs:
        before = done.get(spec.name) or begun.get(spec.name)
        recorded = {} if before is None else before.parameters.get(FILES, {})
        asked = spec.parameters(job)
        paths = (path for text in texts_in(asked) for path in named.get(text, ()))
        reads = stamp_inputs(paths, recorded if isinstance(recorded, Mapping) else {}, look)
        parameters = {
            **_named(asked, reads.names),
            **({FILES: reads.stamps} if reads.stamps else {}),
        }
        inputs = {name: found[name].fingerprint for name in spec.inputs}
        now = fingerprint(spec.name, parameters, inputs)
        changes = () if before is None else _changes(before, parameters, inputs, done, now)
        found[spec.name] = Standing(spec, parameters, inputs, now, before, changes, reads.absent)
    return list(found.values())


def with_damage(standing: Standing, workspace: Workspace) -> Standing:
    """Read every file of a finished stage, and record the files that do not match their digest."""
    if not standing.is_done:
        return standing
    stage = workspace.stage(standing.spec.name, parameters=standing.parameters, inputs=standing.inputs)
    return standing._replace(damaged=tuple(stage.damaged_blocks()))


def unread(_path: str) -> Stamps:
    """Return no stamps: what was recorded of a path stands for it, and nothing is opened."""
    return {}


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """Return parameters with the name of each path in place of the path itself."""
    if isinstance(value, Mapping):
        return {key: _named(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_named(inner, names) for inner in value]
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
    old, new = dict(before.parameters), json.loads(json.dumps(parameters))
    files = tuple(_file_changes(old.pop(FILES, {}), new.pop(FILES, {})))
    own = (*value_changes(old, new), *files)
    changed = [name for name in inputs if before.inputs.get(name) != inputs[name]]
    return own or (f"it rests on {', '.join(changed)}" if changed else "its format changed",)


def value_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield, in words, each value of nested tables that differs between two of them."""
    before, now = (dict(_flat(tree)) for tree in (old, new))
    for key in {**before, **now}:
        if key not in now:
            yield f"{key} was {_short(before[key])}, is no longer asked for"
        elif key not in before:
            yield f"{key} was not there, is {_short(now[key])}"
        elif before[key] != now[key]:
            yield f"{key} was {_short(before[key])}, is {_short(now[key])}"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested tables with its dotted key."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def _file_changes(old: Any, new: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if not isinstance(old, Mapping):
        yield "its files were recorded by an older distembed"
        return
    before, now = (
        {
            name if name == path else f"{path}: {name}": s
            for path, files in every.items()
            for name, s in files.items()
        }
        for every in (old, new)
    )
    for name in sorted({**before, **now}):
        if name not in now:
            yield f"{name} is gone"
        elif name not in before:
            yield f"{name} was added"
        elif before[name] != now[name]:
            yield f"{name} was {_stamp(before[name])}, is {_stamp(now[name])}"


def _stamp(stamp: Sequence[Any]) -> str:
    size, version = stamp
    return f"{size:,} bytes ({version})"


# --- what a run would replace ----------------------------------------------------------------------------------


class Loss(NamedTuple):
    """Finished work that a run removes: of which stage, why, and the seconds it took."""

    stage: str
    why: str
    seconds: float


def losses(chosen: Sequence[Standing], workspace: Workspace, made_with: Mapping[str, str]) -> list[Loss]:
    """Return what running stages would remove from a workspace: theirs, and what rests on it.

    `made_with` are the versions that would run: a stage that others began, or that is damaged and was made by
    others, is computed again as a whole.
    """
    own = [_loss(standing, made_with) for standing in chosen if standing.before is not None]
    found = {loss.stage: loss for loss in own if loss is not None}
    done, grown = workspace.stages(), True
    while grown:
        resting = [
            Loss(
                name, f"it rests on {', '.join(found.keys() & manifest.inputs.keys())}", seconds_of(manifest)
            )
            for name, manifest in done.items()
            if name not in found and found.keys() & manifest.inputs.keys()
        ]
        found.update({loss.stage: loss for loss in resting})
        grown = bool(resting)
    return list(found.values())


def _loss(standing: Standing, made_with: Mapping[str, str]) -> Loss | None:
    """Return what is lost of a stage when it is run, None where nothing is."""
    before = standing.before
    if before is None or standing.is_kept:
        return None
    why = standing.why
    if not why and dict(before.made_with) != dict(made_with):
        state = "is damaged and was made" if standing.is_done else "was begun"
        why = f"it {state} with {differences(before.made_with, made_with)}"
    return Loss(standing.spec.name, why, seconds_of(before)) if why else None


def seconds_of(before: StageManifest | Begun) -> float:
    """Return the recorded work in a stage: of all runs that a commit took, or until an interruption."""
    if not isinstance(before, StageManifest):
        return before.seconds
    facts = before.facts
    return float(facts.get("wall_seconds", 0)) + float(facts.get("earlier_seconds", 0))


def loss_lines(lost: Sequence[Loss]) -> list[str]:
    """Return a line for each stage that would be computed again: why, and what it took."""
    return [
        f"{loss.stage} will be computed again because {loss.why}; it took {format_seconds(loss.seconds)}"
        for loss in lost
    ]


def refusal(lost: Sequence[Loss]) -> str:
    """Return why a run does not replace its stages unasked, "" where they took less than a minute."""
    seconds = sum(loss.seconds for loss in lost)
    if seconds <= ASKED_SECONDS:
        return ""
    names = ", ".join(loss.stage for loss in lost)
    return (
        f"{format_seconds(seconds)} of finished work ({names}) would be computed again because {lost[0].why}: "
        "undo that, choose another --workspace, or add --replace"
    )
