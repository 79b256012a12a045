"""The keys of a job file: every section of a system, each key with its type, default and meaning.

They are read from the models that check a job file, so that nothing here can say otherwise.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple, get_origin

from distembed.display import format_size
from distembed.job.model import SIZE, Section, tagged
from distembed.job.stage import system_named
from distembed.options import described


class Key(NamedTuple):
    """One key of a job file; `about` is what its section is, `kind` its type in words, `default` as TOML has it."""

    section: str
    about: str
    name: str
    kind: str
    default: Any
    required: bool
    meaning: str
    annotation: Any

    @property
    def place(self) -> str:
        """The key as `--set` takes it."""
        return f"{self.section}.{self.name}"


def keys_of(system: str) -> list[Key]:
    """Return every key of the job files of a system, section by section: those that every job has come last.

    Parameters
    ----------
    system : str
        A name of the registry.

    Examples
    --------
    >>> from distembed.job.keys import keys_of
    >>> [key.default for key in keys_of("psdvec") if key.place == "psdvec.n_components"]
    [100]
    """
    # What is run, its input and its method, then what every job has.
    ranks = {"job": 0, "paper": 2, "report": 3, "resources": 4}
    fields = sorted(system_named(system).job.model_fields.items(), key=lambda item: ranks.get(item[0], 1))
    return [
        key._replace(default=system) if key.place == "job.system" else key
        for name, field in fields
        for key in _keys_of_section(
            f"{name}.NAME" if get_origin(field.annotation) is dict else name, tagged(field.annotation)
        )
    ]


def _keys_of_section(section: str, models: dict[str, type[Section]]) -> Iterator[Key]:
    """Yield the keys of a section; where its method decides them, each key once, with the methods that have it."""
    about = _about(models)
    for name in dict.fromkeys(name for model in models.values() for name in model.model_fields):
        having = {tag: model for tag, model in models.items() if name in model.model_fields}
        model = next(iter(having.values()))
        inner = model.model_fields[name]
        kind = Annotated[inner.annotation, *inner.metadata] if inner.metadata else inner.annotation
        if name == "method" and "" not in models:
            kind = Literal[tuple(models)]
        whose = "" if len(having) == len(models) else f" Methods: {', '.join(having)}."
        fields = (base.model_fields.get(name) for base in model.__mro__ if issubclass(base, Section))
        text = next((field.description for field in fields if field and field.description), "")
        yield Key(
            section, about, name, described(kind), None if inner.is_required() else _plain(inner.default, kind),
            inner.is_required(), sentence(" ".join(text.split())) + whose, kind,
        )  # fmt: skip


def _about(models: dict[str, type[Section]]) -> str:
    """Return what a section is, in the words of the model that all its kinds have in common."""
    bases = next(iter(models.values())).__mro__ if models else ()
    for base in bases:
        if all(issubclass(model, base) for model in models.values()):
            line = (base.__doc__ or "").split("\n")[0]
            return line.partition("`: ")[2] or line
    return ""


def _plain(value: Any, kind: Any) -> Any:
    """Return a default as a TOML file has it."""
    if isinstance(value, int) and SIZE in described(kind):
        return format_size(value)
    return list(value) if isinstance(value, tuple) else value


def sentence(text: str) -> str:
    """Return a meaning as a sentence: a capital, and a period."""
    return text and text[0].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


# --- as text, Markdown and JSON ----------------------------------------------------------------------------------


def as_text(keys: list[Key], *, width: int = 100) -> str:
    """Return keys as lines for a terminal of a width."""
    lines = []
    for section, group in _by_section(keys):
        lines += ["", *textwrap.wrap(f"[{section}]  {group[0].about}", width, subsequent_indent="    ")]
        for key in group:
            lines += [f"  {key.name}" + ("" if key.default is None else f" = {toml_value(key.default)}")]
            kind = f"Required: {key.kind}." if key.required else sentence(key.kind)
            lines += textwrap.wrap(
                f"{kind} {key.meaning}", width, initial_indent=" " * 6, subsequent_indent=" " * 6
            )
    return "\n".join(lines[1:])


def as_markdown(system: str, keys: list[Key]) -> str:
    """Return keys as a page: a heading for the system, and a table per section."""
    lines = [f'## `system = "{system}"`']
    for section, group in _by_section(keys):
        lines += ["", f"### `[{section}]`", "", sentence(group[0].about), ""]
        lines += ["| key | default | type and range | meaning |", "|---|---|---|---|"]
        lines += [_row(key) for key in group]
    return "\n".join(lines)


def _row(key: Key) -> str:
    default = (
        f"`{toml_value(key.default)}`" if key.default is not None else "required" if key.required else ""
    )
    cells = (f"`{key.name}`", default, key.kind, key.meaning)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _by_section(keys: list[Key]) -> list[tuple[str, list[Key]]]:
    return [(section, list(group)) for section, group in groupby(keys, key=lambda key: key.section)]


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {toml_value(one)}' for name, one in value.items())}}}"
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
