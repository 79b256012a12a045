"""A corpus that grows or shrinks: when a run keeps the last results readable while it makes the next ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from distembed.job.inputs import FILES
from distembed.job.state import Standing
from distembed.job.withdrawals import WITHDRAWN
from distembed.storage.schema import StageManifest
from distembed.storage.workspace import Workspace


def changes_corpus(found: Sequence[Standing]) -> bool:
    """Return whether other files are to be read than the workspace has read, in the same way, or words are unfrozen.

    A transfer computes again what reads a collection that changes.
    """
    before, now = _parameters(found, "tokens")
    if "corpus" not in before or _reading(before) != _reading(now):
        return False
    return before != now or _is_frozen_otherwise(*_parameters(found, "vocabulary"))


def _is_frozen_otherwise(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether the words of a vocabulary are to be kept now and were not before, or the reverse, and no more."""
    both = [dict(parameters.get("vocabulary", {})) for parameters in (before, now)]
    frozen = [section.pop("freeze", False) for section in both]
    return bool(before) and frozen[0] != frozen[1] and both[0] == both[1]


def only_adds(found: Sequence[Standing]) -> bool:
    """Return whether files are added, and every file that was read is still to be read, and is what it was."""
    before, now = map(_stamps, _parameters(found, "tokens"))
    return before != now and all(stamp in now for stamp in before)


def is_whole(following: Workspace, last: Workspace, asked: Collection[str]) -> bool:
    """Return whether the next content has every stage that the last has and a job still asks for."""
    return following.stages().keys() >= last.stages().keys() & set(asked)


def _parameters(found: Sequence[Standing], stage: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return with which parameters a stage was committed, {} if it is not, and with which it is to be."""
    for standing in found:
        if standing.spec.name == stage and isinstance(standing.before, StageManifest):
            return dict(standing.before.parameters), json.loads(json.dumps(standing.parameters))
    return {}, {}


def _reading(parameters: Any) -> dict[str, Any]:
    """Return the parameters of the stage that reads a corpus without those that say which files."""
    others = {name: value for name, value in parameters.items() if name not in {FILES, WITHDRAWN, "corpus"}}
    corpus = {name: value for name, value in parameters["corpus"].items() if name != "paths"}
    return {**others, "corpus": corpus}


def _stamps(parameters: Any) -> list[Any]:
    """Return the name and the stamp of each file, wherever it lies."""
    return [[name, stamp] for files in parameters.get(FILES, {}).values() for name, stamp in files.items()]
