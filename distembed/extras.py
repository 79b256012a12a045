"""The packages of the extras: imported by those that need them, and named with what to type where they are missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def check_installed(user: str, extra: str, *packages: str) -> None:
    """Check that the packages of an extra are installed.

    Raises
    ------
    ImportError
        If one is not: what needs it, and what to type.

    Examples
    --------
    >>> from distembed.extras import check_installed
    >>> check_installed("a workbook", "excel", "no_such_package")
    Traceback (most recent call last):
        ...
    ImportError: a workbook needs no_such_package: pip install 'distembed[excel]'
    """
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ImportError(f"{user} needs {' and '.join(missing)}: pip install 'distembed[{extra}]'")


def optional(module: str, *, user: str, extra: str) -> Any:
    """Return a module of an optional package.

    Raises
    ------
    ImportError
        As `check_installed`.
    """
    check_installed(user, extra, module.partition(".")[0])
    return import_module(module)
