"""The options of an estimator or function: one home for their types, ranges, defaults and meanings.

An option is a parameter of a signature. Its annotation carries the range (`PositiveInt`), the signature its default,
and the numpydoc section "Parameters" or "Attributes" its meaning. The estimator checks its values against that
(`check_options`), the section of a job file is generated from it, and `distembed keys` prints it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from pydantic import AllowInfNan, ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic_core import SchemaError

PositiveInt = Annotated[int, Ge(1)]
NonNegativeInt = Annotated[int, Ge(0)]
Rounds = Annotated[int, Ge(1), Le(10_000)]
"""How often something is done that is planned at once; a thousand rounds are more than any method here needs."""
Places = Annotated[int, Ge(1), Le(10_000)]
"""A distance in a text; a window of ten thousand words is more than most documents."""
FiniteFloat = Annotated[float, AllowInfNan(False)]
PositiveFloat = Annotated[FiniteFloat, Gt(0)]
NonNegativeFloat = Annotated[FiniteFloat, Ge(0)]
Fraction = Annotated[float, Gt(0), Lt(1)]
"""A part of a whole that leaves something over."""

RandomState = int | np.random.Generator | np.random.RandomState | None
"""What an estimator takes as `random_state`."""

_BOUNDS: dict[type, str] = {
    Ge: "of {.ge} or more",
    Gt: "above {.gt}",
    Le: "of at most {.le}",
    Lt: "below {.lt}",
}
_NAMES: dict[Any, str] = {
    int: "an integer", float: "a number", bool: "true or false", str: "a text", NoneType: "none",
    np.random.Generator: "a NumPy Generator", np.random.RandomState: "a NumPy RandomState",
}  # fmt: skip


class Option(NamedTuple):
    """One option: its name, the type with its range, its default, and what it means in one or more sentences."""

    name: str
    annotation: Any
    default: Any
    meaning: str


def options_of(source: Callable[..., Any]) -> dict[str, Option]:
    """Return the options of an estimator, a dataclass or a function: the parameters that have a default.

    Parameters
    ----------
    source : type or function

    Examples
    --------
    >>> from distembed import PSDVec
    >>> from distembed.options import options_of
    >>> options_of(PSDVec)["n_components"].default
    100
    """
    types = get_type_hints(source.__init__ if inspect.isclass(source) else source, include_extras=True)
    meanings = meanings_of(source)
    return {
        name: Option(name, types[name], parameter.default, meanings.get(name, ""))
        for name, parameter in inspect.signature(source).parameters.items()
        if parameter.default is not parameter.empty
    }


def check_options(source: Any, values: Mapping[str, Any] | None = None) -> None:
    """Raise for the first option whose value is outside the type and the range of the signature.

    Parameters
    ----------
    source : object or function
        An instance of a class that stores its options under their names; or a function, of whose options `values` are.
    values : mapping of str to value, optional

    Raises
    ------
    ValueError
        The option, its value, and what it may be.
    """
    for name, option in options_of(type(source) if values is None else source).items():
        value = getattr(source, name) if values is None else values[name]
        if not fits(value, option.annotation):
            raise ValueError(f"{name} is {value!r}: give {described(option.annotation)}")


def fits(value: Any, annotation: Any) -> bool:
    """Return whether a value is of a type and within its range; a type that pydantic does not know is taken to fit."""
    adapter = _adapter(annotation)
    if adapter is None:
        return True
    try:
        adapter.validate_python(_plain(value))
    except ValidationError:
        return False
    return True


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(annotation, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
    except (PydanticSchemaGenerationError, SchemaError):
        return None


def _plain(value: Any) -> Any:
    """Return numbers of NumPy, also those in a list, as numbers of Python."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def described(annotation: Any) -> str:
    """Return a type and its range in words, as `"an integer of 1 or more"`.

    Examples
    --------
    >>> from distembed.options import PositiveInt, described
    >>> described(PositiveInt | None)
    'an integer of 1 or more, or none'
    """
    inner, origin = get_args(annotation), get_origin(annotation)
    if origin is Annotated:
        return _described_range(inner[0], inner[1:])
    if origin in (Union, UnionType):
        return ", or ".join(map(described, inner))
    if origin is Literal:
        *others, last = (f'"{one}"' for one in inner)
        return " or ".join(filter(None, [", ".join(others), last]))
    if origin in (tuple, list, Sequence, Iterable):
        return f"a list, each {described(inner[0])}"
    if origin in (dict, Mapping):
        return f"a table, each {described(inner[1])}"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _described_range(kind: Any, marks: Sequence[Any]) -> str:
    if get_origin(kind) in (Union, UnionType):  # a range is that of the numbers
        kinds = (Annotated[one, *marks] if one in (int, float) else one for one in get_args(kind))
        return ", or ".join(map(described, kinds))
    named = next((mark for mark in marks if isinstance(mark, str)), None)
    words = (_BOUNDS[type(mark)].format(mark) for mark in marks if type(mark) in _BOUNDS)
    return named or " ".join([described(kind), " and ".join(words)]).strip()


# --- meanings --------------------------------------------------------------------------------------------------

_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\w[\w, ]*?)(?: ?: (.*))?$")
_TYPE = re.compile(
    r"^(?:int|float|bool|str|sequence|tuple|list|dict|callable|path|array|iterable|mapping|None"
    r"|\{.*\}$|\"[^\"]*\"(?:,| or |$))",
    re.IGNORECASE,
)  # fmt: skip


def meanings_of(source: Any) -> dict[str, str]:
    """Return what each option means, by its name: from the docstring of a class, of its bases, or of a function."""
    lineage = reversed(inspect.getmro(source)) if inspect.isclass(source) else [source]
    found: dict[str, str] = {}
    for docstring in [each.__doc__ or "" for each in lineage if each.__module__.startswith("distembed")]:
        parts = _HEADING.split(inspect.cleandoc(docstring))[1:]
        for heading, body in zip(parts[::2], parts[1::2], strict=True):
            if heading in ("Parameters", "Attributes"):
                found = _entries(body) | found if heading == "Attributes" else found | _entries(body)
    return found


def _entries(body: str) -> dict[str, str]:
    """Return the meaning of each entry of a numpydoc section, one line each."""
    entries: dict[str, list[str]] = {}
    names: list[str] = []
    for line in body.rstrip().split("\n"):
        if line.startswith((" ", "\t")) or not line:
            for name in names:
                entries[name].append(line.strip())
        elif entry := _ENTRY.match(line):
            names = [name.strip() for name in entry[1].split(",")]
            first = entry[2] or ""
            entries |= {name: [] if _TYPE.match(first) else [first] for name in names}
    return {name: " ".join(filter(None, lines)) for name, lines in entries.items()}
