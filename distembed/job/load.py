"""A job file: one TOML, checked whole before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from distembed.files import read_small
from distembed.job.model import Job, JobError, locate, tagged
from distembed.job.registry import DEFAULT_SYSTEM, SYSTEMS
from distembed.job.stage import system_named
from distembed.urls import public

MUCH_ALIKE = 0.8
"""How alike two names of different sections are, from 0 to 1, where one is taken for the other."""


def suggestion(job: type[Job], parents: Sequence[str], unknown: str) -> str:
    """Return the rest of a sentence on an unknown key: what was most likely meant, or what there is.

    Parameters
    ----------
    job : type
        The model of the job file.
    parents : sequence of str
        The sections above the key, with the method of one that a method decides; none for an unknown section.
    unknown : str
        The key.
    """
    here = list(_model_at(job, parents).model_fields)
    places: dict[str, str] = {}
    for section, field in job.model_fields.items():
        models = tagged(field.annotation)
        having = [method for method, model in models.items() if unknown in model.model_fields]
        if section in parents[:1] and having and "" not in models:
            return f"{parents[-1]!r} has no such key: methods with it are {', '.join(having)}"
        for key in (key for model in models.values() for key in model.model_fields):
            places.setdefault(key, f"{section}.{key}")
    nearest = get_close_matches(unknown, here, n=1) or [
        places[key] for key in get_close_matches(unknown, places, n=1, cutoff=MUCH_ALIKE)
    ]
    return f"did you mean {nearest[0]}?" if nearest else f"the keys here are {', '.join(here)}"


def _model_at(job: type[Job], parents: Sequence[str]) -> type[BaseModel]:
    """Return the model of a section; below the name of one in a table of sections pydantic has its tag."""
    model: type[BaseModel] = job
    models: dict[str, type[BaseModel]] = {}
    for name in parents:
        if name in model.model_fields:
            models = tagged(model.model_fields[name].annotation)
            model = next(iter(models.values()))
        else:
            model = models.get(name, model)
    return model


TOO_DEEP = "{} holds lists or tables inside each other too deeply: no key of a job does"

JOB_BYTES = 16 << 20
"""A job file is no larger: the longest lists of paths and settings take a hundredth."""


def load_job(path: str | Path, *, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    """Read and check a job file.

    Parameters
    ----------
    path
        A TOML file. All relative paths in it, of inputs and of workspaces, are relative to its folder, so that a job
        means the same wherever it is started.
    settings
        `"section.key=value"` overrides, the value written as in TOML (a bare word is taken as a string).
    workspace
        Overrides `job.workspace`; a relative one is relative to the current folder.

    Raises
    ------
    JobError
        The file is not TOML, a key is unknown (the nearest is named), or a value is not allowed.
    FileNotFoundError
        There is no such file.
    """
    path = Path(path)
    tree = read_sections(path)
    return checked_job(tree, name=str(path), folder=path.parent, settings=settings, workspace=workspace)


def read_sections(path: Path) -> dict[str, Any]:
    """Return the sections of a job file as they stand in it, unchecked.

    Raises
    ------
    JobError, FileNotFoundError
        The file is not TOML, or is not there.
    """
    try:
        text = read_small(path, most=JOB_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        beside = [file.name for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        made = "distembed new METHOD FILE writes one, distembed demo METHOD brings one"
        nearest = get_close_matches(path.name, beside, n=1)
        advice = f"did you mean {path.parent / nearest[0]}?" if nearest else made
        raise FileNotFoundError(f"there is no job file or workspace {path}; {advice}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise JobError(
            f"{path} is not UTF-8: line {line} holds the byte {error.object[error.start]:#04x}; save the file as UTF-8"
        ) from None
    return _parsed(text, name=str(path))


def _parsed(text: str, *, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # numbers of thousands of digits, too
        raise JobError(f"{name} is not valid TOML: {error}") from None
    except (RecursionError, MemoryError):
        raise JobError(TOO_DEEP.format(name)) from None


def checked_job(
    source: str | dict[str, Any],
    *,
    name: str,
    folder: Path,
    settings: Sequence[str] = (),
    workspace: str | None = None,
) -> Job:
    """Check a job given as text or as a table of sections, which the settings change.

    `name` is shown in errors, and `folder` is where its relative paths begin.

    Raises
    ------
    JobError
        As `load_job`.
    """
    tree = _parsed(source, name=name) if isinstance(source, str) else source
    for setting in settings:
        _override(tree, setting)
    if workspace is not None and isinstance(tree.setdefault("job", {}), dict):
        tree["job"]["workspace"] = workspace if workspace[:1] == "{" else locate(workspace, Path.cwd())
    section = tree.get("job")
    system = section.get("system", DEFAULT_SYSTEM) if isinstance(section, dict) else DEFAULT_SYSTEM
    if not isinstance(system, str) or system not in SYSTEMS:
        raise JobError(f"{name}: job.system = {system!r} is not allowed: there are {', '.join(SYSTEMS)}")
    model, context = system_named(system).job, {"folder": folder.resolve()}
    try:
        return model.model_validate(tree, context=context)
    except RecursionError:
        raise JobError(TOO_DEEP.format(name)) from None
    except ValidationError as error:
        raise JobError(public(f"{name}: {_first_fault(error, model, tree)}")) from None


def _override(tree: Any, setting: str) -> None:
    key, equals, value = setting.partition("=")
    *tables, name = key.strip().split(".")
    if not (equals and tables and name):
        raise JobError(
            f"the setting {setting!r} is not of the form section.key=value, as psdvec.n_components=50"
        )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except ValueError:
        parsed = value.strip()
    if isinstance(parsed, date):  # keys of days, as `domain.first`, are texts
        parsed = value.strip()
    for depth, table in enumerate(tables, start=1):
        tree = tree.setdefault(table, {})
        if not isinstance(tree, dict):
            place = ".".join(tables[:depth])
            raise JobError(f"the setting {setting!r}: {place} is no section; set all of {place}")
    tree[name] = parsed


def _first_fault(error: ValidationError, job: type[Job], tree: dict[str, Any]) -> str:
    """Return the first fault of a job in one sentence, with the nearest key where one is unknown.

    An unknown key comes first: where a required one is missing, it is most likely that one misspelt.
    """
    faults = error.errors()
    fault = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    where = ".".join(map(str, _place(tree, fault["loc"])))
    if fault["type"] == "extra_forbidden":
        *parents, unknown = (str(part) for part in fault["loc"])
        return f"unknown key {where}; {suggestion(job, parents, unknown)}"
    if fault["type"] == "missing":
        return f"{where and where + '.'}{fault['loc'][-1]} is required and not there; add it"
    if fault["type"] in ("union_tag_not_found", "union_tag_invalid"):
        where += f".{fault['ctx']['discriminator'].removesuffix('()')}"
        known = fault["ctx"].get("expected_tags")
        if known is None:
            return f"{where} is required and not there; add it"
        return f"{where} = {fault['ctx']['tag']!r} is not allowed: input should be {known}"
    if fault["type"] == "value_error":
        given = fault["input"]
        value = str(given).lower() if isinstance(given, bool) else repr(given)
        shown = "" if isinstance(given, dict) else f" = {value}"
        return f"{where}{shown}: {fault['ctx']['error']}".removeprefix(": ")
    return _refused_value(faults, tree)


PLAIN = {
    "bool_parsing": "Input should be true or false",
    "bool_type": "Input should be true or false",
    "int_parsing": "Input should be a valid integer",
    "model_attributes_type": "Input should be a section with keys of its own",
    "model_type": "Input should be a section with keys of its own",
    "too_short": "Input should be a list that is not empty",
    "tuple_type": 'Input should be a list, as ["a", "b"]',
}
"""What pydantic says in the words of Python, by the type of the fault, for readers of job files."""


def _refused_value(faults: list[ErrorDetails], tree: dict[str, Any]) -> str:
    """Return what is wrong with a value; where a key takes values of several kinds, what every kind asks for."""
    places = [_place(tree, fault["loc"]) for fault in faults]
    same_key = [place for place in places if place[: len(places[0])] == places[0]]
    deepest = max(same_key, key=len)  # of a list with one bad entry, that entry
    found = [fault for fault, place in zip(faults, places, strict=True) if place == deepest]
    first, *others = dict.fromkeys(PLAIN.get(fault["type"], fault["msg"]) for fault in found)
    wanted = [first.lower(), *(message.removeprefix("Input should be ") for message in others)]
    where = ".".join(str(part) for part in deepest)
    return f"{where} = {found[0]['input']!r} is not allowed: {', or '.join(wanted)}"


def _place(tree: Any, parts: Sequence[int | str]) -> list[int | str]:
    """Return the keys and indices of the place of a fault, without the names that pydantic has for kinds of values."""
    place: list[int | str] = []
    for part in parts:
        if isinstance(tree, dict) and part in tree:
            tree = tree[str(part)]
        elif isinstance(tree, list) and isinstance(part, int):
            tree = tree[part]
        else:
            continue
        place.append(part)
    return place
