"""What programs rely on is listed in `public.txt`, which changes only as docs/reference/api.md says.

After such a change write it again: `python -m tests.test_public > tests/public.txt`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import click

import distembed
from distembed.job.keys import keys_of
from distembed.job.registry import SYSTEMS
from distembed.storage.records import VERSION
from distembed.storage.stage import Stage
from tests.cli.test_help import commands
from tests.test_docstrings import own_methods

UNNAMED = type("Default", (), {"__repr__": lambda _: ""})()


def call(name: str, function: Any) -> str:
    """Return a name with its parameters; those that may be left out end in `=`."""
    given, empty = inspect.signature(function).parameters.values(), inspect.Parameter.empty
    defaults = (empty if each.default is empty else UNNAMED for each in given)
    bare = [
        each.replace(annotation=empty, default=default) for each, default in zip(given, defaults, strict=True)
    ]
    return f"{name}{inspect.Signature(bare)}"


def attributes(kind: type) -> set[str]:
    """Return what a class describes as attributes, its properties, and the fields of a record."""
    section = (inspect.getdoc(kind) or "").partition("Attributes\n----------\n")[2].partition("\n---")[0]
    described = re.findall(r"^([\w, ]+) : ", section, re.MULTILINE)
    made = {
        n for n, value in inspect.getmembers_static(kind) if isinstance(value, property | cached_property)
    }
    fields = {*getattr(kind, "_fields", ()), *getattr(kind, "__dataclass_fields__", ())}
    found = {*", ".join(described).split(", "), *made, *fields, *getattr(kind, "model_fields", ())}
    return {name for name in found if name and not name.startswith(("_", "model_"))}


def returned(annotation: Any) -> Iterator[type]:
    """Yield our classes that an annotation names, but for that by which a stage writes."""
    kind = get_origin(annotation) or annotation
    if inspect.isclass(kind) and kind.__module__.startswith("distembed.") and kind is not Stage:
        yield kind
    for inner in get_args(annotation):
        yield from returned(inner)


def library() -> Iterator[str]:
    """Yield the names of the package, and the methods and attributes of its classes and of those that they return."""
    named = {getattr(distembed, name) for name in distembed.__all__} - {distembed.__version__}
    things = sorted(named, key=lambda thing: thing.__name__)
    for thing in things:
        functions = dict(own_methods(thing)) if inspect.isclass(thing) else {"": thing}
        yield call(thing.__name__, thing) if thing in named else thing.__name__
        yield from (f"    {call(name, method)}" for name, method in functions.items() if name)
        yield from (f"    {name}" for name in sorted(attributes(thing)) if inspect.isclass(thing))
        hints = (get_type_hints(function).get("return") for function in functions.values())
        things += [kind for hint in hints for kind in returned(hint) if kind not in things]


def public() -> Iterator[str]:
    """Yield what is public, line by line."""
    yield from library()
    for name, command in commands():
        said = (
            each.opts if isinstance(each, click.Option) else [each.name.upper()] for each in command.params
        )
        yield f"distembed {name} {' '.join('|'.join(words) for words in said)}"
    for system in SYSTEMS:
        for section, keys in groupby(keys_of(system), lambda key: key.section):
            yield f"{system} [{section}] {' '.join(key.name + '=' * (not key.required) for key in keys)}"
    yield f"workspace, version {VERSION}"


def test_what_is_public_stays_as_it_is():
    recorded = Path(__file__).with_name("public.txt").read_text(encoding="utf-8")
    assert [*public()] == recorded.splitlines()


if __name__ == "__main__":
    print(*public(), sep="\n")
