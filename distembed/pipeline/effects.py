"""Keys of a job that have no effect under its other settings.

A section declares them beside its keys, as `effects`. When a job is loaded, such a key is named where the job sets it
to something else than its default, and it takes its default: it decides nothing then, and recomputes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

TWO_OR_MORE = range(2, 2**63)
"""The whole numbers from 2 on."""


class Only(NamedTuple):
    """Keys that have an effect only where another key has one of some values.

    Attributes
    ----------
    keys : tuple of str
        Keys of the section that declares the rule; none means all its keys but the one in `place`.
    place : str
        The other key, or a property, of the same section; with a section before a dot, of the job.
    values : container
        The values with which they have an effect, of a list or a tuple one of its items; by default every one that is
        given: not none, false or empty.
    words : str
        What they need, in words, where `place` and `values` do not say it.
    """

    keys: tuple[str, ...]
    place: str
    values: Container[Any] = ()
    words: str = ""

    def holds(self, job: BaseModel, section: BaseModel) -> bool:
        """Return whether the keys have an effect; a property that cannot know returns None, and they may have."""
        value: Any = job if "." in self.place else section
        for name in self.place.split("."):
            value = getattr(value, name)
        if not self.values:
            return value is not None and value is not False and value != ()
        found = value if isinstance(value, tuple | frozenset) else (value,)
        return any(one in self.values for one in found)

    def need(self, section: str) -> str:
        """Return in words what the keys of a section need."""
        place = self.place if "." in self.place else f"{section}.{self.place}".removeprefix(".")
        if self.words:
            return self.words
        if self.values == (None,):
            return f"a job without {place}"
        values = [json.dumps(value) for value in self.values] if isinstance(self.values, tuple) else []
        return f"{place} = {' or '.join(values)}" if values else place


def idle_keys(job: BaseModel) -> dict[tuple[str, ...], str]:
    """Return the keys of a job without effect that are not at their default, each with a sentence for its user.

    A key is the path to it: the section, the name of a table of sections, the key.
    """
    found: dict[tuple[str, ...], str] = {}
    for place, section in _sections(job, ()):
        for rule in getattr(section, "effects", ()):
            fields = set(type(section).model_fields)
            keys = fields & set(rule.keys or fields - {rule.place})
            changed = sorted(key for key in keys if not _is_default(section, key))
            if changed and not rule.holds(job, section):
                need = rule.need(".".join(place))
                found |= {
                    (*place, key): _sentence((*place, key), getattr(section, key), need) for key in changed
                }
    return found


def _sections(model: BaseModel, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], BaseModel]]:
    """Yield a model and every section in it, each with the path to it."""
    yield place, model
    for name in type(model).model_fields:
        value = getattr(model, name)
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, one in inner:
            if isinstance(one, BaseModel):
                yield from _sections(one, (*place, name, key) if key else (*place, name))


def _is_default(section: BaseModel, key: str) -> bool:
    field = type(section).model_fields[key]
    return bool(getattr(section, key) == field.get_default(call_default_factory=True))


def _sentence(place: tuple[str, ...], value: Any, need: str) -> str:
    what = f"the section [{place[0]}]" if isinstance(value, BaseModel) else _setting(place, value)
    return f"{what} has no effect: it needs {need}"


def _setting(place: tuple[str, ...], value: Any) -> str:
    return f"{'.'.join(place)} = {json.dumps(value, ensure_ascii=False, default=list)}"


def without(tree: Mapping[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    """Return nested tables without the key at a path."""
    first, *rest = place
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    return {key: without(value, tuple(rest)) if key == first else value for key, value in tree.items()}
