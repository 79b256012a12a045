"""The options of an estimator as its source states them, read without importing the estimator.

A job file is checked before anything runs, and the keys of its sections are options of estimators. Importing an
estimator imports scikit-learn, which imports `scipy.stats`: as much time as all else in `distembed plan`.
The signature and the docstring are therefore read from the syntax tree of the module, and only the types and the
constants that they name are evaluated. A test compares the result with that of `distembed.options.options_of`.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from distembed.options import Option, meanings_in


class _Class(NamedTuple):
    """A class statement and the name of the module that holds it."""

    module: str
    statement: ast.ClassDef


def options_in_source(place: str) -> dict[str, Option]:
    """Return the options of an estimator of this package: the parameters that have a default.

    Parameters
    ----------
    place : str
        The module and the class, ``"distembed.factorization.psdvec:PSDVec"``.

    Raises
    ------
    TypeError
        There is no such class, or it has no ``__init__`` of its own.

    Examples
    --------
    >>> from distembed.option_source import options_in_source
    >>> options_in_source("distembed.factorization.psdvec:PSDVec")["n_components"].default
    100
    """
    module, _, name = place.partition(":")
    source = _class(module, name)
    arguments = _initializer(source).args
    meanings = meanings_in([ast.get_docstring(one.statement) or "" for one in _lineage(source)])
    return {
        argument.arg: Option(
            argument.arg,
            _evaluated(module, argument.annotation),
            _evaluated(module, default),
            meanings.get(argument.arg, ""),
        )
        for argument, default in _with_defaults(arguments)
    }


def _with_defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    n_defaults = len(arguments.defaults)
    yield from zip(positional[len(positional) - n_defaults :], arguments.defaults, strict=True)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield argument, default


def _class(module: str, name: str) -> _Class:
    statement = _definitions(module).get(name)
    if isinstance(statement, ast.ImportFrom):
        return _class(str(statement.module), name)
    if not isinstance(statement, ast.ClassDef):
        raise TypeError(f"{module} defines no class {name}")
    return _Class(module, statement)


def _initializer(source: _Class) -> ast.FunctionDef:
    for statement in source.statement.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            return statement
    raise TypeError(f"{source.module}:{source.statement.name} has no __init__ of its own")


def _lineage(source: _Class) -> Iterator[_Class]:
    """Yield the classes of this package that a class is derived from, the most general first, and the class itself."""
    for base in source.statement.bases:
        place = _definitions(source.module).get(base.id) if isinstance(base, ast.Name) else None
        own = isinstance(place, ast.ClassDef) or (isinstance(place, ast.ImportFrom) and _is_own(place.module))
        if own:
            yield from _lineage(_class(source.module, base.id))  # type: ignore[attr-defined]
    yield source


def _is_own(module: str | None) -> bool:
    return str(module).partition(".")[0] == __name__.partition(".")[0]


@cache
def _definitions(module: str) -> Mapping[str, ast.stmt]:
    """Return the statement that binds each name of a module."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise TypeError(f"there is no module {module}")
    bound: dict[str, ast.stmt] = {}
    for statement in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        bound |= dict.fromkeys(_names_bound_by(statement), statement)
    return bound


def _names_bound_by(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Import(names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case ast.Assign(targets=[ast.Name(name)]):
            yield name
        case ast.Assign(targets=[ast.Tuple(elts)]):
            yield from (each.id for each in elts if isinstance(each, ast.Name))
        case ast.ClassDef(name) | ast.FunctionDef(name):
            yield name


class _Names(Mapping[str, Any]):
    """The values of the names of a module, of which only those that are asked for are found."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getitem__(self, name: str) -> Any:
        """Return the value of a name; a name of Python itself raises KeyError, and is then found there."""
        return _value(self.module, name, _definitions(self.module)[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(_definitions(self.module))

    def __len__(self) -> int:
        """Return the number of names."""
        return len(_definitions(self.module))


def _value(module: str, name: str, statement: ast.stmt) -> Any:
    """Return the value that a statement of a module binds to a name."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=expression):
            return _evaluated(module, expression)
        case ast.Import(names):
            return import_module(next(alias.name for alias in names if name in (alias.asname, alias.name)))
        case ast.ImportFrom(module=str(home), names=names):
            original = next(alias.name for alias in names if name in (alias.asname, alias.name))
            return _imported(home, original)
    return getattr(import_module(module), name)


def _imported(home: str, name: str) -> Any:
    """Return the value of a name of another module, which is imported only if it is not one of this package."""
    if _is_own(home) and home not in sys.modules:
        return _Names(home)[name]
    return getattr(import_module(home), name)


def _evaluated(module: str, expression: ast.expr | None) -> Any:
    """Return the value of an expression that stands in a module of this package."""
    if expression is None:
        raise TypeError(f"an option in {module} has no type")
    code = compile(ast.Expression(expression), module, "eval")
    return eval(code, {"__builtins__": builtins}, _Names(module))  # noqa: S307 - our own source
