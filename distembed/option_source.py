"""The options of an estimator or a function as its source states them, read without importing it.

A job file is checked before anything runs, and the keys of its sections are options of estimators and functions.
Importing an estimator imports scikit-learn, which imports `scipy.stats`: as much time as all else in `distembed plan`;
importing a reader or a counter imports numba.
The signature and the docstring are therefore read from the syntax tree of the module, and only the types and the
constants that they name are evaluated. A test compares the result with that of `distembed.options.options_of`.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import Field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from distembed.options import Option, meanings_in


class _Source(NamedTuple):
    """The statement of a class or a function and the name of the module that holds it."""

    module: str
    statement: ast.ClassDef | ast.FunctionDef


def options_in_source(place: str, *, untyped: Container[str] = ()) -> dict[str, Option]:
    """Return the options of an estimator, a dataclass or a function of this package: the parameters with a default.

    Parameters
    ----------
    place : str
        The module and the name in it, ``"distembed.factorization.psdvec:PSDVec"``.
    untyped : container of str
        Options whose types are not looked up, because they may be classes of modules that take long to import; their
        type is ``object``.

    Raises
    ------
    TypeError
        There is no such class or function, or the class is no dataclass and has no ``__init__`` of its own.

    Examples
    --------
    >>> from distembed.option_source import options_in_source
    >>> options_in_source("distembed.factorization.psdvec:PSDVec")["n_components"].default
    100
    """
    module, _, name = place.partition(":")
    source = _source(module, name)
    meanings = meanings_in([ast.get_docstring(one.statement) or "" for one in _lineage(source)])
    return {
        name: Option(
            name,
            object if name in untyped else _evaluated(module, annotation),
            _default(_evaluated(module, default)),
            meanings.get(name, ""),
        )
        for name, annotation, default in _parameters(source)
    }


def constant_in_source(place: str) -> Any:
    """Return a constant of a module of this package, which is read and not imported.

    Parameters
    ----------
    place : str
        The module and the name in it.

    Examples
    --------
    >>> from distembed.option_source import constant_in_source
    >>> constant_in_source("distembed.factorization.nmf_blocks:FREQUENCY_WEIGHT")
    0.5
    """
    module, _, name = place.partition(":")
    return _Names(module)[name]


def _default(value: Any) -> Any:
    """Return the default of a parameter, which a dataclass may state as a field."""
    return value.default if isinstance(value, Field) else value


def _parameters(source: _Source) -> Iterator[tuple[str, ast.expr | None, ast.expr]]:
    """Yield name, type and default of each parameter that has a default."""
    if isinstance(source.statement, ast.ClassDef) and _is_dataclass(source.statement):
        for field in source.statement.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value:
                yield field.target.id, field.annotation, field.value
        return
    for argument, default in _with_defaults(_function(source).args):
        yield argument.arg, argument.annotation, default


def _is_dataclass(statement: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in statement.decorator_list)


def _with_defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    n_defaults = len(arguments.defaults)
    yield from zip(positional[len(positional) - n_defaults :], arguments.defaults, strict=True)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield argument, default


def _source(module: str, name: str) -> _Source:
    statement = _definitions(module).get(name)
    if isinstance(statement, ast.ImportFrom):
        return _source(str(statement.module), name)
    if not isinstance(statement, ast.ClassDef | ast.FunctionDef):
        raise TypeError(f"{module} defines no class and no function {name}")
    return _Source(module, statement)


def _function(source: _Source) -> ast.FunctionDef:
    """Return the function whose parameters are the options: the source itself, or the `__init__` of a class."""
    if isinstance(source.statement, ast.FunctionDef):
        return source.statement
    for statement in source.statement.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            return statement
    raise TypeError(f"{source.module}:{source.statement.name} has no __init__ of its own")


def _lineage(source: _Source) -> Iterator[_Source]:
    """Yield the classes of this package that a class is derived from, the most general first, and the source itself."""
    for base in source.statement.bases if isinstance(source.statement, ast.ClassDef) else ():
        place = _definitions(source.module).get(base.id) if isinstance(base, ast.Name) else None
        own = isinstance(place, ast.ClassDef) or (isinstance(place, ast.ImportFrom) and _is_own(place.module))
        if own:
            yield from _lineage(_source(source.module, base.id))  # type: ignore[attr-defined]
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
