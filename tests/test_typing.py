"""The types of the public names: they are said without `Any`, and a type checker reads them from the package."""

from __future__ import annotations

import ast
import inspect
import sys
import tomllib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import distembed as de

ROOT = Path(__file__).resolve().parents[1]


def names_of(module: ModuleType) -> dict[str, Any]:
    """Return the names of a module, with those that it imports for type checkers only."""
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__name__, "exec"), names)
    return names


def public_functions(name: str) -> Iterator[Callable[..., Any]]:
    value = getattr(de, name)
    if not inspect.isclass(value):
        yield value
        return
    for each in value.__mro__:
        if each.__module__.startswith("distembed"):
            for key, member in vars(each).items():
                plain = member.fget if isinstance(member, property) else member
                plain = getattr(plain, "func", getattr(plain, "__func__", plain))
                if inspect.isfunction(plain) and (key == "__init__" or not key.startswith("_")):
                    yield plain


def said(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of every parameter of a function and of its overloads; `Any` where none is said."""
    found = {}
    for number, each in enumerate([function, *typing.get_overloads(function)]):
        hints = typing.get_type_hints(each, names_of(sys.modules[function.__module__]))
        parameters = [*inspect.signature(each).parameters, "return"]
        said_here = {name: hints.get(name, Any) for name in parameters if name not in ("self", "cls")}
        found |= {f"{number}.{name}": hint for name, hint in said_here.items()}
    return found


def holds_any(hint: Any) -> bool:
    """Return whether a type is `Any` or made of it; that of the shape of an array is NumPy's own."""
    parts = hint if isinstance(hint, list) else typing.get_args(hint)
    parts = parts[1:] if typing.get_origin(hint) is np.ndarray else parts
    return hint is Any or any(map(holds_any, parts))


@pytest.mark.parametrize("name", sorted(set(de.__all__) - {"__version__"}))
def test_a_public_signature_says_its_types(name):
    vague = {
        f"{function.__qualname__}: {place}": hint
        for function in public_functions(name)
        for place, hint in said(function).items()
        if holds_any(hint)
    }
    assert vague == {}


def test_the_package_says_that_its_types_can_be_read():
    """`mypy` also checks a program of a user: `tests/typing/program.py`."""
    assert (ROOT / "distembed/py.typed").exists()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert settings["mypy"]["modules"] == ["tests.typing.program"]
    assert "py.typed" in settings["setuptools"]["package-data"]["distembed"]
