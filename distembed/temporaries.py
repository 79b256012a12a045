"""What a block function holds beside its arguments and its result, declared where the function is defined.

The plan of a stage reads it (`distembed.plan`), and tests measure it. It stands apart from `lift`, because the modules
of block functions know no Dask.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def block(*, temporaries: float) -> Callable[[Function], Function]:
    """Declare how much a block function holds beside its arguments and its result.

    Parameters
    ----------
    temporaries : float
        Bytes, as a multiple of the largest array among arguments and result: a whole number, or a half for less than
        one. `plan.task` reads it, and the tests of all functions that are lifted measure it.
    """

    def mark(function: Function) -> Function:
        function.temporaries = temporaries  # type: ignore[attr-defined]
        return function

    return mark


def temporaries_of(function: Callable[..., Any]) -> float:
    """Return what `block` declares of a function, or of the one that a `partial` is of.

    Raises
    ------
    AttributeError
        If nothing is declared.
    """
    while isinstance(function, partial):
        function = function.func
    declared: float = function.temporaries  # type: ignore[attr-defined]
    return declared
